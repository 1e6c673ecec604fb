"""Averages over time and over jobs, from what the network under an eager rule was seen to do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweep.network.eager_kernels import Network

Floats = NDArray[np.float64]


def time_averages(network: Network, lengths0: NDArray[np.int32], levels: int) -> dict[str, Floats]:
    """Return S_ℓ and X per server, averaged over each interval that ends at a stored time, the first from 0.

    ∫ S_ℓ dt = S_ℓ · (interval) before it + Σ (time left) over events that raise S_ℓ − Σ over those that lower
    it. Of an interval of no length the average is the value itself.
    """
    times, N = network.edges[:-1], lengths0.size
    lasting = np.diff(times, prepend=0.0)
    start = np.bincount(np.minimum(lengths0, levels), minlength=levels + 1)[::-1].cumsum()[::-1][1:]
    change = (network.arrivals - network.departures)[:-1]
    S = np.vstack([start, start + change[:, :levels].cumsum(axis=0)])
    jobs = lengths0.sum(dtype=np.int64)
    X = np.append(jobs, jobs + change.sum(axis=1).cumsum())
    areas = S[:-1] * lasting[:, np.newaxis] + (network.raised - network.lowered)[:-1, :levels]
    total = X[:-1] * lasting + (network.sums[:-1, 0] - network.sums[:-1, 1])
    empty = lasting == 0.0
    areas[empty], total[empty] = S[1:][empty], X[1:][empty]
    whole = N * np.where(empty, 1.0, lasting)
    return {"S_average": areas / whole[:, np.newaxis], "X_average": total / whole}


def job_averages(network: Network) -> dict[str, Floats]:
    """Return mean times in system and waits of the jobs that leave in each interval, NaN for none.

    Jobs that are there at time 0 are left out.
    """
    count, system, waiting = network.jobs.left[:-1].T
    left = np.where(count > 0.0, count, np.nan)
    return {"time_in_system": system / left, "waiting_time": waiting / left}
