"""The mean virtual waiting time: how long an arrival at time t would wait on average before its service.

It joins a queue of length k with probability φ(S_k) − φ(S_{k+1}), behind k − 1 services and the rest of the
one under way. With R_k = ∫ f_k(t, a) ∫_a^∞ Ḡ da, the mean work left in service at queues of length ≥ k, and
Δ_k = R_k − R_{k+1},

    W(t) = Σ_{k≥2} φ(S_k) + Σ_{k≥1} P(S_k, S_{k+1}) Δ_k .

No age is needed: a service that begins brings 1 on average and a busy server works at rate 1, so that
R_k' = births_k − S_k + c_k (R_{k−1} − R_k), whence an equation for Δ_k alone. From empty queues or fresh ages
W is finite at every time, for services of infinite variance too; so are the Δ_k of an invariant state, where
W is infinite if the mean queue is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Limit
from sweep.fluid.kernels import follow_residuals, mean_waits
from sweep.fluid.path import Path
from sweep.fluid.start import Start

Floats = NDArray[np.float64]


def virtual_wait(limit: Limit, start: Start, path: Path) -> tuple[Floats, dict[int, Floats]]:
    """Return W at all nodes of a path, shape (node, 1), and its left limits where the path jumps.

    Without what `Start.waits_beyond` adds: where queues have any length at time 0, those as long as the
    highest level are kept as they are then.
    """
    levels = path.S.shape[1]
    steps = path.nodes[1:] - path.nodes[:-1]
    half = 0.5 * np.diff(limit.mean_arrivals(path.nodes))
    S_end = path.S[1:].copy()
    for node, left in path.S_before.items():
        S_end[node - 1] = left
    at_first = start.residuals(levels)
    residuals = np.zeros((path.nodes.size, at_first.size))
    residuals[0] = at_first
    entering = start.entering(levels) * steps
    follow_residuals(half, steps, entering, limit.d, limit.fraction, path.S, S_end, path.D, residuals)
    waits = np.empty(path.nodes.size)
    mean_waits(limit.d, limit.fraction, path.S, residuals, waits)
    # At a jump the work in service is that of the services which begin there, all else being left behind.
    before = {}
    for node, left in path.S_before.items():
        births = np.append(path.D[node] - path.D_before[node], 0.0)
        exactly = births[1:] - np.append(births[2:], 0.0)
        fewer = residuals[node : node + 1] - exactly[: residuals.shape[1]]
        value = np.empty(1)
        mean_waits(limit.d, limit.fraction, left[None, :], fewer, value)
        before[node] = value
    return waits[:, None], before
