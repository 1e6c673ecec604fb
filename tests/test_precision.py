"""Replicas for a stated standard error: the same set whatever was stored before and in whatever order."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.precision import replicas_needed, standard_error
from sweep.studies.base import RunTable

NUMBERS = st.floats(-1e6, 1e6)
RULES = st.fixed_dictionaries(
    {"target": st.floats(1e-3, 1e6), "replicas": st.integers(2, 20), "max_replicas": st.integers(20, 300)}
)


@given(st.lists(NUMBERS, min_size=2, max_size=50))
def test_the_standard_error_is_that_of_the_textbook(values: list[float]) -> None:
    expected = statistics.stdev(values) / math.sqrt(len(values))
    assert standard_error(values) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_equal_values_have_no_error_though_their_mean_is_rounded() -> None:
    assert standard_error([0.1] * 3) == 0.0
    assert standard_error([1e16, 1e16 + 2, 1e16 + 4]) == pytest.approx(2 / math.sqrt(3), rel=1e-12)


@given(st.lists(NUMBERS, min_size=2, max_size=30), st.randoms())
def test_the_order_of_replicas_within_a_stage_is_nothing_to_the_error(
    values: list[float], rng: random.Random
) -> None:
    shuffled = values[:]
    rng.shuffle(shuffled)
    assert standard_error(shuffled) == standard_error(values)


def grown(path: list[float], rule: dict[str, Any], stored: int) -> int:
    """The replicas of a cell that begins with some stored, when it asks until nothing is missing."""
    while (wanted := replicas_needed(path[:stored], **rule)) > stored:
        stored = wanted
    return wanted


@given(st.integers(0, 2**32), RULES, st.integers(0, 300))
def test_a_cell_ends_with_the_same_replicas_whatever_was_stored(
    seed: int, rule: dict[str, Any], stored: int
) -> None:
    path = np.random.default_rng(seed).normal(size=600).tolist()
    count = grown(path, rule, 0)
    assert grown(path, rule, stored) == count
    assert rule["replicas"] <= count <= rule["max_replicas"]
    # What lies beyond the set does not matter, whatever it is.
    assert grown(path[:count] + [math.nan] * 400, rule, stored) == count


@given(st.integers(0, 2**32), RULES)
def test_a_cell_stops_at_its_first_stage_with_the_target_reached(seed: int, rule: dict[str, Any]) -> None:
    path = np.random.default_rng(seed).normal(size=600).tolist()
    stages, count = [], 0
    while (wanted := replicas_needed(path[:count], **rule)) > count:
        stages.append(count := wanted)
    assert stages[-1] == rule["max_replicas"] or standard_error(path[: stages[-1]]) <= rule["target"]
    assert all(standard_error(path[:n]) > rule["target"] for n in stages[:-1])
    for before, after in itertools.pairwise(stages):
        assert 1.25 * before <= after <= 2 * before or after == rule["max_replicas"]


def test_a_known_variance_needs_the_replicas_of_the_square_root_law() -> None:
    """Fair signs have s.e. 1/√n, so 0.05 needs 400; estimates of the variance are within some per cent."""
    signs = np.random.default_rng(5).choice([-1.0, 1.0], size=2000).tolist()
    count = grown(signs, {"target": 0.05, "replicas": 20, "max_replicas": 2000}, 0)
    assert 380 <= count <= 520


def test_the_largest_error_among_entries_counts() -> None:
    still, moving = np.zeros((8, 3)), np.zeros((8, 3))
    moving[:, 1] = [0.0, 2.0] * 4
    rule = {"target": 0.1, "replicas": 8, "max_replicas": 100}
    assert replicas_needed(still, **rule) == 8
    assert replicas_needed(moving, **rule) == 16
    assert replicas_needed(np.zeros((8, 0)), **rule) == 8


def test_what_is_not_a_number_never_reaches_the_target() -> None:
    values = [1.0, math.nan, *[1.0] * 98]
    assert replicas_needed(values, target=1.0, replicas=4, max_replicas=50) == 50


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"target": 0.0}, ValueError, "target_stderr must be a positive number, got 0.0"),
        ({"target": math.inf}, ValueError, "target_stderr must be a positive number, got inf"),
        ({"replicas": 1}, ValueError, "replicas must be at least 2 with target_stderr, got 1: one has"),
        ({"max_replicas": 3}, ValueError, "max_replicas must be at least replicas = 4, got 3"),
        ({"replicas": 4.5}, TypeError, "replicas must be a whole number, got 4.5"),
        ({"max_replicas": True}, TypeError, "max_replicas must be a whole number, got True"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        replicas_needed([], **{"target": 1.0, "replicas": 4, "max_replicas": 8} | change)


def test_whole_numbers_of_any_type_are_numbers_of_replicas() -> None:
    wanted = replicas_needed([], target=1.0, replicas=4.0, max_replicas=np.int64(8))  # type: ignore[arg-type]
    assert (wanted, type(wanted)) == (4, int)


@pytest.mark.parametrize(("replicas", "most"), [(1, 1), (1, 8), (4, 3)])
def test_a_spec_and_the_rule_name_the_same_faults(replicas: int, most: int) -> None:
    run = RunTable(replicas=replicas, max_replicas=most, target_stderr=1.0)
    (fault,) = run.faults()
    with pytest.raises(ValueError, match="must be at least") as caught:
        replicas_needed([], target=1.0, replicas=replicas, max_replicas=most)
    assert str(caught.value) == fault


def test_values_without_replicas_are_refused() -> None:
    with pytest.raises(ValueError, match="values must have one entry a replica, got the single number"):
        replicas_needed(1.0, target=1.0, replicas=4, max_replicas=8)
    with pytest.raises(ValueError, match="values must hold at least two replicas, got 1"):
        standard_error([1.0])


def test_a_relative_target_is_a_share_of_the_mean() -> None:
    values = 100.0 + np.random.default_rng(3).normal(size=64)
    rule = {"replicas": 4, "max_replicas": 64}
    absolute = replicas_needed(values, target=0.25, **rule)
    assert replicas_needed(values, target=0.25, relative=True, **rule) == 4
    # The mean is 100 to within the error, so a hundredth of the target is the same rule.
    assert abs(replicas_needed(values, target=0.0025, relative=True, **rule) - absolute) <= 1
    assert replicas_needed([1.0, -1.0] * 4, target=0.25, relative=True, replicas=4, max_replicas=8) == 8
