"""Compiled time steps of the hydrodynamic equations along characteristics."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sweep import routing

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_phi = njit(nogil=True)(routing.phi)
_chord_slope = njit(nogil=True)(routing.chord_slope)
#: Newton steps of the scalar equation; it takes 3 to 6 of them to reach rounding.
_STEPS = 60


@njit(nogil=True, cache=True)
def solve_level(right: float, weight: float, d: int, fraction: float) -> float:
    """Return the root x in [0, right] of x + weight φ(x) = right, by Newton steps.

    The left side is increasing and convex, so that the iterates fall monotonically from x = right.
    """
    x = right
    for _ in range(_STEPS):
        slope = 1.0 - fraction + fraction * d * x ** (d - 1)
        change = (x + weight * _phi(x, d, fraction) - right) / (1.0 + weight * slope)
        x -= change
        if change <= 1e-16 * x:
            break
    return max(x, 0.0)


@njit(nogil=True, cache=True)
def march(
    first: int,
    last: int,
    half: float,
    d: int,
    fraction: float,
    weights: tuple[Floats, Floats, Floats, Floats, int],
    cells: Floats,
    atoms: Floats,
    born: Integers,
    used: int,
    S: Floats,
    D: Floats,
    overflow: Floats,
    work: Floats,
) -> None:
    """Advance the solution from node `first` to node `last` of the time grid, in place.

    Parameters
    ----------
    first, last
        Nodes t = first · h and last · h.
    half
        λ h / 2.
    d, fraction
        Choices of an arrival and the share p of arrivals that has them.
    weights
        Means of Ḡ over age cells, their falls from cell to cell, Ḡ at nodes from the right and from the left,
        and the number of age cells on which Ḡ is not 0.
    cells
        Shape (level, birth cell): Q_{ℓ,j} = ∫ f_ℓ over births in step j, as if no job were ever completed.
    atoms, born, used
        The same for masses born at one moment, shape (level, atom); their nodes of birth; how many there are.
    S, D, overflow
        Shapes (node, level), (node, level), (node,): queues, completions, arrivals refused at the top level.
    work
        Shape (4, level), overwritten.

    Notes
    -----
    One step is the trapezoidal rule along characteristics,
    Q' = V + ½h c'_ℓ (Q'_{ℓ−1} − Q'_ℓ) with V = Q + ½h c_ℓ (Q_{ℓ−1} − Q_ℓ) and c_ℓ = λ P(S_{ℓ−1}, S_ℓ).
    As S = Σ W Q and λ(φ(S_{ℓ−1}) − φ(S_ℓ)) = c_ℓ (S_{ℓ−1} − S_ℓ), mass balance makes the completions of the
    step Σ (W − W') V over cells and atoms, plus (1 − W_0) times those born in the step: positive terms, known top
    down before the new S are. These follow bottom up, each from one scalar equation.
    """
    mean, fall, after, before, alive = weights
    levels = S.shape[1]
    gain, done, kept, slope = work[0], work[1], work[2], work[3]
    for level in range(1, levels):
        slope[level] = half * _chord_slope(S[first, level - 1], S[first, level], d, fraction)
    for n in range(first, last):
        oldest = max(0, n - alive)
        for level in range(levels - 1, -1, -1):
            c = slope[level] if level > 0 else 0.0
            lower = cells[max(level - 1, 0)]
            own = cells[level]
            left, lost = 0.0, 0.0
            for j in range(oldest, n):
                value = own[j] + c * (lower[j] - own[j])
                own[j] = value
                left += value * mean[n - j]
                lost += value * fall[n - 1 - j]
            for i in range(used):
                value = atoms[level, i] + c * (atoms[max(level - 1, 0), i] - atoms[level, i])
                atoms[level, i] = value
                age = n - born[i]
                left += value * before[age + 1]
                lost += value * (after[age] - before[age + 1])
            kept[level], done[level] = left, lost
        births = 0.0
        for level in range(levels - 1, 0, -1):
            gain[level] = births
            kept[level] += births * mean[0]
            births = done[level] + births * (1.0 - mean[0])
            done[level] = births
        idle = births + half * (2.0 - _phi(S[n, 0], d, fraction))
        x = solve_level(kept[0] + mean[0] * idle, mean[0] * half, d, fraction)
        gain[0] = idle - half * _phi(x, d, fraction)
        done[0] += gain[0] * (1.0 - mean[0])
        S[n + 1, 0] = x
        cells[0, n] = gain[0]
        for level in range(1, levels):
            joined = half * _phi(S[n + 1, level - 1], d, fraction)
            x = solve_level(kept[level] + joined, half, d, fraction)
            S[n + 1, level] = x
            c = half * _chord_slope(S[n + 1, level - 1], x, d, fraction)
            slope[level] = c
            lower = cells[level - 1]
            own = cells[level]
            own[n] = gain[level]
            scale = 1.0 / (1.0 + c)
            for j in range(oldest, n + 1):
                own[j] = (own[j] + c * lower[j]) * scale
            for i in range(used):
                atoms[level, i] = (atoms[level, i] + c * atoms[level - 1, i]) * scale
        for level in range(levels):
            D[n + 1, level] = D[n, level] + done[level]
        top = levels - 1
        refused = half * (_phi(S[n, top], d, fraction) + _phi(S[n + 1, top], d, fraction))
        overflow[n + 1] = overflow[n] + refused
