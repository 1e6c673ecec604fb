"""Profiles of the arrival rate: their text, rate, integral and its inverse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.arrivals import Profile, as_arrivals, parse_profile
from sweep.cell import Cell, Limit
from sweep.laws import parse_law


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    gaps = draw(st.lists(st.floats(0.01, 5.0), max_size=4))
    times = np.cumsum([0.0, *gaps]).tolist()
    factors = draw(st.lists(st.floats(0.0, 3.0), min_size=len(times), max_size=len(times)))
    factors[-1] = max(factors[-1], 0.1)
    period = draw(st.sampled_from([math.inf, times[-1] + 0.7]))
    return Profile(tuple(zip(times, factors, strict=True)), period)


@given(profiles())
def test_a_profile_reads_back_to_itself(profile: Profile) -> None:
    assert as_arrivals(str(profile)) == profile
    assert str(as_arrivals(str(profile))) == str(profile) == profile.identity


@given(profiles(), st.lists(st.floats(0.0, 40.0), min_size=2, max_size=6))
def test_the_integral_is_that_of_the_rate_between_breakpoints(profile: Profile, times: list[float]) -> None:
    for time in times:
        edges = np.array([0.0, *profile.breakpoints(time), time])
        middles = 0.5 * (edges[1:] + edges[:-1])
        sums = math.fsum((profile.rate(middles) * np.diff(edges)).tolist())
        assert float(profile.integral(time)) == pytest.approx(sums, rel=1e-9, abs=1e-9)
    assert np.all(profile.rate(times) <= profile.most)


@given(profiles(), st.floats(0.0, 30.0))
def test_the_inverse_is_the_least_time_of_an_integral(profile: Profile, y: float) -> None:
    time = float(profile.inverse(y))
    assert float(profile.integral(time)) == pytest.approx(y, rel=1e-9, abs=1e-9)
    if time > 1e-3:
        assert float(profile.integral(time * (1.0 - 1e-9))) <= y * (1.0 + 1e-12) + 1e-12


def test_values_at_steps_are_those_from_then_on() -> None:
    profile = parse_profile("profile(0: 1.5, 5: 0, period=10)")
    assert profile.rate([0.0, 5.0, 9.99, 10.0, 15.0]).tolist() == [1.5, 0.0, 0.0, 1.5, 0.0]
    assert profile.integral([[5.0, 10.0], [12.0, 25.0]]).tolist() == [[7.5, 7.5], [10.5, 22.5]]
    assert profile.inverse([7.5, 9.0]).tolist() == [5.0, 11.0]
    assert profile.breakpoints(20.0) == (5.0, 10.0, 15.0)


def test_an_integral_out_of_reach_is_at_infinity() -> None:
    profile = parse_profile("profile(0: 1, 2: 0)")
    assert profile.inverse([2.0, 2.5]).tolist() == [2.0, math.inf]
    assert float(profile.integral(math.inf)) == 2.0


def test_steps_that_change_nothing_are_dropped() -> None:
    assert (
        str(parse_profile("profile(0: 1.0, 1: 1, 3*0.1: 2)".replace("3*0.1", "2.0"))) == "profile(0: 1, 2: 2)"
    )
    assert str(parse_profile("profile(0: 1, 3: 1, period=7)")) == "profile(0: 1)"
    assert parse_profile("profile(0: 1, 1: 2, 3: 1, period=5)").breakpoints(6.0) == (1.0, 3.0)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("profile", "arrivals must be a profile, got 'profile'"),
        ("profile()", "arrivals must list time: factor, got ''"),
        ("profile(0: 1, 2)", "arrivals must list time: factor, got '2'"),
        ("profile(0: 1, 2: x)", "arrivals must list time: factor, got '2: x'"),
        ("profile(0: 1, 2: 2, period=x)", "arrivals must list time: factor, got 'period=x'"),
        ("profile(0: 1, 2: 2, period=5, period=6)", "arrivals must list time: factor, got 'period=6'"),
        ("profile(1: 1)", "arrivals must have a profile that starts at time 0"),
        (
            "profile(0: 1, 2: 2, 2: 3)",
            "arrivals must have a profile of increasing times, got [0.0, 2.0, 2.0]",
        ),
        ("profile(0: -1)", "arrivals must have a profile of finite factors ≥ 0, got -1.0"),
        ("profile(0: 0, 2: 0)", "arrivals must have a profile that is not 0 throughout"),
        ("profile(0: 1, 2: 2, period=2)", "arrivals must have a period after the last step, got 2.0"),
    ],
)
def test_a_bad_profile_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match="arrivals must") as caught:
        as_arrivals(text)
    assert fault in str(caught.value)


def test_negative_times_are_refused() -> None:
    with pytest.raises(ValueError, match=r"times of a profile must be at least 0, got -1.0"):
        parse_profile("profile(0: 1)").rate([0.0, -1.0])


def test_arrivals_may_be_a_law_a_profile_or_their_text() -> None:
    profile = parse_profile("profile(0: 1, 2: 3)")
    assert as_arrivals(profile) is profile
    assert as_arrivals("deterministic") == parse_law("deterministic")
    with pytest.raises(ValueError, match="arrivals must name a law, got 'poisson'"):
        as_arrivals("poisson")


def test_the_rate_is_part_of_the_limit_and_of_the_network() -> None:
    common = {"d": 2, "lam": 0.5, "G": "exponential"}
    limit = Limit(**common, arrivals="profile( 0: 1, 2: 3 )")
    assert limit.key != Limit(**common).key
    assert "arrivals=profile(0: 1, 2: 3)" in limit.text
    assert limit.mean_arrivals(np.array([1.0, 3.0])).tolist() == [0.5, 2.5]
    assert Limit(**common).mean_arrivals(np.array([3.0])).tolist() == [1.5]
    cell = Cell(N=10, **common, arrivals="profile(0: 1, 2: 3)")
    assert cell.limit == limit
    assert cell.key != Cell(N=10, **common).key
