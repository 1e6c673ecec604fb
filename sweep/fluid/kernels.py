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
    origin: int,
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
    origin
        The node at which `parts` begin: births of earlier steps are among them, not among the cells.
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
        Shapes (level, part), (node, part): the jobs in service at the origin o. On their characteristics f_ℓ
        is Σ_m parts[ℓ, m] f_m(t_o, ·), a triangular matrix, the unit one at node o, and remaining[n − o, m]
        is ∫ f_m(t_o, a) Ḡ(a + t_n − t_o) da.
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
        oldest = max(origin, n - alive)
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
                remaining[n - origin],
                remaining[n + 1 - origin],
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


@njit(nogil=True, cache=True)
def carry(parts: Floats, columns: Floats) -> None:
    """Move columns of f by level, shape (level, column), along their characteristics: Σ_m parts[ℓ, m] f_m."""
    for level in range(columns.shape[0] - 1, -1, -1):
        own = columns[level]
        for j in range(own.size):
            own[j] *= parts[level, level]
        for m in range(level):
            share, lower = parts[level, m], columns[m]
            for j in range(own.size):
                own[j] += share * lower[j]


@njit(nogil=True, cache=True)
def add_cells(even: Floats, node: int, start: int, stop: int, cells: Floats, remaining: Floats) -> None:
    """Add what is left of birth cells `start` to `stop` at node, node + 1, … to `remaining` (node, level)."""
    for n in range(remaining.shape[0]):
        shift = even.size - node - n
        weights = even[shift + start : shift + stop]
        for level in range(cells.shape[0]):
            own = cells[level, start:stop]
            total = 0.0
            for j in range(own.size):
                total += weights[j] * own[j]
            remaining[n, level] += total


@njit(nogil=True, cache=True)
def add_points(weights: Floats, charges: Floats, remaining: Floats) -> None:
    """Add Σ_q weights[n, q] charges[ℓ, q] to `remaining` (node, level)."""
    for n in range(remaining.shape[0]):
        for level in range(charges.shape[0]):
            total = 0.0
            for q in range(charges.shape[1]):
                total += weights[n, q] * charges[level, q]
            remaining[n, level] += total


@njit(nogil=True, cache=True)
def follow_residuals(
    half: Floats,
    steps: Floats,
    entering: Floats,
    d: int,
    fraction: float,
    S: Floats,
    S_end: Floats,
    D: Floats,
    residuals: Floats,
) -> None:
    """Fill rows 1, 2, … of `residuals` (node, level): the work left in service at queues of length k exactly.

    It follows Δ_k = R_k − R_{k+1} with R_k' = births_k − S_k + c_k (R_{k−1} − R_k): a job brings 1 on average
    when its service begins, and each busy server works at rate 1. Trapezoidal rule; `half`, `entering` as in
    `march`; `S_end` holds S at the ends of steps, left limits, shape (step, level). Levels beyond those of S
    are empty.
    """
    levels = S.shape[1]
    for n in range(steps.size):
        old, new = 0.0, 0.0
        for k in range(residuals.shape[1]):
            now, then = S[n, k], S_end[n, k]
            above_now, above_then = 0.0, 0.0
            if k + 1 < levels:
                above_now, above_then = S[n, k + 1], S_end[n, k + 1]
            births = D[n + 1, k + 1] - D[n, k + 1] if k + 1 < levels else entering[n]
            if k + 2 < levels:
                births -= D[n + 1, k + 2] - D[n, k + 2]
            elif k + 1 < levels:
                births -= entering[n]
            if k == 0:
                births += half[n] * (2.0 - _phi(now, d, fraction) - _phi(then, d, fraction))
            worked = 0.5 * steps[n] * (now - above_now + then - above_then)
            c_now = half[n] * _chord_slope(now, above_now, d, fraction)
            c_then = half[n] * _chord_slope(then, above_then, d, fraction)
            value = residuals[n, k] * (1.0 - c_now) + births - worked + old + new
            value /= 1.0 + c_then
            residuals[n + 1, k] = value
            old, new = c_now * residuals[n, k], c_then * value


@njit(nogil=True, cache=True)
def mean_waits(d: int, fraction: float, S: Floats, residuals: Floats, waits: Floats) -> None:
    """Fill `waits` (node,) with Σ_{k≥2} φ(S_k) + Σ_k P(S_k, S_{k+1}) Δ_k over the levels of `residuals`."""
    for n in range(waits.size):
        total = 0.0
        for k in range(residuals.shape[1]):
            above = S[n, k + 1] if k + 1 < S.shape[1] else 0.0
            total += _chord_slope(S[n, k], above, d, fraction) * residuals[n, k]
            if k > 0:
                total += _phi(S[n, k], d, fraction)
        waits[n] = total
