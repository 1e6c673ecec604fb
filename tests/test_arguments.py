"""Every public function refuses a bad argument in one sentence, at once, and takes scalars of NumPy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import sweep
from sweep import arguments, grids, machine
from sweep.arguments import check_count, check_memory, numbers, real
from sweep.arrivals import parse_profile
from sweep.cell import Limit
from sweep.errors import AccuracyError
from sweep.fluid.invariant import solve_invariant
from sweep.fluid.size import check_size
from sweep.laws import Exponential
from sweep.wording import shown
from tests.argument_calls import CALLS, DIFFUSION, FLUID, LINE, NETWORK
from tests.bad_values import ATOMS, HUGE, INF, NAN

TABLE = [(name, argument) for name, entry in CALLS.items() for argument in entry.kinds]


@pytest.mark.parametrize(("name", "argument"), TABLE)
def test_a_bad_argument_is_one_sentence_with_its_name_and_value(name: str, argument: str) -> None:
    entry = CALLS[name]
    called = entry.names[argument].replace("_", " ") if argument in entry.names else argument
    for value, error, text in entry.kinds[argument]:
        with pytest.raises(error, match=re.escape(text)) as caught:
            entry.function(**{**entry.good, argument: value})
        message = str(caught.value)
        assert type(caught.value) is error
        assert message.startswith(f"{called} must ")
        assert ", got " in message
        assert "\n" not in message
        assert len(message) < 1000


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_of_the_table_are_right(name: str) -> None:
    CALLS[name].function(**CALLS[name].good)


# ---- sizes ------------------------------------------------------------------------------------------------

SIZES: list[tuple[str, dict[str, Any], str]] = [
    (
        "simulate",
        {"N": 10**12},
        "N must be at most 4294967295, got 1000000000000: so many servers take 86 GB",
    ),
    (
        "simulate",
        {"N": 4 * 10**9},
        "N must fit into memory, got 4000000000, which takes 80 GB where 8 GB are free: take fewer servers",
    ),
    ("simulate", {"N": 2**63}, "N must be at most 4294967295, got 9223372036854775808"),
    ("simulate", {"d": 10**9}, "d must be at most 1000000, got 1000000000"),
    ("simulate", {"levels": 10**9}, "levels must be at most 10000000, got 1000000000: a level takes some 50"),
    (
        "simulate",
        {"levels": 10**7, "times": np.arange(1000.0)},
        "levels must fit into memory, got 10000000, which takes 480 GB where 8 GB are free: take",
    ),
    ("simulate", {"times": [1e300]}, "times must end before 1e+14 jobs have arrived, got 1e+300 with N = 4"),
    (
        "simulate",
        {"arrivals": "profile(0: 1, 1e-9: 2, period=2e-9)"},
        "arrivals must have at most 1000000 steps up to the last time 1, got profile(",
    ),
    ("solve_fluid", {"times": [1e300]}, "times must fit into memory, got 1e+300, which takes 9.22e+294 GB"),
    ("solve_fluid", {"lam": 1e6, "times": [1e3]}, "lam must fit into memory, got 1000000.0, which takes"),
    ("solve_fluid", {"lam": 1e6, "times": [1.0]}, "lam must"),
    (
        "solve_fluid",
        {"initial": "lengths(9999999: 0.5)", "times": [9.0]},
        "initial must fit into memory, got",
    ),
    ("solve_fluid", {"initial": "invariant", "levels": 10**7}, "levels must be at most 20000, got 10000000"),
    (
        "solve_fluid",
        {"arrivals": "profile(0: 1, 1e-9: 2, period=2e-9)"},
        "arrivals must have at most 1000000 steps up to the last time 1, got profile(",
    ),
    (
        "invariant_state",
        {"levels": 10**9},
        "levels must be at most 20000, got 1000000000: each takes up to 50 kB",
    ),
    (
        "simulate_particles",
        {"step": 1e-300, "times": [1.0]},
        "step must make at most 1e+13 moves of particles",
    ),
    (
        "simulate_particles",
        {"step": 5e-324, "times": [1.0]},
        "step must make at most 1e+13 moves of particles",
    ),
    (
        "simulate_particles",
        {"b1": -1e200, "times": [1.0]},
        "step must make at most 1e+13 moves of particles up to t = 1, got 0, as b1 = -1e+200 and b0 = 1",
    ),
    (
        "simulate_particles",
        {"particles": 10**12},
        "particles must fit into memory, got 1000000000000, which takes 6.4e+04 GB where 8 GB are free",
    ),
    ("stationary", {"ell": 10**9}, "ell must be at most 1000, got 1000000000"),
    ("prelimit_tails", {"ell": 10**9}, "ell must be at most 1000, got 1000000000"),
]


@pytest.mark.parametrize(("name", "change", "text"), SIZES)
def test_an_absurd_size_says_what_it_would_cost(
    monkeypatch: pytest.MonkeyPatch, name: str, change: dict[str, Any], text: str
) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 8 * 10**9)
    entry = CALLS[name]
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        entry.function(**{**entry.good, **change})
    assert "\n" not in str(caught.value)


def test_memory_is_looked_at_only_where_much_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 0)
    check_memory("N", 1, 2.0**30, "take less")
    with pytest.raises(
        ValueError, match="N must fit into memory, got 2, which takes 2 GB where 0 GB are free"
    ):
        check_memory("N", 2, 2e9, "take less")


# ---- scalars of NumPy and xarray --------------------------------------------------------------------------

SCALARS: list[tuple[str, dict[str, Any]]] = [
    (
        "simulate",
        {**NETWORK, "replica": 2, "levels": 3, "fraction": 0.3, "replacement": False},
    ),
    ("simulate", {**NETWORK, "method": "lumped", "measure": False}),
    ("solve_fluid", {**FLUID, "levels": 3, "fraction": 0.3}),
    ("invariant_state", {"d": 2, "lam": 0.9, "G": "erlang(k=2)", "levels": 3, "fraction": 0.3}),
    ("solve_diffusion", {**DIFFUSION, "times": [0.0, 1.0], "tolerance": 1e-2}),
    (
        "simulate_particles",
        {**DIFFUSION, "times": [1.0], "particles": 50, "seed": 1, "step": 0.1, "positions": True},
    ),
    ("prohorov", {"x": [0.0, 0.3], "wx": 0.3, "y": [0.5], "wy": 0.7}),
    ("wasserstein", {"mu": ATOMS, "nu": LINE, "until": 2.3}),
    ("residual_norm", {"law": Exponential(), "mu": ATOMS, "nu": ATOMS, "tolerance": 0.1}),
    *((law, {name: value}) for law, name, value in (("erlang", "k", 3), ("lomax", "beta", 2.3))),
    ("survival", {"x": 0.3}),
    ("cole_hopf", {"b1": -1.9, "b0": 1.1, "sigma2": 2.3, "t": 0.7, "x": 0.3}),
    ("prelimit_tails", {"m": 81.0, "b1": -1.9, "b0": 1.1, "ell": 2}),
    ("prelimit_mean", {"m": 81.0, "b1": -1.9, "b0": 1.1, "ell": 2}),
    ("tagged_tail", {**DIFFUSION, "times": [0.5], "position": 0.7, "x": [0.5], "tolerance": 1e-2}),
    ("joint_tail", {**DIFFUSION, "times": [0.5, 1.0], "x": 0.3, "y": [0.5], "tolerance": 1e-1}),
    ("default_x", {"cells": [(-2, 1, 2, 2.0)], "initial": "empty", "horizon": 1.3, "count": 5}),
    ("check_routing", {"routing": "idle", "d": 2, "fraction": 0.5}),
    ("Scaled", {"start": "empty", "m": 4.5, "exchangeable": False}),
    ("Lengths", {"shares": ((1, 0.3), (2, 0.2))}),
    ("Profile", {"steps": ((0.0, 1.5), (5.0, 0.5)), "period": 10.5}),
    ("Delayed", {"law": Exponential(), "age": 1.3}),
    ("Cell", {"N": 100, "d": 2, "lam": 0.3, "G": "exponential", "fraction": 0.3, "replacement": False}),
]
NARROW = {bool: np.bool_, int: np.int32, float: np.float64, str: np.str_}
DRESSES: dict[str, Callable[[Any], Any]] = {
    "scalar": lambda value: NARROW[type(value)](value),
    "array": lambda value: np.str_(value) if isinstance(value, str) else np.array(value),
    "labelled": lambda value: np.str_(value) if isinstance(value, str) else xr.DataArray(value),
}


def dressed(value: Any, dress: Callable[[Any], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(dressed(entry, dress) for entry in value)
    return dress(value) if type(value) in NARROW else value


def bits(result: Any) -> Any:
    """All that a result holds, with every bit of its numbers."""
    if isinstance(result, xr.Dataset):
        return [(name, result[name].values.tobytes()) for name in result.variables], repr(result.attrs)
    if isinstance(result, np.ndarray):
        return result.tobytes()
    if hasattr(result, "v") and hasattr(result, "error"):
        return result.v.tobytes(), result.error
    return repr(result), getattr(result, "key", str(result))


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize(("name", "good"), SCALARS)
def test_scalars_of_numpy_and_arrays_of_no_dimension_are_numbers(
    name: str, good: dict[str, Any], dress: str
) -> None:
    function = CALLS[name].function
    given = {key: dressed(value, DRESSES[dress]) for key, value in good.items()}
    assert bits(function(**given)) == bits(function(**good))


@given(st.floats())
def test_a_number_keeps_every_bit(x: float) -> None:
    for value in (np.float64(x), np.array(x), xr.DataArray(x), Decimal(x)):
        assert np.float64(real("x", value)).tobytes()[:7] == np.float64(x).tobytes()[:7] or math.isnan(x)
    assert numbers("x", [x, np.float64(x)]).tobytes() == np.array([x, x]).tobytes()


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_whole_number_keeps_every_digit(n: int) -> None:
    for value in (n, np.int64(n), np.array(n), xr.DataArray(n), Decimal(n), Fraction(n)):
        assert check_count("n", value, -(2**63)) == n
    assert type(check_count("n", np.int64(n), -(2**63))) is int


def test_a_whole_float_is_a_whole_number() -> None:
    assert [check_count("N", value) for value in (10.0, np.float32(10.0), np.array(10.0))] == [10, 10, 10]


@pytest.mark.parametrize("value", [Decimal("2.5"), Decimal("NaN"), Decimal("Infinity"), Fraction(5, 2)])
def test_a_broken_number_is_not_whole(value: Any) -> None:
    with pytest.raises(TypeError, match="N must be a whole number, got"):
        check_count("N", value)


def test_levels_that_heavy_tails_never_fill_are_not_counted() -> None:
    """From fresh ages lomax(beta=1.1) serves 1.4 jobs a unit of time for long: no queue builds up."""
    check_size(Limit(d=2, lam=1.4, G="lomax(beta=1.1)"), 1e4, None)


def test_the_ages_without_snapshots_may_be_given_back() -> None:
    ages = grids.default_ages(np.array([]))
    assert np.array_equal(grids.check_ages(ages, np.array([])), ages)


# ---- values as errors show them ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float64(0.1), "0.1"),
        (np.int64(3), "3"),
        (np.array([0.5, NAN]), "[0.5, nan]"),
        (np.zeros((3, 4)), "an array of shape (3, 4)"),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
        (10**30, "a number of 31 digits"),
        pytest.param(10**5000, "a number of some 5000 digits", id="5000 digits"),
        (xr.DataArray([1.0, 2.0]), "<xarray.DataArray (dim_0: 2)> Size: 16B array([1., 2.])"),
    ],
)
def test_a_value_is_shown_in_one_short_line(value: Any, text: str) -> None:
    assert shown(value).startswith(text)
    assert "\n" not in shown(value)


def test_long_text_is_cut() -> None:
    assert len(shown("x" * 10_000)) < 300


def test_a_choice_lists_what_there_is() -> None:
    with pytest.raises(ValueError, match="method must be one of servers, lumped, got 'fast'"):
        arguments.check_choice("method", "fast", ["servers", "lumped"])


# ---- what one argument alone does not show ----------------------------------------------------------------

OTHERS: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("solve_diffusion", {"times": [1e-300]}, ValueError, "times must be 0 or at least 1e-280, got 1e-300"),
    ("solve_diffusion", {"sigma2": 1e-310}, ValueError, "sigma2 must be at least 1e-300, got 1e-310: scale"),
    ("cole_hopf", {"x": [1e300]}, ValueError, "b1, b0, sigma2, t and x must be such that numbers do not"),
    ("cole_hopf_from", {"x": [INF]}, ValueError, "x must be finite, got inf"),
    ("cole_hopf_from", {"t": 1e300}, ValueError, "b1, b0, sigma2, t and x must be such that numbers do not"),
    (
        "cole_hopf_from",
        {"x": [1e9]},
        AccuracyError,
        "t and x must be within reach of quadrature, got an error",
    ),
    ("tagged_tail", {"times": [1.0], "b1": 1e300}, AccuracyError, "b1, b0 and sigma2 must be such that"),
    (
        "prelimit_tails",
        {"m": 1e300},
        AccuracyError,
        "m must be smaller for b1 = -2 and b0 = 1, got 1e+300: a",
    ),
    ("empirical_distances", {"m": 0.5}, ValueError, "m must be at least 1, got 0.5"),
    (
        "as_law",
        {"value": stats.gamma([1, 2])},
        ValueError,
        "G must be one law, got scipy.stats.gamma of means",
    ),
    ("simulate_particles", {"particles": HUGE}, ValueError, "particles must be at most 1099511627776, got a"),
]


@pytest.mark.parametrize(("name", "change", "error", "text"), OTHERS)
def test_numbers_out_of_reach_are_said_to_be(
    name: str, change: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=re.escape(text)):
        CALLS[name].function(**{**CALLS[name].good, **change})


def test_a_solve_that_would_take_hours_is_refused_where_memory_is_no_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 10**30)
    limit = Limit(d=2, lam=0.9, G="exponential")
    with pytest.raises(
        ValueError, match=r"times must be within reach, got 1000000000\.0, which takes 1\.2e\+01 levels"
    ):
        check_size(limit, 1e9, None)
    long = Limit(d=2, lam=0.9, G="exponential", initial="lengths(9999999: 0.5)")
    with pytest.raises(ValueError, match="initial must have lengths of at most 1000000 in the limit, got"):
        check_size(long, 1.0, None)
    check_size(limit, 1e5, None)


def test_an_invariant_state_names_the_level_and_the_ages_it_does_not_have() -> None:
    state = solve_invariant(Limit(d=2, lam=0.9, G="exponential"), 2)
    with pytest.raises(TypeError, match="level must be a whole number, got 'a'"):
        state.scaled("a", [0.5])  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="level must lie between 1 and the 2 held, got a number of 401 digits"
    ):
        state.quantile(HUGE, [0.5])
    with pytest.raises(ValueError, match="shares must be numbers, got 'a'"):
        state.quantile(1, "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"ages must be a sequence of numbers, got 0\.5"):
        state.age_cdfs(0.5)


def test_a_profile_that_repeats_has_no_rate_at_infinity() -> None:
    profile = parse_profile("profile(0: 1.5, 5: 0.5, period=10)")
    with pytest.raises(ValueError, match="times of a profile must be finite where it repeats, got inf"):
        profile.rate([1.0, INF])
    with pytest.raises(ValueError, match="times of a profile must be numbers, got 'a'"):
        profile.integral("a")
    with pytest.raises(ValueError, match="arrivals must have at most 1000000 steps up to the last time 1e"):
        profile.breakpoints(1e12)


@pytest.mark.parametrize("spec", [3, None, [], np.zeros(3)])
def test_a_sweep_is_run_from_a_path_or_tables(spec: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="spec must be a path or tables like those of its TOML text, got "):
        sweep.run(spec, store=tmp_path / "store", engine="serial")


def test_results_are_loaded_from_a_path() -> None:
    with pytest.raises(TypeError, match="store must be text or a path, got 3"):
        sweep.load(3)  # type: ignore[arg-type]
