"""The Prohorov distance of finite measures on the line, and the metric d_𝕊 built from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.distances import kernels
from sweep.distances.measures import Atoms, Measure, PiecewiseLinear, check_levels, check_measures
from sweep.wording import shown

#: epsilon → (unmatched mass, below, above): the unmatched mass is the same on [below, above).
_Unmatched = Callable[[float], tuple[float, float, float]]

_COARSE = 8.0  # ratio by which epsilon falls until it is bracketed within it
_LAST_BITS = 2.0**-52
#: Width, in units of the greater mass, at which a search ends: above the rounding of cumulative functions.
_SMOOTH_WIDTH = 2.0**-46


def prohorov(x: ArrayLike, wx: ArrayLike, y: ArrayLike, wy: ArrayLike) -> float:
    """Return the Prohorov distance of two sets of atoms on the line.

    d_P(μ, ν) = inf{ε > 0 : μ(A) ≤ ν(A^ε) + ε and ν(A) ≤ μ(A^ε) + ε for every closed A}, for any two masses.

    Parameters
    ----------
    x, y
        Positions, shape (n,) and (m,), finite, in any order, repeated or not; empty is the zero measure.
    wx, wy
        Weights ≥ 0, of the same shapes, or one number for all atoms.

    Returns
    -------
    float
        d_P: one of the distances |x_i − y_j| or of the masses left unmatched, found exactly. Rounding enters
        through partial sums of weights alone (about 1e-16; none for equal weights on both sides).

    Raises
    ------
    ValueError
        Not finite, a negative weight, or lengths that differ.

    Notes
    -----
    By max-flow min-cut the two conditions hold iff max(μ(V), ν(V)) − flow_ε ≤ ε, with flow_ε the largest mass
    that can be matched at distances ≤ ε. On the line matching from the left is optimal: one pass over sorted
    atoms. Aghajani & Ramanan, "The hydrodynamic limit of a randomized load balancing network", (2.5).

    Examples
    --------
    >>> prohorov([0.0], [1.0], [0.25], [1.0])
    0.25
    >>> prohorov([0.0], [1.0], [5.0], [0.5])
    1.0
    """
    return prohorov_between(Atoms(x, wx, name="x"), Atoms(y, wy, name="y"))


def prohorov_to_cdf(x: ArrayLike, wx: ArrayLike, ages: ArrayLike, cdf: ArrayLike) -> float:
    """Return the Prohorov distance of atoms from a measure whose cdf is linear between ages.

    Parameters
    ----------
    x, wx
        Positions and weights as for `prohorov`.
    ages, cdf
        As for `PiecewiseLinear`: a repeated age is a jump, the last age may be inf.

    Returns
    -------
    float
        d_P for exactly that cdf, to 1e-12.

    Raises
    ------
    ValueError
        Values or shapes that `Atoms` or `PiecewiseLinear` refuse.

    Examples
    --------
    >>> round(prohorov_to_cdf([0.5], [1.0], [0.0, 1.0], [0.0, 1.0]), 12)  # 1 − 2ε = ε
    0.333333333333
    """
    return prohorov_between(Atoms(x, wx, name="x"), PiecewiseLinear(ages, cdf))


def prohorov_between(mu: Measure, nu: Measure) -> float:
    """Return the Prohorov distance of two measures, each atoms or piecewise linear.

    Raises
    ------
    TypeError
        Not measures.

    Examples
    --------
    >>> uniform, shifted = PiecewiseLinear([0.0, 1.0], [0.0, 1.0]), PiecewiseLinear([0.25, 1.25], [0.0, 1.0])
    >>> round(prohorov_between(uniform, shifted), 12)  # 0.25 − ε = ε
    0.125
    """
    check_measures(mu, nu)
    if isinstance(mu, Atoms) and isinstance(nu, Atoms):
        return _least_epsilon(_between_atoms(mu, nu), mu.mass, nu.mass, 0.0)
    return _least_epsilon(_between_functions(mu, nu), mu.mass, nu.mass, _SMOOTH_WIDTH)


def level_distances(mu: Sequence[Measure], nu: Sequence[Measure]) -> NDArray[np.float64]:
    """Return d_P(μ_ℓ, ν_ℓ) for ℓ = 1, 2, …, shape (level,); a missing level is the zero measure.

    Raises
    ------
    TypeError
        Not sequences of measures.

    Examples
    --------
    >>> level_distances([Atoms([0.0], [1.0]), Atoms([0.5], [0.25])], [Atoms([0.125], [1.0])])
    array([0.125, 0.25 ])
    """
    mu, nu = check_levels("mu", mu), check_levels("nu", nu)
    zero = Atoms([], [])
    depth = max(len(mu), len(nu))
    pairs = ((mu[k] if k < len(mu) else zero, nu[k] if k < len(nu) else zero) for k in range(depth))
    return np.fromiter((prohorov_between(*pair) for pair in pairs), dtype=np.float64, count=depth)


def state_distance(mu: Sequence[Measure], nu: Sequence[Measure]) -> float:
    """Return d_𝕊(μ, ν) = sup_ℓ d_P(μ_ℓ, ν_ℓ)/ℓ of two states.

    Parameters
    ----------
    mu, nu
        The measures at levels 1, 2, …, each `Atoms` or `PiecewiseLinear`. A missing level is the zero
        measure. Levels beyond the last given add at most the mass of that level over its number, since masses
        fall with the level.

    Raises
    ------
    TypeError
        Not sequences of measures.

    Examples
    --------
    >>> fresh, older = Atoms([0.0], [1.0]), Atoms([0.5], [1.0])
    >>> state_distance([fresh, fresh], [fresh, older])
    0.25
    """
    distances = level_distances(mu, nu)
    return float(np.max(distances / np.arange(1, distances.size + 1), initial=0.0))


def grid_error(nu: PiecewiseLinear) -> float:
    """Return d_P of a measure from itself with every other age left out.

    It bounds the distance of the measure from the one whose cdf was read at those ages, as soon as halving
    the cells at least halves that distance: the share of the age grid in a reported d_P.

    Raises
    ------
    TypeError
        Not a `PiecewiseLinear`.

    Examples
    --------
    >>> grid_error(PiecewiseLinear([0.0, 0.5, 1.0], [0.0, 0.5, 1.0]))  # a uniform law needs no age between
    0.0
    """
    if not isinstance(nu, PiecewiseLinear):
        raise TypeError(f"nu must be a PiecewiseLinear, got {shown(nu)}")
    ages = nu.ages
    keep = np.arange(ages.size) % 2 == 0
    keep[-1:] = True
    if ages.size > 1 and ages[-1] == math.inf:
        keep[-2] = True
    jump = ages[1:] == ages[:-1]
    keep[1:] |= jump
    keep[:-1] |= jump
    return prohorov_between(nu, PiecewiseLinear(ages[keep], nu.cdf[keep]))


def _between_atoms(mu: Atoms, nu: Atoms) -> _Unmatched:
    def unmatched(epsilon: float) -> tuple[float, float, float]:
        of_mu, of_nu, below, above = kernels.match_atoms(
            mu.positions, mu.weights, nu.positions, nu.weights, epsilon
        )
        return max(of_mu, of_nu), below, above

    return unmatched


def _between_functions(mu: Measure, nu: Measure) -> _Unmatched:
    # The second measure is walked twice.
    if mu.vertices.positions.size < nu.vertices.positions.size:
        mu, nu = nu, mu
    surplus = mu.mass_at_infinity - nu.mass_at_infinity

    def unmatched(epsilon: float) -> tuple[float, float, float]:
        of_mu, of_nu = kernels.match_functions(*mu.vertices, *nu.vertices, epsilon)
        return max(of_mu + max(surplus, 0.0), of_nu + max(-surplus, 0.0)), epsilon, epsilon

    return unmatched


@dataclass
class _Bracket:
    """low ≤ d_P ≤ high, and the last point on either side with excess = unmatched mass − ε there."""

    low: float
    high: float
    left: tuple[float, float] | None = None
    right: tuple[float, float] | None = None
    last: int = 0  # the side that moved last

    def trial(self, bisect: bool) -> float:
        """Return where to look next: by regula falsi, or midway if told so or if there is nothing better."""
        if self.high > _COARSE * self.low:
            return self.high / _COARSE
        if not bisect and self.left is not None and self.right is not None:
            (a, at_a), (b, at_b) = self.left, self.right
            chord = a + (b - a) * (at_a / (at_a - at_b))
            if self.low < chord < self.high:
                return chord
        return self.low + (self.high - self.low) / 2.0

    def narrow(self, epsilon: float, mass: float, below: float, above: float) -> None:
        """Use that the unmatched mass never grows with ε and is the same on [below, above)."""
        excess = mass - epsilon
        # Illinois: the value at an end that stays a second time is halved, so that no end stays for ever.
        if excess > 0.0:
            self.low = max(self.low, min(mass, above))
            self.high = min(self.high, mass)
            if self.last < 0 and self.right is not None:
                self.right = (self.right[0], self.right[1] / 2.0)
            self.left, self.last = (epsilon, excess), -1
        else:
            self.low = max(self.low, mass)
            self.high = min(self.high, max(mass, below))
            if self.last > 0 and self.left is not None:
                self.left = (self.left[0], self.left[1] / 2.0)
            self.right, self.last = (epsilon, excess), 1


def _least_epsilon(unmatched: _Unmatched, mass_mu: float, mass_nu: float, width_of_mass: float) -> float:
    """Return inf{ε : unmatched(ε) ≤ ε}, to the last bits or within that share of the mass."""
    bracket = _Bracket(abs(mass_mu - mass_nu), max(mass_mu, mass_nu))
    if bracket.low == bracket.high:  # one of them is the zero measure
        return bracket.high
    epsilon, width, bisect = bracket.low, math.inf, False
    if unmatched(epsilon)[0] <= epsilon:
        return epsilon
    enough = width_of_mass * bracket.high
    while bracket.high - bracket.low > max(enough, _LAST_BITS * bracket.high):
        epsilon = bracket.trial(bisect)
        bracket.narrow(epsilon, *unmatched(epsilon))
        bisect = bracket.high - bracket.low > width / 2.0
        width = bracket.high - bracket.low
    return bracket.high
