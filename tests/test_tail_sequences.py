"""Local exponents of exact tails have their limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.tail_data import Tail
from analysis.tail_sequences import LEAST_LEVELS, Sequences, aitken, candidates
from analysis.tails import judge
from tests.tail_samples import exponential_tail, fit_of


@given(st.floats(0.2, 8.0), st.floats(-0.4, 4.0))
@settings(max_examples=30)
def test_shifted_power_laws_give_their_exponent(gamma: float, shift: float) -> None:
    steps = gamma / (np.arange(1.0, 400.0) + shift)
    fit = fit_of(-np.cumsum(np.append(4.0, steps)))
    assert fit.regime == "power"
    assert fit.rate == pytest.approx(gamma, rel=1e-6)


@pytest.mark.parametrize(
    ("first", "d", "fraction", "regime"),
    [
        # S_200 = e^{−first}/200 and γ = 1: terms of order S, 2S², and S + 18 S may be 5 % at most.
        (2.0, 2, 1.0, "power"),
        (-2.5, 2, 1.0, "inconclusive"),
        (-2.5, 3, 1.0, "power"),
        (0.0, 2, 0.9, "inconclusive"),
        (1.0, 2, 0.9, "power"),
        (-2.5, 1, 1.0, "inconclusive"),
    ],
)
def test_power_laws_whose_S_is_not_small_are_no_verdict(
    first: float, d: int, fraction: float, regime: str
) -> None:
    log_S = -first - np.log(np.arange(1.0, 201.0))
    row = judge(Tail(log_S=log_S, left_out=np.empty((0, 200))), None, fraction, d)
    assert row["regime"] == regime


@given(st.floats(0.02, 0.98), st.integers(9, 50))
@settings(max_examples=30)
def test_exact_geometric_tails_give_their_ratio(rho: float, levels: int) -> None:
    fit = fit_of(math.log(rho) * np.arange(1.0, levels + 1) - 0.1)
    assert fit.regime == "geometric"
    assert fit.rate == pytest.approx(rho, rel=1e-9)


@given(st.floats(1.1, 6.0), st.floats(-0.5, 0.5))
@settings(max_examples=30)
def test_exact_double_exponentials_give_their_base(r: float, offset: float) -> None:
    levels = np.arange(1.0, 9.0)
    fit = fit_of(-(3.0 / (r - 1.0)) * r**levels - offset)
    assert fit.regime == "double_exponential"
    assert fit.rate == pytest.approx(r, rel=1e-9)
    assert fit.rate_lo <= r <= fit.rate_hi


def test_local_exponents_are_those_of_their_definitions() -> None:
    found = Sequences.of(np.log([0.5, 0.25, 0.0625]))
    assert found.ratio == pytest.approx([0.5, 0.25])
    assert found.growth == pytest.approx([2.0])
    assert found.power == pytest.approx([-2.0 * math.log(2.0)])
    assert found.index == pytest.approx([math.log(2.0) / math.log(2.5 / 1.5)])


def test_aitken_is_exact_for_geometric_errors_and_says_when_steps_do_not_shrink() -> None:
    assert aitken(2.0 + 0.8, 2.0 + 0.4, 2.0 + 0.2) == pytest.approx((2.0, 0.2))
    assert aitken(2.0 + 0.8, 2.0 - 0.4, 2.0 + 0.2) == pytest.approx((2.0, 0.6))
    assert aitken(2.0, 2.0, 2.0) == (2.0, 0.0)
    limit, error = aitken(1.0, 2.0, 3.0)
    assert abs(limit - 3.0) < error


def test_too_few_levels_have_no_candidates() -> None:
    assert candidates(exponential_tail(4)) == ()
    assert [one.regime for one in candidates(exponential_tail(9))] == ["double_exponential", "geometric"]
    assert len(candidates(exponential_tail(LEAST_LEVELS["power"]))) == 3
