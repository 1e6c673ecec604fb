"""Compiled sweeps over sorted atoms and over the vertices of cumulative functions."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def add(total: float, rest: float, term: float) -> tuple[float, float]:
    """Add a term to total + rest, rest holding what rounding would lose (Knuth's two-sum)."""
    new = total + term
    part = new - total
    return new, rest + ((total - (new - part)) + (term - part))


@njit(cache=True, nogil=True)
def accumulate(weights: Floats, cumulated: Floats) -> None:
    """Write partial sums of the weights, each within a unit or two of its last place."""
    total, rest = 0.0, 0.0
    for k in range(weights.size):
        total, rest = add(total, rest, weights[k])
        cumulated[k] = total + rest


@njit(cache=True, nogil=True)
def match_atoms(
    x: Floats, wx: Floats, y: Floats, wy: Floats, epsilon: float
) -> tuple[float, float, float, float]:
    """Match as much mass of sorted atoms as lies within distance epsilon, from the left.

    Returns the unmatched masses of x and of y, and the bounds of the interval [below, above) of epsilon on
    which every comparison made here, hence the result, is the same.
    """
    i, j = 0, 0
    rest_x = wx[0] if x.size else 0.0
    rest_y = wy[0] if y.size else 0.0
    lost_x, carry_x, lost_y, carry_y = 0.0, 0.0, 0.0, 0.0
    below, above = 0.0, math.inf
    while i < x.size and j < y.size:
        gap = x[i] - y[j]
        next_x, next_y = False, False
        if gap > epsilon:
            above = min(above, gap)
            lost_y, carry_y = add(lost_y, carry_y, rest_y)
            next_y = True
        elif -gap > epsilon:
            above = min(above, -gap)
            lost_x, carry_x = add(lost_x, carry_x, rest_x)
            next_x = True
        else:
            below = max(below, abs(gap))
            matched = min(rest_x, rest_y)
            next_x, next_y = rest_x == matched, rest_y == matched
            rest_x -= matched
            rest_y -= matched
        if next_x:
            i += 1
            rest_x = wx[i] if i < x.size else 0.0
        if next_y:
            j += 1
            rest_y = wy[j] if j < y.size else 0.0
    while i < x.size:
        lost_x, carry_x = add(lost_x, carry_x, rest_x)
        i += 1
        rest_x = wx[i] if i < x.size else 0.0
    while j < y.size:
        lost_y, carry_y = add(lost_y, carry_y, rest_y)
        j += 1
        rest_y = wy[j] if j < y.size else 0.0
    return lost_x + carry_x, lost_y + carry_y, below, above


@njit(cache=True, nogil=True)
def before(x: Floats, values: Floats, slopes: Floats, k: int, at: float) -> float:
    """Return the left limit at `at` of a cumulative function whose first vertex not left of it is k."""
    if k == 0:
        return 0.0
    low = float(values[k - 1])
    if k == x.size or slopes[k - 1] == 0.0:
        return low
    return max(low, min(float(values[k]), low + float(slopes[k - 1] * (at - x[k - 1]))))


@njit(cache=True, nogil=True)
def push(
    shift: float, low: float, high: float, lost_x: float, carry_x: float, lost_y: float, carry_y: float
) -> tuple[float, float, float, float, float]:
    """Move the shift into [low, high]: down by skipping mass of x, up by skipping mass of y."""
    if shift > high:
        lost_x, carry_x = add(lost_x, carry_x, shift - high)
        shift = high
    if shift < low:
        lost_y, carry_y = add(lost_y, carry_y, low - shift)
        shift = low
    return shift, lost_x, carry_x, lost_y, carry_y


@njit(cache=True, nogil=True)
def match_functions(
    x: Floats, F: Floats, slopes_F: Floats, y: Floats, G: Floats, slopes_G: Floats, epsilon: float
) -> tuple[float, float]:
    """Match as much mass of two measures as lies within distance epsilon; return both unmatched masses.

    A measure is the list of vertices of its cumulative function: positions that do not decrease, values that
    do not decrease from 0 (two vertices at one position are an atom), slopes to the next vertex.

    From the left, the mass at level u of F is matched with the mass at level u + shift of G. A pair is near
    enough iff G((z−ε)−) ≤ F(z) + shift ≤ G(z+ε), so the shift is pushed as little as will keep it between the
    barriers G(z−ε) − F(z) and G(z+ε) − F(z); a push up skips mass of G, a push down mass of F. Barriers are
    linear between vertices, so pushing at vertices is exact. At one z: first G(z+ε) takes its jump, then F,
    then G(z−ε), for a distance of epsilon itself is near enough.
    """
    i, upper, lower = 0, 0, 0
    shift = 0.0
    lost_x, carry_x, lost_y, carry_y = 0.0, 0.0, 0.0, 0.0
    while i < x.size or lower < y.size:
        z_f = x[i] if i < x.size else math.inf
        z_u = y[upper] - epsilon if upper < y.size else math.inf
        z_l = y[lower] + epsilon if lower < y.size else math.inf
        z = min(z_f, z_u, z_l)
        f = F[i] if z_f == z else before(x, F, slopes_F, i, z)
        u = G[upper] if z_u == z else before(y, G, slopes_G, upper, z + epsilon)
        low = G[lower] if z_l == z else before(y, G, slopes_G, lower, z - epsilon)
        shift, lost_x, carry_x, lost_y, carry_y = push(
            shift, low - f, u - f, lost_x, carry_x, lost_y, carry_y
        )
        if z_u == z:
            while upper < y.size and y[upper] - epsilon == z:
                u = G[upper]
                upper += 1
        if z_f == z:
            while i < x.size and x[i] == z:
                f = F[i]
                i += 1
        shift, lost_x, carry_x, lost_y, carry_y = push(
            shift, low - f, u - f, lost_x, carry_x, lost_y, carry_y
        )
        if z_l == z:
            while lower < y.size and y[lower] + epsilon == z:
                low = G[lower]
                lower += 1
            shift, lost_x, carry_x, lost_y, carry_y = push(
                shift, low - f, u - f, lost_x, carry_x, lost_y, carry_y
            )
    return lost_x + carry_x, lost_y + carry_y


@njit(cache=True, nogil=True)
def compare_functions(
    x: Floats, F: Floats, slopes_F: Floats, y: Floats, G: Floats, slopes_G: Floats, until: float
) -> tuple[float, float]:
    """Return sup |F − G| left of `until` and ∫ |F − G| up to it; vertices as in match_functions."""
    i, j = 0, 0
    difference, z = 0.0, -math.inf
    greatest, area, carry = 0.0, 0.0, 0.0
    while (i < x.size or j < y.size) and z < until:
        z_f = x[i] if i < x.size else math.inf
        z_g = y[j] if j < y.size else math.inf
        there = min(z_f, z_g, until)
        f = F[i] if z_f == there else before(x, F, slopes_F, i, there)
        g = G[j] if z_g == there else before(y, G, slopes_G, j, there)
        if difference != 0.0 or f != g:  # never on the first step, where z = −inf
            area, carry = add(area, carry, area_between(difference, f - g, there - z))
        greatest = max(greatest, abs(f - g))
        z = there
        if z == until:
            break
        while i < x.size and x[i] == z:
            f = F[i]
            i += 1
        while j < y.size and y[j] == z:
            g = G[j]
            j += 1
        difference = f - g
        greatest = max(greatest, abs(difference))
    if z < until < math.inf:
        area, carry = add(area, carry, abs(difference) * (until - z))
    return greatest, area + carry


@njit(cache=True, nogil=True)
def area_between(left: float, right: float, width: float) -> float:
    """∫ |line from left to right| over a width."""
    size = abs(left) + abs(right)
    if left * right >= 0.0:
        return 0.5 * size * width
    return 0.5 * (left * left + right * right) / size * width


@njit(cache=True, nogil=True)
def gather_atoms(x: Floats, weights: Floats, nodes: Floats, masses: Floats) -> None:
    """Add each atom to the two nodes around it, with its mass and mean kept."""
    k = 0
    for i in range(x.size):
        while nodes[k + 1] < x[i]:
            k += 1
        share = (x[i] - nodes[k]) / (nodes[k + 1] - nodes[k])
        masses[k] += weights[i] * (1.0 - share)
        masses[k + 1] += weights[i] * share


@njit(cache=True, nogil=True)
def residual_survival(
    log_later: Floats, log_now: Floats, mu: Floats, nu: Floats, row: Floats
) -> tuple[float, float]:
    """Write ϑ^r = Ḡ(x+r)/Ḡ(x) at the nodes, 0 where Ḡ(x) = 0; return its integrals against both measures."""
    total_mu, carry_mu, total_nu, carry_nu = 0.0, 0.0, 0.0, 0.0
    for k in range(row.size):
        row[k] = min(1.0, math.exp(log_later[k] - log_now[k])) if log_now[k] > -math.inf else 0.0
        total_mu, carry_mu = add(total_mu, carry_mu, mu[k] * row[k])
        total_nu, carry_nu = add(total_nu, carry_nu, nu[k] * row[k])
    return total_mu + carry_mu, total_nu + carry_nu


@njit(cache=True, nogil=True)
def variation(first: Floats, second: Floats) -> float:
    """Total variation of first − second over the nodes."""
    total = 0.0
    last = first[0] - second[0]
    for k in range(1, first.size):
        now = first[k] - second[k]
        total += abs(now - last)
        last = now
    return total


@njit(cache=True, nogil=True)
def chord_error(row: Floats, masses: Floats, kolmogorov: float) -> float:
    """Bound what integrals lose when row is replaced by its chords, from odd nodes, which lie midway."""
    total = 0.0
    for k in range(1, row.size - 1, 2):
        nearby = masses[k - 1] + masses[k] + masses[k + 1]
        total += min(kolmogorov, 0.5 * nearby) * abs(row[k] - 0.5 * (row[k - 1] + row[k + 1]))
    return total
