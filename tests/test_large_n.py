"""Limits for large N: weights, small N left out, intervals of variances and of their roots."""

from __future__ import annotations

import math

import pytest
from scipy import optimize, special

from analysis.evidence import far
from analysis.large_n import LargeN, extrapolate, variance_interval
from analysis.moments import Estimate, VarianceEstimate


def test_sizes_that_need_a_third_term_are_left_out() -> None:
    found = {
        N: Estimate(value=3 + 5 / N + 1000 / N**2, variance=1e-4, freedom=31.0, n=32)
        for N in (10.0, 100.0, 200.0, 400.0)
    }
    fit = extrapolate(found)
    assert fit is not None
    assert (fit.dropped, fit.N_min) == (1, 100.0)
    assert fit.p_value > 0.05 > fit.p_value_all
    assert extrapolate({10.0: found[10.0]}) is None


def test_root_of_what_may_be_zero_is_not_told() -> None:
    values = {10.0: 0.11, 20.0: 0.1, 40.0: 0.09}
    unsure = extrapolate({N: Estimate(value=v, variance=0.01, freedom=31.0, n=32) for N, v in values.items()})
    sure = extrapolate(
        {N: Estimate(value=v + 4, variance=0.01, freedom=31.0, n=32) for N, v in values.items()}
    )
    assert unsure is not None
    assert sure is not None
    assert math.isnan(unsure.root().value)
    assert sure.root().value == pytest.approx(math.sqrt(sure.value), rel=1e-3)
    assert sure.root().value_stderr == pytest.approx(sure.value_stderr / 2 / math.sqrt(sure.value))
    assert sure.root().value_hi == pytest.approx(math.sqrt(sure.value_hi))


@pytest.mark.parametrize("f", [10, 20, 100])
def test_root_and_interval_of_a_variance_are_those_of_the_chi_square_law(f: int) -> None:
    # Of C χ²/f the standard error is √(2/f) C, and E √(χ²/f) = √(2/f) Γ((f+1)/2)/Γ(f/2).
    error = math.sqrt(2 / f)
    low, high = variance_interval(3.0, 3.0 * error, math.inf)
    exact = [3.0 * f / float(special.chdtri(f, 1 - p)) for p in (0.975, 0.025)]
    assert (low, high) == pytest.approx(exact, rel=0.01)
    fit = LargeN(
        value=3.0, value_stderr=3.0 * error, value_lo=low, value_hi=high, freedom=math.inf, second=0.0,
        p_value=0.5, p_value_all=0.5, N_min=32.0, dropped=0,
    )  # fmt: skip
    mean = error * math.exp(special.gammaln((f + 1) / 2) - special.gammaln(f / 2))
    assert fit.root().value * mean == pytest.approx(math.sqrt(3.0), rel=0.1 / f**2)
    # Twins: the interval about the estimate, and the plain root.
    assert 3.0 * (1 - 1.96 * error) != pytest.approx(low, rel=0.01)
    assert math.sqrt(3.0) * mean != pytest.approx(math.sqrt(3.0), rel=0.1 / f**2)


def test_interval_of_a_variance_has_no_upper_end_where_its_error_hardly_leaves_one() -> None:
    low, high = variance_interval(1.0, 0.9, 3.0)
    assert 0 < low < 1
    assert high == math.inf


def falling(second: float) -> LargeN:
    """Fit to variances 1 + second/N of relative error ½, five replicas each."""
    found = {
        N: VarianceEstimate(value=value, variance=value**2 / 4, freedom=4.0, n=5, fourth=3.0)
        for N in (10.0, 20.0, 40.0)
        if (value := 1 + second / N)
    }
    fit = extrapolate(found)
    assert fit is not None
    return fit


def test_interval_of_a_variance_does_not_jump_where_its_estimate_is_one_standard_error() -> None:
    edge = optimize.brentq(lambda c: (fit := falling(c)).value - fit.value_stderr, 0.0, 100.0)
    above, below = falling(edge - 1e-6), falling(edge + 1e-6)
    assert above.value > above.value_stderr
    assert below.value < below.value_stderr
    assert (below.value_lo, below.value_hi) == pytest.approx((above.value_lo, above.value_hi), rel=1e-4)
    # Of less than nothing the lower end is Student's: Σ(n−1) = 12 degrees of freedom, quantile 2.179.
    none = extrapolate(
        {N: VarianceEstimate(value=10 / N, variance=25 / N**2, freedom=4.0, n=5, fourth=3.0)
         for N in (10.0, 20.0, 40.0)}
    )  # fmt: skip
    assert none is not None
    assert none.freedom == 12.0
    assert none.value == pytest.approx(0.0, abs=1e-12)
    assert none.value_lo == pytest.approx(-2.179 * none.value_stderr, rel=1e-3)
    assert none.value_hi > 10 * none.value_stderr


def test_means_that_are_not_pooled_have_the_fewest_degrees_of_freedom() -> None:
    found = {
        N: Estimate(value=3 + 5 / N, variance=0.01, freedom=freedom, n=int(freedom) + 1)
        for N, freedom in ((10.0, 31.0), (20.0, 3.0), (40.0, 7.0))
    }
    fit = extrapolate(found)
    assert fit is not None
    assert fit.freedom == 3.0
    assert fit.value_hi - fit.value == pytest.approx(3.182 * fit.value_stderr, rel=1e-3)


def test_far_has_the_probability_of_four_normal_standard_errors() -> None:
    # P(|Z| > 4) = 6.334e-5; Student's t with one degree of freedom is a Cauchy law: tan(π(½ − p/2)).
    for freedom in (1.0, 2.0, 30.0):
        assert 2 * special.stdtr(freedom, -far(freedom)) == pytest.approx(6.334e-5, rel=1e-3)
    assert far(1.0) == pytest.approx(math.tan(math.pi * (0.5 - 6.334e-5 / 2)), rel=1e-3)
    assert far(math.inf) == pytest.approx(4.0)
