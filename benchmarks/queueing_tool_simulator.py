"""SQ(d), exponential service, in queueing-tool: an edge a server behind an edge that takes no time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

# The package imports names that NumPy had before version 2.
for _name in ("infty", "Inf"):
    if not hasattr(np, _name):
        setattr(np, _name, math.inf)

import queueing_tool  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: E402

#: Types of edges: those of servers, and the one on which jobs arrive.
_SERVER, _ENTRANCE = 1, 2
_HUB = 1


def prepare(N: int, d: int, lam: float, seed: int) -> Callable[[float], tuple[int, int]]:
    """Build the empty network; return what runs it to a horizon and tells arrivals and jobs left."""
    generator = random.Random(seed)

    class Job(queueing_tool.Agent):  # type: ignore[misc,unused-ignore]
        """A job that joins the shortest of d queues sampled with replacement."""

        def desired_destination(self, network: Any, edge: Any) -> Any:
            """Return the index of the edge that it goes to next."""
            exits = network.out_edges[edge[1]]
            if edge[1] != _HUB:
                return exits[0]
            sampled = (exits[generator.randrange(N)] for _ in range(d))
            return min(sampled, key=lambda index: network.edge2queue[index].num_system)

    graph = queueing_tool.adjacency2graph(
        {0: [_HUB], _HUB: list(range(2, N + 2))},
        edge_type={0: {_HUB: _ENTRANCE}, _HUB: dict.fromkeys(range(2, N + 2), _SERVER)},
    )
    network = queueing_tool.QueueNetwork(
        graph,
        q_classes={_SERVER: queueing_tool.QueueServer, _ENTRANCE: queueing_tool.QueueServer},
        q_args={
            _SERVER: {"service_f": lambda t: t + generator.expovariate(1.0)},
            _ENTRANCE: {
                "arrival_f": lambda t: t + generator.expovariate(lam * N),
                "service_f": lambda t: t,
                "AgentFactory": Job,
            },
        },
        max_agents=math.inf,
    )
    network.initialize(edge_type=_ENTRANCE)

    def run(horizon: float) -> tuple[int, int]:
        while network.time <= horizon:  # simulate(t=horizon) would go on to the first event beyond
            network.simulate(n=1)
        servers = [queue for queue in network.edge2queue if queue.edge[3] == _SERVER]
        return sum(queue.num_arrivals[0] for queue in servers), sum(queue.num_system for queue in servers)

    return run
