"""Origin, tail, jumps and support of each law, and its Laplace transform."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

from sweep.laws import parse_law
from tests.laws_table import AGES, LAW_OF, NODES, REFERENCES, TEXTS, WEIGHTS


@pytest.mark.parametrize("text", TEXTS)
def test_origin_exponent_is_the_slope_of_the_cdf_at_zero(text: str) -> None:
    law = LAW_OF[text]
    ages = np.array([1e-30, 1e-28]) if law.origin_exponent < 1.0 else np.array([1e-7, 1e-6])
    start = -np.expm1(law.log_survival(ages))
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


# ---- Laplace transforms

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
