"""SQ(d), exponential service, in SimPy: a process for arrivals and for each job, a resource a server."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any

import simpy


def simulate(N: int, d: int, lam: float, horizon: float, seed: int) -> int:
    """Run from empty to `horizon`; return the number of arrivals."""
    return prepare(N, d, lam, seed)(horizon)[0]


def prepare(N: int, d: int, lam: float, seed: int) -> Callable[[float], tuple[int, int]]:
    """Build the empty network; return what runs it to a horizon and tells arrivals and jobs left."""
    generator = random.Random(seed)
    environment = simpy.Environment()
    servers = [simpy.Resource(environment) for _ in range(N)]
    arrivals = 0

    def length(server: int) -> int:
        return int(servers[server].count) + len(servers[server].queue)

    def job(server: int) -> Generator[Any, Any, None]:
        with servers[server].request() as turn:
            yield turn
            yield environment.timeout(generator.expovariate(1.0))

    def source() -> Generator[Any, Any, None]:
        nonlocal arrivals
        while True:
            yield environment.timeout(generator.expovariate(lam * N))
            arrivals += 1
            environment.process(job(min((generator.randrange(N) for _ in range(d)), key=length)))

    environment.process(source())

    def run(horizon: float) -> tuple[int, int]:
        environment.run(until=horizon)
        return arrivals, sum(map(length, range(N)))

    return run
