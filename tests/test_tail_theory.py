"""Theory of tails: roots and ratios in closed form, a sample of the age scale, invariant states."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.tail_theory import characteristic_root, predict_tail
from sweep.cell import Limit
from sweep.fluid.invariant import solve_invariant
from sweep.laws import as_law

LAM = 0.7


@pytest.mark.parametrize(
    ("beta", "d", "root"),
    [
        (2.5, 2, (1 + math.sqrt(3)) / 2),  # r² = r + 1/2
        (3.0, 2, (1 + math.sqrt(5)) / 2),  # r³ = r² + r
        (1.75, 3, 1.5),  # r = 2 · 3/4
        (2.5, 3, 1 + math.sqrt(2)),  # r² = 2 (r + 1/2)
        (60.0, 2, 2.0),  # light tails
    ],
)
def test_the_characteristic_root_solves_its_equation(beta: float, d: int, root: float) -> None:
    assert characteristic_root(beta, d) == pytest.approx(root, rel=1e-13)


@given(st.floats(1.01, 40.0), st.integers(2, 6))
def test_the_characteristic_root_lies_between_1_and_d(beta: float, d: int) -> None:
    if (d - 1) * (beta - 1) > 1 + 1e-6:
        assert 1.0 < characteristic_root(beta, d) <= d


def test_no_root_exceeds_1_below_the_critical_exponent() -> None:
    with pytest.raises(
        ValueError, match=r"beta must exceed d/\(d−1\) for a root above 1, got beta = 1.5 with d = 2"
    ):
        characteristic_root(1.5, 2)


@pytest.mark.parametrize(
    ("d", "law", "fraction", "text"),
    [
        (2, "lomax(beta=1.5)", 1.0, "power law with γ = 1"),
        (2, "pareto(beta=1.75)", 1.0, "power law with γ = 3"),
        (2, "lomax(beta=1.5)", 0.9, "power law with γ = 0.5"),
        (1, "lomax(beta=2.5)", 1.0, "power law with γ = 1.5"),
        (2, "exponential", 0.8, "geometric with ρ = 0.14"),
        (1, "exponential", 1.0, "geometric with ρ = 0.7"),
        (3, "weibull(shape=0.5)", 1.0, "double exponential with r = 3"),
        (2, "weibull(shape=0.5)", 0.5, "between geometric and power law"),
        (2, "lognormal(sigma=0.5)", 0.5, "between geometric and power law"),
    ],
)
def test_theory_names_the_regime_and_its_rate(d: int, law: str, fraction: float, text: str) -> None:
    assert str(predict_tail(d=d, lam=LAM, G=law, fraction=fraction)) == text


@pytest.mark.parametrize("lam", [0.1, 0.7, 0.99])
def test_the_critical_ratio_of_two_choices_solves_its_closed_form(lam: float) -> None:
    # d = β = 2, c = 1: E[1/Y] = log 1/ρ and ρ = λ² (1 + ρ) log 1/ρ.
    rho = predict_tail(d=2, lam=lam, G="lomax(beta=2)").rate
    assert rho == pytest.approx(lam**2 * (1 + rho) * -math.log(rho), rel=1e-8)


@pytest.mark.parametrize(
    ("d", "law", "fraction", "levels"),
    [
        (2, "lomax(beta=2.0)", 1.0, 60),
        (2, "pareto(beta=2.0)", 1.0, 40),
        (3, "lomax(beta=1.5)", 1.0, 40),
        (4, "lomax(beta=1.3333333333333333)", 1.0, 40),
        (2, "exponential", 0.5, 40),
        (2, "deterministic", 0.5, 30),
    ],
)
def test_geometric_ratios_are_those_of_the_invariant_state(
    d: int, law: str, fraction: float, levels: int
) -> None:
    tail = solve_invariant(Limit(d=d, lam=LAM, G=as_law(law), fraction=fraction), levels).log_S
    rho = predict_tail(d=d, lam=LAM, G=law, fraction=fraction).rate
    assert math.exp(tail[-1] - tail[-2]) == pytest.approx(rho, rel=1e-6)


@pytest.mark.parametrize(
    "law", ["exponential", "erlang(k=4)", "hyperexponential(scv=10)", "weibull(shape=2)"]
)
def test_uniform_arrivals_leave_the_ratio_of_a_single_server_queue(law: str) -> None:
    # M/G/1 by Pollaczek and Khinchine: z = 1/ρ is the pole of its generating function, ĝ(μ(1 − z)) = z; the
    # transform at a negative argument comes from E e^{θS} = 1 + θ ∫ e^{θa} Ḡ(a) da by the trapezoidal rule.
    rho = predict_tail(d=1, lam=LAM, G=law).rate
    theta = LAM * (1 / rho - 1)
    ages = np.linspace(0.0, 40.0 / (1 - rho), 40_001)
    values = np.exp(theta * ages + as_law(law).log_survival(ages))
    assert 1 + theta * np.trapezoid(values, ages) == pytest.approx(1 / rho, rel=1e-5)


def test_densities_that_are_infinite_at_0_leave_the_ratio_exact() -> None:
    # M/G/1, in closed form: gamma of shape 1/2 and mean 1 has E e^{θS} = (1 − 2θ)^{−1/2} = 1/ρ.
    rho = predict_tail(d=1, lam=LAM, G="gamma(shape=0.5)").rate
    theta = LAM * (1 / rho - 1)
    assert (1 - 2 * theta) ** -0.5 == pytest.approx(1 / rho, rel=1e-11)


@pytest.mark.parametrize(("wrong", "passes"), [(1.0, True), (1.05, False)])
def test_negative_moments_of_the_age_scale_are_as_stated(wrong: float, passes: bool) -> None:
    # E[Y^{−s}] of Y = Σ q^i E_i against a sample; 4 standard errors leave 1 chance in 16 000.
    from analysis.tail_theory import _log_moment

    q, s = 0.4, 0.5
    draws = np.random.default_rng(1).standard_exponential((40_000, 60)) @ q ** np.arange(60.0)
    powers = draws**-s
    stderr = powers.std() / math.sqrt(powers.size)
    z = float(powers.mean() - wrong * math.exp(_log_moment(s, math.log(q)))) / float(stderr)
    assert (abs(z) <= 4.0) is passes


def test_an_overloaded_system_has_no_tail() -> None:
    with pytest.raises(ValueError, match="lam must be below 1 for an invariant state to exist, got 1"):
        predict_tail(d=2, lam=1.0, G="exponential")
