"""Looks a cluster over before it is used: its versions, its nodes and what each has, who may enter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sweep.doctor import FAULT, OK, WARNING, Finding
from sweep.engines import jobs
from sweep.engines.ask import ask
from sweep.engines.dashboard import OPEN, Dashboard
from sweep.errors import EngineError


def check_cluster(dashboard: Dashboard) -> Iterator[Finding]:
    """Yield what is found, the quick looks first; a job of a few seconds then asks every node.

    Parameters
    ----------
    dashboard
        Of the cluster's head.
    """
    if dashboard.open:
        yield Finding("access", WARNING, f"{dashboard.address} {OPEN}")
    else:
        yield Finding("access", OK, "asks for a token")
    try:
        yield Finding("Ray", OK, jobs.check_ray(dashboard))
    except EngineError as error:
        yield Finding("Ray", FAULT, str(error))
        return
    nodes = dashboard.get("/api/v0/nodes")["data"]["result"]["result"]
    alive = [node for node in nodes if node["state"] == "ALIVE"]
    count = sum(node["resources_total"].get("CPU", 0) for node in alive)
    text = f"{len(alive)} of {len(nodes)} alive, {count:.0f} CPUs"
    cure = "add nodes that have CPUs; a head that was just started has its own some seconds later"
    yield Finding("nodes", OK, text) if count else Finding("nodes", FAULT, text, cure)
    for job in jobs.jobs(dashboard):
        if job.going:
            yield Finding(f"job {job.id}", OK, f"{job.status} on {job.store}")
    try:
        facts = ask(dashboard, ["survey"], "nodes")
    except EngineError as error:
        yield Finding("head", FAULT, str(error))
        return
    yield Finding("head", OK, f"has Python {facts['python']} ({facts['executable']}) and what is needed")
    for note in facts["notes"]:
        yield Finding("head", WARNING, note, "install requirements.lock on both")
    yield from compare_nodes(facts["nodes"])


def compare_nodes(nodes: list[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield what is found about each node, the first of which stands for the head.

    Parameters
    ----------
    nodes
        As `sweep.engines.ray_cluster.survey_cluster` returns them.

    Examples
    --------
    >>> head = {"host": "a", "cpus": 2, "memory": 4e9, "versions": {"numpy": "2.4.0"}, "error": ""}
    >>> found = list(compare_nodes([head, {**head, "host": "b", "versions": {"numpy": "2.4.1"}}]))[1]
    >>> found.name, found.level, found.text, found.cure
    ('b', 'fault', 'has numpy 2.4.1, a has 2.4.0', 'install requirements.lock on both')
    """
    first = nodes[0] if nodes else {}
    for node in nodes:
        host = node["host"]
        if node["error"]:
            yield Finding(host, FAULT, f"cannot run tasks: {node['error']}")
            continue
        differs = [
            f"{name} {version}, {first['host']} has {first['versions'].get(name)}"
            for name, version in sorted(node["versions"].items())
            if not first["error"] and first["versions"].get(name) != version
        ]
        if differs:
            yield Finding(host, FAULT, f"has {'; '.join(differs)}", "install requirements.lock on both")
        else:
            text = f"{node['cpus']:.0f} CPUs, {node['memory'] / 1e9:.1f} GB for tasks"
            yield Finding(host, OK, text)
