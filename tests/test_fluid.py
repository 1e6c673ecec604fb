"""The hydrodynamic solver against exact solutions, and what it must conserve."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import sweep
from sweep.cell import Limit
from sweep.fluid.exact import (
    solve_phase_type,
    solve_phase_type_ages,
    solve_without_completions,
)
from sweep.fluid.mesh import plan_mesh
from sweep.fluid.transient import solve
from sweep.laws import LAWS

NONE = np.empty(0)
EVER = np.array([np.inf])
#: Accuracy of the ODE oracle and of rounding, below which errors are not compared with estimates.
FLOOR = 1e-11
COXIAN = "phase_type(alpha=[0.75, 0.25], T=[[-2, 1], [0, -1]])"
LAWS_IN_PHASES = ("exponential", "erlang(k=3)", "hyperexponential(scv=10)", COXIAN)
CASES = (
    {"d": 1},
    {"d": 2},
    {"d": 5},
    {"d": 2, "fraction": 0.3},
    {"d": 2, "initial": "lengths(2: 0.2, 3: 0.7)"},
)


def solved(limit: Limit, times: list[float], levels: int, tolerance: float = 1e-8) -> dict[str, np.ndarray]:
    return solve(limit, times=np.array(times), levels=levels, snapshots=NONE, ages=EVER, tolerance=tolerance)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", LAWS_IN_PHASES)
def test_phase_type_services_meet_their_ode_to_1e_8(law: str, case: dict[str, object]) -> None:
    # 0.1 and 10 are nodes, 3.3021 lies between nodes.
    times = [0.1, 1.0, 3.3021, 10.0]
    limit = Limit(lam=0.9, G=law, **case)  # type: ignore[arg-type]
    levels = 60 if case["d"] == 1 or "fraction" in case else 12
    exact = solve_phase_type(limit, np.array(times), levels)
    fluid = solved(limit, times, levels)
    error = np.abs(fluid["S"] - exact["S"])
    assert error.max() <= 1e-8
    assert np.all(error <= 3.0 * fluid["S_error"] + FLOOR)
    assert np.abs(fluid["D"] - exact["D"]).max() <= 1e-8
    assert np.abs(fluid["X"] - exact["S"].sum(axis=1)).max() <= 1e-8


def test_a_rate_wrong_by_one_in_a_million_is_told_from_the_exact_one() -> None:
    exact = solve_phase_type(Limit(d=2, lam=0.9, G="erlang(k=3)"), np.array([10.0]), 12)
    wrong = solved(Limit(d=2, lam=0.9 * (1.0 + 1e-6), G="erlang(k=3)"), [10.0], 12)
    assert np.abs(wrong["S"] - exact["S"]).max() > 1e-8


@pytest.mark.parametrize("case", [CASES[1], CASES[4]], ids=str)
@pytest.mark.parametrize("law", LAWS_IN_PHASES)
def test_ages_meet_the_ode_of_those_who_began_late(law: str, case: dict[str, object]) -> None:
    limit = Limit(lam=0.9, G=law, **case)  # type: ignore[arg-type]
    ages = np.array([0.01, 0.5, 1.7321, 2.9])
    exact = solve_phase_type_ages(limit, 3.0, ages, 12)
    # Ages inside a cell have an error O(h³) of their own; 3.00001 is a time between nodes, 1e-5 later.
    bounds = np.array([5e-8, 1e-9, 5e-8, 5e-8])
    for at in (3.0, 3.00001):
        fluid = solve(
            limit, times=np.array([5.0]), levels=12, snapshots=np.array([at]), ages=np.append(ages, np.inf),
            tolerance=1e-8,
        )  # fmt: skip
        assert np.all(np.abs(fluid["nu_cdf"][0, :, :-1] - exact) <= bounds + 2.0 * (at - 3.0))


@pytest.mark.parametrize(
    "law", ["deterministic", "uniform(width=1)", "uniform(width=0.7718281)", "pareto(beta=1.7)"]
)
@pytest.mark.parametrize(("d", "fraction"), [(2, 1.0), (5, 0.5)])
def test_before_the_first_completion_only_arrivals_move_the_queues(law: str, d: int, fraction: float) -> None:
    limit = Limit(d=d, lam=2.0, G=law, fraction=fraction)
    least = limit.G.breakpoints[0]
    times = [0.2 * least, 0.7 * least, least]
    fluid = solved(limit, [*times, 3.0 * least], 8)
    assert np.abs(fluid["S"][:3] - solve_without_completions(limit, np.array(times), 8)).max() <= 1e-8
    assert np.all(fluid["D"][:3] <= 1e-12)


@pytest.mark.parametrize("shape", [0.3, 0.5, 0.7, 1.5, 2.5])
def test_queues_without_arrivals_empty_by_sums_of_services(shape: float) -> None:
    # From queues of 3, the j-th completion of each is a gamma time of shape j k: S_ℓ = P(sum of 4 − ℓ > t).
    times = [0.013, 0.1, 0.5, 1.0, 2.5, 5.0]
    limit = Limit(d=2, lam=1e-12, G=f"gamma(shape={shape})", initial="lengths(3: 1)")
    fluid = solved(limit, times, 3)
    law = [stats.gamma(j * shape, scale=1.0 / shape) for j in (3, 2, 1)]
    S = np.array([[part.sf(t) for part in law] for t in times])
    D = 1.0 - S
    D = D[:, ::-1].cumsum(axis=1)[:, ::-1]
    error = np.abs(fluid["S"] - S)
    assert error.max() <= 1e-8
    assert np.all(error <= 3.0 * fluid["S_error"] + FLOOR)
    assert np.abs(fluid["D"] - D).max() <= 3e-8


def irwin_hall(count: int, x: float) -> float:
    """P(sum of `count` uniforms on [0, 1] ≤ x), the classical alternating sum."""
    terms = ((-1) ** i * math.comb(count, i) * max(x - i, 0.0) ** count for i in range(count + 1))
    return min(sum(terms) / math.factorial(count), 1.0) if x < count else 1.0


@pytest.mark.parametrize(("width", "tolerance"), [(1.0, 1e-8), (0.77, 1e-8), (0.7718281, 1e-6)])
def test_sums_of_uniform_services_are_met_though_breakpoints_lie_inside_cells(
    width: float, tolerance: float
) -> None:
    # 1 ± 0.7718281/2 have no common step: breakpoints lie inside cells, and the estimate must show it.
    times = [0.5, 0.7, 1.0, 1.3921, 1.9, 2.6, 3.3, 4.0]
    limit = Limit(d=2, lam=1e-12, G=f"uniform(width={width!r})", initial="lengths(3: 1)")
    assert plan_mesh(limit, 4.0, times).aligned == (width != 0.7718281)
    fluid = solved(limit, times, 3, tolerance)
    least = 1.0 - width / 2.0
    S = np.array([[1.0 - irwin_hall(j, max(t - j * least, 0.0) / width) for j in (3, 2, 1)] for t in times])
    error = np.abs(fluid["S"] - S)
    assert error.max() <= tolerance
    assert np.all(error <= 3.0 * fluid["S_error"] + FLOOR)


def test_deterministic_services_that_begin_together_end_together() -> None:
    # Queues of 2 and 3, fresh at 0: nothing leaves before t = 1, then all at once; D_1 jumps from 0 to 1.
    limit = Limit(d=2, lam=0.5, G="deterministic", initial="lengths(2: 0.25, 3: 0.75)")
    fluid = solved(limit, [0.5, 0.9999, 1.0, 1.5, 2.0], 6)
    assert np.all(fluid["D"][:2] == 0.0)
    # At t = 1 every initial queue completes a job; those of length ≥ ℓ then are those of length ≥ ℓ just
    # before.
    assert fluid["D"][2, 0] == pytest.approx(1.0, abs=1e-12)
    assert fluid["S"][2] == pytest.approx(np.append(fluid["D"][2, 1:], 0.0), abs=1e-9)
    assert fluid["D"][2, 1] == pytest.approx(1.0, abs=1e-12)
    assert fluid["D"][3, 0] == pytest.approx(1.0, abs=1e-12)
    # All servers are busy until t = 2, when all complete again.
    assert fluid["D"][4, 0] == pytest.approx(2.0, abs=1e-9)
    # Until t = 1 arrivals alone move the queues, all of which are of length 2 at least: S_3' = λ(1 − S_3²).
    third = np.tanh(0.5 * np.array([0.5, 0.9999, 1.0]) + math.atanh(0.75))
    assert fluid["S"][:2, :3] == pytest.approx(np.array([[1.0, 1.0, S] for S in third[:2]]), abs=1e-8)
    assert fluid["S"][2, :2] == pytest.approx([1.0, third[2]], abs=1e-8)


def test_services_that_began_together_are_an_atom_of_the_ages() -> None:
    limit = Limit(d=2, lam=0.5, G="deterministic", initial="lengths(2: 0.25, 3: 0.75)")
    ages = np.array([0.1, 0.4999, 0.5, np.inf])
    fluid = solve(
        limit, times=np.array([1.5]), levels=2, snapshots=np.array([0.5, 1.5]), ages=ages, tolerance=1e-8
    )
    # All servers stay busy, so that all jobs in service began at 0, and again at 1.
    assert fluid["nu_cdf"][:, 0, :2] == pytest.approx(0.0, abs=1e-12)
    assert fluid["nu_cdf"][:, 0, 2:] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    "law", ["deterministic", "uniform(width=1)", "gamma(shape=0.5)", "weibull(shape=1.5)", "erlang(k=3)"]
)
def test_one_choice_tends_to_the_pollaczek_khinchine_mean(law: str) -> None:
    # M/G/1: ρ + ρ²(1 + c²)/(2(1 − ρ)) jobs; at ρ = 0.1 the approach is faster than e^{−t/4}.
    rho = 0.1
    limit = Limit(d=1, lam=rho, G=law)
    fluid = solved(limit, [60.0], 1)
    mean = rho + rho**2 * (1.0 + limit.G.variance) / (2.0 * (1.0 - rho))
    assert fluid["X"][0] == pytest.approx(mean, abs=2e-8)
    assert fluid["S"][0, 0] == pytest.approx(rho, abs=2e-8)


LAW_TEXTS = (
    "exponential",
    "erlang(k=4)",
    "gamma(shape=0.5)",
    "gamma(shape=2.5)",
    "hyperexponential(scv=4)",
    "lomax(beta=1.5)",
    "pareto(beta=1.5)",
    "weibull(shape=0.5)",
    "lognormal(sigma=1)",
    "uniform(width=1)",
    "uniform(width=0.77)",
    "deterministic",
    COXIAN,
)


def test_every_law_of_the_table_is_solved_in_these_tests() -> None:
    # Traces, which need a file, are solved by the two tests below.
    assert {text.partition("(")[0] for text in LAW_TEXTS} | {"trace"} == set(LAWS)


def test_a_trace_of_few_values_is_solved_as_atoms_at_nodes(tmp_path: Path) -> None:
    # Services 1/2 or 2 (odds 2 : 1): without arrivals, j of them end by t with the probability of a sum of j.
    (tmp_path / "trace.txt").write_text("1\n1\n4\n")
    limit = Limit(d=2, lam=1e-12, G=f"trace({tmp_path / 'trace.txt'})", initial="lengths(2: 1)")
    times = [0.4, 0.5, 0.99, 1.0, 1.9, 2.0, 2.49, 2.5, 3.9, 4.0]
    fluid = solved(limit, times, 2)
    one = [2.0 / 3.0 * (t >= 0.5) + 1.0 / 3.0 * (t >= 2.0) for t in times]
    two = [4.0 / 9.0 * (t >= 1.0) + 4.0 / 9.0 * (t >= 2.5) + 1.0 / 9.0 * (t >= 4.0) for t in times]
    assert np.abs(fluid["S"] - np.column_stack([1.0 - np.array(two), 1.0 - np.array(one)])).max() <= 1e-9


def test_a_trace_of_many_values_nears_the_law_it_was_drawn_from(tmp_path: Path) -> None:
    # Quantiles of the uniform law at the middles of 400 classes: Ḡ within 1/800 of its own.
    values = 0.5 + (np.arange(400) + 0.5) / 400.0
    (tmp_path / "trace.txt").write_text("\n".join(map(repr, values.tolist())))
    common = {"d": 2, "lam": 0.9, "times": [1.0, 2.0, 4.0], "levels": 3, "tolerance": 1e-4}
    trace = sweep.solve_fluid(**common, G=f"trace({tmp_path / 'trace.txt'})")
    uniform = sweep.solve_fluid(**common, G="uniform(width=1)")
    assert np.abs(trace.S.values - uniform.S.values).max() <= 2e-3


@settings(max_examples=25)
@given(
    law=st.sampled_from(LAW_TEXTS),
    d=st.integers(1, 6),
    lam=st.floats(0.05, 2.0),
    fraction=st.floats(0.0, 1.0),
    initial=st.sampled_from(["empty", "lengths(1: 0.5)", "lengths(2: 0.2, 4: 0.8)"]),
)
def test_paths_keep_the_order_of_levels_and_conserve_jobs(
    law: str, d: int, lam: float, fraction: float, initial: str
) -> None:
    limit = Limit(d=d, lam=lam, G=law, fraction=fraction, initial=initial)
    times = np.array([0.0, 0.4, 1.0, 1.3, 2.0, 3.0])
    ages = np.array([0.0, 0.3, 1.0, 1.7, np.inf])
    fluid = solve(limit, times=times, levels=40, snapshots=np.array([1.3, 3.0]), ages=ages, tolerance=1e-3)
    S, D, X, nu = fluid["S"], fluid["D"], fluid["X"], fluid["nu_cdf"]
    slack = 1e-3
    assert np.all((S >= 0.0) & (S <= 1.0))
    assert np.all(np.diff(S, axis=1) <= 0.0)
    assert np.all(np.diff(D, axis=1) <= slack)
    assert np.all(np.diff(D, axis=0) >= -slack)
    tails = limit.initial.tails(40)
    assert S[0] == pytest.approx(tails, abs=1e-15)
    # Jobs are conserved to rounding, and X is the sum of S but for its error.
    assert tails.sum() + limit.lam * times - D[:, 0] == pytest.approx(X, abs=1e-13)
    assert pytest.approx(S.sum(axis=1), abs=40.0 * slack) == X
    assert np.all(np.diff(nu, axis=2) >= 0.0)
    assert np.array_equal(nu[:, :, -1], S[[3, 5]])


@pytest.mark.parametrize("law", LAW_TEXTS)
def test_raw_paths_conserve_jobs_and_complete_them_in_order(law: str) -> None:
    from sweep.fluid.path import trace

    for initial in ("empty", "lengths(2: 0.2, 4: 0.8)"):
        limit = Limit(d=2, lam=0.9, G=law, initial=initial)
        path = trace(limit, plan_mesh(limit, 3.0, []), 1, 14)
        assert np.all(np.diff(path.D, axis=0) >= 0.0)
        assert np.all(np.diff(path.D, axis=1) <= 1e-15)
        assert np.all(np.diff(path.S, axis=1) <= 1e-15)
        assert path.S.max() <= 1.0 + 1e-14
        jobs = path.S.sum(axis=1) + path.overflow
        assert limit.initial.tails(14).sum() + 0.9 * path.nodes - path.D[:, 0] == pytest.approx(
            jobs, abs=1e-12
        )


def test_times_asked_for_do_not_move_the_result_beyond_its_error() -> None:
    common = {"d": 2, "lam": 0.9, "G": "uniform(width=1)"}
    few = sweep.solve_fluid(**common, times=[1.0, 2.37, 5.0 / 3.0 * 2.0, 5.0], levels=4)
    many = sweep.solve_fluid(**common, times=np.linspace(0.0, 5.0, 501), levels=4)
    both = many.sel(t=[1.0, 2.37, 5.0], method="nearest")
    few = few.isel(t=[0, 1, 3])
    assert np.all(np.abs(few.S.values - both.S.values) <= few.S_error.values + both.S_error.values)
