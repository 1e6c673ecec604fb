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
    half: Floats,
    entering: Floats,
    d: int,
    fraction: float,
    weights: tuple[Floats, Floats, int, Floats, Floats],
    cells: Floats,
    atoms: Floats,
    born: Integers,
    used: int,
    parts: Floats,
    remaining: Floats,
    S: Floats,
    D: Floats,
    overflow: Floats,
    work: Floats,
) -> None:
    """Advance the solution from node `first` to node `last` of the time grid, in place.

    Parameters
    ----------
    first, last
        Nodes of the time grid.
    half
        ½ ∫ λ(t) dt over each step, shape (step,).
    entering
        Completions in each step from queues above the top level, shape (step,).
    d, fraction
        Choices of an arrival and the share p of arrivals that has them.
    weights
        `even`, `layer`, `alive`, `after`, `before` of `weights.Weights`: means W of Ḡ over the ages of birth
        cells.
    cells
        Shape (level, birth cell): Q_{ℓ,j} = ∫ f_ℓ over births in step j, as if no job were ever completed.
    atoms, born, used
        The same for masses born at one moment, shape (level, atom); their nodes of birth; how many there are.
    parts, remaining
        Shapes (level, part), (node, part): the jobs in service at node 0. On their characteristics f_ℓ is
        Σ_m parts[ℓ, m] f_m(0, ·), a triangular matrix, the unit one at node 0, and remaining[n, m] is
        ∫ f_m(0, a) Ḡ(a + t_n) da.
    S, D, overflow
        Shapes (node, level), (node, level), (node,): queues, completions, arrivals refused at the top
        level beyond those that entered.
    work
        Shape (4, level), overwritten.

    Notes
    -----
    One step is the trapezoidal rule along characteristics,
    Q' = V + ½h c'_ℓ (Q'_{ℓ−1} − Q'_ℓ) with V = Q + ½h c_ℓ (Q_{ℓ−1} − Q_ℓ) and c_ℓ = λ P(S_{ℓ−1}, S_ℓ).
    As S = Σ W Q and λ(φ(S_{ℓ−1}) − φ(S_ℓ)) = c_ℓ (S_{ℓ−1} − S_ℓ), mass balance makes the completions of the
    step Σ (W − W') V over cells and atoms, plus (1 − W_new) times those born in the step: positive terms,
    known top down before the new S are. These follow bottom up, each from one scalar equation.
    """
    even, layer, alive, after, before = weights
    graded = layer.shape[1]
    levels = S.shape[1]
    many = parts.shape[1]
    gain, done, kept, slope = work[0], work[1], work[2], work[3]
    for level in range(1, levels):
        slope[level] = half[first] * _chord_slope(S[first, level - 1], S[first, level], d, fraction)
    for n in range(first, last):
        oldest = max(0, n - alive)
        middle = min(max(graded, oldest), n)
        shift = even.size - 1 - n
        for level in range(levels - 1, -1, -1):
            c = slope[level] if level > 0 else 0.0
            lower, own = cells[max(level - 1, 0)], cells[level]
            left, lost = _explicit_half(c, lower, own, oldest, middle, layer[n], layer[n + 1])
            kept[level], done[level] = _explicit_half(
                c, lower, own, middle, n, even[shift + 1 :], even[shift:]
            )
            kept[level] += left
            done[level] += lost
            left, lost = _explicit_half(
                c,
                parts[max(level - 1, 0)],
                parts[level],
                0,
                min(level + 1, many),
                remaining[n],
                remaining[n + 1],
            )
            kept[level] += left
            done[level] += lost
            for i in range(used):
                value = atoms[level, i] + c * (atoms[max(level - 1, 0), i] - atoms[level, i])
                atoms[level, i] = value
                age = n - born[i]
                kept[level] += value * before[age + 1]
                done[level] += value * (after[age] - before[age + 1])
        survive = layer[n + 1, n] if n < graded else even[even.size - 1]
        births = entering[n]
        for level in range(levels - 1, 0, -1):
            gain[level] = births
            kept[level] += births * survive
            births = done[level] + births * (1.0 - survive)
            done[level] = births
        idle = births + half[n] * (2.0 - _phi(S[n, 0], d, fraction))
        x = solve_level(kept[0] + survive * idle, survive * half[n], d, fraction)
        gain[0] = idle - half[n] * _phi(x, d, fraction)
        done[0] += gain[0] * (1.0 - survive)
        S[n + 1, 0] = x
        cells[0, n] = gain[0]
        for level in range(1, levels):
            joined = half[n] * _phi(S[n + 1, level - 1], d, fraction)
            x = solve_level(kept[level] + joined, half[n], d, fraction)
            S[n + 1, level] = x
            chord = _chord_slope(S[n + 1, level - 1], x, d, fraction)
            c = half[n] * chord
            slope[level] = half[min(n + 1, half.size - 1)] * chord
            cells[level, n] = gain[level]
            _implicit_half(c, cells[level - 1], cells[level], oldest, n + 1)
            _implicit_half(c, atoms[level - 1], atoms[level], 0, used)
            _implicit_half(c, parts[level - 1], parts[level], 0, min(level + 1, many))
        for level in range(levels):
            D[n + 1, level] = D[n, level] + done[level]
        top = levels - 1
        refused = half[n] * (_phi(S[n, top], d, fraction) + _phi(S[n + 1, top], d, fraction))
        overflow[n + 1] = overflow[n] + refused - entering[n]


@njit(nogil=True, cache=True)
def _explicit_half(
    c: float, lower: Floats, own: Floats, start: int, stop: int, now: Floats, then: Floats
) -> tuple[float, float]:
    """Turn Q into V in place for cells `start` to `stop`; return Σ W' V and Σ (W − W') V."""
    # Two loops over views from 0: the first compiles to vector instructions, the second adds in order.
    lower, own, now, then = lower[start:stop], own[start:stop], now[start:stop], then[start:stop]
    for j in range(own.size):
        own[j] += c * (lower[j] - own[j])
    left, lost = 0.0, 0.0
    for j in range(own.size):
        left += own[j] * then[j]
        lost += own[j] * (now[j] - then[j])
    return left, lost


@njit(nogil=True, cache=True)
def _implicit_half(c: float, lower: Floats, own: Floats, start: int, stop: int) -> None:
    """Turn V into Q' in place for cells `start` to `stop`, given those of the level below."""
    lower, own = lower[start:stop], own[start:stop]
    scale = 1.0 / (1.0 + c)
    for j in range(own.size):
        own[j] = (own[j] + c * lower[j]) * scale
