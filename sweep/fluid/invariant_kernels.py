"""Compiled loops of the invariant state: one level's equation along age, panel by panel, and weights of Ḡ."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@njit(cache=True, nogil=True, error_model="numpy")
def advance(
    below: Floats,
    widths: Floats,
    decay: float,
    feed: float,
    start: float,
    coefficients: Floats,
    ends: Floats,
    pivots: Floats,
) -> None:
    """Solve u' = feed · below − decay · u from u = `start`, panel after panel, in Legendre coefficients.

    `below` and `coefficients` have shape (panel, n + 1), `ends` (panel,) receives u at the right end of each
    panel, `pivots` (n + 1,) is work space. With x ∈ [−1, 1] across a panel of width h and
    v = du/dx = Σ_{k<n} v_k P_k, ∫P_k = (P_{k+1} − P_{k−1})/(2k+1) gives
    u_k = v_{k−1}/(2k−1) − v_{k+1}/(2k+3), u_0 = start + v_0 − v_1/3 and u(1) = start + 2 v_0. The residual
    is a multiple of P_n − P_{n−1}, so this is collocation at the n Radau points, L-stable. The system for v
    is tridiagonal with pivots ≥ 1: nothing cancels.
    """
    n = below.shape[1] - 1
    value = start
    for panel in range(widths.size):
        zeta = decay * widths[panel] / 2.0
        source = feed * widths[panel] / 2.0
        u, p = coefficients[panel], below[panel]
        # Elimination downwards; u holds the right-hand side, then v.
        pivots[0] = 1.0 + zeta
        u[0] = source * p[0] - zeta * value
        for k in range(1, n):
            factor = zeta / (2 * k - 1) / pivots[k - 1]
            pivots[k] = 1.0 + factor * (zeta / (2 * k + 1))
            right = source * p[k]
            if k == n - 1:
                pivots[k] += zeta / (2 * n - 1)
                right += source * p[n]
            u[k] = right - factor * u[k - 1]
        u[n - 1] /= pivots[n - 1]
        for k in range(n - 2, -1, -1):
            u[k] = (u[k] + zeta / (2 * k + 3) * u[k + 1]) / pivots[k]
        first = u[0]
        u[n] = u[n - 1] / (2 * n - 1)
        before = u[n - 1]
        middle = u[n - 2]
        u[n - 1] = middle / (2 * n - 3)
        for k in range(n - 2, 0, -1):
            after, before, middle = before, middle, u[k - 1]
            u[k] = middle / (2 * k - 1) - after / (2 * k + 3)
        u[0] = value + middle - before / 3.0
        value += 2.0 * first
        ends[panel] = value


@njit(cache=True, nogil=True, error_model="numpy")
def weigh(coefficients: Floats, weights: Floats) -> tuple[float, float]:
    """Return ∫ u Ḡ da = Σ weights · coefficients, and the part in each panel's last two coefficients."""
    n = coefficients.shape[1] - 1
    total = 0.0
    last = 0.0
    for panel in range(coefficients.shape[0]):
        part = 0.0
        for k in range(n, -1, -1):
            part += coefficients[panel, k] * weights[panel, k]
        total += part
        last += (abs(coefficients[panel, n - 1]) + abs(coefficients[panel, n])) * weights[panel, 0]
    return total, last


@njit(cache=True, nogil=True, error_model="numpy")
def masses(coefficients: Floats, panels: Integers, weights: Floats, out: Floats) -> None:
    """Fill `out` with ∫ u Ḡ da over intervals, each with a panel and `weights` of shape (interval, n + 1)."""
    for i in range(panels.size):
        total = 0.0
        for k in range(weights.shape[1] - 1, -1, -1):
            total += coefficients[panels[i], k] * weights[i, k]
        out[i] = total


@njit(cache=True, nogil=True, error_model="numpy")
def legendre_moments(
    values: Floats,
    lower: Floats,
    upper: Floats,
    left: Floats,
    right: Floats,
    nodes: Floats,
    weights: Floats,
    moments: Floats,
) -> None:
    """Fill `moments` (interval, n + 1) with ∫_lower^upper P_k Ḡ da, P_k on the panel [left, right].

    `values` (interval, g) holds Ḡ at the Gauss nodes of each interval.
    """
    degree = moments.shape[1] - 1
    for i in range(lower.size):
        half = (upper[i] - lower[i]) / 2.0
        middle = (upper[i] + lower[i]) / 2.0
        scale = 2.0 / (right[i] - left[i])
        for k in range(degree + 1):
            moments[i, k] = 0.0
        for j in range(nodes.size):
            x = ((middle - left[i]) + half * nodes[j]) * scale - 1.0
            mass = half * weights[j] * values[i, j]
            before, now = 0.0, 1.0
            for k in range(degree + 1):
                moments[i, k] += mass * now
                before, now = now, ((2 * k + 1) * x * now - k * before) / (k + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate(coefficients: Floats, edges: Floats, panels: Integers, ages: Floats, out: Floats) -> None:
    """Fill `out` with u at each age, which lies in the panel of the given number (Clenshaw's recurrence)."""
    n = coefficients.shape[1] - 1
    for i in range(ages.size):
        panel = panels[i]
        left, right = edges[panel], edges[panel + 1]
        x = (ages[i] - left) / (right - left) * 2.0 - 1.0
        later, now = 0.0, 0.0
        for k in range(n, 0, -1):
            older, later = later, now
            now = coefficients[panel, k] + (2 * k + 1) / (k + 1) * x * later - (k + 1) / (k + 2) * older
        out[i] = coefficients[panel, 0] + x * now - 0.5 * later
