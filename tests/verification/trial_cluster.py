"""Sweeps on a cluster that loses nodes, loses workers, or has cells that ruin theirs.

Run by name, in a process of its own: `python -m tests.verification.trial_cluster nodes|kills|poison`. Each
trial starts a Ray of its own on the loopback interface and ends it, prints what it found, and exits 0 if
that is as it should be. The tests run them small.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import psutil  # type: ignore[import-untyped,unused-ignore]
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sweep.driver import Progress, Summary

Arrays = dict[str, NDArray[Any]]

#: N of the cells that end their worker, that raise, and that allocate without bound.
POISON, RAISING, GREEDY = 17, 117, 217


def run_replicas(payload: Mapping[str, Any], shared: Mapping[str, Mapping[str, NDArray[Any]]]) -> Arrays:
    """Simulate as the package does, but for three cells."""
    from sweep.work import run_replicas as simulate

    for case, _ in payload["items"]:
        servers = case.values[0]
        if servers == POISON:
            os._exit(3)
        if servers == RAISING:
            raise ArithmeticError(f"no result for N={servers}")
        if servers == GREEDY:
            blocks = []
            while True:
                blocks.append(np.ones(2**23))
    return simulate(payload, shared)


def spec(servers: list[int], replicas: int, horizon: float) -> dict[str, Any]:
    """A sweep of exponential service, whose kernel compiles quickly."""
    return {
        "name": "trial",
        "study": "transient",
        "seed": 11,
        "grid": {"N": servers, "d": 2, "lam": 0.9, "G": "exponential"},
        "run": {"horizon": horizon, "times": 3, "levels": 2, "replicas": replicas},
    }


class Nodes:
    """A cluster of raylets on this machine, with a token; a context manager that leaves nothing behind."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="c-", dir="/tmp"))
        os.environ |= {
            "HOME": str(self.folder),
            "PYTHONPATH": os.getcwd(),
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
            head_node_args={"num_cpus": 1, "include_dashboard": False, "memory": 3_000_000_000},
        )
        self.address = str(self.cluster.address)

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *_: object) -> None:
        family = psutil.Process().children(recursive=True)
        self.cluster.shutdown()  # type: ignore[no-untyped-call]
        _, alive = psutil.wait_procs(family, timeout=20.0)
        for process in alive:
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        print("left behind", len(alive))

    def add(self) -> Any:
        """Start another raylet of one CPU."""
        return self.cluster.add_node(num_cpus=1, memory=3_000_000_000)

    def lose(self, node: Any) -> None:
        """End a raylet as a power cut does."""
        self.cluster.remove_node(node, allow_graceful=False)


def disturbed(
    what: dict[str, Any], folder: Path, address: str, progress: Callable[[Progress], None]
) -> tuple[Summary, bool]:
    """Run a sweep on the cluster while something happens, then the same undisturbed, and compare."""
    import sweep

    store = folder / "store"
    began = time.perf_counter()
    summary = sweep.run(what, store=store, engine="ray", address=address, progress=progress)
    print(f"cells done {summary.cells_done} of {summary.cells} in {time.perf_counter() - began:.0f} s")
    sweep.run(what, store=folder / "alone", engine="local")
    same = bits(store) == bits(folder / "alone")
    print("same bits", same)
    print("failed", [failure.case.text for failure in summary.failures])
    return summary, same


def bits(store: Path) -> dict[str, bytes]:
    """The arrays of the replicas."""
    with netCDF4.Dataset(store / "results.nc") as file:
        file.set_auto_mask(False)
        group = file["network"]
        return {name: np.asarray(group[name][...]).tobytes() for name in group.variables if name != "G"}


def nodes(arguments: argparse.Namespace) -> bool:
    """A node is lost under its tasks, and another joins and gets work."""
    import sweep.plan

    with Nodes() as cluster:
        second = cluster.add()
        sweep.plan._SHORTEST, sweep.plan._BATCHES_A_WORKER = 1.0, 1000  # many batches, of this many seconds
        # Long enough for Ray to notice that a node is lost, and for another to join while there is work.
        what = spec([20_000, 30_000], arguments.replicas, 800.0)
        joined: list[Any] = []
        at_work: set[int] = set()

        def progress(state: Progress) -> None:
            if not joined and state.replicas_done and actors_of(second):
                cluster.lose(second)
                joined.append(cluster.add())
            elif joined:
                at_work.update(actors_of(joined[0]))

        summary, same = disturbed(what, cluster.folder, cluster.address, progress)
        print("actors at work on the node that joined", len(at_work))
        return same and bool(at_work) and not summary.failures


def actors_of(node: Any) -> list[int]:
    """The actors at work under one raylet."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    return [process.pid for process in raylet.children() if executing(process)]


def executing(process: psutil.Process) -> bool:
    try:
        return "Executor.execute" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def kills(arguments: argparse.Namespace) -> bool:
    """Workers are killed at random while they execute."""
    import sweep.plan

    rng, struck, calls = random.Random(1), 0, 0

    def progress(state: Progress) -> None:
        nonlocal struck, calls
        calls += 1
        # A cell whose worker dies three times is given up, so that work goes on between the blows.
        if not state.replicas_done or struck == arguments.kills or calls < 4:
            return
        family = [one for one in psutil.Process().children(recursive=True) if executing(one)]
        if family:
            threading.Timer(rng.uniform(0.0, 0.4), rng.choice(family).kill).start()
            struck, calls = struck + 1, 0

    with Nodes() as cluster:
        cluster.add()
        sweep.plan._SHORTEST, sweep.plan._BATCHES_A_WORKER = 0.4, 1000  # many batches, of this many seconds
        what = spec([20_000, 30_000, 40_000], arguments.replicas, 20.0)
        summary, same = disturbed(what, cluster.folder, cluster.address, progress)
        print("workers killed", struck)
        return same and struck == arguments.kills and not summary.failures


def poison(_: argparse.Namespace) -> bool:
    """Of 300 cells one ends its worker, one raises, one allocates without bound: these alone fail."""
    import sweep
    from sweep.studies.transient import TransientSpec

    with Nodes() as cluster:
        cluster.add()
        TransientSpec.REPLICA_TASK = "tests.verification.trial_cluster:run_replicas"
        began = time.perf_counter()
        summary = sweep.run(
            spec(list(range(1, 301)), 1, 5.0),
            store=cluster.folder / "store",
            engine="ray",
            address=cluster.address,
        )
        print(f"cells done {summary.cells_done} of {summary.cells} in {time.perf_counter() - began:.0f} s")
        found = {failure.case.values[0]: failure for failure in summary.failures}
        for servers, failure in sorted(found.items()):
            print("failed", servers, failure.attempts, failure.error)
        return (
            summary.cells_done == 297
            and set(found) == {POISON, RAISING, GREEDY}
            and found[POISON].error.startswith("worker died (")
            and found[RAISING].error == f"ArithmeticError: no result for N={RAISING}"
            and "MemoryError" in found[GREEDY].error
        )


TRIALS: Mapping[str, Callable[[argparse.Namespace], bool]] = {
    "nodes": nodes,
    "kills": kills,
    "poison": poison,
}


def main() -> int:
    """Run one trial; 0 if it went as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trial", choices=TRIALS)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--replicas", type=int, default=400)
    arguments = parser.parse_args()
    good = TRIALS[arguments.trial](arguments)
    print("passed" if good else "failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
