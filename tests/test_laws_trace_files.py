"""Files of traces: known by their numbers, and every error with its text."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from sweep.laws import Trace, as_law, parse_law, trace_file
from tests.laws_table import trace_of


def refusal(message: str) -> str:
    return "^" + re.escape(message) + "$"


# ---- traces: identity


def test_a_trace_is_known_by_its_numbers_whatever_the_file(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "moved here.dat"
    first.write_text("1.5\n2.5\n8\n")
    second.write_text("# seconds\n8.0\n\n 15e-1 # first\r\n2.50")
    a, b = parse_law(f"trace({first})"), parse_law(f'trace( "{second}" )')
    assert a == b
    assert hash(a) == hash(b)
    assert a.identity == b.identity
    assert re.fullmatch(r"trace\(sha256:[0-9a-f]{64}\)", a.identity)
    assert (str(a), str(b)) == (f"trace({first})", f"trace({second})")
    assert a != trace_of([1.5, 2.5, 9.0])
    assert a != parse_law("exponential")
    np.save(tmp_path / "c.npy", np.array([[8.0], [2.5], [1.5]]))
    assert Trace(path=tmp_path / "c.npy") == a  # type: ignore[arg-type]
    first.write_text("1.5\n2.5\n9\n")
    edited = parse_law(f"trace({first})")
    assert edited.identity != a.identity
    assert edited == trace_of([9.0, 2.5, 1.5])


def test_whole_numbers_in_an_array_are_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.array([1, 2, 5]))
    assert Trace(path=str(tmp_path / "whole.npy")) == trace_of([1.0, 2.0, 5.0])


def test_a_trace_travels_without_its_file(tmp_path: Path) -> None:
    file = tmp_path / "times.txt"
    file.write_text("1\n2\n6\n")
    law = Trace(path=str(file))
    value = law.integral(1.0)
    sent = pickle.dumps(law)
    assert len(sent) < 600
    file.unlink()
    arrived = pickle.loads(sent)
    assert arrived == law
    assert str(arrived) == str(law)
    assert arrived.integral(1.0) == value
    draws = [copy.sample(np.random.default_rng(1), 9).tolist() for copy in (law, arrived)]
    assert draws[0] == draws[1]


def test_a_relative_path_starts_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "service.txt").write_text("3\n5\n")
    monkeypatch.chdir(tmp_path)
    assert str(parse_law("trace(data/service.txt)")) == "trace(data/service.txt)"
    assert str(parse_law("trace('data/service.txt')")) == "trace(data/service.txt)"


def test_spaces_at_the_ends_of_a_path_are_kept_by_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(" odd ").write_text("1\n")
    law = Trace(path=" odd ")
    assert str(law) == 'trace(" odd ")'
    assert parse_law(str(law)) == law


# ---- traces: errors


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\n\n-2\n", "line 3 must be a positive number, from 1e-100 to 1e100, got '-2'"),
        ("0\n", "line 1 must be a positive number, from 1e-100 to 1e100, got '0'"),
        ("1\nnan\n", "line 2 must be a positive number, from 1e-100 to 1e100, got 'nan'"),
        ("1e999\n", "line 1 must be a positive number, from 1e-100 to 1e100, got '1e999'"),
        ("# ok\n1, 2\n", "line 2 must be a positive number, from 1e-100 to 1e100, got '1, 2'"),
    ],
)
def test_lines_that_are_no_times_are_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "bad.txt"
    file.write_text(content)
    message = f"{file} {message}: correct it, leave it out or put # before it"
    with pytest.raises(ValueError, match=refusal(message)):
        Trace(path=str(file))
    text = f"trace({file})"
    with pytest.raises(
        ValueError, match=refusal(f"arrivals must be a possible law, got {text!r}: {message}")
    ):
        as_law(text, "arrivals")


@pytest.mark.parametrize("content", ["", "# nothing\n\n"])
def test_a_file_without_numbers_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "empty.txt"
    file.write_text(content)
    with pytest.raises(
        ValueError, match=refusal(f"{file} must hold at least one number, got none: write one a line")
    ):
        Trace(path=str(file))


def test_a_file_that_is_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    start = f"a relative path starts from {str(tmp_path)!r}"
    with pytest.raises(
        ValueError,
        match=refusal(f"path must name a readable file, got 'none': No such file or directory; {start}"),
    ):
        Trace(path="none")
    with pytest.raises(ValueError, match=r"got '\.': Is a directory"):
        Trace(path=".")


def test_bytes_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "bytes.txt"
    file.write_bytes(b"\xff\xfe1\n")
    message = f"{file} must be text with one number a line or end in .npy, got bytes"
    with pytest.raises(ValueError, match=refusal(message)):
        Trace(path=str(file))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([1.0, 2.0, -1.0]), "entry 2 must be a positive number, from 1e-100 to 1e100, got -1.0"),
        (np.array([[1.0, np.inf]]), "entry 1 must be a positive number, from 1e-100 to 1e100, got inf"),
        (np.array([1.0, np.nan]), "entry 1 must be a positive number, from 1e-100 to 1e100, got nan"),
        (np.array(["1"]), "must be an .npy array of numbers, got type <U1"),
        (np.array([]), "must hold at least one number, got none"),
        (np.array([None]), "must be an .npy array of numbers, got another file: Object arrays cannot"),
    ],
)
def test_arrays_that_are_no_times_are_refused(tmp_path: Path, array: np.ndarray, message: str) -> None:
    file = tmp_path / "bad.npy"
    np.save(file, array)
    with pytest.raises(ValueError, match="^" + re.escape(f"{file} {message}")):
        Trace(path=str(file))


def test_a_file_that_is_no_array_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.npy"
    file.write_text("1\n2\n")
    with pytest.raises(
        ValueError, match=re.escape(f"{file} must be an .npy array of numbers, got another file")
    ):
        Trace(path=str(file))


@pytest.mark.parametrize("name", ["many.txt", "many.npy"])
def test_more_numbers_than_the_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(trace_file, "LARGEST", 3)
    file = tmp_path / name
    if name.endswith(".npy"):
        np.save(file, np.ones(4))
    else:
        file.write_text("1\n" * 4)
    got = "4" if name.endswith(".npy") else "more"
    message = f"{file} must hold at most 3 numbers, got {got}: keep every k-th"
    with pytest.raises(ValueError, match=refusal(message)):
        Trace(path=str(file))


@pytest.mark.parametrize("path", ["", "  ", "a(b).txt", "a\nb", 'a"b'])
def test_names_that_text_cannot_hold_are_refused(path: str) -> None:
    message = f"path must name a file, without parentheses, quotes and line ends, got {path!r}"
    with pytest.raises(ValueError, match=refusal(message)):
        Trace(path=path)


@pytest.mark.parametrize("path", [3, None, b"a"])
def test_paths_that_are_no_text_are_refused(path: object) -> None:
    with pytest.raises(TypeError, match=refusal(f"path must be text or a path, got {path!r}")):
        Trace(path=path)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["trace", "trace()", "trace( )"])
def test_a_trace_without_path_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"G must be a possible law, got {text!r}: path must name a file")
    ):
        parse_law(text)


def test_usage_of_a_trace_says_what_the_file_holds() -> None:
    assert Trace.usage() == (
        "trace(path) with path a file of positive numbers, one a line, or .npy, without parentheses"
    )
