"""Exact laws of small networks with exponential service, and the check that means agree with them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse import csc_array, lil_array
from scipy.sparse.linalg import expm_multiply

Floats = NDArray[np.float64]

#: What rounding may make of a share that is known exactly.
ROUNDING = 1e-12


def sorted_states(N: int, longest: int) -> list[tuple[int, ...]]:
    """Queue lengths, longest first, up to `longest`."""
    return [
        s for s in itertools.product(range(longest, -1, -1), repeat=N) if list(s) == sorted(s, reverse=True)
    ]


def generator(
    N: int, d: int, lam: float, replacement: bool, longest: int
) -> tuple[list[tuple[int, ...]], csc_array]:
    """Generator of SQ(d) with Poisson(λN) arrivals and unit exponential service; arrivals above `longest`
    are lost.

    In a state sorted by decreasing length the join goes to the last sampled place, so the place joined is
    the largest index among d samples.
    """
    states = sorted_states(N, longest)
    index = {state: k for k, state in enumerate(states)}
    rates = lil_array((len(states), len(states)))
    for state in states:
        for place in range(N):
            if replacement:
                share = ((place + 1) ** d - place**d) / N**d
            else:
                share = (math.comb(place + 1, d) - math.comb(place, d)) / math.comb(N, d)
            for change, rate in ((1, lam * N * share), (-1, 1.0)):
                moved = list(state)
                moved[place] += change
                target = tuple(sorted(moved, reverse=True))
                if target in index and rate > 0.0:
                    rates[index[state], index[target]] += rate
                    rates[index[state], index[state]] -= rate
    return states, csc_array(rates)


def transient_tails(
    *, N: int, d: int, lam: float, replacement: bool, times: Sequence[float], levels: int, longest: int
) -> Floats:
    """E S_ℓ(t)/N from empty, shape (t, level)."""
    states, rates = generator(N, d, lam, replacement, longest)
    start = np.zeros(len(states))
    start[states.index((0,) * N)] = 1.0
    lengths = np.array(states)
    tails = np.stack([(lengths >= level).mean(axis=1) for level in range(1, levels + 1)], axis=1)
    return np.array([expm_multiply(rates.T * t, start) @ tails for t in times])


def gi_m_1_root(transform: Callable[[float], float], lam: float) -> float:
    """Root σ in (0, 1) of σ = E exp(−(1−σ)A/λ), A the unit-mean gap: GI/M/1 has P(X ≥ ℓ) = λ σ^(ℓ−1)."""
    root: float = brentq(lambda s: s - transform((1.0 - s) / lam), 1e-9, 1.0 - 1e-6, xtol=1e-14)
    return root


def worst_score(
    samples: Floats, exact: Floats, exact_stderr: Floats | float = 0.0, least_variance: Floats | float = 0.0
) -> float:
    """Largest |z| of the means of independent replicas (first axis) against exact values.

    A component that never varied must be exact but for rounding, unless the exact law is known to have some
    `least_variance`: then the event was only too rare to be seen, and scores by that.
    """
    mean = samples.mean(axis=0)
    variance = np.maximum(samples.var(axis=0, ddof=1), least_variance)
    stderr = np.sqrt(variance / len(samples) + np.square(exact_stderr))
    off = np.maximum(np.abs(mean - exact) - ROUNDING, 0.0)
    scores = np.where(off > 0.0, off / np.where(stderr > 0.0, stderr, 1e-300), 0.0)
    return float(scores.max())
