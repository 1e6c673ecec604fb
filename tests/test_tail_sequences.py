"""Local exponents of exact tails have their limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.tail_data import Tail
from analysis.tail_sequences import LEAST_LEVELS, Sequences, aitken, candidates
from analysis.tails import judge
from tests.tail_samples import Floats, exponential_tail, fit_of


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


@pytest.mark.parametrize("shift", [0.0, 5.0, 20.0, 80.0])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_a_shift_does_not_delay_a_power_law(gamma: float, shift: float) -> None:
    log_S = -4.0 - np.cumsum(np.append(0.0, gamma / (np.arange(1.0, 100.0) + shift)))
    for depth in range(24, 101, 4):
        row = row_of(log_S[:depth])
        assert (row["regime"], row["rate_lo"] <= gamma <= row["rate_hi"]) == ("power", True), depth


LEVELS = np.arange(1.0, 201.0)


def row_of(log_S: Floats) -> dict[str, Any]:
    return judge(Tail(log_S=log_S, left_out=np.empty((0, log_S.size))), None)


def falling(log_S: Floats) -> int:
    """Levels down to which log S decreases."""
    return int(np.argmin(np.append(np.diff(log_S) < 0.0, False))) + 1


@pytest.mark.parametrize(
    "log_S",
    [
        *(-c * (LEVELS + a) ** p for p in (0.05, 0.2, 0.5, 0.8, 0.95) for c in (0.3, 3.0) for a in (0, 20)),
        *(-c * np.log(LEVELS + a) ** 2 for c in (0.2, 1.0, 5.0) for a in (1.0, 20.0)),
        *(-c * np.log(LEVELS + 1.0) ** 1.5 for c in (0.2, 3.0)),
        *(-g * np.log(LEVELS + a) - 1.0 - LEVELS / 100.0 for g in (0.5, 2.0) for a in (0.0, 20.0)),
        *(-g * np.log(LEVELS) + 0.02 * np.sin(3.0 * np.log(LEVELS)) - 3.0 for g in (3.0, 5.0)),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 1e-8, 1e-6, 1e-4])
def test_what_is_no_power_law_is_never_called_one(log_S: Floats, noise: float) -> None:
    noisy = log_S + noise * np.random.default_rng(20130614).standard_normal(log_S.size)
    noisy = noisy[: falling(noisy)]
    for depth in range(24, 201, 8):
        assert row_of(noisy[:depth])["regime"] != "power", depth


@pytest.mark.parametrize("noise", [1e-8, 1e-7, 1e-6, 1e-5, 1e-3])
def test_noise_that_no_replica_tells_of_never_shifts_the_interval(noise: float) -> None:
    rng, seen = np.random.default_rng(7), 0
    for gamma, shift in ((0.5, 0.0), (1.0, 20.0), (2.0, 0.0), (5.0, 0.0), (5.0, 5.0)):
        for _ in range(4):
            log_S = -gamma * np.log(LEVELS + shift) - 3.0 + noise * rng.standard_normal(LEVELS.size)
            for depth in (24, 28, 40, 64, 100, 160):
                row = row_of(log_S[: min(depth, falling(log_S))])
                assert row["regime"] == "inconclusive" or row["rate_lo"] <= gamma <= row["rate_hi"], row
                seen += row["regime"] == "power"
    assert seen > 0 or noise > 1e-7


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
    assert found.bend.size == 0


@pytest.mark.parametrize("s", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("shift", [0.0, 40.0])
def test_the_bend_is_that_of_a_power_of_the_level_whatever_the_shift(s: float, shift: float) -> None:
    levels = np.arange(1.0, 400.0) + shift
    found = Sequences.of(-np.cumsum(np.append(1.0, levels**-s)))
    # Central differences are exact for s = 1 up to rounding like ℓ³, and else err like 1/(ℓ + a)².
    assert found.bend[-1 if s != 1.0 else 0 :] == pytest.approx(1.0 - 1.0 / s, abs=1e-5 if s != 1.0 else 1e-6)


def test_the_bend_of_a_double_exponential_is_exact() -> None:
    # y = r^{−ℓ}: y y''/y'² = 4 (r − 2 + 1/r)/(r − 1/r)² = 4 r/(r + 1)², 1 for r → 1.
    assert Sequences.of(exponential_tail(8)).bend == pytest.approx(8.0 / 9.0)


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
