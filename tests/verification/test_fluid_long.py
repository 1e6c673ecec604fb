"""The limit over long times: against ODEs, invariant states, published values, and at what cost."""

from __future__ import annotations

import csv
from pathlib import Path as File
from typing import Any

import numpy as np
import pytest

import sweep
from sweep.cell import Limit
from sweep.fluid import transient
from sweep.fluid.exact import solve_phase_type
from sweep.fluid.mesh import plan_mesh
from sweep.fluid.path import Path, trace
from sweep.fluid.transient import solve

REFERENCE = File(__file__).parent.parent / "reference"
#: Laws and the time by which λ = 0.7 has brought them within 1e-7 of their invariant state.
LIMITS = {
    "exponential": 160.0,
    "erlang(k=4)": 100.0,
    "hyperexponential(scv=10)": 800.0,
    "gamma(shape=0.5)": 280.0,
    "uniform(width=1)": 80.0,
    "deterministic": 80.0,
}


def at_the_end(limit: Limit, horizon: float, tolerance: float) -> dict[str, np.ndarray]:
    times, none = np.array([horizon / 10.0, horizon]), np.empty(0)
    return solve(limit, times=times, levels=8, snapshots=none, ages=np.array([np.inf]), tolerance=tolerance)


@pytest.mark.parametrize("law", ["exponential", "erlang(k=4)", "hyperexponential(scv=4)"])
def test_phase_type_services_meet_their_ode_at_ten(law: str) -> None:
    limit = Limit(d=2, lam=0.9, G=law)
    fluid = at_the_end(limit, 10.0, 1e-8)
    exact = solve_phase_type(limit, np.array([1.0, 10.0]), 14)["S"][:, :8]
    assert np.abs(fluid["S"] - exact).max() <= 1e-8


def test_a_long_path_is_exact_and_costs_as_much_a_step_as_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = Limit(d=2, lam=0.9, G="exponential")
    exact = solve_phase_type(limit, np.array([100.0, 1000.0]), 14)["S"][:, :8]
    fluid = at_the_end(limit, 1000.0, 1e-6)
    error = np.abs(fluid["S"] - exact)
    assert error.max() <= 1e-6
    assert np.all(error <= 3.0 * fluid["S_error"] + 1e-11)
    # Work is counted in cell updates, not timed: a step costs twice and a half what it does up to T = 10;
    # without merging, thirteen times.
    updates: list[float] = []

    def counted(*arguments: Any, **options: Any) -> Path:
        path = trace(*arguments, **options)
        updates.append(transient.work(path))
        return path

    monkeypatch.setattr(transient, "trace", counted)

    def work(horizon: float) -> float:
        updates.clear()
        at_the_end(limit, horizon, 1e-6)
        return sum(updates)

    short = work(10.0)
    assert 0.0 < work(1000.0) <= 300.0 * short
    monkeypatch.setattr("sweep.fluid.path._LONG", 10**9)
    assert work(1000.0) > 600.0 * short


@pytest.mark.parametrize("law", LIMITS)
def test_long_times_lead_to_the_invariant_state(law: str) -> None:
    fluid = at_the_end(Limit(d=2, lam=0.7, G=law), LIMITS[law], 2e-8)
    state = sweep.invariant_state(d=2, lam=0.7, G=law, levels=8)
    assert np.abs(fluid["S"][-1] - state.S.values).max() <= 1e-7
    assert np.abs(fluid["S"][0] - state.S.values).max() > 1e-4


@pytest.mark.parametrize("beta", [1.5, 1.7])
def test_heavy_tails_approach_their_invariant_state_like_a_power_of_time(beta: float) -> None:
    times = [125.0, 250.0, 500.0, 1000.0]
    fluid = sweep.solve_fluid(d=2, lam=0.5, G=f"lomax(beta={beta})", times=times, levels=1, tolerance=1e-6)
    local = np.diff(np.log2(0.5 - fluid.S.values[:, 0]))
    # λ − S_1 ~ t^{−(β−1)}, from above.
    assert np.all(np.diff(local) > 0.0)
    assert -(beta - 1.0) - 0.02 <= local[-1] <= -(beta - 1.0)


@pytest.mark.parametrize(
    "law", ["exponential", "lomax(beta=1.5)", "pareto(beta=1.5)", "gamma(shape=0.5)", "lognormal(sigma=1)"]
)
@pytest.mark.parametrize("initial", ["empty", "lengths(2: 0.5)", "invariant"])
def test_merged_births_change_nothing(monkeypatch: pytest.MonkeyPatch, law: str, initial: str) -> None:
    limit = Limit(d=2, lam=0.9, G=law, initial=initial)
    mesh = plan_mesh(limit, 70.0, [])
    monkeypatch.setattr("sweep.fluid.path._LONG", 10**9)
    whole = trace(limit, mesh, 0, 8)
    monkeypatch.setattr("sweep.fluid.path._LONG", 0)
    merged = trace(limit, mesh, 0, 8)
    if not mesh.layer:
        assert merged.merging > 0.0
        assert merged.columns < 0.6 * whole.nodes.size
    assert np.abs(merged.S - whole.S).max() <= merged.merging + 1e-14
    assert np.abs(merged.D - whole.D).max() <= 70.0 * (merged.merging + 1e-14)


def test_merging_waits_until_the_law_is_smooth() -> None:
    from sweep.fluid.past import least_ages
    from sweep.laws import parse_law

    # Steps of 1/16, intervals of 2: exponentials at once, a kink at 3 lies before all intervals merged.
    smooth = least_ages(parse_law("lomax(beta=3)"), 1.0 / 16.0, 4096)
    kinked = least_ages(parse_law("pareto(beta=1.2)"), 1.0 / 16.0, 4096)
    assert len(smooth) >= 3
    assert np.all(np.diff(smooth) > 0)
    assert kinked[0] / 16.0 >= parse_law("pareto(beta=1.2)").breakpoints[0]
    # A narrow law is over before it is smooth at such a width.
    assert least_ages(parse_law("erlang(k=400)"), 1.0 / 16.0, 64) == []


def test_the_published_mean_field_is_met_to_its_digits() -> None:
    with (REFERENCE / "transient_two_thirds.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    fluid = sweep.solve_fluid(
        d=2, lam=0.9, G="exponential", times=[float(row["t"]) for row in rows],
        initial="lengths(2: 0.2, 3: 0.8)",
    )  # fmt: skip
    assert fluid.X.values == pytest.approx([float(row["mean_field"]) for row in rows], abs=1e-4)
