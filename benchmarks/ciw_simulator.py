"""SQ(d), exponential service, in Ciw: a node a server behind a node that sends every job on at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import ciw  # type: ignore[import-not-found,import-untyped,unused-ignore]


class SampledQueues:
    """Router to the shortest of d queues sampled with replacement; ties go to the one sampled first."""

    def __init__(self, N: int, d: int) -> None:
        self._N, self._d = N, d
        self._nodes: list[Any] = []

    def initialise(self, simulation: Any, node: Any) -> None:  # noqa: ARG002
        """Take note of the nodes; the first two are the arrival node and this one."""
        self._nodes = simulation.nodes

    def next_node(self, job: Any) -> Any:  # noqa: ARG002
        """Return the node that a job joins."""
        sampled = [self._nodes[random.randrange(self._N) + 2] for _ in range(self._d)]
        return min(sampled, key=lambda node: node.number_of_individuals)


def prepare(N: int, d: int, lam: float, seed: int) -> Callable[[float], tuple[int, int]]:
    """Build the empty network; return what runs it to a horizon and tells arrivals and jobs left."""
    ciw.seed(seed)
    leave = ciw.routing.Leave()
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(lam * N), *(None for _ in range(N))],
        service_distributions=[ciw.dists.Deterministic(0.0), *(ciw.dists.Exponential(1.0) for _ in range(N))],
        number_of_servers=[float("inf"), *(1 for _ in range(N))],
        routing=ciw.routing.NetworkRouting([SampledQueues(N, d), *(leave for _ in range(N))]),
    )
    simulation = ciw.Simulation(network)

    def run(horizon: float) -> tuple[int, int]:
        simulation.simulate_until_max_time(horizon)
        arrivals = simulation.nodes[0].number_of_individuals
        return arrivals, arrivals - simulation.nodes[-1].number_of_individuals

    return run
