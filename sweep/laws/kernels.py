"""Compiled sampling of laws that take a varying number of random numbers a sample."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@njit(nogil=True, cache=True)
def sample_phases(
    rng: np.random.Generator, start: Floats, means: Floats, jumps: Floats, times: Floats
) -> None:
    """Fill `times` with independent times to completion of a Markov chain.

    Parameters
    ----------
    rng
        Source of random numbers: a uniform a choice with more than one outcome, an exponential a visit.
    start
        Cumulative start probabilities, inf from the last possible phase on, shape (phase,).
    means
        Mean time of a visit, shape (phase,).
    jumps
        Cumulative probabilities of the next phase, completion last, inf from the last possible one on, shape
        (phase, phase + 1).
    times
        Where the times go, shape (size,).
    """
    size = means.size
    for index in range(times.size):
        phase = _choose(rng, start)
        time = 0.0
        while phase < size:
            time += rng.standard_exponential() * means[phase]
            phase = _choose(rng, jumps[phase])
        times[index] = time


@njit(nogil=True, cache=True)
def _choose(rng: np.random.Generator, cumulative: Floats) -> int:
    choice = 0
    while cumulative[choice] == 0.0:
        choice += 1
    if cumulative[choice] == np.inf:  # no other outcome
        return choice
    draw = rng.random()
    while draw >= cumulative[choice]:
        choice += 1
    return choice
