"""The residual-life norm: closed forms, and every law against a direct search over r with scipy.stats."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from sweep.distances import Atoms, Measure, PiecewiseLinear, kolmogorov, residual_norm
from sweep.distances.residual import _log_survival
from sweep.laws import Deterministic, Exponential, Lomax, Trace, Uniform, parse_law
from tests.laws_table import REFERENCES

INF = math.inf
AGES = st.floats(0.0, 0.999)


# ---- closed forms


@given(st.lists(st.floats(0.0, 50.0), max_size=9), st.lists(st.floats(0.0, 50.0), max_size=9))
def test_exponential_service_sees_masses_alone(x: list[float], y: list[float]) -> None:
    found = residual_norm(Exponential(), Atoms(x, 0.1), Atoms(y, 0.1))
    assert found.value == pytest.approx(abs(len(x) - len(y)) / 10.0, abs=1e-12)
    assert found.error <= 1e-9


def test_exponential_service_of_equal_masses_against_a_cdf() -> None:
    nu = PiecewiseLinear([0.0, 1.0, 4.0, INF], [0.25, 0.5, 1.0, 1.0])
    found = residual_norm(Exponential(), Atoms([0.3, 7.0], 0.5), nu)
    assert found.value + found.error <= 1e-12


@given(st.lists(AGES, max_size=9), st.lists(AGES, max_size=9))
def test_deterministic_service_sees_the_cdfs(x: list[float], y: list[float]) -> None:
    # ϑ^r(x) = 1{x < 1 − r}, so that V is the Kolmogorov distance of ages below 1.
    mu, nu = Atoms(x, 0.1), Atoms(y, 0.1)
    found = residual_norm(Deterministic(), mu, nu)
    assert found.value == pytest.approx(kolmogorov(mu, nu), abs=1e-15)
    assert found.error == 0.0


def test_deterministic_service_against_a_uniform_law_of_ages() -> None:
    found = residual_norm(Deterministic(), Atoms([0.3], 1.0), PiecewiseLinear([0.0, 1.0], [0.0, 1.0]))
    assert found.value == pytest.approx(0.7, abs=1e-15)


@pytest.mark.parametrize(("a", "b", "beta"), [(0.0, 1.0, 1.5), (0.25, 40.0, 1.5), (2.0, 3.0, 4.0)])
def test_two_atoms_under_lomax_service(a: float, b: float, beta: float) -> None:
    # V = sup_r |(1 + r/(β−1+a))^{−β} − (1 + r/(β−1+b))^{−β}|
    def difference(r: float) -> float:
        return -abs((1.0 + r / (beta - 1.0 + a)) ** -beta - (1.0 + r / (beta - 1.0 + b)) ** -beta)

    expected = -minimize_scalar(
        difference, bounds=(0.0, 4.0 * (b + 1.0)), method="bounded", options={"xatol": 1e-9}
    ).fun
    for tolerance in (0.05, 1e-3):
        found = residual_norm(Lomax(beta=beta), Atoms([a], 1.0), Atoms([b], 1.0), tolerance=tolerance)
        assert found.value <= expected + 1e-12
        assert expected <= found.value + found.error
        assert found.value >= expected * (1.0 - tolerance)


def test_two_atoms_under_uniform_service() -> None:
    # On [0, 2]: (1 − r/(2−a))⁺ − (1 − r/(2−b))⁺ is greatest where the second term ends, at r = 2 − b.
    a, b = 0.5, 1.25
    found = residual_norm(Uniform(width=2.0), Atoms([a], 0.5), Atoms([b], 0.5), tolerance=1e-3)
    expected = 0.5 * (1.0 - (2.0 - b) / (2.0 - a))
    assert found.value <= expected + 1e-12
    assert expected * (1.0 - 1e-3) <= found.value
    assert expected <= found.value + found.error


def test_missing_mass_shows_at_r_0() -> None:
    nu = PiecewiseLinear([0.0, 1.0, INF], [0.0, 0.5, 0.5])
    assert residual_norm(Lomax(beta=1.5), Atoms([], []), nu).value == 0.5
    assert residual_norm(Lomax(beta=1.5), Atoms([], []), Atoms([], [])).value == 0.0
    assert residual_norm(Lomax(beta=1.5), Atoms([0.0, 0.0], 0.25), Atoms([], [])).value == 0.5


def test_mass_at_infinity_is_counted_as_error() -> None:
    nu = PiecewiseLinear([0.0, 1.0, INF], [0.0, 0.5, 0.625])
    assert residual_norm(Lomax(beta=1.5), Atoms([0.5], 0.5), nu).error >= 0.125
    assert residual_norm(Lomax(beta=1.5), Atoms([], []), PiecewiseLinear([INF], [0.5])).error >= 0.5


def test_ages_beyond_the_support_leave_at_once() -> None:
    # ϑ^r = 0 there for r > 0: the sup over r > 0 of the atom at 0.5 alone tends to its mass.
    found = residual_norm(Uniform(width=1.0), Atoms([0.5], 0.5), Atoms([1.75], 0.5))
    assert found.value == pytest.approx(0.5, rel=0.02)


# ---- every law


def residual_lives(law: str, ages: NDArray[np.float64], r: float) -> NDArray[np.float64]:
    reference = REFERENCES[law]
    now = reference.sf(ages)
    later = reference.sf(ages + r)
    return np.divide(later, now, out=np.zeros_like(now), where=now > 0.0)


def directly(law: str, mu: Atoms, nu: PiecewiseLinear) -> float:
    """The supremum over a fine grid of r, each integral against ν a sum over 2000 narrow cells."""
    fine = np.unique(np.concatenate([np.linspace(0.0, nu.ages[-2], 2001), nu.ages[:-1]]))
    centres, masses = (fine[1:] + fine[:-1]) / 2.0, np.diff(np.interp(fine, nu.ages[:-1], nu.cdf[:-1]))

    def at(r: float) -> float:
        return abs(
            float(
                mu.weights @ residual_lives(law, mu.positions, r) - masses @ residual_lives(law, centres, r)
            )
        )

    grid = np.concatenate([[0.0], np.geomspace(1e-4, 100.0, 120)])
    values = [at(r) for r in grid]
    k = int(np.argmax(values))
    around = np.linspace(grid[max(k - 1, 0)], grid[min(k + 1, grid.size - 1)], 40)
    return max(*values, *(at(r) for r in around))


@pytest.mark.parametrize("size", [20, 1500])
@pytest.mark.parametrize("text", REFERENCES)
def test_every_law_agrees_with_a_direct_search(text: str, size: int) -> None:
    law = parse_law(text)
    rng = np.random.default_rng(size)
    # Ages in equilibrium, of density Ḡ, cut where few are left.
    last = min(float(REFERENCES[text].isf(0.01)), 20.0)
    ages = np.append(np.linspace(0.0, last, 49), INF)
    cdf = 0.9 * np.append(law.integral(ages[:-1]), law.integral(last))
    nu = PiecewiseLinear(ages, cdf)
    uniform = rng.random(size) * cdf[-1]
    mu = Atoms(np.interp(uniform, cdf[:-1], ages[:-1]), 1.02 * cdf[-1] / size)
    found, expected = residual_norm(law, mu, nu), directly(text, mu, nu)
    # The direct search misses the true supremum by little, and its cells move mass by 1e-3 of the range.
    slack = 2e-4 * expected + 1e-6
    assert abs(found.value - expected) <= found.error + slack
    assert found.error <= 0.08 * found.value


def test_log_survival_of_a_trace_is_read_from_a_table_with_equal_bits(tmp_path: Path) -> None:
    np.save(tmp_path / "values.npy", np.random.default_rng(1).exponential(1.0, 500).round(2) + 0.01)
    law = parse_law(f"trace({tmp_path / 'values.npy'})")
    jumps = np.array(law.breakpoints)
    ages = np.concatenate([[0.0], jumps, np.nextafter(jumps, 0.0), np.linspace(0.0, 12.0, 3001)])
    assert np.array_equal(_log_survival(law)(ages), law.log_survival(ages))


def test_a_trace_of_many_numbers_asks_for_log_survival_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    np.save(tmp_path / "values.npy", rng.exponential(1.0, 500))
    law, asked = parse_law(f"trace({tmp_path / 'values.npy'})"), []
    plain = Trace.log_survival
    monkeypatch.setattr(Trace, "log_survival", lambda law, x: asked.append(np.size(x)) or plain(law, x))
    assert residual_norm(law, Atoms(rng.random(20), 0.05), Atoms(rng.random(20), 0.05)).value > 0.0
    assert asked == [501]


@pytest.mark.parametrize("text", ["lomax(beta=1.5)", "uniform(width=1)"])
def test_gathering_many_atoms_costs_no_more_than_the_stated_error(text: str) -> None:
    rng = np.random.default_rng(5)
    law = parse_law(text)
    mu = Atoms(rng.random(5_000) * 1.4, 1.0 / 5_000)
    nu: Measure = PiecewiseLinear([0.0, 1.4], [0.0, 1.0])
    found = residual_norm(law, mu, nu, tolerance=1e-3)
    expected = directly(text, mu, PiecewiseLinear([0.0, 1.4, INF], [0.0, 1.0, 1.0]))
    assert abs(found.value - expected) <= found.error + 2e-4 * expected + 1e-6


@pytest.mark.parametrize("tolerance", [0.0, -1.0, INF, math.nan])
def test_tolerance_is_checked(tolerance: float) -> None:
    message = f"tolerance must be positive and finite, got {tolerance!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        residual_norm(Exponential(), Atoms([], []), Atoms([], []), tolerance=tolerance)


def test_negative_ages_are_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("ages must not be negative, got -0.5")):
        residual_norm(Exponential(), Atoms([-0.5], [1.0]), Atoms([], []))
