"""What the solver needs of an initial state ν(0): jobs of age 0, what is left of the others, their ages."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from sweep.age_profile import AgeProfile
from sweep.cell import Limit
from sweep.fluid.invariant import solve_invariant
from sweep.fluid.panels import Panels, moments_between
from sweep.fluid.state import InvariantState
from sweep.initial import Invariant, Lengths
from sweep.routing import chord_slope, phi

Floats = NDArray[np.float64]
#: Levels output from an invariant state at most when their number is left open.
_OPEN_LEVELS = 100


class Start(ABC):
    """An initial state, with f_ℓ(0, a) = n_ℓ(0, a)/Ḡ(a) for the ages a > 0 of its jobs."""

    @property
    @abstractmethod
    def jobs(self) -> float:
        """Jobs per server Σ S_ℓ(0), which may be inf."""

    @property
    def jobs_error(self) -> float:
        """Estimated absolute error of `jobs`, which may be inf."""
        return 0.0

    @abstractmethod
    def least(self, shown: int | None) -> int:
        """Return the least number of levels to hold if `shown` are output."""

    @abstractmethod
    def fresh(self, levels: int) -> Floats:
        """Return the mass of jobs of age 0, shape (level,)."""

    @abstractmethod
    def remaining(self, levels: int, times: Floats) -> Floats:
        """Return ∫ f_m(0, a) Ḡ(a + t) da, shape (t, part): ξ_m(0, t), for parts m = 1 … levels or none."""

    @abstractmethod
    def younger(self, levels: int, time: float, ages: Floats) -> Floats:
        """Return ∫_0^b f_m(0, a) Ḡ(a + t) da for each b in `ages`, shape (part, age)."""

    @abstractmethod
    def residuals(self, levels: int) -> Floats:
        """Return the mean work left in service at queues of length k exactly, shape (level,).

        Without the top level where queues may have any length.
        """

    def waits_beyond(self, levels: int) -> float:  # noqa: ARG002
        """Return what queues longer than `levels` add to the mean virtual waiting time at time 0."""
        return 0.0

    def entering(self, levels: int) -> float:  # noqa: ARG002
        """Return the rate of completions from queues above the top level, held at its value at time 0."""
        return 0.0

    @property
    def endless(self) -> bool:
        """Whether queues may have any length at time 0."""
        return False


def start_of(limit: Limit) -> Start:
    """Return what the solver needs of the initial state of `limit`.

    Raises
    ------
    ValueError
        `invariant` where there is no invariant state: λ ≥ 1; ages that the law does not reach; a state of
        queues, which N servers alone start from.
    """
    if isinstance(limit.initial, Lengths):
        if limit.initial.ages == "fresh":
            return FreshStart(limit.initial)
        from sweep.fluid.aged import EquilibriumStart

        return EquilibriumStart(limit.G, limit.initial)
    if isinstance(limit.initial, Invariant):
        return InvariantStart(limit)
    if isinstance(limit.initial, AgeProfile):
        from sweep.fluid.aged import AgedStart

        return AgedStart(limit.G, limit.initial)
    raise ValueError(
        f"initial must be empty, lengths(…), invariant or an age profile in the limit, got {limit.initial}: "
        "only N servers start from it"
    )


@final
@dataclass(frozen=True)
class FreshStart(Start):
    """Queues of given lengths, every job in service just started."""

    lengths: Lengths

    @property
    def jobs(self) -> float:
        """Jobs per server."""
        return float(self.lengths.tails(max(1, self.lengths.longest)).sum())

    def least(self, shown: int | None) -> int:  # noqa: ARG002
        """Return the length of the longest queue: levels that are not held are empty."""
        return self.lengths.longest

    def fresh(self, levels: int) -> Floats:
        """All jobs are fresh."""
        return self.lengths.tails(levels)

    def residuals(self, levels: int) -> Floats:
        """One service each."""
        tails = self.lengths.tails(levels + 1)
        return np.asarray(tails[:-1] - tails[1:])

    def remaining(self, levels: int, times: Floats) -> Floats:  # noqa: ARG002
        """No other jobs."""
        return np.zeros((times.size, 0))

    def younger(self, levels: int, time: float, ages: Floats) -> Floats:  # noqa: ARG002
        """No other jobs."""
        return np.zeros((0, ages.size))


@final
class InvariantStart(Start):
    """The invariant state of the limit; where it reaches above the top level, it is kept as it is there.

    Levels so high that their equations are out of reach are empty if S_ℓ underflows before.

    Raises
    ------
    ValueError
        λ ≥ 1: there is no invariant state.
    """

    def __init__(self, limit: Limit) -> None:
        if limit.lam >= 1.0:
            raise ValueError(
                f"initial must not be invariant where no invariant state exists, got lam = {limit.lam:g}: "
                "take lam below 1 or another start"
            )
        self._limit = limit
        self._asked = 0
        self._moments: dict[float, Floats] = {}

    @cached_property
    def _open(self) -> InvariantState:
        return solve_invariant(self._limit)

    def _state(self, levels: int) -> InvariantState:
        """Return the state with so many levels, or with all that are in reach, the others being empty."""
        if levels > max(self._open.levels, self._asked):
            self._open = solve_invariant(self._limit, levels, vanishing=True)
            self._asked = levels if levels == self._open.levels else sys.maxsize
            self._moments.clear()
        return self._open

    def _tails(self, levels: int) -> list[float]:
        """Return S_ℓ for ℓ = 1 … `levels`."""
        S: list[float] = self._state(levels).S[:levels].tolist()
        return S + [0.0] * (levels - len(S))

    @property
    def jobs(self) -> float:
        """Mean queue length, inf where the tail is too heavy."""
        return self._open.length.value

    @property
    def jobs_error(self) -> float:
        """That of the mean queue length of the state."""
        return self._open.length.error

    def least(self, shown: int | None) -> int:
        """Return the levels output: by default those of 1e-10 and more, at most 100."""
        return shown or min(self._open.levels, _OPEN_LEVELS)

    @property
    def endless(self) -> bool:
        """Queues of any length exist."""
        return True

    def fresh(self, levels: int) -> Floats:
        """Ages have a density."""
        return np.zeros(levels)

    def entering(self, levels: int) -> float:
        """Return λ φ(S_L), the flow both ways above the top level L."""
        limit, S = self._limit, self._tails(levels)
        return limit.lam * phi(S[-1], limit.d, limit.fraction)

    def residuals(self, levels: int) -> Floats:
        """By parts, P(S_k, S_{k+1}) Δ_k = S_{k+1}/λ − φ(S_{k+1}): see `InvariantState`."""
        limit = self._limit
        residuals = np.zeros(levels - 1)
        for k, (own, above) in enumerate(pairwise(self._tails(levels))):
            slope = chord_slope(own, above, limit.d, limit.fraction)
            if slope > 0.0:  # it may underflow
                residuals[k] = (above / limit.lam - phi(above, limit.d, limit.fraction)) / slope
        return residuals

    def waits_beyond(self, levels: int) -> float:
        """Return the wait in the invariant state without that at queues of at most `levels`."""
        limit, S = self._limit, self._tails(levels + 1)
        within = math.fsum(S[1 : levels + 1]) / limit.lam
        if levels:
            within -= phi(S[levels], limit.d, limit.fraction)
        return float(self._open.mean_virtual_waiting_time - within)

    def remaining(self, levels: int, times: Floats) -> Floats:
        """By moments of Ḡ on panels of age, shifted by t."""
        panels = self._state(levels).panels
        # A grid and its refinements share their nodes.
        new = np.array([time for time in times.tolist() if time not in self._moments])
        if new.size:
            self._moments.update(zip(new.tolist(), _shifted_moments(panels, new), strict=True))
        moments = np.array([self._moments[time] for time in times.tolist()])
        tails = panels.law.integrated_tail(panels.end + times)
        return self._weighed(levels, moments, tails)

    def younger(self, levels: int, time: float, ages: Floats) -> Floats:
        """By moments of Ḡ on panels of age, the last one cut."""
        panels = self._state(levels).panels
        inside = np.minimum(ages, panels.end)
        edges = panels.edges
        whole = _shifted_moments(panels, np.array([time]))[0]
        moments = np.zeros((ages.size, *whole.shape))
        places = panels.holding(inside)
        cut = moments_between(
            panels.law.survival,
            panels.law.breakpoints,
            edges[places] + time,
            inside + time,
            edges[places] + time,
            edges[places + 1] + time,
        )
        for index, place in enumerate(places.tolist()):
            moments[index, :place] = whole[:place]
            moments[index, place] = cut[index]
        tail = panels.law.integrated_tail
        tails = np.where(ages > inside, tail(inside + time) - tail(ages + time), 0.0)
        return self._weighed(levels, moments, tails).T

    def _weighed(self, levels: int, moments: Floats, tails: Floats) -> Floats:
        """Return Σ coefficients · moments, (row, panel, degree), and f_m beyond the panels, by row and m."""
        from sweep.fluid.invariant_kernels import masses

        state = self._state(levels)
        rows, panels, size = moments.shape
        flat = np.ascontiguousarray(moments.reshape(rows * panels, size))
        places, part = np.tile(np.arange(panels), rows), np.empty(rows * panels)
        result = np.zeros((rows, levels))
        for m in range(min(levels, state.levels)):
            masses(state.coefficients[m], places, flat, part)
            total = tails * float(state.scaled(m + 1, state.panels.end))
            for panel in range(panels):
                total = total + part[panel::panels]
            result[:, m] = state.S[m] * total
        return result


def _shifted_moments(panels: Panels, times: Floats) -> Floats:
    """Return ∫ P_k(a) Ḡ(a + t) da over each panel, shape (t, panel, k)."""
    left = (times[:, None] + panels.edges[:-1]).ravel()
    right = (times[:, None] + panels.edges[1:]).ravel()
    moments = moments_between(panels.law.survival, panels.law.breakpoints, left, right)
    return moments.reshape(times.size, panels.edges.size - 1, -1)
