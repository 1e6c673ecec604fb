"""The Prohorov distance: its definition, linear programs, maximum flows, closed forms, axioms; d_𝕊."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from sweep.distances import (
    Atoms,
    Measure,
    PiecewiseLinear,
    grid_error,
    level_distances,
    prohorov,
    prohorov_between,
    prohorov_to_cdf,
    state_distance,
    wasserstein,
)
from tests.processors import WITHOUT_AVX512, printed

INF = math.inf
#: Coarse positions and weights, so that ties occur often, and arbitrary ones.
POSITIONS = st.one_of(st.integers(-8, 8).map(lambda k: k / 8), st.floats(-3.0, 3.0))
WEIGHTS = st.one_of(st.integers(0, 8).map(lambda k: k / 16), st.floats(0.0, 1.0))


@st.composite
def atoms(draw: st.DrawFn, most: int = 6) -> Atoms:
    pairs = draw(st.lists(st.tuples(POSITIONS, WEIGHTS), max_size=most))
    return Atoms([x for x, _ in pairs], [w for _, w in pairs])


@st.composite
def piecewise_linear(draw: st.DrawFn) -> PiecewiseLinear:
    knots = draw(st.lists(st.tuples(POSITIONS, WEIGHTS), max_size=6))
    at_infinity = draw(st.sampled_from([0.0, 0.0, 0.25]))
    ages = [*sorted(x for x, _ in knots), INF]
    return PiecewiseLinear(ages, np.cumsum([*(w / 4.0 for _, w in knots), at_infinity]))


MEASURES = st.one_of(atoms(), piecewise_linear())


# ---- oracles: each gives the mass left unmatched at distance ε, or what the definition asks of ε


def excess_over_sets(
    mu: Atoms, nu_of_neighbourhood: Callable[[list[float], float], float], epsilon: float
) -> float:
    """max over sets A of atoms of μ(A) − ν(A^ε), by enumeration."""
    indices = range(mu.positions.size)
    return max(
        sum(mu.weights[k] for k in chosen)
        - nu_of_neighbourhood([float(mu.positions[k]) for k in chosen], epsilon)
        for size in range(mu.positions.size + 1)
        for chosen in combinations(indices, size)
    )


def mass_near(nu: Atoms) -> Callable[[list[float], float], float]:
    def near(centres: list[float], epsilon: float) -> float:
        return sum(
            w
            for y, w in zip(nu.positions, nu.weights, strict=True)
            if any(abs(y - x) <= epsilon for x in centres)
        )

    return near


def by_gaps(mu: Atoms, nu: Atoms, unmatched: Callable[[float], float]) -> float:
    """inf{ε : unmatched(ε) ≤ ε}, from its values at the distances between atoms, where alone it can jump."""
    gaps = sorted({0.0, *(abs(float(x - y)) for x in mu.positions for y in nu.positions)})
    for gap, following in zip(gaps, [*gaps[1:], INF], strict=True):
        least = max(gap, unmatched(gap))
        if least < following:
            return least
    raise AssertionError("unmatched mass is finite")


def unmatched_by_linear_program(mu: Atoms, nu: Atoms, epsilon: float) -> float:
    n, m = mu.positions.size, nu.positions.size
    near = np.abs(mu.positions[:, None] - nu.positions) <= epsilon
    if not near.any():
        return max(mu.mass, nu.mass)
    rows = np.zeros((n + m, n * m))
    for i in range(n):
        rows[i, i * m : (i + 1) * m] = 1.0
    for j in range(m):
        rows[n + j, j::m] = 1.0
    plan = linprog(
        -near.ravel().astype(float),
        A_ub=rows,
        b_ub=np.concatenate([mu.weights, nu.weights]),
        bounds=(0.0, None),
        method="highs-ds",
    )
    return max(mu.mass, nu.mass) + plan.fun


# ---- exact values


@given(atoms(), atoms())
def test_atoms_satisfy_the_definition_over_all_sets(mu: Atoms, nu: Atoms) -> None:
    def violation(epsilon: float) -> float:
        return max(excess_over_sets(mu, mass_near(nu), epsilon), excess_over_sets(nu, mass_near(mu), epsilon))

    expected = by_gaps(mu, nu, violation)
    assert prohorov(mu.positions, mu.weights, nu.positions, nu.weights) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(25))
def test_atoms_agree_with_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 9, 2)
    mu = Atoms(rng.random(n), rng.random(n) / n)
    nu = Atoms(rng.random(m), rng.random(m) / m)
    expected = by_gaps(mu, nu, lambda epsilon: unmatched_by_linear_program(mu, nu, epsilon))
    assert abs(prohorov_between(mu, nu) - expected) <= 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_atoms_agree_with_a_maximum_flow(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    n, m, unit = 25, 31, 1024
    wx, wy = rng.integers(1, 60, n), rng.integers(1, 60, m)
    x, y = rng.integers(0, 400, n) / 256.0, rng.integers(0, 400, m) / 256.0

    def unmatched(epsilon: float) -> float:
        capacity = np.zeros((n + m + 2, n + m + 2), dtype=np.int32)
        capacity[0, 1 : n + 1] = wx
        capacity[1 : n + 1, n + 1 : n + m + 1] = 10**6 * (np.abs(x[:, None] - y) <= epsilon)
        capacity[n + 1 : n + m + 1, n + m + 1] = wy
        flow = maximum_flow(csr_array(capacity), 0, n + m + 1).flow_value
        return (max(wx.sum(), wy.sum()) - flow) / unit

    mu, nu = Atoms(x, wx / unit), Atoms(y, wy / unit)
    assert prohorov_between(mu, nu) == by_gaps(mu, nu, unmatched)


@given(atoms(most=5), piecewise_linear())
@settings(max_examples=200)
def test_atoms_against_a_cdf_satisfy_the_min_cut_over_all_sets(mu: Atoms, nu: PiecewiseLinear) -> None:
    finite = nu.ages < INF
    ages, cdf = nu.ages[finite], nu.cdf[finite]

    def up_to(a: float, side: str) -> float:
        k = int(np.searchsorted(ages, a, side=side)) - 1
        if k < 0:
            return 0.0
        if k == ages.size - 1:
            return float(cdf[-1])
        if side == "left" and ages[k + 1] == a and k + 1 < ages.size:
            share = 1.0
        else:
            share = (a - ages[k]) / (ages[k + 1] - ages[k])
        return float(cdf[k] + share * (cdf[k + 1] - cdf[k]))

    def near(centres: list[float], epsilon: float) -> float:
        total, reached = 0.0, -INF
        for x in sorted(centres):
            low, high = x - epsilon, x + epsilon
            start = up_to(low, "left") if low > reached else up_to(reached, "right")
            total += max(up_to(high, "right") - start, 0.0)
            reached = high
        return total

    def unmatched(epsilon: float) -> float:
        of_mu = excess_over_sets(mu, near, epsilon)
        return max(of_mu, of_mu + nu.mass - mu.mass)

    found = prohorov_between(mu, nu)
    slack = 1e-11
    assert unmatched(found + slack) <= found + 2.0 * slack
    if found > slack:
        assert unmatched(found - slack) > found - 2.0 * slack


@pytest.mark.parametrize("seed", range(5))
def test_a_cdf_is_the_limit_of_its_discretisations(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    mu = Atoms(rng.exponential(size=300), 1.0 / 300.0)
    ages = np.sort(rng.exponential(size=8))
    nu = PiecewiseLinear(ages, np.cumsum(rng.random(8)) / 4.0)
    exact = prohorov_between(mu, nu)
    for cells in (20, 200, 2000):
        points, weights = [ages[0]], [nu.cdf[0]]
        for k in range(7):
            width = (ages[k + 1] - ages[k]) / cells
            points.extend(ages[k] + width * (np.arange(cells) + 0.5))
            weights.extend(np.full(cells, (nu.cdf[k + 1] - nu.cdf[k]) / cells))
        # Each piece of mass moves by at most half a cell.
        bound = np.max(np.diff(ages)) / cells / 2.0
        assert abs(prohorov(mu.positions, mu.weights, points, weights) - exact) <= bound + 1e-12


CLOSED_FORMS: list[tuple[str, Measure, Measure, float]] = [
    ("two atoms near", Atoms([0.0], 1.0), Atoms([0.3], 1.0), 0.3),
    ("two atoms far", Atoms([0.0], 0.7), Atoms([9.0], 0.7), 0.7),
    ("masses differ", Atoms([0.0], 1.0), Atoms([0.1], 0.6), 0.4),
    ("masses differ, far", Atoms([0.0], 1.0), Atoms([5.0], 0.6), 1.0),
    ("zero measure", Atoms([], []), Atoms([0.0, 1.0], 0.3), 0.6),
    ("both zero", Atoms([], []), PiecewiseLinear([0.0, INF], [0.0, 0.0]), 0.0),
    ("part stays, part moves", Atoms([0.0, 1.0], 0.5), Atoms([0.25, 9.0], 0.5), 0.5),
    ("shift of a lattice", Atoms(np.arange(10), 0.1), Atoms(np.arange(10) + 0.04, 0.1), 0.04),
    # Each atom has the next of the other lattice 0.05 away, but for one at either end.
    ("shift by nearly a step", Atoms(np.arange(10), 0.1), Atoms(np.arange(10) + 0.95, 0.1), 0.1),
    ("atom in a uniform law", Atoms([0.5], 1.0), PiecewiseLinear([0, 1], [0, 1]), 1 / 3),
    ("atom at the end", Atoms([0.0], 1.0), PiecewiseLinear([0, 1], [0, 1]), 0.5),
    ("atom of less mass", Atoms([0.5], 0.5), PiecewiseLinear([0, 1], [0, 1]), 0.5),
    (
        "midpoints of a uniform law",
        Atoms((np.arange(8) + 0.5) / 8, 1 / 8),
        PiecewiseLinear([0, 1], [0, 1]),
        1 / 17,
    ),
    ("a jump is an atom", Atoms([0.5], 1.0), PiecewiseLinear([0.5, 0.5, 1.0], [0, 1, 1]), 0.0),
    ("a first value is an atom", Atoms([0.5], 1.0), PiecewiseLinear([0.5, 1.0], [1.0, 1.0]), 0.0),
    ("uniform laws shifted", PiecewiseLinear([0, 1], [0, 1]), PiecewiseLinear([0.2, 1.2], [0, 1]), 0.1),
    # v(ε) = 1/2 − ε: the upper half of the wide law lies beyond 1 + ε.
    ("uniform laws of two widths", PiecewiseLinear([0, 1], [0, 1]), PiecewiseLinear([0, 2], [0, 1]), 1 / 3),
    (
        "mass at infinity is met there",
        PiecewiseLinear([0, INF], [0.5, 0.8]),
        PiecewiseLinear([0, INF], [0.5, 0.7]),
        0.1,
    ),
    ("mass at infinity alone", Atoms([5.0], 0.25), PiecewiseLinear([INF], [0.25]), 0.25),
]


@pytest.mark.parametrize(
    ("mu", "nu", "expected"), [case[1:] for case in CLOSED_FORMS], ids=[c[0] for c in CLOSED_FORMS]
)
def test_closed_forms(mu: Measure, nu: Measure, expected: float) -> None:
    assert abs(prohorov_between(mu, nu) - expected) <= 1e-14
    assert abs(prohorov_between(nu, mu) - expected) <= 1e-14


def test_order_and_repetition_of_atoms_do_not_matter() -> None:
    x, wx = [0.5, 0.1, 0.5, 0.9], [0.25, 0.25, 0.125, 0.0]
    assert prohorov(x, wx, [0.5, 0.1], [0.375, 0.25]) == 0.0
    assert prohorov_to_cdf(x, wx, [0.1, 0.5, 0.5], [0.25, 0.25, 0.625]) == 0.0


# ---- invariants


@given(MEASURES, MEASURES, MEASURES)
@settings(max_examples=300)
def test_metric_axioms(mu: Measure, nu: Measure, xi: Measure) -> None:
    there = prohorov_between(mu, nu)
    assert prohorov_between(mu, mu) <= 1e-15
    assert prohorov_between(nu, mu) == pytest.approx(there, abs=1e-13)
    assert there <= prohorov_between(mu, xi) + prohorov_between(xi, nu) + 1e-12
    assert abs(mu.mass - nu.mass) <= there + 1e-15 <= max(mu.mass, nu.mass) + 2e-15


@given(atoms(), atoms(), st.integers(-16, 16))
def test_distance_is_unchanged_by_a_common_shift(mu: Atoms, nu: Atoms, steps: int) -> None:
    by = steps / 4.0
    moved = prohorov(mu.positions + by, mu.weights, nu.positions + by, nu.weights)
    assert moved == pytest.approx(prohorov_between(mu, nu), abs=1e-14)


@given(st.lists(st.tuples(POSITIONS, POSITIONS), min_size=1, max_size=20))
def test_square_is_at_most_wasserstein(pairs: list[tuple[float, float]]) -> None:
    mu, nu = (Atoms([pair[k] for pair in pairs], 1.0 / len(pairs)) for k in (0, 1))
    assert prohorov_between(mu, nu) ** 2 <= wasserstein(mu, nu) + 1e-14


@given(atoms(), atoms())
def test_atoms_given_as_a_cdf_with_jumps_are_the_same_measure(mu: Atoms, nu: Atoms) -> None:
    as_cdf = PiecewiseLinear(nu.vertices.positions, nu.vertices.values)
    assert prohorov_between(mu, as_cdf) == pytest.approx(prohorov_between(mu, nu), abs=1e-13)


@pytest.mark.parametrize("size", [10**3, 10**5])
def test_equal_atoms_against_their_own_quantiles_reach_the_closed_form(size: int) -> None:
    # n atoms amid n cells of width 1/n: n (1/n − 2ε) = ε.
    x = (np.arange(size) + 0.5) / size
    found = prohorov_to_cdf(x, 1.0 / size, np.linspace(0, 1, 65), np.linspace(0, 1, 65))
    assert abs(found - 1.0 / (1.0 + 2.0 * size)) <= 1e-12


def test_grid_error_of_a_smooth_cdf_bounds_its_distance_from_a_fine_one() -> None:
    def measure(cells: int) -> PiecewiseLinear:
        ages = np.append(np.linspace(0.0, 10.0, cells + 1), INF)
        return PiecewiseLinear(ages, 1.0 - np.exp(-np.minimum(ages, 10.0)))

    for cells in (16, 64, 256):
        true_distance = prohorov_between(measure(cells), measure(16384))
        assert true_distance <= grid_error(measure(cells)) <= 5.0 * true_distance


def test_bits_are_the_same_without_wide_vector_units() -> None:
    program = (
        "import numpy as np, sweep.distances as s; from sweep.laws import parse_law;"
        "r = np.random.default_rng(3); x, y = r.standard_gamma(.5, 30000), r.standard_gamma(.6, 30000);"
        "w = r.random(30000) / 3e4;"
        "c = s.PiecewiseLinear(np.linspace(0, 9, 65), np.linspace(0, 1, 65) ** .5);"
        "a = s.Atoms(x, w); v = s.residual_norm(parse_law('lomax(beta=1.5)'), a, c);"
        "print([z.hex() for z in (s.prohorov(x, w, y, 1 / 3e4), s.prohorov_between(a, c), s.kolmogorov(a, c),"
        "s.wasserstein(a, c), v.value, v.error)])"
    )
    native = printed(program)
    assert native.count("0x") == 6
    assert printed(program, environment=WITHOUT_AVX512) == native


# ---- d_𝕊


def test_state_distance_weighs_levels_by_their_number() -> None:
    fluid = PiecewiseLinear([0.0, 1.0, INF], [0.0, 1.0, 1.0])
    mu = [fluid, Atoms([0.0], 1.0), Atoms([0.0], 0.9)]
    nu = [fluid, Atoms([0.4], 1.0), Atoms([0.0], 0.3)]
    np.testing.assert_allclose(level_distances(mu, nu), [0.0, 0.4, 0.6], rtol=0.0, atol=1e-15)
    assert state_distance(mu, nu) == pytest.approx(0.2, abs=1e-15)


def test_missing_levels_are_zero_measures() -> None:
    assert state_distance([], []) == 0.0
    assert level_distances([], [Atoms([1.0], 0.5)]).tolist() == [0.5]
    assert state_distance([Atoms([1.0], 0.5), Atoms([1.0], 0.25)], []) == 0.5
