"""Functions of age: against scipy.stats, quadrature, closed forms, and the identities that tie them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose
from scipy import integrate, special

from sweep.laws import LAWS, Law, parse_law
from tests.laws_table import AGES, LAW_OF, LEVELS, NODES, REFERENCES, SURVIVAL, TEXTS, WEIGHTS, laws

FUNCTIONS = (
    "survival",
    "survival_left",
    "log_survival",
    "density",
    "integral",
    "double_integral",
    "integrated_tail",
)


def ages_of(text: str) -> np.ndarray:
    return np.concatenate([[1e-6, 1e-3], REFERENCES[text].isf(LEVELS)])


def test_every_law_of_the_table_is_tested() -> None:
    assert {law.name for law in LAW_OF.values()} == set(LAWS)


# ---- against scipy.stats


@pytest.mark.parametrize("text", REFERENCES)
def test_survival_and_density_are_those_of_scipy_stats(text: str) -> None:
    law, reference, ages = LAW_OF[text], REFERENCES[text], ages_of(text)
    assert_allclose(law.survival(ages), reference.sf(ages), rtol=1e-12)
    assert_allclose(law.log_survival(ages), reference.logsf(ages), rtol=1e-9, atol=1e-15)
    smooth = ~np.isclose(ages[:, None], [*law.breakpoints, -1.0], rtol=1e-12).any(axis=1)
    assert_allclose(law.density(ages)[smooth], reference.pdf(ages)[smooth], rtol=1e-11, atol=1e-200)


@pytest.mark.parametrize("text", REFERENCES)
def test_variance_is_that_of_scipy_stats(text: str) -> None:
    assert_allclose(LAW_OF[text].variance, REFERENCES[text].var(), rtol=1e-9)


@pytest.mark.parametrize("text", REFERENCES)
def test_integrals_over_cells_are_those_of_quadrature(text: str) -> None:
    law, reference = LAW_OF[text], REFERENCES[text]
    edges = sorted({0.0, *law.breakpoints, 0.01, 0.1, 0.4, 0.8, 1.0, 1.3, 2.0, 5.0, 20.0, 100.0})
    for a, b in pairwise(edges):
        single = integrate.quad(reference.sf, a, b, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
        double = integrate.quad(
            lambda y, b=b: (b - y) * reference.sf(y), a, b, epsabs=1e-13, epsrel=1e-12, limit=200
        )[0]
        area = law.integral([a, b])
        assert_allclose(area[1] - area[0], single, rtol=1e-11, atol=1e-13)
        volume = law.double_integral([a, b])
        assert_allclose(volume[1] - volume[0] - (b - a) * area[0], double, rtol=1e-11, atol=2e-13 * b)


# ---- closed forms by elementary integration


def _erlang2(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    e = np.exp(-2.0 * x)
    return e * (1.0 + 2.0 * x), 1.0 - e * (1.0 + x), x - 0.75 + e * (0.75 + x / 2.0)


def _lomax3(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    u = 1.0 + x / 2.0
    return u**-3, 1.0 - u**-2, x - 2.0 * (1.0 - 1.0 / u)


def _lomax2(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (1.0 + x) ** -2, x / (1.0 + x), x - np.log(1.0 + x)


def _pareto2(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r = np.maximum(2.0 * x, 1.0)
    beyond = np.maximum(x - 0.5, 0.0)
    start = np.minimum(x, 0.5)
    return r**-2, start + (1.0 - 1.0 / r) / 2.0, start**2 / 2.0 + beyond - np.log(r) / 4.0


def _weibull_half(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    w = np.sqrt(2.0 * x)
    e = np.exp(-w)
    return e, 1.0 - e * (1.0 + w), x - 3.0 + e * (w**2 + 3.0 * w + 3.0)


def _hyperexponential(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # scv = 5/4: the square root of (scv − 1)/(scv + 1) is 1/3, so p = 2/3 and the rates are 4/3 and 2/3.
    often, rarely = np.exp(-4.0 * x / 3.0), np.exp(-2.0 * x / 3.0)
    double = x - 3.0 * (1.0 - often) / 8.0 - 3.0 * (1.0 - rarely) / 4.0
    return (2.0 * often + rarely) / 3.0, 1.0 - (often + rarely) / 2.0, double


def _uniform1(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y, over = np.clip(x - 0.5, 0.0, 1.0), np.maximum(x - 1.5, 0.0)
    return 1.0 - y, np.minimum(x, 1.5) - y**2 / 2, np.minimum(x, 1.5) ** 2 / 2 - y**3 / 6 + over


def _deterministic(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.where(x < 1.0, 1.0, 0.0), np.minimum(x, 1.0), np.where(x < 1.0, x**2 / 2, x - 0.5)


CLOSED_FORMS: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]] = {
    "erlang(k=2)": _erlang2,
    "gamma(shape=2)": _erlang2,
    "lomax(beta=3)": _lomax3,
    "lomax(beta=2)": _lomax2,
    "pareto(beta=2)": _pareto2,
    "weibull(shape=0.5)": _weibull_half,
    "hyperexponential(scv=1.25)": _hyperexponential,
    "uniform(width=1)": _uniform1,
    "deterministic": _deterministic,
}


@pytest.mark.parametrize("text", CLOSED_FORMS)
def test_survival_and_integrals_are_the_elementary_ones(text: str) -> None:
    ages = np.concatenate([np.linspace(0.0, 4.0, 81), np.geomspace(5.0, 1e4, 20)])
    survival, single, double = CLOSED_FORMS[text](ages)
    rtol = 1e-13
    law = parse_law(text)
    assert_allclose(law.survival(ages), survival, rtol=rtol, atol=1e-16)
    assert_allclose(law.integral(ages), single, rtol=rtol, atol=1e-15)
    assert_allclose(law.double_integral(ages), double, rtol=rtol, atol=2e-15)


@pytest.mark.parametrize(
    "text", ["erlang(k=1)", "gamma(shape=1)", "hyperexponential(scv=1)", "weibull(shape=1)"]
)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_laws_that_contain_the_exponential_reduce_to_it(text: str, function: str) -> None:
    ages = np.concatenate([[0.0], np.geomspace(1e-9, 300.0, 60)])
    expected = getattr(parse_law("exponential"), function)(ages)
    assert_allclose(getattr(parse_law(text), function)(ages), expected, rtol=1e-13)


@pytest.mark.parametrize("k", [1, 4, 40, 200])
def test_tails_of_erlang_are_the_poisson_sums_in_rational_arithmetic(k: int) -> None:
    law = parse_law(f"erlang(k={k})")
    for x in (1.0, 1.25, 2.0, 3.0, 2000.0 / k):
        terms = [Fraction(x) ** j * k**j / math.factorial(j) for j in range(k)]
        log_survival = _log(sum(terms)) - k * x
        log_tail = _log(sum(term * (k - j) for j, term in enumerate(terms)) / k) - k * x
        assert_allclose(law.log_survival(x), log_survival, rtol=1e-12)
        if log_tail > -700.0:
            assert_allclose(law.integrated_tail(x), math.exp(log_tail), rtol=2e-12)


def _log(value: Fraction) -> float:
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    return math.log(value / Fraction(2) ** shift) + shift * math.log(2.0)


@pytest.mark.parametrize("x", [1.5, 8.0, 40.0, 300.0])
def test_deep_tail_of_gamma_half_is_the_scaled_error_function(x: float) -> None:
    # Ḡ(x) = erfc(√(x/2)), so ∫_x^∞ Ḡ / Ḡ(x) = ∫_0^∞ e^{−r/2} erfcx(√((x+r)/2)) dr / erfcx(√(x/2)).
    law = parse_law("gamma(shape=0.5)")
    at = special.erfcx(math.sqrt(x / 2.0))
    residual = integrate.quad(
        lambda r: math.exp(-r / 2.0) * special.erfcx(math.sqrt((x + r) / 2.0)), 0, 200, epsabs=0, epsrel=1e-13
    )[0]
    assert_allclose(law.integrated_tail(x), math.exp(-x / 2.0) * residual, rtol=1e-12)
    assert_allclose(law.log_survival(x), math.log(at) - x / 2.0, rtol=1e-13)


@pytest.mark.parametrize("sigma", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("y", [0.5, 2.0, 5.0, 20.0])
def test_deep_tail_of_lognormal_is_that_of_quadrature(sigma: float, y: float) -> None:
    # ∫_x^∞ Ḡ = ∫_y^∞ Φ(−u) σ e^{σu − σ²/2} du at log x = σy − σ²/2.
    x = math.exp(sigma * y - sigma**2 / 2.0)
    scale = special.log_ndtr(-y)
    ratio = integrate.quad(
        lambda u: math.exp(special.log_ndtr(-u) - scale + sigma * (u - y)),
        y,
        y + 15.0,
        epsabs=0,
        epsrel=1e-12,
    )[0]
    tail = parse_law(f"lognormal(sigma={sigma})").integrated_tail(x)
    assert_allclose(tail, sigma * x * ratio * math.exp(scale), rtol=1e-10)


# ---- identities


@pytest.mark.parametrize("text", TEXTS)
def test_mean_is_one(text: str) -> None:
    law = LAW_OF[text]
    assert law.integral(math.inf) == 1.0
    assert_allclose(law.integral(AGES) + law.integrated_tail(AGES), 1.0, rtol=1e-14)


@pytest.mark.parametrize("text", TEXTS)
def test_variance_is_twice_the_area_under_the_integrated_tail_less_one(text: str) -> None:
    law = LAW_OF[text]
    if law.variance == math.inf:
        assert law.tail_exponent is not None
        assert law.tail_exponent <= 2.0
        return
    # Beyond the last age x a power tail still holds x T(x)/(β − 2), with T = ∫_x^∞ Ḡ.
    points = np.array(sorted({0.0, *law.breakpoints, *np.geomspace(1e-3, 1e17, 200).tolist()}))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    left, half = points[:-1, None], np.diff(points)[:, None] / 2.0
    area = np.sum(law.integrated_tail(left + half * (nodes + 1.0)) * half * weights)
    last = points[-1]
    tail = last * float(law.integrated_tail(last)) / (law.tail_exponent - 2.0) if law.tail_exponent else 0.0
    assert_allclose(2.0 * (area + tail) - 1.0, law.variance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("text", TEXTS)
def test_weights_of_small_cells_keep_the_stated_accuracy(text: str) -> None:
    law = LAW_OF[text]
    survival = SURVIVAL[text]
    h = 1e-3
    for a in (h, 10 * h, 0.3, 0.8, 1.1, 1.7, 10.0, 50.0):
        if any(a < age < a + h for age in law.breakpoints):
            continue
        y = h * (1.0 + NODES) / 2.0
        expected = h / 2.0 * math.fsum((WEIGHTS * survival(a + y) * y / h).tolist())
        area, volume = law.integral([a, a + h]), law.double_integral([a, a + h])
        weight = area[1] - (volume[1] - volume[0]) / h
        assert abs(weight - expected) <= 1e-14 * (area[1] + volume[1] / h)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("h", [1e-3, 1e-7])
def test_first_cell_keeps_its_relative_accuracy_at_any_width(text: str, h: float) -> None:
    # ∫_0^h Ḡ(y) (h − y) dy = h² ∫_0^∞ Ḡ(h e^{−w}) (1 − e^{−w}) e^{−w} dw, smooth for singular origins too.
    survival = SURVIVAL[text]
    edges = np.linspace(0.0, 40.0, 161)
    half, middle = np.diff(edges)[:, None] / 2.0, (edges[1:] + edges[:-1])[:, None] / 2.0
    shrink = np.exp(-(middle + half * NODES))
    expected = h * h * math.fsum((half * WEIGHTS * survival(h * shrink) * (1.0 - shrink) * shrink).ravel())
    assert_allclose(LAW_OF[text].double_integral(h), expected, rtol=2e-14)


@settings(max_examples=150, deadline=None)
@given(law=laws())
def test_every_legal_law_is_monotone_and_finite(law: Law) -> None:
    ages = np.concatenate([[0.0, 5e-324, 1e-300, 1e-100], AGES[1:], [1e20, 1e100, 1e300, 1.7e308, math.inf]])
    values = {name: getattr(law, name)(ages) for name in FUNCTIONS}
    for name, array in values.items():
        assert not np.isnan(array).any(), name
        if name in ("integral", "double_integral"):
            assert (array[1:] >= array[:-1] * (1.0 - 1e-13)).all(), name
        elif name != "density":
            slack = 1e-13 * np.where(np.isfinite(array[:-1]), np.abs(array[:-1]), 0.0)
            assert (array[1:] <= array[:-1] + slack).all(), name
    assert values["survival"][0] == 1.0
    assert values["integral"][0] == values["double_integral"][0] == 0.0
    assert values["integral"][-1] == 1.0
    assert (values["density"] >= 0.0).all()
    assert_allclose(values["integral"] + values["integrated_tail"], 1.0, rtol=1e-13)
    box = ages[:-1] * values["integral"][:-1]
    double = values["double_integral"][:-1]
    assert (double <= box * (1.0 + 1e-15)).all()
    assert (double >= box / 2.0 * (1.0 - 1e-13)).all()


# ---- arguments


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("function", [*FUNCTIONS, "transform"])
def test_functions_keep_the_shape_of_their_argument(text: str, function: str) -> None:
    call = getattr(LAW_OF[text], function)
    grid = np.array([[0.0, 0.25, 1.0], [2.0, 5.0, math.inf]])
    values = call(grid)
    assert values.shape == grid.shape
    assert values.dtype == np.float64
    assert [[float(call(x)) for x in row] for row in grid.tolist()] == values.tolist()
    assert call([]).shape == (0,)
    assert call(1).shape == ()


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_ages_below_zero_are_refused(function: str, bad: float) -> None:
    with pytest.raises(ValueError, match=f"x must be at least 0, got {bad}"):
        getattr(LAW_OF["exponential"], function)([0.5, bad])


def test_transforms_below_zero_are_refused() -> None:
    with pytest.raises(ValueError, match=r"s must be at least 0, got -0.5"):
        LAW_OF["weibull(shape=0.5)"].transform(-0.5)
