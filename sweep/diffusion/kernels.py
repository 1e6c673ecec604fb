"""Compiled loops of the heavy-traffic limit: steps of masses in cells, and of reflected particles by rank.

Cells of width h hold the masses u_j of (jh, (j+1)h); v at node j is the mass of the cells from j on. With
F(v) = b1 v + b0 v^ell and D = σ²/2, the mass of cell j has the mean drift of the ranks it covers,
P_j = (F(v_j) − F(v_{j+1}))/(v_j − v_{j+1}), and jumps one cell up or down at the rates

    R_j = (D/h²)(1 + q_j/2)²,   L_j = (D/h²)(1 − q_j/2)²,   q_j = h P_j / (2D):

the drift is exactly P_j, the diffusion D (1 + q_j²/4), and no rate is negative whatever h is.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}


class Model(NamedTuple):
    """Drift b1 + b0 ell v^{ell−1} and diffusion D = σ²/2."""

    b1: float
    b0: float
    ell: int
    D: float


class Scratch(NamedTuple):
    """Rows that a step overwrites: `v` and `guess` of one item a node, the others of one a cell."""

    v: Floats
    guess: Floats
    up: Floats
    down: Floats
    pivot: Floats
    row: Floats
    left: Floats
    whole: Floats
    half: Floats
    halves: Floats


@njit(**_OPTIONS)
def mean_drift(model: Model, above: float, below: float) -> Any:
    """Return (F(above) − F(below))/(above − below) as a sum of products, so that the two may be equal.

    With P_k = Σ_{i<k} above^i below^{k−1−i}: P_{2k} = (above^k + below^k) P_k, P_{k+1} = above P_k + below^k.
    """
    total, high, low = 1.0, above, below
    bit = 1
    while 2 * bit <= model.ell:
        bit *= 2
    while bit > 1:
        bit //= 2
        total *= high + low
        high *= high
        low *= low
        if model.ell & bit:
            total = above * total + low
            high *= above
            low *= below
    return model.b1 + model.b0 * total


@njit(**_OPTIONS)
def cumulate(u: Floats, v: Floats) -> None:
    """Set v, one item longer than u, to the mass of the cells from each node on; it never increases."""
    v[u.size] = 0.0
    for j in range(u.size - 1, -1, -1):
        v[j] = v[j + 1] + u[j]


@njit(**_OPTIONS)
def set_rates(model: Model, v: Floats, h: float, dt: float, up: Floats, down: Floats) -> None:
    """Set dt R_j and dt L_j of every cell from the node values v."""
    base, scale = dt * model.D / (h * h), 0.25 * h / model.D
    for j in range(v.size - 1):
        half = scale * mean_drift(model, v[j], v[j + 1])
        up[j] = base * (1.0 + half) * (1.0 + half)
        down[j] = base * (1.0 - half) * (1.0 - half)


@njit(**_OPTIONS)
def predict(model: Model, h: float, dt: float, s: Scratch) -> None:
    """Set `s.guess` to the node values after dt, by one Newton step of backward Euler from `s.v`.

    `s.up` and `s.down` are the rates at `s.v`. In the matrix, node i sends to its neighbours what diffusion
    and F'(v_i) carry: an M-matrix for any dt. Only rates are made of the guess, so it need not be monotone.
    """
    v, n = s.v, s.v.size - 1
    sent, kept = 0.0, 0.0
    for i in range(1, n):
        drift = 0.5 * dt / h * mean_drift(model, v[i], v[i])
        right = max(0.5 * (s.up[i] + s.down[i]) + drift, 0.0)
        left = max(0.5 * (s.up[i - 1] + s.down[i - 1]) - drift, 0.0)
        share = sent / s.pivot[i - 1] if i > 1 else 0.0
        flow = s.up[i - 1] * (v[i - 1] - v[i]) - s.down[i] * (v[i] - v[i + 1])
        kept = flow + share * kept
        s.pivot[i] = 1.0 + right + left * (1.0 - share)
        s.row[i], s.left[i] = kept, left
        sent = right
    s.guess[0], s.guess[n] = v[0], 0.0
    step = 0.0
    for i in range(n - 1, 0, -1):
        incoming = s.left[i + 1] * step if i < n - 1 else 0.0
        step = (s.row[i] + incoming) / s.pivot[i]
        s.guess[i] = min(max(v[i] + step, 0.0), v[0])


@njit(**_OPTIONS)
def settle(u: Floats, s: Scratch, out: Floats) -> None:
    """Solve u = (1 − dt A) out for the chain with rates `s.up`, `s.down`; the outermost cells reflect.

    Columns of 1 − dt A sum to 1. The elimination has no subtraction (W. Grassmann, M. Taksar and D. Heyman,
    Regenerative analysis and steady state distributions for Markov chains, 1985): no mass is negative.
    """
    n = u.size
    inverse, back, row = 1.0, 0.0, 0.0
    for j in range(n):
        if j > 0:
            back = s.down[j] * (1.0 + back) * inverse
            row = u[j] + s.up[j - 1] * inverse * row
        else:
            row = u[0]
        inverse = 1.0 / (1.0 + back + (s.up[j] if j < n - 1 else 0.0))
        s.row[j], s.pivot[j] = row, inverse
    out[n - 1] = s.row[n - 1] * s.pivot[n - 1]
    for j in range(n - 2, -1, -1):
        out[j] = (s.row[j] + s.down[j + 1] * out[j + 1]) * s.pivot[j]


@njit(**_OPTIONS)
def step_backward(model: Model, u: Floats, h: float, dt: float, s: Scratch, out: Floats) -> None:
    """Set `out` to the masses one step of backward Euler later: first order in dt, positive, conservative.

    The rates are those of the predicted end of the step. Linearised at a steady state this is backward Euler
    itself, hence stable for every dt.
    """
    cumulate(u, s.v)
    set_rates(model, s.v, h, dt, s.up, s.down)
    predict(model, h, dt, s)
    set_rates(model, s.guess, h, dt, s.up, s.down)
    settle(u, s, out)


@njit(**_OPTIONS)
def correct(u: Floats, s: Scratch) -> None:
    """Set u to `s.halves` + C(`s.halves` − `s.whole`), C = 1 wherever that is not negative.

    Otherwise what a cell would lose to its neighbours is scaled down to what it holds (S. Zalesak, Fully
    multidimensional flux-corrected transport algorithms for fluids, 1979): mass is conserved.
    """
    n = u.size
    s.v[n] = 0.0
    for j in range(n - 1, 0, -1):
        s.v[j] = s.v[j + 1] + (s.halves[j] - s.whole[j])
    s.v[0] = 0.0
    for j in range(n):
        lost = max(-s.v[j], 0.0) + max(s.v[j + 1], 0.0)
        s.row[j] = s.halves[j] / lost if lost > s.halves[j] else 1.0
    carried = 0.0
    for j in range(n):
        moved = s.v[j + 1]
        if j < n - 1:
            moved *= s.row[j] if moved > 0.0 else s.row[j + 1]
        u[j] = max(s.halves[j] + carried - moved, 0.0)
        carried = moved


@njit(**_OPTIONS)
def march(model: Model, u: Floats, h: float, steps: Floats, s: Scratch) -> None:
    """Advance u by each of `steps`: backward Euler once and in halves, extrapolated to second order."""
    for dt in steps:
        step_backward(model, u, h, dt, s, s.whole)
        step_backward(model, u, h, 0.5 * dt, s, s.half)
        step_backward(model, s.half, h, 0.5 * dt, s, s.halves)
        correct(u, s)


@njit(**_OPTIONS)
def march_with(model: Model, u: Floats, w: Floats, h: float, steps: Floats, s: Scratch, t: Scratch) -> None:
    """Advance u as `march` does, and the masses w of a single queue that moves among queues of law u.

    Given u the law of one queue obeys a linear equation, with the rates of u's own steps. `t` is scratch.
    """
    for dt in steps:
        step_backward(model, u, h, dt, s, s.whole)
        settle(w, s, t.whole)
        step_backward(model, u, h, 0.5 * dt, s, s.half)
        settle(w, s, t.half)
        step_backward(model, s.half, h, 0.5 * dt, s, s.halves)
        settle(t.half, s, t.halves)
        correct(u, s)
        correct(w, t)


@njit(**_OPTIONS)
def share_points(points: Floats, weights: Floats, h: float, u: Floats) -> None:
    """Add point masses to the cells u by the quadratic B-spline; cell −1 is reflected into cell 0."""
    last = u.size - 1
    for i in range(points.size):
        place, weight = points[i] / h, weights[i]
        j = bucket_of(place, u.size)
        offset = place - j - 0.5
        if j == last and offset > 0.0:
            u[last] += weight
            continue
        u[max(j - 1, 0)] += weight * 0.5 * (0.5 - offset) * (0.5 - offset)
        u[j] += weight * (0.75 - offset * offset)
        u[min(j + 1, last)] += weight * 0.5 * (0.5 + offset) * (0.5 + offset)


@njit(**_OPTIONS)
def bucket_of(place: float, buckets: int) -> Any:
    """Return the whole part of a place ≥ 0, the last bucket for what is beyond it or no number."""
    return int(place) if place < buckets - 1 else buckets - 1


@njit(**_OPTIONS)
def sort_particles(x: Floats, first: Integers, order: Integers) -> None:
    """Set `order` so that x[order] increases, in O(M) for moderate tails: buckets, then each of them.

    `first` is scratch of M + 1 items.
    """
    M = x.size
    low, high = x.min(), x.max()
    scale = M / (high - low) if high > low else 0.0
    if not scale < math.inf:
        scale = 0.0
    first[:] = 0
    for position in x:
        first[bucket_of((position - low) * scale, M) + 1] += 1
    for bucket in range(M):
        first[bucket + 1] += first[bucket]
    for i in range(M):
        bucket = bucket_of((x[i] - low) * scale, M)
        order[first[bucket]] = i
        first[bucket] += 1
    start = 0
    for bucket in range(M):
        end = first[bucket]
        if end - start > 32:
            members = order[start:end].copy()
            order[start:end] = members[np.argsort(x[members])]
        else:
            for i in range(start + 1, end):
                moving, j = order[i], i
                while j > start and x[order[j - 1]] > x[moving]:
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = moving
        start = end


@njit(**_OPTIONS)
def set_drifts(model: Model, x: Floats, order: Integers, drift: Floats) -> None:
    """Set each drift to the mean of b1 + b0 ell v^{ell−1} over the particle's rank, or its tied ranks."""
    M, start = x.size, 0
    while start < M:
        end = start + 1
        while end < M and x[order[end]] == x[order[start]]:
            end += 1
        shared = mean_drift(model, (M - start) / M, (M - end) / M)
        for i in range(start, end):
            drift[order[i]] = shared
        start = end


@njit(**_OPTIONS)
def move_particles(
    model: Model, x: Floats, drift: Floats, dt: float, normals: Floats, exponentials: Floats
) -> None:
    """Advance x by dt with constant drifts and exact reflection at 0.

    Given its displacement y over dt, the least value of a Brownian path with drift is
    (y − √(y² + 2σ²dt E))/2 with E exponential of mean 1, whatever the drift; reflection adds what it lacks.
    """
    variance = 2.0 * model.D * dt
    spread = math.sqrt(variance)
    for i in range(x.size):
        y = drift[i] * dt + spread * normals[i]
        least = 0.5 * (y - math.sqrt(y * y + 2.0 * variance * exponentials[i]))
        x[i] = x[i] + y - min(x[i] + least, 0.0)
