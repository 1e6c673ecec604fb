"""What a simulator cannot do without: its random numbers, and a read and a write of each server sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sweep.network.departure_kernels import OPTIONS
from sweep.network.kernels import refill
from sweep.network.prefetch_kernels import prefetch
from sweep.network.state import ARRIVALS, SERVICES, Clock, Draws, Routing


@njit(**OPTIONS)
def touch(routing: Routing, draws: Draws, clock: Clock, servers: NDArray[Any], arrivals: int) -> float:
    """Draw a gap, a service and d servers for each arrival, and read and write these servers."""
    now, d, used = 0.0, np.uint64(draws.d), clock.used
    while arrivals > 0:
        refill(routing, draws, clock)
        group = min(arrivals, draws.gaps.size - used[ARRIVALS], draws.services.size - used[SERVICES])
        first = np.uint64(used[ARRIVALS])
        for k in range(group):
            now += draws.gaps[first + np.uint64(k)] + draws.services[used[SERVICES] + k]
        for k in range(first * d, (first + np.uint64(group)) * d):
            prefetch(servers, draws.targets[k + np.uint64(draws.ahead)])
            i = np.uint64(draws.targets[k])
            servers[i]["completion"] += 1.0
            servers[i]["length"] += 1
        used[ARRIVALS] += group
        used[SERVICES] += group
        arrivals -= group
    return now
