"""The page of validation names tests that exist, every published table, and every file of verification."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "validation.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))
#: Whatever looks like a test: none may be written in a way that is not checked.
MENTIONED = set(re.findall(r"::(\w+)", PAGE)) - {"test"}


@cache
def names_of(file: Path) -> frozenset[str]:
    """Names of the test functions of a file, which is parsed and not run."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def unknown(named: list[tuple[str, str]]) -> list[str]:
    """Those of the pairs (file, test) that do not exist."""
    return [
        f"{file}::{test}"
        for file, test in named
        if not (TESTS / file).is_file() or test not in names_of(TESTS / file)
    ]


def test_every_test_named_in_the_page_exists() -> None:
    assert len(NAMED) > 100
    assert {test for _, test in NAMED} == MENTIONED
    assert unknown(NAMED) == []


def test_a_test_or_a_file_that_does_not_exist_is_found_out() -> None:
    file, test = NAMED[0]
    assert unknown([(file, test + "s"), ("test_no_such_file.py", test), (file, test)]) == [
        f"{file}::{test}s",
        f"test_no_such_file.py::{test}",
    ]


@pytest.mark.parametrize("folder", ["reference", "verification"])
def test_every_published_table_and_every_file_of_verification_is_mentioned(folder: str) -> None:
    files = [path.name for path in (TESTS / folder).iterdir() if path.suffix in (".csv", ".txt", ".py")]
    assert len(files) > 5
    prefix = "verification/" if folder == "verification" else ""
    assert [name for name in sorted(files) if f"{prefix}{name}" not in PAGE] == []


def test_other_paths_in_the_page_exist() -> None:
    paths = [path for path in re.findall(r"`((?:sweep|examples|tests)/[\w/.]+)`", PAGE) if path != "tests/"]
    assert "sweep/network/reference.py" in paths
    assert [path for path in paths if not (TESTS.parent / path).exists()] == []
    pages = re.findall(r"\b(\w+\.md)\b", PAGE)
    assert pages
    assert [page for page in pages if not (TESTS.parent / "docs" / page).is_file()] == []
