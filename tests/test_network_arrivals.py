"""Gaps of delayed renewal arrivals and of Poisson arrivals with a profile: texts, exact values, laws."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.arrivals import Profile, as_arrivals
from sweep.cell import Cell
from sweep.delayed import Delayed, parse_delayed
from sweep.laws import parse_law
from sweep.network.gaps import Gaps
from sweep.network.simulate import run_path, simulate
from sweep.network.supply import sampler
from tests.test_arrivals import profiles

#: |z| allowed: exceeded with probability 6e-5 by one number of an exact simulator.
BOUND = 4.0
COMMON: dict[str, Any] = {"N": 4, "d": 2, "lam": 0.5, "G": "exponential"}


def gaps_of(cell: Cell, seed: int = 1) -> Gaps:
    return Gaps(cell, np.random.default_rng(seed), sampler)


def draw(gaps: Gaps, size: int) -> np.ndarray:
    values = np.empty(size)
    gaps.fill(values)
    return values


@pytest.mark.parametrize(
    "text",
    [
        "renewal(lomax(beta=1.5), age=2)",
        "renewal(deterministic, age=stationary)",
        "renewal(phase_type(alpha=[1, 0], T=[[-2, 2], [0, -2]]), age=0.25)",
    ],
)
def test_delayed_arrivals_read_back_to_themselves(text: str) -> None:
    arrivals = as_arrivals(f"  {text} ")
    assert isinstance(arrivals, Delayed)
    assert str(arrivals) == text
    assert as_arrivals(str(arrivals)) == arrivals
    assert as_arrivals(arrivals) is arrivals


def test_an_age_of_zero_is_the_plain_law_and_every_other_age_another_cell() -> None:
    assert as_arrivals("renewal(erlang(k=2), age=0)") == parse_law("erlang(k=2)")
    assert as_arrivals("renewal( erlang(k=2) )") == parse_law("erlang(k=2)")
    assert as_arrivals(Delayed(parse_law("erlang(k=2)"), 0.0)) == parse_law("erlang(k=2)")
    texts = ["erlang(k=2)", *(f"renewal(erlang(k=2), age={age})" for age in ("1", "2", "stationary"))]
    assert len({Cell(**COMMON, arrivals=text).key for text in texts}) == 4
    assert len({Cell(**COMMON, arrivals=text).limit.key for text in texts}) == 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("renewal(erlang(k=2), age=-1)", "arrivals must have a finite age ≥ 0, got -1.0"),
        (
            "renewal(erlang(k=2), age=old)",
            "arrivals must have an age that is a number or stationary, got",
        ),
        ("renewal(poisson, age=1)", "arrivals must name a law, got 'poisson'"),
        ("renewal erlang(k=2)", "arrivals must be a renewal process, got 'renewal erlang(k=2)'"),
    ],
)
def test_impossible_delayed_arrivals_are_refused(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        as_arrivals(text)
    with pytest.raises(ValueError, match=re.escape(fault.replace("arrivals", "E", 1))):
        parse_delayed(text, "E")


def test_an_age_that_no_gap_exceeds_is_refused_with_the_ages_that_are() -> None:
    text = "arrivals must have an age that gaps exceed, got age = 2 with deterministic and lam = 0.5"
    with pytest.raises(ValueError, match=f"{text}: take one below 2"):
        Cell(**COMMON, arrivals="renewal(deterministic, age=2)")
    assert Cell(**COMMON, arrivals="renewal(deterministic, age=1.99)")


def test_the_first_arrival_comes_when_the_gap_under_way_ends() -> None:
    """Gaps of 1/λ = 2 for a server's share, one of them of age 1: the first ends after 1/N."""
    data = simulate(
        **COMMON, arrivals="renewal(deterministic, age=1)", times=[0.2499, 0.25, 0.7499, 0.75, 1.25], seed=1
    )
    assert (data.E * 4).values.tolist() == [0, 1, 1, 2, 3]
    assert gaps_of(Cell(**COMMON, arrivals="renewal(deterministic, age=1)")).age == 0.5


def test_the_recurrence_time_goes_on_from_the_age_of_the_gap_under_way() -> None:
    """R_E(0) = R/N with R = 1, N = 4; the first arrival is at 1/4, the next ones come every 1/2."""
    times = [0.0, 0.2, 0.25, 0.3, 0.8]
    data = simulate(**COMMON, arrivals="renewal(deterministic, age=1)", times=times, seed=1)
    assert np.allclose(data.R_E, [0.25, 0.45, 0.0, 0.05, 0.05], atol=1e-12)


def first_gaps(arrivals: str, count: int) -> np.ndarray:
    cell, rng = Cell(**COMMON, arrivals=arrivals), np.random.default_rng(7)
    return np.array([draw(Gaps(cell, rng, sampler), 1)[0] for _ in range(count)])


@pytest.mark.parametrize(
    ("arrivals", "mean", "variance"),
    [
        # Lomax: from age λR = 1 on the scale is c = β − 1 + λR = 5; mean c/(β−1), E r² = 2c²/((β−1)(β−2)).
        ("renewal(lomax(beta=5), age=2)", 1.25, 50.0 / 12.0 - 1.25**2),
        # Erlang-2 of rate 2 at age a: one phase is left with probability 2a/(1 + 2a).
        ("renewal(erlang(k=2), age=2)", 2 / 3 * 0.5 + 1 / 3, 2 / 3 * 0.5 + 1 / 3 * 1.5 - (2 / 3) ** 2),
        ("renewal(exponential, age=5)", 1.0, 1.0),
        # The excess of erlang-2 is one or two phases, each with probability 1/2.
        ("renewal(erlang(k=2), age=stationary)", 0.75, 0.5 * 0.5 + 0.5 * 1.5 - 0.75**2),
    ],
)
def test_the_first_gap_has_the_residual_mean(arrivals: str, mean: float, variance: float) -> None:
    """Means of residual lives in closed form; a mean 5 % off must fail."""
    values = first_gaps(arrivals, 30_000 if "lomax" in arrivals else 12_000)
    error = math.sqrt(variance / values.size)
    assert abs(values.mean() - mean) <= BOUND * error
    assert abs(values.mean() - 1.05 * mean) > BOUND * error


def test_stationary_arrivals_have_the_exact_mean_number_at_every_time() -> None:
    """E E(t) = λt for stationary renewal arrivals; with a fresh first gap there are fewer."""

    def scores(arrivals: str) -> np.ndarray:
        cell, times = Cell(**{**COMMON, "N": 1}, arrivals=arrivals), np.array([0.5, 1.0, 2.5])
        counts = np.array(
            [
                run_path(cell, times=times, seed=3, replica=r, levels=2, snapshots=np.empty(0)).arrays(
                    np.empty(0)
                )["E"]
                for r in range(3000)
            ]
        )
        error = counts.std(axis=0, ddof=1) / math.sqrt(len(counts))
        return np.asarray(np.abs(counts.mean(axis=0) - 0.5 * times) / error)

    assert scores("renewal(erlang(k=4), age=stationary)").max() <= BOUND
    assert scores("erlang(k=4)").max() > BOUND


# ---- profiles ---------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(profile=profiles(), sizes=st.lists(st.integers(0, 7), min_size=1, max_size=5))
def test_arrivals_are_those_of_a_poisson_process_moved_by_the_profile(
    profile: Profile, sizes: list[int]
) -> None:
    cell, plain = Cell(**COMMON, arrivals=profile), Cell(**COMMON)
    unit = np.cumsum(draw(gaps_of(plain), sum(sizes))) / (0.5 * 4)
    expected = profile.inverse(unit)
    gaps = gaps_of(cell)
    values = np.concatenate([draw(gaps, size) for size in sizes])
    assert np.array_equal(values, draw(gaps_of(cell), sum(sizes))), "the path depends on the buffers"
    found = np.cumsum(values) / (0.5 * 4)
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))
    finite = np.isfinite(expected)
    # A rounding of y moves t by as much over the factor, and over a stop of arrivals where it ends one.
    again = profile.integral(found[finite])
    assert np.allclose(again, unit[finite], rtol=1e-9, atol=1e-12)


def test_no_job_arrives_while_the_rate_is_zero_or_after_it_is_zero_for_good() -> None:
    cell: dict[str, Any] = {**COMMON, "N": 1000, "lam": 2.0}
    times = np.linspace(0.0, 4.0, 17)
    data = simulate(**cell, arrivals="profile(0: 1, 1: 0, 2: 3, 3: 0)", times=times, seed=2)
    E = data.E.sel(t=[1.0, 1.75, 2.0, 3.0, 3.5, 4.0]).values
    assert E[0] == E[1] == pytest.approx(E[2], abs=1e-9)
    assert E[2] < E[3] == E[4] == E[5]


def test_counts_with_a_profile_have_the_poisson_mean_and_variance() -> None:
    """Counts in [0, 1] and (1, 2.5] are Poisson of means λN ∫ profile; means 5 % off must fail."""
    cell = Cell(**{**COMMON, "N": 20}, arrivals="profile(0: 1, 0.5: 3, 1: 0.2, period=2)")
    times, count = np.array([1.0, 2.5]), 2000
    means = 10.0 * np.array([2.0, 0.2 + 0.5])
    paths = [
        run_path(cell, times=times, seed=4, replica=r, levels=1, snapshots=np.empty(0)) for r in range(count)
    ]
    counts = np.array([np.diff(path.arrays(np.empty(0))["E"], prepend=0.0) * 20 for path in paths])
    scores = np.abs(counts.mean(axis=0) - means) / np.sqrt(means / count)
    assert scores.max() <= BOUND
    assert (np.abs(counts.mean(axis=0) - 1.05 * means) / np.sqrt(means / count)).min() > BOUND
    # The variance of a sample variance of Poisson counts is μ(1 + 2μ)/n, nearly.
    spread = np.abs(counts.var(axis=0, ddof=1) - means) / np.sqrt(means * (1.0 + 2.0 * means) / count)
    assert spread.max() <= BOUND


@pytest.mark.parametrize(
    "arrivals", ["renewal(lomax(beta=1.5), age=2)", "profile(0: 1, 0.5: 0, 1: 2.5, period=2)"]
)
def test_the_path_does_not_depend_on_buffers_times_or_the_horizon(arrivals: str) -> None:
    cell = Cell(**{**COMMON, "N": 20}, arrivals=arrivals)

    def S(times: list[float], block: int | None) -> np.ndarray:
        run = run_path(
            cell,
            times=np.array(times),
            seed=3,
            replica=1,
            levels=3,
            snapshots=np.empty(0),
            block=block,
        )
        return run.arrays(np.empty(0))["S"]

    whole = S([1.0, 2.0, 3.0, 7.0], None)
    assert np.array_equal(S([1.0, 2.0, 3.0, 7.0], 3), whole)
    assert np.array_equal(S([2.0, 3.0], None), whole[1:3])
