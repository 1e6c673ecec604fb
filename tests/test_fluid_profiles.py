"""The limit under a rate of arrivals that follows time, and the two methods that solve for it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sweep
from sweep.cell import Limit
from sweep.errors import AccuracyError
from sweep.fluid import exact
from sweep.fluid.mesh import plan_mesh

TIMES = [0.0, 1.0, 3.3, 5.0, 10.0]
STEPS = "profile(0: 1, 2: 1.5, 4: 0.5)"
PERIODIC = "profile(0: 1.5, 5: 0.5, period=10)"
COXIAN = "phase_type(alpha=[0.75, 0.25], T=[[-2, 1], [0, -1]])"


@pytest.mark.parametrize("initial", ["empty", "lengths(2: 0.5)"])
@pytest.mark.parametrize("arrivals", [STEPS, PERIODIC, "profile(0: 1, 1: 0, 2.5: 2)"])
@pytest.mark.parametrize("law", ["exponential", "erlang(k=4)", COXIAN])
def test_phase_type_services_meet_their_ode_under_a_profile(law: str, arrivals: str, initial: str) -> None:
    common = {"d": 2, "lam": 0.9, "G": law, "times": TIMES, "levels": 8, "arrivals": arrivals}
    fluid = sweep.solve_fluid(**common, initial=initial)
    exact = sweep.solve_fluid(**common, initial=initial, method="ode")
    error = np.abs(fluid.S - exact.S).values
    assert error.max() <= 1e-9
    assert np.all(error <= 3.0 * fluid.S_error.values + exact.S_error.values)
    assert np.abs(fluid.D - exact.D).max() <= 1e-9
    assert np.abs(fluid.virtual_wait - exact.virtual_wait).max() <= 1e-9
    assert fluid.X.values == pytest.approx(exact.X.values, abs=1e-9)
    assert fluid.E.values.tolist() == exact.E.values.tolist()


def test_arrivals_are_the_integral_of_their_rate() -> None:
    fluid = sweep.solve_fluid(d=2, lam=0.9, G="lomax(beta=1.5)", times=TIMES, arrivals=STEPS)
    assert fluid.E.values == pytest.approx([0.0, 0.9, 0.9 * 3.95, 0.9 * 5.5, 0.9 * 8.0], rel=1e-15)
    # Jobs are conserved: all that came are there or completed.
    assert (fluid.E - fluid.D.sel(level=1)).values == pytest.approx(fluid.X.values, abs=1e-12)


def test_before_the_first_completion_queues_follow_the_integrated_rate() -> None:
    # d = 2: S_1' = λ(t)(1 − S_1²), so that S_1 = tanh ∫λ.
    fluid = sweep.solve_fluid(
        d=2, lam=0.9, G="deterministic", times=[0.3, 0.5, 1.0], arrivals="profile(0: 2, 0.25: 0.5)"
    )
    exact = [math.tanh(0.9 * (0.5 + 0.5 * (t - 0.25))) for t in (0.3, 0.5, 1.0)]
    assert fluid.S.values[:, 0] == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("law", ["lomax(beta=1.5)", "gamma(shape=0.5)", "uniform(width=1)"])
def test_a_profile_of_one_is_no_profile(law: str) -> None:
    common = {"d": 2, "lam": 0.9, "G": law, "times": [1.0, 4.0], "levels": 4}
    one = sweep.solve_fluid(**common, arrivals="profile(0: 1)")
    assert np.abs(one.S - sweep.solve_fluid(**common).S).max() <= 1e-14
    # The same rate over half the time, from another λ.
    half = sweep.solve_fluid(**{**common, "lam": 1.8}, arrivals="profile(0: 0.5)")
    assert np.abs(one.S - half.S).max() <= 1e-14


def test_from_the_invariant_state_levels_above_the_output_hardly_matter() -> None:
    common = {"d": 2, "lam": 0.9, "times": [2.0, 6.0], "initial": "invariant", "arrivals": PERIODIC}
    exact = sweep.solve_fluid(**common, G="exponential", method="ode")
    fluid = sweep.solve_fluid(**common, G="exponential", levels=3)
    assert np.abs(fluid.S - exact.S).max() <= 1e-9
    few = sweep.solve_fluid(**common, G="lomax(beta=1.5)", levels=3, tolerance=1e-6)
    many = sweep.solve_fluid(**common, G="lomax(beta=1.5)", levels=24, tolerance=1e-6)
    assert np.all(np.abs(few.S - many.S) <= few.S_error + many.S_error)


def test_jumps_of_the_rate_are_nodes_and_kinks() -> None:
    limit = Limit(d=2, lam=0.9, G="uniform(width=1)", arrivals="profile(0: 1, 0.75: 2, 1.25: 1, period=2)")
    mesh = plan_mesh(limit, 4.0, [4.0])
    assert mesh.aligned
    for jump in (0.75, 1.25, 2.75, 3.25):
        assert np.abs(mesh.nodes(0) - jump).min() <= 1e-12
        assert jump in mesh.kinks
        assert jump + 0.5 in mesh.kinks or jump + 0.5 > 4.0


@pytest.mark.parametrize("initial", ["empty", "lengths(1: 0.5, 2: 0.25)"])
def test_ages_by_the_ode_meet_those_of_the_characteristics(initial: str) -> None:
    common = {
        "d": 2, "lam": 0.9, "G": "erlang(k=3)", "times": [3.0], "snapshots": [0.0, 3.0],
        "ages": [0.0, 0.5, 1.5, 3.0, 4.0], "levels": 4, "arrivals": "profile(0: 1, 1: 2)",
    }  # fmt: skip
    fluid = sweep.solve_fluid(**common, initial=initial)
    exact = sweep.solve_fluid(**common, initial=initial, method="ode")
    assert np.abs(fluid.nu_cdf - exact.nu_cdf).max() <= 1e-8


def test_the_invariant_state_of_exponential_services_stays_by_the_ode_too() -> None:
    fluid = sweep.solve_fluid(
        d=2, lam=0.9, G="exponential", times=[5.0], levels=4, initial="invariant", method="ode"
    )
    assert fluid.S.values[0] == pytest.approx([0.9, 0.9**3, 0.9**7, 0.9**15], abs=1e-11)


def test_an_integration_that_stops_early_is_an_error() -> None:
    # y' = y² from 1 is 1/(1 − t).
    limit, one = Limit(d=2, lam=0.9, G="exponential"), np.ones(1)
    assert exact._integrate(limit, lambda _, y: y * y, one, np.array([0.5]))[0, 0] == pytest.approx(2.0)
    with pytest.raises(
        AccuracyError, match=r"accuracy must be within reach up to t = 2, got 1e-12: .* At t = "
    ):
        exact._integrate(limit, lambda _, y: y * y, one, np.array([2.0]))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"method": "euler"}, ValueError, "method must be one of characteristics, ode, got 'euler'"),
        ({"method": "ode", "G": "lomax(beta=2)"}, TypeError, "law must be exponential, erlang, .* got lomax"),
        (
            {"method": "ode", "G": "erlang(k=2)", "initial": "invariant"},
            ValueError,
            r"initial must be empty or lengths\(…\) for erlang\(k=2\) by its phases, got invariant",
        ),
        (
            {"method": "ode", "tolerance": 1e-12},
            AccuracyError,
            'tolerance must be at least .* for method="ode"',
        ),
        ({"arrivals": "profile(1: 1)"}, ValueError, "arrivals must have a profile that starts at time 0"),
    ],
)
def test_what_a_method_cannot_do_is_a_clear_error(
    arguments: dict[str, object], error: type[Exception], text: str
) -> None:
    good = {"d": 2, "lam": 0.9, "G": "exponential", "times": [1.0]}
    with pytest.raises(error, match=text):
        sweep.solve_fluid(**{**good, **arguments})
