"""Textbook event-driven SQ(d), exponential service, in plain Python: one heap of all events."""

from __future__ import annotations

import heapq
import random


def simulate(N: int, d: int, lam: float, horizon: float, seed: int) -> int:
    """Run from empty to `horizon`; return the number of arrivals."""
    generator = random.Random(seed)
    lengths = [0] * N
    events = [(generator.expovariate(lam * N), -1)]
    arrivals = 0
    while True:
        now, server = heapq.heappop(events)
        if now > horizon:
            return arrivals
        if server < 0:
            arrivals += 1
            best = min((generator.randrange(N) for _ in range(d)), key=lengths.__getitem__)
            lengths[best] += 1
            if lengths[best] == 1:
                heapq.heappush(events, (now + generator.expovariate(1.0), best))
            heapq.heappush(events, (now + generator.expovariate(lam * N), -1))
        else:
            lengths[server] -= 1
            if lengths[server]:
                heapq.heappush(events, (now + generator.expovariate(1.0), server))
