"""The gaps between arrivals at N servers: of a renewal process, delayed or not, or Poisson with a profile."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sweep.arrivals import Profile
from sweep.cell import Cell
from sweep.delayed import Delayed
from sweep.laws import Exponential, Law
from sweep.network.length_biased import equilibrium_times
from sweep.network.residuals import residual_times

Floats = NDArray[np.float64]
Fill = Callable[[Floats], None]
#: Steps of a profile that go by in a mean gap, at most.
_MOST_STEPS = 10**6


class Gaps:
    """A stream of gaps in units of 1/(λN), their mean where the rate is constant.

    Parameters
    ----------
    cell
        The network.
    rng
        The replica's stream for arrivals.
    sampler
        Makes, of a law and a generator, what fills arrays with times of mean 1.

    Attributes
    ----------
    age
        Age of the gap under way at time 0, in the same unit: the backward recurrence time of arrivals at
        time 0 is this times 1/(λN).

    Raises
    ------
    ValueError
        A profile of which more than a million steps go by in a mean gap.

    Notes
    -----
    The division of the stream into arrays does not matter. With a profile, arrivals are those of a Poisson
    process of rate λN whose times y move to the least t with ∫_0^t profile = y.
    """

    age: float = 0.0

    def __init__(
        self, cell: Cell, rng: np.random.Generator, sampler: Callable[[Law, np.random.Generator], Fill]
    ) -> None:
        self._first: float | None = None
        arrivals, self._scale = cell.arrivals, 1.0 / (cell.lam * cell.N)
        if isinstance(arrivals, Profile):
            _check_steps(arrivals, self._scale)
            law: Law = Exponential()
            self._ends = np.array([*(time for time, _ in arrivals.steps[1:]), arrivals.period])
            self._factors = np.array([factor for _, factor in arrivals.steps])
            self._place = np.zeros(2)
        elif isinstance(arrivals, Delayed):
            law = arrivals.law
            self._begin(arrivals, cell.lam, rng)
        else:
            law = arrivals
        self._profile = isinstance(arrivals, Profile)
        self._fill = sampler(law, rng)

    def _begin(self, arrivals: Delayed, lam: float, rng: np.random.Generator) -> None:
        """Draw the first gap: on the clock of gaps of mean 1, the age is λR."""
        if arrivals.age is None:
            age, first = (float(times[0]) for times in equilibrium_times(arrivals.law, rng, 1))
        else:
            age = lam * arrivals.age
            first = float(residual_times(arrivals.law, rng, np.array([age]))[0])
        self.age, self._first = age, first

    def fill(self, gaps: Floats) -> None:
        """Fill an array, shape (gap,), with the next gaps; inf once no arrival is to come."""
        if not gaps.size:
            return
        if self._first is not None:
            gaps[0], self._first = self._first, None
            gaps = gaps[1:]
        self._fill(gaps)
        if self._profile:
            from sweep.network.gaps_kernels import follow_profile

            follow_profile(self._ends, self._factors, self._scale, self._place, gaps)


def _check_steps(profile: Profile, scale: float) -> None:
    """Refuse a profile of which too many steps go by in a gap, as each of them is followed."""
    if profile.period == math.inf:
        return
    steps = len(profile.steps) * scale / float(profile.integral(profile.period))
    if steps > _MOST_STEPS:
        raise ValueError(
            f"arrivals must have at most {_MOST_STEPS} steps between two jobs, got {profile} with "
            f"{1.0 / scale:.4g} jobs a unit of time, which has {steps:.1e}: take a longer period"
        )
