"""Every bad input of a simulation gives one clear error that names the field, the value and the cure."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweep.age_profile import AgeProfile
from sweep.explicit import Explicit
from sweep.initial import Lengths, Scaled, parse_initial
from sweep.laws import parse_law
from sweep.network import kernels
from sweep.network import simulate as module
from sweep.network.simulate import simulate
from sweep.network.start import servers_at_start

GOOD: dict[str, Any] = {"N": 4, "d": 2, "lam": 0.9, "G": "exponential", "times": [0.0, 1.0], "seed": 1}
NAN = math.nan
TWICE = ([1, 2, 0, 0], [0.5, 0.5, 0.0, 0.0])

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"N": 0}, ValueError, "N must be at least 1, got 0"),
    ({"N": -3}, ValueError, "N must be at least 1, got -3"),
    ({"N": NAN}, TypeError, "N must be a whole number, got nan"),
    ({"N": "10"}, TypeError, "N must be a whole number, got '10'"),
    ({"N": None}, TypeError, "N must be a whole number, got None"),
    ({"d": 0}, ValueError, "d must be at least 1, got 0"),
    (
        {"d": 5, "replacement": False},
        ValueError,
        "d must be at most N without replacement, got d = 5 with N = 4",
    ),
    ({"lam": -0.5}, ValueError, "lam must be positive and finite, got -0.5"),
    ({"lam": 0}, ValueError, "lam must be positive and finite, got 0"),
    ({"lam": NAN}, ValueError, "lam must be positive and finite, got nan"),
    ({"lam": math.inf}, ValueError, "lam must be positive and finite, got inf"),
    ({"fraction": NAN}, ValueError, "fraction must lie in [0, 1], got nan"),
    ({"fraction": -0.1}, ValueError, "fraction must lie in [0, 1], got -0.1"),
    ({"G": "lomax(beta=0.5)"}, ValueError, "G must"),
    ({"G": "lomax(beta=nan)"}, ValueError, "G must"),
    ({"G": "exponental"}, ValueError, "G must name a law, got 'exponental'"),
    ({"G": 1.5}, TypeError, "G must"),
    ({"times": [1.0, 0.5]}, ValueError, "times must increase, got 0.5 after 1"),
    ({"times": [1.0, 1.0]}, ValueError, "times must increase, got 1 after 1"),
    ({"times": [0.0, NAN]}, ValueError, "times must be"),
    ({"times": [-1.0, 1.0]}, ValueError, "times must be"),
    ({"times": []}, ValueError, "times must not be empty"),
    ({"snapshots": [1.5]}, ValueError, "snapshots must not be later than the last stored time 1, got 1.5"),
    ({"snapshots": [NAN]}, ValueError, "snapshots must be"),
    ({"ages": [NAN], "snapshots": [1.0]}, ValueError, "ages must be"),
    ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
    ({"seed": NAN}, TypeError, "seed must be a whole number, got nan"),
    ({"replica": -1}, ValueError, "replica must be at least 0, got -1"),
    ({"levels": 0}, ValueError, "levels must be at least 1, got 0"),
    ({"replacement": "no"}, TypeError, "replacement must be true or false, got 'no'"),
    # arrivals
    ({"arrivals": "poisson"}, ValueError, "arrivals must name a law, got 'poisson'"),
    ({"arrivals": 2.0}, TypeError, "arrivals must"),
    (
        {"arrivals": "renewal(erlang(k=2), age=-1)"},
        ValueError,
        "arrivals must have a finite age ≥ 0, got -1.0",
    ),
    (
        {"arrivals": "renewal(erlang(k=2), age=nan)"},
        ValueError,
        "arrivals must have an age that is a number or",
    ),
    (
        {"arrivals": "renewal(deterministic, age=3)"},
        ValueError,
        "arrivals must have an age that gaps exceed, got",
    ),
    ({"arrivals": "profile(1: 2)"}, ValueError, "arrivals must have a profile that starts at time 0, got"),
    (
        {"arrivals": "profile(0: -2)"},
        ValueError,
        "arrivals must have a profile of finite factors ≥ 0, got -2.0",
    ),
    ({"arrivals": "profile(0: 0)"}, ValueError, "arrivals must have a profile that is not 0 throughout, got"),
    ({"arrivals": "profile(0: 1, 2: nan)"}, ValueError, "arrivals must list time: factor, got '2: nan'"),
    # starts
    ({"initial": "full"}, ValueError, "initial must be an initial state, got 'full'"),
    ({"initial": 3}, TypeError, "initial must be text or (lengths, ages), got 3"),
    ({"initial": "lengths(2: 0.33)"}, ValueError, "initial must give whole numbers of queues, got lengths"),
    (
        {"initial": "lengths(2: 0.5, ages=old)"},
        ValueError,
        "initial must have ages fresh or equilibrium, got 'old'",
    ),
    ({"initial": "lengths(99999999: 0.5)"}, ValueError, "initial must have lengths of at most 10000000, got"),
    (
        {"initial": "invariant", "lam": 1.0},
        ValueError,
        "initial must not be invariant where no invariant state",
    ),
    ({"initial": "scaled(empty)"}, ValueError, "initial must give m as a number"),
    ({"initial": "scaled(empty, m=0.5)"}, ValueError, "initial must have a scale m of at least 1, got 0.5"),
    ({"initial": "scaled(empty, m=4, m=9)"}, ValueError, "initial must give m once, got"),
    ({"initial": "scaled(empty, m=4, fixed=[-1])"}, ValueError, "initial must have fixed positions ≥ 0"),
    (
        {"initial": "scaled(empty, m=4, fixed=[1, 1, 1, 1, 1])"},
        ValueError,
        "initial must fix at most N queues, got 5",
    ),
    ({"initial": "scaled(empty, m=4, exchangeable=1)"}, ValueError, "exchangeable as true or false, got"),
    ({"initial": "scaled(half, m=4)"}, ValueError, "initial must be a law of X_0, got 'half'"),
    (
        {"initial": AgeProfile((), ((),), ((0.0, (0.5,)),))},
        ValueError,
        "initial must be a state of whole servers, got",
    ),
    ({"initial": (TWICE[0][:3], TWICE[1][:3])}, ValueError, "one length and age a server, got 3 with N = 4"),
    (
        {"initial": (TWICE[0], TWICE[1][:3])},
        ValueError,
        "as many ages as lengths, got 3 and 4: give two arrays",
    ),
    ({"initial": (TWICE[0], [0.5, NAN, 0, 0])}, ValueError, "finite ages ≥ 0, got nan at server 1"),
    ({"initial": (TWICE[0], [-0.5, 0, 0, 0])}, ValueError, "finite ages ≥ 0, got -0.5 at server 0"),
    ({"initial": ([1, 0.5, 0, 0], TWICE[1])}, ValueError, "lengths whole and ≥ 0, got 0.5 at server 1"),
    ({"initial": ([1, -2, 0, 0], TWICE[1])}, ValueError, "lengths whole and ≥ 0, got -2.0 at server 1"),
    (
        {"initial": ([1, 0, 0, 0], TWICE[1])},
        ValueError,
        "age 0 where no job is in service, got 0.5 at server 1",
    ),
    ({"initial": (["a"] * 4, TWICE[1])}, ValueError, "initial must have lengths that are numbers, got"),
    ({"initial": (np.ones((2, 2)), np.ones((2, 2)))}, ValueError, "a row of lengths, got shape (2, 2)"),
    (
        {"initial": ([1, 0, 0, 0], [1.0, 0, 0, 0]), "G": "deterministic"},
        ValueError,
        "ages that deterministic reaches",
    ),
]


@pytest.mark.parametrize(("change", "error", "text"), BAD)
def test_a_bad_input_is_one_clear_error_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], error: type[Exception], text: str
) -> None:
    monkeypatch.setattr(module, "run_path", None)
    with pytest.raises(error, match=re.escape(text)) as caught:
        simulate(**{**GOOD, **change})
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("1.0\n0\n2.0\n", "line 2 must be a positive number"),
        ("1.0\n-2\n", "line 2 must be a positive number"),
        ("1.0\nabc\n", "line 2 must be a positive number, from 1e-100 to 1e100, got 'abc'"),
        ("1.0\nnan\n", "line 2 must be a positive number, from 1e-100 to 1e100, got 'nan'"),
        ("# nothing\n", "must hold at least one number, got none"),
    ],
)
@pytest.mark.parametrize("field", ["G", "arrivals"])
def test_a_trace_of_zeros_or_text_names_its_line(tmp_path: Path, content: str, text: str, field: str) -> None:
    file = tmp_path / "times.txt"
    file.write_text(content)
    with pytest.raises(ValueError, match=re.escape(text)):
        simulate(**{**GOOD, field: f"trace({file})"})


def test_a_trace_that_is_missing_names_the_file() -> None:
    with pytest.raises(ValueError, match=r"path must name a readable file, got 'nowhere\.txt'"):
        simulate(**{**GOOD, "G": "trace(nowhere.txt)"})


def test_parts_of_starts_made_in_python_are_checked_too() -> None:
    with pytest.raises(ValueError, match="initial must have ages fresh or equilibrium, got 'old'"):
        Lengths(((1, 0.5),), "old")
    with pytest.raises(ValueError, match=r"initial must have proportions in \(0, 1\], got 1\.0000000001: "):
        Lengths(((1, 1.0 + 1e-10),))
    with pytest.raises(TypeError, match="initial must have a start that is text, got 3"):
        Scaled(start=3, m=4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="exchangeable must be true or false, got 1"):
        Scaled(start="empty", m=4, exchangeable=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="start must have a scale m"):
        parse_initial("scaled(empty, m=0)", "start")
    with pytest.raises(
        ValueError, match=r"initial must have ages that uniform\(width=0\.1\) reaches, got 1\.2"
    ):
        Explicit([1], [1.2]).check(1, 0.5, parse_law("uniform(width=0.1)"))


def test_servers_are_not_drawn_from_a_state_of_the_limit() -> None:
    class Other:
        N, initial, key = 4, AgeProfile((), ((),), ((0.0, (0.5,)),)), "0" * 32

    with pytest.raises(TypeError, match="initial must be a state of whole servers, got ages"):
        next(servers_at_start(Other(), 1, 0, np.ones))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"N": 0}, ValueError, "N must be at least 1, got 0"),
        ({"N": 2**32}, ValueError, "N must be at most 4294967295, got 4294967296"),
        ({"N": 2.5}, TypeError, "N must be a whole number, got 2.5"),
        ({"d": 0}, ValueError, "d must be at least 1, got 0"),
        ({"d": 11, "replacement": False}, ValueError, "d must be at most N without replacement, got d = 11"),
        ({"lam": -0.5}, ValueError, "lam must be positive and finite, got -0.5"),
        ({"G": "cauchy"}, ValueError, "G must .*cauchy"),
        ({"arrivals": "cauchy"}, ValueError, "arrivals must .*cauchy"),
        ({"times": [1.0, 0.5]}, ValueError, "times must increase, got 0.5 after 1"),
        ({"times": 11}, ValueError, "times must be an increasing sequence, got 11"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
        ({"seed": 0.5}, TypeError, "seed must be a whole number, got 0.5"),
        ({"replica": -1}, ValueError, "replica must be at least 0, got -1"),
        ({"levels": 0}, ValueError, "levels must be at least 1, got 0"),
        ({"fraction": 1.5}, ValueError, r"fraction must lie in \[0, 1\], got 1.5"),
        ({"replacement": "no"}, TypeError, "replacement must be true or false, got 'no'"),
        ({"initial": "lengths(2: 0.33)"}, ValueError, "initial must give whole numbers of queues"),
        ({"initial": "full"}, ValueError, "initial must be an initial state, got 'full'"),
        ({"snapshots": [2.0]}, ValueError, "snapshots must not be later than the last stored time 1, got 2"),
        ({"ages": [1.0, 0.0], "snapshots": [1.0]}, ValueError, "ages must increase, got 0 after 1"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], error: type[Exception], text: str
) -> None:
    monkeypatch.setattr(kernels, "run", None)
    with pytest.raises(error, match=text):
        simulate(**{**GOOD, "N": 10, **change})
