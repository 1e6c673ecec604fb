"""Orders of the hydrodynamic solver, before and after extrapolation, over five or more resolutions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sweep.cell import Limit
from sweep.fluid.exact import solve_phase_type
from sweep.fluid.extrapolation import error_exponents, extrapolate
from sweep.fluid.mesh import plan_mesh
from sweep.fluid.path import trace

Floats = np.ndarray
FRESH = "lengths(2: 0.2, 3: 0.7)"
HORIZON = 4.0
#: Error left in an order fitted to five resolutions, by exponents that follow closely.
WITHIN = 0.2


def values(limit: Limit, first: int, last: int, levels: int = 8) -> list[Floats]:
    """S at the nodes of the base grid, its steps halved `first` to `last` times."""
    mesh = plan_mesh(limit, HORIZON, [])
    assert mesh.aligned
    return [trace(limit, mesh, r, levels).S[:: 2**r] for r in range(first, last + 1)]


def fitted_order(results: list[Floats]) -> float:
    """Least-squares slope of the largest changes from resolution to resolution, which need no reference."""
    changes = [np.abs(fine - coarse).max() for coarse, fine in pairwise(results)]
    assert len(changes) >= 4
    return float(-np.polyfit(np.arange(len(changes)), np.log2(changes), 1)[0])


def eliminated(results: list[Floats], exponents: tuple[float, ...]) -> list[Floats]:
    """Extrapolate each result with as many before it as there are exponents."""
    many = len(exponents)
    return [extrapolate(results[i - many : i + 1], exponents).value for i in range(many, len(results))]


ALIGNED = (
    "exponential",
    "erlang(k=3)",
    "hyperexponential(scv=4)",
    "lognormal(sigma=0.8)",
    "lomax(beta=1.5)",
    "pareto(beta=1.5)",
    "uniform(width=1)",
    "deterministic",
)


@pytest.mark.parametrize("initial", ["empty", FRESH])
@pytest.mark.parametrize("law", ALIGNED)
def test_smooth_laws_and_aligned_breakpoints_give_order_2_then_4(law: str, initial: str) -> None:
    limit = Limit(d=2, lam=0.9, G=law, initial=initial)
    raw = values(limit, 1, 6)
    assert fitted_order(raw) == pytest.approx(2.0, abs=WITHIN)
    assert fitted_order(eliminated(raw, (2.0,))) == pytest.approx(4.0, abs=WITHIN)


@pytest.mark.parametrize("law", ["gamma(shape=0.5)", "weibull(shape=0.5)"])
def test_singular_densities_give_orders_2_and_2_plus_k_and_more(law: str) -> None:
    limit = Limit(d=2, lam=0.9, G=law)
    k = limit.G.origin_exponent
    raw = values(limit, 2, 8)
    assert fitted_order(raw) == pytest.approx(2.0, abs=WITHIN)
    assert fitted_order(eliminated(raw, (2.0,))) == pytest.approx(2.0 + k, abs=WITHIN)
    assert fitted_order(eliminated(raw, (2.0, 2.0 + k))) >= 2.8


@pytest.mark.parametrize("law", ["gamma(shape=1.5)", "weibull(shape=1.5)"])
def test_fractional_densities_that_vanish_give_orders_2_and_2_plus_k(law: str) -> None:
    raw = values(Limit(d=2, lam=0.9, G=law), 2, 7)
    assert fitted_order(raw) == pytest.approx(2.0, abs=WITHIN)
    assert fitted_order(eliminated(raw, (2.0,))) == pytest.approx(3.5, abs=WITHIN)


@pytest.mark.parametrize("law", ["gamma(shape=0.5)", "weibull(shape=0.5)"])
def test_a_graded_layer_restores_order_2_from_fresh_ages(law: str) -> None:
    limit = Limit(d=2, lam=0.9, G=law, initial=FRESH)
    assert plan_mesh(limit, HORIZON, []).power == 4
    raw = values(limit, 0, 4)
    assert fitted_order(raw) == pytest.approx(2.0, abs=WITHIN)
    assert error_exponents(limit)[:2] == (2.0, 2.5)


def test_without_the_layer_fresh_ages_cost_half_an_order_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    # The twin of the test above: D ~ t^k makes the order 2k at first nodes and 1 + k after them.
    monkeypatch.setattr("sweep.fluid.mesh.layer_power", lambda limit: 1)
    limit = Limit(d=2, lam=0.9, G="gamma(shape=0.5)", initial=FRESH)
    assert fitted_order(values(limit, 1, 6)) < 1.7


@pytest.mark.parametrize("law", ["exponential", "erlang(k=3)"])
def test_errors_themselves_fall_with_order_2_then_4(law: str) -> None:
    # Against the ODE at the horizon, not against the next resolution.
    limit = Limit(d=2, lam=0.9, G=law)
    exact = solve_phase_type(limit, np.array([HORIZON]), 8)["S"][0]
    raw = [result[-1] for result in values(limit, 0, 5)]
    for results, order in ((raw, 2.0), (eliminated(raw, (2.0,))[:4], 4.0)):
        errors = [np.abs(result - exact).max() for result in results]
        assert len(errors) >= 4
        assert -np.polyfit(np.arange(len(errors)), np.log2(errors), 1)[0] == pytest.approx(order, abs=WITHIN)
