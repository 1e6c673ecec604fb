"""What the solver needs of an initial state with ages: given by arrays, or in equilibrium."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from sweep.age_profile import AgeProfile
from sweep.fluid.kernels import add_points
from sweep.fluid.start import Start
from sweep.initial import Lengths
from sweep.laws import Law

Floats = NDArray[np.float64]
#: Values of Ḡ held at a time: rows of a table by time or age come in blocks of so many, one row at least.
_BLOCK = 2**21


@final
class AgedStart(Start):
    """Ages with f_ℓ constant between those of a profile, and atoms.

    Raises
    ------
    ValueError
        Mass at ages that the law does not reach, or atoms above age 0 for a law with atoms.
    """

    def __init__(self, law: Law, profile: AgeProfile) -> None:
        self._law, self._profile = law, profile
        edges = np.array(profile.ages)
        self._young, self._old = edges[:-1], edges[1:]
        self._whole = mass_between(law, self._young, self._old)
        self._atoms = np.array([age for age, _ in profile.atoms])
        held = np.append(profile.masses.any(axis=0), profile.atom_masses.any(axis=0))
        reached = np.append(self._old <= law.support_end, law.survival(self._atoms) > 0.0)
        reached[: self._whole.size] &= self._whole > 0.0
        if np.any(held & ~reached):
            oldest = float(np.append(self._old, self._atoms)[held & ~reached][0])
            raise ValueError(f"initial must have ages that {law} reaches, got mass at ages up to {oldest:g}")
        if law.atoms and profile.atom_masses[:, self._atoms > 0.0].any():
            raise ValueError(f"initial must have atoms at age 0 alone for a law with atoms, got {law}")

    @property
    def jobs(self) -> float:
        """Jobs per server."""
        return math.fsum(self._profile.tails(self._profile.longest).tolist())

    def least(self, shown: int | None) -> int:  # noqa: ARG002
        """Return the number of levels of the profile."""
        return self._profile.longest

    def fresh(self, levels: int) -> Floats:
        """Return the atom at age 0."""
        at_0 = self._profile.atom_masses[:, self._atoms == 0.0]  # at most one column
        return _padded(at_0[:, 0] if at_0.size else np.zeros(0), levels)

    @cached_property
    def _charges(self) -> Floats:
        """∫ f_m over each cell, and f_m at atoms above age 0, shape (level, cell + atom)."""
        survival = self._law.survival(self._atoms)
        atoms = np.where((self._atoms > 0.0) & (survival > 0.0), 1.0 / np.maximum(survival, 1e-300), 0.0)
        cells = np.where(self._whole > 0.0, 1.0 / np.maximum(self._whole, 1e-300), 0.0)
        return np.hstack([self._profile.masses * cells, self._profile.atom_masses * atoms])

    def remaining(self, levels: int, times: Floats) -> Floats:  # noqa: ARG002
        """By ∫Ḡ over cells moved by t, and Ḡ at atoms."""

        def weights(part: Floats) -> Floats:
            t = part[:, None]
            cells = mass_between(self._law, self._young + t, self._old + t)
            return np.hstack([cells, self._law.survival(self._atoms + t)])

        return self._in_blocks(weights, times)

    def younger(self, levels: int, time: float, ages: Floats) -> Floats:  # noqa: ARG002
        """By ∫Ḡ over cells cut at each age, and Ḡ at atoms not above it."""
        survival = self._law.survival(self._atoms + time)

        def weights(part: Floats) -> Floats:
            b = part[:, None]
            oldest = np.clip(b, self._young, self._old)
            cells = mass_between(self._law, self._young + time, oldest + time)
            return np.hstack([cells, np.where(self._atoms <= b, survival, 0.0)])

        return self._in_blocks(weights, ages).T

    def residuals(self, levels: int) -> Floats:
        """By ∫∫Ḡ over cells: ∫ (1 − ∫_0^a Ḡ) da."""
        double = self._law.double_integral(np.array(self._profile.ages))
        cells = (self._old - self._young) - (double[1:] - double[:-1])
        weights = np.append(np.maximum(cells, 0.0), self._law.integrated_tail(self._atoms))
        work = _padded(self._weighed(weights[None, :])[0] + self.fresh(self._profile.longest), levels + 1)
        return np.asarray(work[:-1] - work[1:])

    def _in_blocks(self, weights: Callable[[Floats], Floats], rows: Floats) -> Floats:
        """Return `_weighed` of the weights at each of `rows`, shape (row, part), in blocks of rows."""
        size = max(1, _BLOCK // max(1, self._whole.size + self._atoms.size))
        result = np.zeros((rows.size, self._profile.longest))
        for first in range(0, rows.size, size):
            block = slice(first, first + size)
            result[block] = self._weighed(weights(rows[block]))
        return result

    def _weighed(self, weights: Floats) -> Floats:
        result = np.zeros((weights.shape[0], self._profile.longest))
        add_points(np.ascontiguousarray(weights), self._charges, result)
        return result


@final
@dataclass(frozen=True)
class EquilibriumStart(Start):
    """Queues of given lengths, jobs in service of age density Ḡ: f_ℓ(0, ·) ≡ S_ℓ(0)."""

    law: Law
    lengths: Lengths

    @property
    def jobs(self) -> float:
        """Jobs per server."""
        return float(self.lengths.tails(self.lengths.longest).sum())

    def least(self, shown: int | None) -> int:  # noqa: ARG002
        """Return the length of the longest queue."""
        return self.lengths.longest

    def fresh(self, levels: int) -> Floats:
        """Ages have a density."""
        return np.zeros(levels)

    def remaining(self, levels: int, times: Floats) -> Floats:  # noqa: ARG002
        """S_m(0) ∫_t^∞ Ḡ."""
        return np.outer(self.law.integrated_tail(times), self._tails)

    def younger(self, levels: int, time: float, ages: Floats) -> Floats:  # noqa: ARG002
        """S_m(0) ∫_t^{b+t} Ḡ."""
        young = np.full(ages.shape, time)
        return np.outer(self._tails, mass_between(self.law, young, ages + time))

    def residuals(self, levels: int) -> Floats:
        """E S²/2 each; an infinite one is left to `waits_beyond`."""
        tails = self.lengths.tails(levels + 1)
        mean = (1.0 + self.law.variance) / 2.0 if self.law.variance < math.inf else 0.0
        return np.asarray((tails[:-1] - tails[1:]) * mean)

    def waits_beyond(self, levels: int) -> float:  # noqa: ARG002
        """Return inf for services of infinite variance: some jobs then take for ever on average."""
        return 0.0 if self.law.variance < math.inf else math.inf

    @property
    def _tails(self) -> Floats:
        return self.lengths.tails(self.lengths.longest)


def mass_between(law: Law, young: Floats, old: Floats) -> Floats:
    """Return ∫ Ḡ between ages, from the smaller primitive, so that old ages keep their digits."""
    near, far = law.integral(young), law.integrated_tail(young)
    result = np.where(near < far, law.integral(old) - near, far - law.integrated_tail(old))
    return np.asarray(np.maximum(result, 0.0))


def _padded(values: Floats, levels: int) -> Floats:
    result = np.zeros(levels)
    held = min(levels, values.size)
    result[:held] = values[:held]
    return result
