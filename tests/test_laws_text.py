"""Laws as text: round trip, canonical numbers, frozen values, and every error with its text."""

from __future__ import annotations

import dataclasses
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.laws import LAWS, Erlang, Exponential, Law, Lomax, as_law, parse_law
from sweep.laws.parameters import Range
from sweep.wording import shown
from tests.laws_table import LAW_OF, TEXTS, laws

CHOICES = (
    "choices: exponential, erlang(k=), gamma(shape=), hyperexponential(scv=), lomax(beta=), pareto(beta=), "
    "weibull(shape=), lognormal(sigma=), uniform(width=), deterministic, phase_type(alpha=, T=), trace(path)"
)
LOMAX = "lomax(beta=) with beta a number above 1 and up to 1000000"


@given(law=laws())
def test_text_reads_back_to_an_equal_law(law: Law) -> None:
    again = parse_law(str(law))
    assert again == law
    assert hash(again) == hash(law)
    assert str(again) == str(law)
    assert pickle.loads(pickle.dumps(law)) == law
    assert as_law(law) is law


@pytest.mark.parametrize("text", TEXTS)
def test_canonical_text_is_kept(text: str) -> None:
    assert str(parse_law(text)) == text
    assert LAWS[LAW_OF[text].name] is type(LAW_OF[text])


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  lomax ( beta = 1.50 ) ", "lomax(beta=1.5)"),
        ("lomax(beta=+15e-1)", "lomax(beta=1.5)"),
        ("gamma(shape=.5)", "gamma(shape=0.5)"),
        ("erlang(k=4.0)", "erlang(k=4)"),
        ("hyperexponential(scv=1E1)", "hyperexponential(scv=10)"),
        ("uniform(width=1.)", "uniform(width=1)"),
        ("uniform(width=0.00001)", "uniform(width=1e-05)"),
        ("weibull(shape=0.30000000000000004)", "weibull(shape=0.3)"),
        ("exponential()", "exponential"),
        ("deterministic\n", "deterministic"),
    ],
)
def test_white_space_and_the_form_of_numbers_are_free(text: str, canonical: str) -> None:
    assert str(parse_law(text)) == canonical


def test_equal_numbers_of_any_type_make_equal_laws() -> None:
    assert Lomax(beta=3 * 0.5) == Lomax(beta=np.float64(1.5)) == Lomax(beta=np.float32(1.5))
    assert Erlang(k=4) == Erlang(k=np.int32(4)) == Erlang(k=4.0)  # type: ignore[arg-type]
    assert isinstance(Erlang(k=4.0).k, int)  # type: ignore[arg-type]
    assert len({Lomax(beta=0.1 * 15), Lomax(beta=1.5), Exponential()}) == 2
    assert parse_law("erlang(k=1)") != parse_law("exponential")


def test_laws_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Lomax(beta=2.0).beta = 3.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        LAWS["other"] = Lomax  # type: ignore[index]


ERRORS = [
    ("lomx(beta=1.5)", "G must name a law, got 'lomx(beta=1.5)' (did you mean 'lomax'?); " + CHOICES),
    ("Exponential", "G must name a law, got 'Exponential' (did you mean 'exponential'?); " + CHOICES),
    ("cauchy", "G must name a law, got 'cauchy'; " + CHOICES),
    ("", "G must be written as name or name(parameter=number), got ''; " + CHOICES),
    (
        "lomax(beta=1.5",
        "G must be written as name or name(parameter=number), got 'lomax(beta=1.5'; " + CHOICES,
    ),
    (
        "lomax((beta=2))",
        "G must be written as name or name(parameter=number), got 'lomax((beta=2))'; " + CHOICES,
    ),
    ("lomax(1.5)", f"G must give parameters as name=number, got '1.5' in 'lomax(1.5)'; write {LOMAX}"),
    ("lomax(beta=2,)", f"G must give parameters as name=number, got '' in 'lomax(beta=2,)'; write {LOMAX}"),
    ("lomax(alpha=2)", f"G must not have a parameter 'alpha', got 'lomax(alpha=2)'; write {LOMAX}"),
    (
        "exponential(rate=1)",
        "G must not have a parameter 'rate', got 'exponential(rate=1)'; write exponential",
    ),
    ("lomax(beta=2, beta=2)", f"G must give beta once, got 'lomax(beta=2, beta=2)'; write {LOMAX}"),
    ("lomax", f"G must give beta, got 'lomax'; write {LOMAX}"),
    ("lomax()", f"G must give beta, got 'lomax()'; write {LOMAX}"),
    *(
        (
            f"lomax(beta={value})",
            f"G must have beta a number above 1 and up to 1000000, got 'lomax(beta={value})'",
        )
        for value in (
            "1",
            "1.0000000000001",
            "-2",
            "nan",
            "inf",
            "1e999",
            "two",
            "",
            "1_0",
            "3/2",
            "0x2",
            "٢",
            "1e6 1",
            "[2]",
        )
    ),
    ("erlang(k=2.5)", "G must have k a whole number from 1 to 10000, got 'erlang(k=2.5)'"),
    ("erlang(k=0)", "G must have k a whole number from 1 to 10000, got 'erlang(k=0)'"),
    ("gamma(shape=0)", "G must have shape a number from 0.01 to 10000, got 'gamma(shape=0)'"),
    (
        "hyperexponential(scv=0.9)",
        "G must have scv a number from 1 to 1000000, got 'hyperexponential(scv=0.9)'",
    ),
    ("pareto(beta=1)", "G must have beta a number above 1 and up to 1000000, got 'pareto(beta=1)'"),
    ("weibull(shape=-1)", "G must have shape a number from 0.05 to 100, got 'weibull(shape=-1)'"),
    ("lognormal(sigma=0)", "G must have sigma a number from 0.01 to 10, got 'lognormal(sigma=0)'"),
    ("uniform(width=2.1)", "G must have width a number from 1e-06 to 2, got 'uniform(width=2.1)'"),
    ("uniform(width=0)", "G must have width a number from 1e-06 to 2, got 'uniform(width=0)'"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_text_that_is_no_law_is_refused_with_field_value_and_choices(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        parse_law(text)
    with pytest.raises(ValueError, match=r"^arrivals must "):
        as_law(text, "arrivals")


def test_long_text_is_cut_in_errors() -> None:
    with pytest.raises(ValueError, match=r"G must name a law, got 'x{200}…'; choices: "):
        parse_law("x" * 10_000)


@given(text=st.text(max_size=30))
def test_any_text_is_a_law_or_an_error(text: str) -> None:
    try:
        outcome = str(parse_law(text))
    except ValueError as error:
        outcome = str(error)
    assert outcome in ("exponential", "deterministic") or outcome.startswith("G must ")


@pytest.mark.parametrize("value", [3, None, b"exponential", ["exponential"]])
def test_values_that_are_no_text_are_refused(value: object) -> None:
    message = f"G must be a law or its text, got {value!r}; write for example 'exponential'"
    with pytest.raises(TypeError, match="^" + re.escape(message) + "$"):
        as_law(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [True, "1.5", None, [2.0]])
def test_parameters_that_are_no_numbers_are_refused(value: object) -> None:
    message = f"beta must be a number above 1 and up to 1000000, got {shown(value)}"
    with pytest.raises(TypeError, match="^" + re.escape(message) + "$"):
        Lomax(beta=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1, 0.0, -3.5, float("nan"), float("inf"), 10**400])
def test_impossible_parameters_are_refused(value: float) -> None:
    message = f"beta must be a number above 1 and up to 1000000, got {shown(value)}"
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        Lomax(beta=value)


def test_whole_ranges_refuse_fractions() -> None:
    with pytest.raises(ValueError, match=r"k must be a whole number from 1 to 9, got 2\.5"):
        Range(least=1, most=9, whole=True).check("k", 2.5)


def test_laws_import_neither_scipy_nor_numba() -> None:
    code = (
        "import sys, sweep.laws; print(sorted({m.split('.')[0] for m in sys.modules} & {'scipy', 'numba'}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "[]"
