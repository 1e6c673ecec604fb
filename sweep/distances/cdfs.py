"""Distances read off cumulative functions and queue-length fractions: Kolmogorov, Wasserstein-1, sup."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sweep.arguments import numbers, real
from sweep.distances import kernels
from sweep.distances.measures import Measure, check_measures
from sweep.wording import shown


def kolmogorov(mu: Measure, nu: Measure) -> float:
    """Return sup_x |μ(−∞, x] − ν(−∞, x]|, x = ∞ included, for any two masses.

    Raises
    ------
    TypeError
        Not measures.

    Examples
    --------
    >>> from sweep.distances import Atoms, PiecewiseLinear, kolmogorov
    >>> kolmogorov(Atoms([0.5], 1.0), PiecewiseLinear([0.0, 1.0], [0.0, 1.0]))
    0.5
    """
    check_measures(mu, nu)
    greatest, _ = kernels.compare_functions(*mu.vertices, *nu.vertices, math.inf)
    return max(float(greatest), abs(mu.mass - nu.mass))


def wasserstein(mu: Measure, nu: Measure, until: float | None = None) -> float:
    """Return ∫_{−∞}^{until} |μ(−∞, x] − ν(−∞, x]| dx, in units of mass times age.

    Parameters
    ----------
    mu, nu
        Measures. With equal masses and the default this is the Wasserstein-1 (Kantorovich) distance. With
        unequal masses the integral over the whole line is infinite; up to a fixed `until` it is still a
        metric among measures on (−∞, until], which counts each unit of missing mass as if it sat at `until`.
    until
        Upper limit; by default the last finite position of either measure.

    Raises
    ------
    TypeError
        Not measures; `until` is no number.
    ValueError
        `until` is not finite.

    Examples
    --------
    >>> from sweep.distances import Atoms, wasserstein
    >>> wasserstein(Atoms([0.0, 1.0], 0.5), Atoms([0.25, 1.5], 0.5))
    0.375
    """
    check_measures(mu, nu)
    end = None if until is None else real("until", until)
    if end is not None and not math.isfinite(end):
        raise ValueError(f"until must be finite, got {shown(until)}")
    ends = [float(measure.vertices.positions[-1]) for measure in (mu, nu) if measure.vertices.positions.size]
    if not ends:
        return 0.0
    limit = max(ends) if end is None else end
    _, area = kernels.compare_functions(*mu.vertices, *nu.vertices, limit)
    return float(area)


def sup_distance(S_N: ArrayLike, S: ArrayLike) -> float:
    """Return sup_{t,ℓ} |S^N_ℓ(t)/N − S_ℓ(t)| over two arrays of one shape, (t, level).

    Raises
    ------
    ValueError
        The shapes differ, or a value is no finite number.

    Examples
    --------
    >>> sup_distance([[0.5, 0.25]], [[0.5, 0.125]])
    0.125
    """
    network, fluid = numbers("S_N", S_N), numbers("S", S)
    if network.shape != fluid.shape:
        raise ValueError(f"S_N must have the shape of S {fluid.shape}, got {network.shape}")
    for name, values in (("S_N", network), ("S", fluid)):
        if not np.all(np.isfinite(values)):
            raise ValueError(f"{name} must be finite, got {float(values[~np.isfinite(values)][0])!r}")
    return float(np.max(np.abs(network - fluid), initial=0.0))
