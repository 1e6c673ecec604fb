"""Functions of age: against scipy.stats, quadrature, closed forms and the identities that tie them together."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, special

from sweep.laws import LAWS, Law, parse_law
from tests.laws_table import LAW_OF, LEVELS, REFERENCES, TEXTS

FUNCTIONS = (
    "survival",
    "survival_left",
    "log_survival",
    "density",
    "integral",
    "double_integral",
    "integrated_tail",
)
AGES = np.concatenate(
    [[0.0], np.geomspace(1e-8, 1e-2, 13), np.linspace(0.05, 3.0, 60), np.geomspace(3.5, 1e6, 25)]
)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def ages_of(text: str) -> np.ndarray:
    return np.concatenate([[1e-6, 1e-3], REFERENCES[text].isf(LEVELS)])


def laws() -> st.SearchStrategy[Law]:
    """Any law of the table with any parameters it admits."""

    def build(law: type[Law]) -> st.SearchStrategy[Law]:
        numbers = {
            name: st.integers(int(allowed.least), int(allowed.most))
            if allowed.whole
            else st.floats(allowed.least + (1e-9 if allowed.open_least else 0.0), allowed.most)
            for name, allowed in law.ranges.items()
        }
        return st.fixed_dictionaries(numbers).map(lambda values: law(**values))

    return st.sampled_from(sorted(LAWS)).flatmap(lambda name: build(LAWS[name]))


def test_every_law_of_the_table_is_tested() -> None:
    assert {law.name for law in LAW_OF.values()} == set(LAWS)


# ---- against scipy.stats ------------------------------------------------------------------------------------


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
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        single = integrate.quad(reference.sf, a, b, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
        double = integrate.quad(
            lambda y, b=b: (b - y) * reference.sf(y), a, b, epsabs=1e-13, epsrel=1e-12, limit=200
        )[0]
        area = law.integral([a, b])
        assert_allclose(area[1] - area[0], single, rtol=1e-11, atol=1e-13)
        volume = law.double_integral([a, b])
        assert_allclose(volume[1] - volume[0] - (b - a) * area[0], double, rtol=1e-11, atol=2e-13 * b)


# ---- closed forms by elementary integration -----------------------------------------------------------------


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
    # scv = 9/8 makes the square root (scv − 1)/(scv + 1) = 1/17; scv = 5/3 makes it 1/4, p = 3/4: rates 3/2, 1/2.
    often, rarely = np.exp(-1.5 * x), np.exp(-0.5 * x)
    return (3 * often + rarely) / 4, 1 - (often + rarely) / 2, x - (1 - often) / 3 - (1 - rarely)


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
    "hyperexponential(scv=1.66666666667)": _hyperexponential,
    "uniform(width=1)": _uniform1,
    "deterministic": _deterministic,
}


@pytest.mark.parametrize("text", CLOSED_FORMS)
def test_survival_and_integrals_are_the_elementary_ones(text: str) -> None:
    ages = np.concatenate([np.linspace(0.0, 4.0, 81), np.geomspace(5.0, 1e4, 20)])
    survival, single, double = CLOSED_FORMS[text](ages)
    # scv = 5/3 is cut to 12 digits by the law's text.
    rtol = 1e-11 if text.startswith("hyper") else 1e-13
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
    for x in (0.5, 1.0, 1.25, 2.0, 3.0, 2000.0 / k):
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


# ---- identities ---------------------------------------------------------------------------------------------


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
    # x − ∫∫Ḡ = ∫_0^x ∫_y^∞ Ḡ, and what lies beyond x is x T(x)/(β−2) or less than T(x)/(k(1−1/x)) for light tails.
    high = 1e9 if law.tail_exponent else min(law.support_end, 60.0 * (1.0 + law.variance) ** 2)
    points = sorted({0.0, *law.breakpoints, *np.geomspace(1e-3, high, 80).tolist()})
    area = sum(
        integrate.quad(lambda y: float(law.integrated_tail(y)), a, b, epsabs=1e-14, epsrel=1e-10)[0]
        for a, b in zip(points[:-1], points[1:], strict=True)
    )
    tail = float(law.integrated_tail(high)) * high / (law.tail_exponent - 2.0) if law.tail_exponent else 0.0
    assert_allclose(2.0 * (area + tail) - 1.0, law.variance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("text", TEXTS)
def test_weights_of_small_cells_keep_the_stated_accuracy(text: str) -> None:
    law = LAW_OF[text]
    survival = REFERENCES[text].sf if text in REFERENCES else lambda y: np.where(y < 1.0, 1.0, 0.0)
    h = 1e-3
    for a in (h, 10 * h, 0.3, 0.8, 1.1, 1.7, 10.0, 50.0):
        if any(a < age < a + h for age in law.breakpoints):
            continue
        y = h * (1.0 + NODES) / 2.0
        expected = h / 2.0 * math.fsum((WEIGHTS * survival(a + y) * y / h).tolist())
        area, volume = law.integral([a, a + h]), law.double_integral([a, a + h])
        weight = area[1] - (volume[1] - volume[0]) / h
        assert abs(weight - expected) <= 2e-14 * (area[1] + volume[1] / h)
        assert abs(weight - expected) <= 3e-15 * (area[1] + volume[1] / h) or text not in ("exponential",)


@pytest.mark.parametrize("text", TEXTS)
def test_first_cell_keeps_its_relative_accuracy_at_any_width(text: str) -> None:
    # ∫_0^h Ḡ (h − y) dy, to leading order h²/2 less c h^{2+k}/((1+k)(2+k)): no digits are lost as h → 0.
    law = LAW_OF[text]
    for h in (1e-3, 1e-5, 1e-7):
        loss = float(-law.log_survival(h))
        k = law.origin_exponent
        expected = h * h / 2.0 - loss * h * h / ((1.0 + k) * (2.0 + k))
        assert_allclose(law.double_integral(h), expected, rtol=max(1e-13, 2.0 * loss * (loss + h)))


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
    x, single, double = ages[:-1], values["integral"][:-1], values["double_integral"][:-1]
    assert (double <= x * single).all()
    assert (double >= x * single / 2.0 * (1.0 - 1e-13)).all()


# ---- shape --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS)
def test_origin_exponent_is_the_slope_of_the_cdf_at_zero(text: str) -> None:
    law = LAW_OF[text]
    ages = np.array([1e-30, 1e-28]) if law.origin_exponent < 1.0 else np.array([1e-7, 1e-6])
    start = -law.log_survival(ages)
    if law.name in ("gamma", "erlang", "weibull") and start[0] > 0.0:
        assert_allclose(
            math.log(start[1] / start[0]) / math.log(ages[1] / ages[0]), law.origin_exponent, rtol=1e-5
        )
    else:
        assert law.origin_exponent >= 1.0
        assert law.origin_exponent.is_integer()


@pytest.mark.parametrize("text", TEXTS)
def test_tail_exponent_is_the_slope_of_the_tail(text: str) -> None:
    law = LAW_OF[text]
    if law.support_end < math.inf:
        assert law.tail_exponent is None
        return
    log_survival = law.log_survival([1e9, 1e10])
    slope = (log_survival[0] - log_survival[1]) / math.log(10.0)
    if law.tail_exponent is None:
        local = law.log_survival([1e19, 1e20])
        assert (local[0] - local[1]) / math.log(10.0) > 1.05 * slope
    else:
        assert_allclose(slope, law.tail_exponent, rtol=1e-6)


@pytest.mark.parametrize("text", TEXTS)
def test_breakpoints_and_atoms_are_where_the_law_jumps(text: str) -> None:
    law = LAW_OF[text]
    assert list(law.breakpoints) == sorted({*law.breakpoints, *(age for age, _ in law.atoms)})
    assert all(0.0 < age <= law.support_end for age in law.breakpoints)
    for age in law.breakpoints:
        near = np.array([age * (1.0 - 1e-9), age * (1.0 + 1e-9)])
        jump = law.survival(near[0]) - law.survival(near[1])
        assert abs(np.diff(law.density(near))[0]) > 0.1 or jump > 0.1
    for age, mass in law.atoms:
        assert law.survival_left(age) - law.survival(age) == mass
    others = AGES[~np.isin(AGES, [age for age, _ in law.atoms])]
    assert_array_equal(law.survival_left(others), law.survival(others))


@pytest.mark.parametrize("text", TEXTS)
def test_support_ends_where_survival_vanishes(text: str) -> None:
    law = LAW_OF[text]
    if law.support_end < math.inf:
        assert law.survival(law.support_end) == 0.0
        assert law.log_survival(law.support_end) == -math.inf
        assert law.survival(law.support_end * (1.0 - 1e-12)) > 0.0
    else:
        assert np.isfinite(law.log_survival(1e6))


# ---- Laplace transforms -------------------------------------------------------------------------------------

RATES = np.array([0.0, 1e-3, 0.1, 1.0, 7.0])


@pytest.mark.parametrize("text", REFERENCES)
def test_transform_is_one_minus_that_of_the_survival_function(text: str) -> None:
    law, reference = LAW_OF[text], REFERENCES[text]
    edges = np.array(sorted({0.0, *law.breakpoints, *np.geomspace(1e-12, 800.0, 160).tolist()}))
    for s in RATES[1:]:
        # ∫_0^∞ e^{−sx} Ḡ dx over x = y/s; breakpoints scale with it.
        cuts = np.unique(np.concatenate([edges[1:] / s, law.breakpoints, [0.0]]))
        half, middle = np.diff(cuts) / 2.0, (cuts[1:] + cuts[:-1]) / 2.0
        y = middle[:, None] + half[:, None] * NODES
        area = float((half[:, None] * WEIGHTS * np.exp(-s * y) * reference.sf(y)).sum())
        assert_allclose(law.transform(s), 1.0 - s * area, atol=2e-12)
    assert law.transform(0.0) == 1.0
    assert law.transform(math.inf) == 0.0


def test_transform_of_power_laws_is_the_exponential_integral() -> None:
    # β e^z E_{β+1}(z), z = (β−1)s, for lomax; β E_{β+1}(ms) for pareto.
    s = RATES[1:]
    assert_allclose(parse_law("lomax(beta=2)").transform(s), 2.0 * np.exp(s) * special.expn(3, s), rtol=1e-12)
    assert_allclose(parse_law("pareto(beta=2)").transform(s), 2.0 * special.expn(3, s / 2.0), rtol=1e-12)


def test_transform_of_the_deterministic_law_is_a_delay() -> None:
    assert_allclose(parse_law("deterministic").transform(RATES), np.exp(-RATES), rtol=1e-15)


# ---- arguments ----------------------------------------------------------------------------------------------


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
