"""A Ray cluster of several nodes on this machine, for processes of their own: it needs their environment."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

import psutil  # type: ignore[import-untyped,unused-ignore]

ROOT = Path(__file__).parents[1]
_MEMORY = 3_000_000_000


class Nodes:
    """Raylets on the loopback interface, with a token; a context manager that leaves nothing behind.

    The head has one CPU.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="c-", dir="/tmp"))  # names of sockets must be short
        os.environ |= {
            "HOME": str(self.folder),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
            "RAY_TMPDIR": str(self.folder),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_health_check_period_ms": "500",  # a lost node is noticed sooner
            "RAY_health_check_failure_threshold": "3",
        }
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, "memory": _MEMORY},
        )
        self.address = str(self.cluster.address)
        self.joined: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        family = psutil.Process().children(recursive=True)
        self.cluster.shutdown()  # type: ignore[no-untyped-call]
        _, alive = psutil.wait_procs(family, timeout=20.0)
        for process in alive:
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        print("left behind", len(alive), flush=True)

    def add(self, cpus: int = 1) -> Any:
        """Start another raylet."""
        self.joined.append(self.cluster.add_node(num_cpus=cpus, memory=_MEMORY))
        return self.joined[-1]

    def lose(self, node: Any) -> None:
        """End a raylet as a power cut does."""
        self.joined.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)
