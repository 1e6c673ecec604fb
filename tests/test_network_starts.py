"""Servers at time 0: texts, exact lengths and ages, residual services in law, bits on every processor."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.cell import Cell, Limit
from sweep.explicit import Explicit
from sweep.fluid.invariant import solve_invariant
from sweep.initial import LONGEST, Initial, Lengths, Scaled, as_initial, parse_initial
from sweep.laws import Law, parse_law
from sweep.network import start
from sweep.network.length_biased import equilibrium_times
from sweep.network.residuals import decreasing_root, residual_times
from sweep.network.simulate import simulate
from sweep.network.start import lengths_at_start, servers_at_start
from tests.laws_table import TRACE
from tests.processors import NATIVE, WITHOUT_AVX512, printed

#: |z| allowed at each of the quantiles: exceeded with probability 6e-5 by one count of an exact sampler.
BOUND = 4.0
SHARES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
#: One law of each kind with a density, its parameters moderate: a scale 5 % off must show.
LAWS = (
    "exponential",
    "erlang(k=4)",
    "gamma(shape=0.5)",
    "hyperexponential(scv=4)",
    "lomax(beta=1.5)",
    "pareto(beta=1.5)",
    "weibull(shape=0.5)",
    "weibull(shape=2)",
    "lognormal(sigma=1)",
    "uniform(width=1.5)",
    "phase_type(alpha=[0, 1], T=[[-5, 0], [1.25, -1.25]])",
)
COMMON: dict[str, Any] = {"N": 10, "d": 2, "lam": 0.8, "G": "exponential"}


def largest_z(values: np.ndarray, above: Callable[[np.ndarray], np.ndarray]) -> float:
    """Largest |z| of the numbers of values whose tail probability is at most each share."""
    deviation = np.sqrt(values.size * SHARES * (1.0 - SHARES))
    beyond = (above(values)[:, None] <= SHARES).sum(axis=0)
    return float(np.abs((beyond - values.size * SHARES) / deviation).max())


def age_of(law: Law, share: float) -> float:
    """The age that a share of services exceeds."""
    root = decreasing_root(law.log_survival, np.array([math.log(share)]), np.zeros(1), law.support_end)
    return float(root[0])


@pytest.mark.parametrize("share", [0.6, 1e-6])
@pytest.mark.parametrize("text", LAWS)
def test_what_is_left_of_a_service_follows_its_law_given_the_age(text: str, share: float) -> None:
    """Ages met by drawing and by solving; residuals 5 % longer fail."""
    slow = share < 0.5 and text.startswith(("erlang", "gamma", "phase"))  # solved for, and not lightly
    law, size = parse_law(text), 20_000 if slow else 100_000
    ages = np.full(size, age_of(law, share))
    residuals = residual_times(law, np.random.default_rng(5), ages)
    assert (residuals > 0.0).all()

    def above(values: np.ndarray) -> np.ndarray:
        logs = law.log_survival(ages + values) - law.log_survival(ages)
        return np.exp(logs)

    assert largest_z(residuals, above) <= BOUND
    assert largest_z(1.05 * residuals, above) > BOUND


@pytest.mark.parametrize("text", [*LAWS, "lomax(beta=2.5)", "deterministic", TRACE])
def test_ages_and_residuals_in_equilibrium_have_density_survival(text: str) -> None:
    """Both have the tail ∫_x^∞ Ḡ, and P(age > x, residual > y) is that at x + y; 5 % longer ones fail."""
    law, size = parse_law(text), 40_000 if text.startswith("phase") else 200_000
    ages, residuals = equilibrium_times(law, np.random.default_rng(6), size)
    for values in (ages, residuals):
        assert largest_z(values, law.integrated_tail) <= BOUND
        assert largest_z(1.05 * values, law.integrated_tail) > BOUND
    for x, y in ((0.2, 0.3), (0.5, 0.1)):
        both = float(law.integrated_tail(x + y))
        count = int(((ages > x) & (residuals > y)).sum())
        assert abs(count - size * both) <= BOUND * math.sqrt(size * both * (1.0 - both))


def test_residuals_of_laws_with_atoms_end_at_them() -> None:
    rng, law = np.random.default_rng(1), parse_law(TRACE)
    ages = np.repeat([0.0, 0.8, float(np.sort(law.values)[-2])], 4000)  # type: ignore[attr-defined]
    ends = ages + residual_times(law, rng, ages)
    nearest = law.values[np.abs(law.values - ends[:, None]).argmin(axis=1)]  # type: ignore[attr-defined]
    assert np.allclose(ends, nearest, rtol=1e-15, atol=1e-15)
    assert (ends > ages).all()
    for age in np.unique(ages):
        after = law.values[law.values > age]  # type: ignore[attr-defined]
        mean, error = after.mean(), after.std() / math.sqrt(4000)
        assert abs(ends[ages == age].mean() - mean) <= BOUND * error + 1e-12
    assert residual_times(parse_law("deterministic"), rng, np.array([0.0, 0.3])).tolist() == [1.0, 0.7]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=6), st.sampled_from(LAWS))
def test_roots_meet_their_targets_whatever_else_is_solved_for(targets: list[float], text: str) -> None:
    law, goals = parse_law(text), np.array(targets)
    roots = decreasing_root(law.integrated_tail, goals, np.zeros(goals.size), law.support_end)
    assert np.allclose(law.integrated_tail(roots), goals, rtol=1e-10, atol=0.0)
    alone = [
        decreasing_root(law.integrated_tail, goals[i : i + 1], np.zeros(1), law.support_end)[0]
        for i in range(goals.size)
    ]
    assert roots.tolist() == alone


# ---- texts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "lengths(2: 0.2, 3: 0.8, ages=equilibrium)",
        "scaled(empty, m=100)",
        "scaled(law(lomax(beta=2.5), mean=0.7), m=12.5, exchangeable=false, fixed=[1.5, 2])",
        "scaled(points(0.5: 0.2, 2.0: 0.8), m=9, fixed=[0])",
        "scaled(stationary(b1=-2.0, b0=1.0, ell=2, sigma2=2.0), m=400)",
    ],
)
def test_starts_read_back_to_themselves(text: str) -> None:
    initial = parse_initial(text)
    assert str(initial) == text
    assert parse_initial(str(initial)) == initial
    assert as_initial(initial) is initial


def test_options_of_a_scaled_start_come_in_any_order() -> None:
    first = parse_initial("scaled( point(x=1.50) ,fixed=[ 1 ], exchangeable = false, m = 4.0 )")
    assert first == Scaled(start="point(x=1.5)", m=4, exchangeable=False, fixed=(1.0,))
    assert parse_initial("lengths(2: 0.5, ages=fresh)") == parse_initial("lengths(2: 0.5)")
    assert parse_initial("lengths(2: 0, ages=equilibrium)") == Lengths()


# ---- lengths and ages -------------------------------------------------------------------------------------


def servers(cell: Cell, replica: int = 0) -> start.Servers:
    """All servers at once; fresh services last 2."""
    groups = list(servers_at_start(cell, 7, replica, lambda size: np.full(size, 2.0)))
    parts = [np.concatenate(arrays) for arrays in list(zip(*groups, strict=True))[1:]]
    return start.Servers(0, *parts)


def test_proportions_are_exact_whatever_the_ages() -> None:
    for ages in ("fresh", "equilibrium"):
        cell = Cell(**COMMON, initial=f"lengths(1: 0.3, 4: 0.2, ages={ages})")
        found = servers(cell)
        assert found.lengths.tolist() == [4, 4, 1, 1, 1, 0, 0, 0, 0, 0]
        assert np.isinf(found.completions[5:]).all()
        assert not found.ages[5:].any()
        assert bool(found.ages[:5].all()) == (ages == "equilibrium")
        assert lengths_at_start(cell, 7, 0).tolist() == [5, 3, 0, 0, 2]
    assert servers(Cell(**COMMON, initial="lengths(1: 0.3)")).completions[:4].tolist() == [2, 2, 2, math.inf]


def test_groups_of_servers_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(**COMMON, initial="lengths(1: 0.3, 4: 0.2)")
    whole = servers(cell)
    monkeypatch.setattr(start, "GROUP", 3)
    assert all(np.array_equal(a, b) for a, b in zip(servers(cell), whole, strict=True))
    assert [group.first for group in servers_at_start(cell, 7, 0, np.ones)] == [0, 3, 6, 9]


@pytest.mark.parametrize(
    ("G", "d", "fraction"), [("exponential", 2, 1.0), ("erlang(k=4)", 3, 1.0), ("lomax(beta=1.5)", 2, 0.5)]
)
def test_servers_of_the_invariant_state_are_independent_draws_from_it(
    G: str, d: int, fraction: float
) -> None:
    """Lengths against S_ℓ, ages at long queues against their cdf; another λ, 2 % off, fails."""
    cell = Cell(N=60_000, d=d, lam=0.8, G=G, fraction=fraction, initial="invariant")
    found = servers(cell)

    def scores(state: Any) -> np.ndarray:
        levels = [level for level in range(1, min(state.levels, 8) + 1) if cell.N * state.S[level - 1] > 100]
        counts = np.array([(found.lengths >= level).sum() for level in levels])
        shares = state.S[: len(levels)]
        return np.asarray(np.abs(counts - cell.N * shares) / np.sqrt(cell.N * shares * (1.0 - shares)))

    state = solve_invariant(cell.limit)
    assert scores(state).max() <= BOUND
    assert scores(solve_invariant(Limit(d=d, lam=0.816, G=G, fraction=fraction))).max() > BOUND
    for level in (1, 2):
        ages = found.ages[found.lengths >= level][:10_000]
        assert largest_z(ages, lambda x, k=level: 1.0 - state.age_cdf(k, x)) <= BOUND
    left = found.completions[found.lengths > 0]
    assert largest_z(left, cell.G.integrated_tail) <= BOUND
    assert not found.ages[found.lengths == 0].any()


def test_long_queues_of_the_invariant_state_follow_its_power_law() -> None:
    """M/G/1 with β = 1.5: S_ℓ ~ ℓ^{−1/2}; beyond the levels held lengths go on as S_ℓ does there."""
    cell = Cell(N=200_000, d=1, lam=0.7, G="lomax(beta=1.5)", initial="invariant")
    lengths = servers(cell).lengths
    levels = [400, 1600, 6400, 25600, 102400]
    counts = np.array([(lengths >= level).sum() for level in levels])
    halvings = np.log2(counts[:-1] / counts[1:])
    # Counts of which the later is part of the former: variance of log2 of the ratio.
    error = np.sqrt(1.0 / counts[1:] - 1.0 / counts[:-1]) / math.log(2.0)
    assert (np.abs(halvings - 1.0) <= BOUND * error + 0.02).all()
    assert lengths.max() <= LONGEST


# ---- arrays -----------------------------------------------------------------------------------------------


def test_arrays_are_the_servers_in_their_order() -> None:
    cell = Cell(**{**COMMON, "N": 3, "G": "deterministic"}, initial=([1, 0, 2], [0.25, 0.0, 0.5]))
    found = servers(cell)
    assert (found.lengths.tolist(), found.ages.tolist()) == ([1, 0, 2], [0.25, 0.0, 0.5])
    assert found.completions.tolist() == [0.75, math.inf, 0.5]
    data = simulate(
        N=3,
        d=2,
        lam=1e-9,
        G="deterministic",
        times=[0.4, 0.5, 0.8, 1.5],
        seed=1,
        initial=(np.array([1, 0, 2]), np.array([0.25, 0.0, 0.5])),
        snapshots=[0.0, 0.6],
        ages=[0.1, 0.25, 0.5],
    )
    assert np.allclose(data.X * 3, [3, 2, 1, 0])
    assert np.allclose(data.D[:, 1] * 3, [0, 1, 1, 1])
    assert np.allclose(data.nu_cdf[0, 0] * 3, [0, 1, 2, 2])
    assert np.allclose(data.nu_cdf[1, 0] * 3, [1, 1, 1, 2])  # ages 0.1 and 0.85


def test_arrays_are_values() -> None:
    first = Explicit([1, 0], [0.5, 0.0])
    assert first == Explicit(np.array([1.0, 0.0]), np.array([0.5, -0.0]))
    assert hash(first) == hash(Explicit([1, 0], [0.5, 0.0]))
    assert first != Explicit([1, 0], [0.25, 0.0])
    assert first != "explicit"
    assert (
        Cell(**{**COMMON, "N": 2}, initial=first).key
        == Cell(**{**COMMON, "N": 2}, initial=([1, 0], [0.5, 0])).key
    )
    assert not first.fresh
    assert Explicit([1, 0], [0, 0]).fresh
    assert first.longest == 1


def test_the_limit_starts_from_the_shares_of_the_arrays() -> None:
    profile = Explicit([2, 1, 0, 1], [0.5, 0.0, 0.0, 0.5]).profile()
    assert profile.atoms == ((0.0, (0.25, 0.0)), (0.5, (0.5, 0.25)))
    assert profile.tails(2).tolist() == [0.75, 0.25]
    limit = Cell(**{**COMMON, "N": 4}, initial=([2, 1, 0, 1], [0.5, 0.0, 0.0, 0.5])).limit
    assert limit.initial == profile
    assert Explicit([0, 0], [0, 0]).profile().longest == 0


# ---- heavy traffic ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("N", [7, 1000])
def test_mid_quantiles_of_the_law_of_the_start_give_the_lengths(N: int) -> None:
    """F⁻¹(p) = −0.7 log(1 − p) for an exponential law of mean 0.7."""
    initial = Scaled(start="law(exponential, mean=0.7)", m=400, exchangeable=False, fixed=(1.5, 0.0))
    found = servers(Cell(**{**COMMON, "N": N}, initial=initial))
    positions = [-0.7 * math.log1p(-(i + 0.5) / N) for i in range(N)]
    expected = [30, 0, *(math.floor(20.0 * x) for x in positions[2:])]
    assert found.lengths.tolist() == expected
    assert not found.ages.any()
    assert (found.completions[found.lengths > 0] == 2.0).all()


def test_point_masses_of_the_start_come_in_exact_proportions() -> None:
    initial = "scaled(points(0.5: 0.25, 2: 0.25), m=4, exchangeable=false)"
    cell = Cell(**{**COMMON, "N": 8}, initial=initial)
    assert servers(cell).lengths.tolist() == [0, 0, 0, 0, 1, 1, 4, 4]
    assert lengths_at_start(cell, 7, 0).tolist() == [4, 2, 0, 0, 2]


def test_exchangeable_queues_are_independent_draws() -> None:
    """Lengths ≥ k with probability e^{−k/(0.7 √m)}; a mean of X_0 5 % off fails."""
    cell = Cell(**{**COMMON, "N": 100_000}, initial="scaled(law(exponential, mean=0.7), m=100, fixed=[5])")
    first, second = servers(cell, 0).lengths, servers(cell, 1).lengths
    assert first[0] == second[0] == 50
    assert not np.array_equal(first, second)

    def score(mean: float) -> float:
        k = np.array([1, 5, 10, 20])
        shares = np.array([math.exp(-step / (10.0 * mean)) for step in k])
        counts = (first[:, None] >= k).sum(axis=0)
        return float(
            np.abs((counts - first.size * shares) / np.sqrt(first.size * shares * (1 - shares))).max()
        )

    assert score(0.7) <= BOUND
    assert score(0.735) > BOUND
    points = "scaled(points(1: 0.5, 3: 0.5), m=1)"  # as many points as servers are still drawn
    lengths = servers(Cell(**{**COMMON, "N": 2}, initial=points)).lengths
    assert set(lengths.tolist()) <= {1, 3}


# ---- bits -------------------------------------------------------------------------------------------------

BITS = """
import hashlib, json, sys
import numpy as np
from sweep.cell import Cell
from sweep.network.simulate import run_path
found = {}
for law in json.loads(sys.argv[1]):
    for initial, arrivals in (
        ("invariant", f"renewal({law}, age=0.3)"),
        ("lengths(2: 0.5, ages=equilibrium)", f"renewal({law}, age=stationary)"),
        (([2] * 20 + [0] * 20, [0.01 * k for k in range(20)] + [0] * 20), "profile(0: 1, 0.7: 3, 1: 0.5)"),
        ("scaled(stationary(b1=-2.0, b0=1.0, ell=2, sigma2=2.0), m=9)", "exponential"),
        ("scaled(law(lomax(beta=2.5), mean=0.7), m=9, exchangeable=false)", "exponential"),
    ):
        cell = Cell(N=40, d=2, lam=0.9, G=law, arrivals=arrivals, initial=initial)
        run = run_path(
            cell, times=np.linspace(0, 2, 9), seed=5, replica=0, levels=6, snapshots=np.array([0.0, 1.5])
        )
        digest = hashlib.sha256(run.ages.tobytes() + run.lengths.tobytes())
        for values in run.arrays(np.array([0.1, 0.5, np.inf])).values():
            digest.update(np.ascontiguousarray(values).tobytes())
        found[f"{law} {initial} {arrivals}"] = digest.hexdigest()
print(json.dumps(found))
"""


def bits(laws: list[str], environment: Mapping[str, str] = NATIVE) -> dict[str, str]:
    found: dict[str, str] = json.loads(printed(BITS, json.dumps(laws), environment=environment))
    return found


def test_bits_from_every_start_do_not_depend_on_vector_units() -> None:
    laws = [*LAWS, "deterministic", TRACE]
    native = bits(laws)
    assert len(native) == 5 * len(laws)
    assert bits(laws, WITHOUT_AVX512) == native


def test_every_kind_of_start_is_an_initial_state() -> None:
    kinds = {type(parse_initial(text)) for text in ("empty", "invariant", "scaled(empty, m=1)")} | {Explicit}
    assert all(issubclass(kind, Initial) for kind in kinds)
