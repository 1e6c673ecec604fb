"""What the engine of Ray and `sweep doctor --address` learn of a cluster: how to join it, and its nodes."""

from __future__ import annotations

import importlib
import socket
from typing import Any

from sweep.engines.private_ray import QUIET, handler_kept
from sweep.errors import EngineError

#: How long a node may take to tell what it has (seconds): its first worker has to start.
_SURVEY_SECONDS = 60.0


def join(address: str) -> None:
    """Connect to a running cluster."""
    import ray
    from ray._private import ray_constants

    if "//" in address and not address.startswith("ray://"):
        raise ValueError("it is no address of Ray but one of its dashboard, which `sweep submit` takes")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():  # Ray itself would try for minutes
        socket.create_connection((host, int(port)), timeout=10.0).close()
    before = ray_constants.ENABLE_RAY_CLUSTER
    if host in ("localhost", "127.0.0.1"):  # else Ray takes it for this machine's address on the network
        ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        with handler_kept():
            ray.init(address, **QUIET)
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def nodes() -> list[dict[str, Any]]:
    """Return what Ray tells of the nodes that are alive."""
    ray: Any = importlib.import_module("ray")
    try:
        return [node for node in ray.nodes() if node["Alive"]]
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"the Ray cluster is out of reach: {error}; what is stored stays, so run again when it is back"
        ) from error


def survey_cluster() -> list[dict[str, Any]]:
    """Return what each node of the cluster that this process belongs to has, the head's first.

    Returns
    -------
    list of dict
        `host`, `cpus`, `memory` (bytes for tasks), `versions` (of Python and packages), and `error`, the
        reason why tasks cannot run there or "".
    """
    from sweep.engines.node import node_facts

    ray: Any = importlib.import_module("ray")
    join("auto")
    strategy = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    alive = sorted(nodes(), key=lambda node: "node:__internal_head__" not in node["Resources"])
    asked = []
    for node in alive:
        place = strategy(node["NodeID"], soft=False)
        ask = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=place)(node_facts)
        asked.append(ask.remote())
    found = []
    for node, answer in zip(alive, asked, strict=True):
        offered = node["Resources"]
        row = {
            "cpus": offered.get("CPU", 0.0),
            "memory": offered.get("memory", 0.0),
            "error": "",
            "versions": {},
        }
        row["host"] = node.get("NodeManagerHostname") or node["NodeManagerAddress"]
        try:
            row.update(ray.get(answer, timeout=_SURVEY_SECONDS))
        except ray.exceptions.RayError as error:
            row["error"] = str(error).strip().splitlines()[-1]
        found.append(row)
    ray.shutdown()
    return found
