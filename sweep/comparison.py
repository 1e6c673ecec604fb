"""How far a path of the network is from its limit: in queue lengths, and in ages at the snapshots."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweep.age_profile import AgeProfile
from sweep.cell import Limit
from sweep.distances import Atoms, PiecewiseLinear, grid_error, level_distances, residual_norm
from sweep.initial import Lengths
from sweep.laws import Law
from sweep.task import Arrays

if TYPE_CHECKING:
    from sweep.network.lumped import LumpedPath
    from sweep.network.path import Path

Floats = NDArray[np.float64]
#: Ages at which the limit's ν_ℓ is kept for distances: equally spaced, and denser towards 0, where a
#: density may be singular.
_EQUAL, _GEOMETRIC, _YOUNGEST = 768, 256, 1e-6
#: Kinks of ν_ℓ lie where sums of this many breakpoints of the law do, or as long before the snapshot.
_GENERATIONS = 4
#: Laws with more breakpoints are as good as smooth.
_FEW = 16
#: Ages at time 0 go up to where this share of services in equilibrium is older, in so many geometric steps,
#: with equal ones up to the second age.
_REST, _OLD, _NEAR = 1e-6, 1024, 16.0
#: A possible jump is enclosed by two ages this share apart.
_JUMP = 1e-6


def knots(limit: Limit, snapshots: Floats) -> Floats:
    """Return the ages, shape (knot,), last inf, between which ν_ℓ may be taken as linear at the snapshots."""
    grids = [np.array([0.0])]
    for time in snapshots[snapshots > 0.0].tolist():
        kinks = {0.0}
        breakpoints = limit.G.breakpoints if len(limit.G.breakpoints) <= _FEW else ()
        for _ in range(_GENERATIONS):
            kinks |= {a + b for a, b in itertools.product(kinks, breakpoints) if a + b <= time}
        special = np.array(sorted(kinks | {time - age for age in kinks}))
        special = special[special > 0.0]
        oldest = min(time, limit.G.support_end)
        equal = np.arange(1, _EQUAL + 1) * (oldest / _EQUAL)
        ratio = (_YOUNGEST / oldest) ** (1.0 / _GEOMETRIC)
        geometric = oldest * np.array([ratio**k for k in range(_GEOMETRIC)])
        grids += [equal, geometric, special, special * (1.0 - _JUMP)]
    if not (isinstance(limit.initial, Lengths) and limit.initial.ages == "fresh"):
        grids += _old(limit)
    return np.append(np.unique(np.concatenate(grids)), math.inf)


def _old(limit: Limit) -> list[Floats]:
    """Return ages of jobs that were in service at time 0: as old as services in equilibrium are, or older."""
    profile = limit.initial if isinstance(limit.initial, AgeProfile) else None
    given = [] if profile is None else [*profile.ages, *(age for age, _ in profile.atoms)]
    oldest = max([1.0, *given])
    while oldest < limit.G.support_end and float(limit.G.integrated_tail(oldest)) > _REST:
        oldest *= 2.0
    oldest = min(oldest, limit.G.support_end)
    near = np.arange(1, _EQUAL + 1) * (min(oldest, _NEAR) / _EQUAL)
    ratio = (_YOUNGEST / oldest) ** (1.0 / _OLD)
    far = oldest * np.array([ratio**k for k in range(_OLD)])
    breakpoints = limit.G.breakpoints if len(limit.G.breakpoints) <= _FEW else ()
    return [near, far, np.array([age * (1.0 - _JUMP) for age in breakpoints] + [*breakpoints])]


def measures(limit: Arrays) -> list[list[PiecewiseLinear]]:
    """Return the limit's ν_ℓ by snapshot and level, from what `solve_limit` keeps of it."""
    return [[PiecewiseLinear(limit["knot_age"], cdf) for cdf in levels] for levels in limit["knot_cdf"]]


def limit_error(nu: Sequence[Sequence[PiecewiseLinear]], S_error: float) -> Floats:
    """Return the limit's own share of a Prohorov distance, shape (snapshot, level).

    It is the distance that leaving out every other knot makes, plus the error of masses.
    """
    return np.array([[grid_error(measure) + S_error for measure in levels] for levels in nu])


def compare(
    law: Law, path: Path | LumpedPath, S: Floats, limit: Arrays, nu: Sequence[Sequence[PiecewiseLinear]]
) -> Mapping[str, Floats]:
    """Return the distances of one path from its limit.

    Parameters
    ----------
    law
        The service law.
    path
        The simulated path.
    S
        Its S^(N)/N, shape (t, level).
    limit
        Arrays of the limit: S (t, level).
    nu
        The limit's measures of ages by snapshot and level.

    Returns
    -------
    dict
        S_sup, a scalar; with snapshots also d_P and V of shape (snapshot, level) and d_S (snapshot,).
    """
    distances = {"S_sup": np.max(np.abs(S - limit["S"]))}
    if not nu:
        return distances
    d_P, V = [], []
    for k, levels in enumerate(nu):
        age, length = path.ages[k], path.lengths[k]
        empirical = [Atoms(age[length >= level], 1.0 / length.size) for level in range(1, len(levels) + 1)]
        d_P.append(level_distances(empirical, levels))
        V.append([residual_norm(law, a, b).value for a, b in zip(empirical, levels, strict=True)])
    distances["d_P"], distances["V"] = np.array(d_P), np.array(V)
    distances["d_S"] = np.max(distances["d_P"] / np.arange(1, len(nu[0]) + 1), axis=1)
    return distances
