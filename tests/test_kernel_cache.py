"""Kernels are compiled and kept where neither the package nor the home can be written to."""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import sweep
from sweep.kernel_cache import sources_of_kernels

#: Imports every module of kernels, and compiles the smallest kernel.
COMPILE = """
import importlib, sweep
from pathlib import Path
package = Path(sweep.__file__).parent
for file in sorted(package.glob("*/*kernels.py")):
    importlib.import_module(f"sweep.{file.parent.name}.{file.stem}")
from sweep.distances.kernels import add
assert add(1.0, 0.0, 2.0) == (3.0, 0.0)
"""
#: Says what a process started by one that has imported the package is told.
TELL = """
import os, subprocess, sys, sweep
subprocess.run([sys.executable, "-c", "import os; print(os.environ.get('NUMBA_CACHE_DIR'))"], check=True)
"""
PACKAGE = Path(sweep.__path__[0])
FOLDER = f"sweep-kernels-{os.geteuid()}"


@pytest.fixture
def sealed(tmp_path: Path) -> Mapping[str, str]:
    """The environment of an install that cannot be written to, for an account without a home.

    Files in place of folders keep out the superuser too.
    """
    install = tmp_path / "install" / "sweep"
    assert sweep.__file__ is not None
    shutil.copytree(Path(sweep.__file__).parent, install, ignore=shutil.ignore_patterns("__pycache__"))
    (install / "__pycache__").touch()
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    places = {"HOME": "file", "XDG_CACHE_HOME": "file", "TMPDIR": "temporary", "PYTHONPATH": "install"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return {**kept, **{name: str(tmp_path / place) for name, place in places.items()}}


def run(code: str, environment: Mapping[str, str]) -> str:
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize("before", ["", "import numba\n"])
def test_kernels_are_kept_among_the_temporary_files_for_want_of_a_better_place(
    sealed: Mapping[str, str], before: str
) -> None:
    folder = Path(sealed["TMPDIR"], FOLDER)
    assert Path(run(before + COMPILE + TELL, sealed)).parent == folder
    assert list(folder.rglob("*.nbi"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("lure", ["open", "link"])
def test_a_folder_that_others_may_write_to_is_not_used(
    sealed: Mapping[str, str], lure: str, tmp_path: Path
) -> None:
    folder = Path(sealed["TMPDIR"], FOLDER)
    if lure == "open":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        folder.symlink_to(tmp_path / "install")
    other = Path(run(TELL, sealed)).parent
    assert other.parent == folder.parent
    assert other.name.startswith("sweep-kernels-")
    assert other != folder
    assert not other.exists()  # its name is new each time, so it goes with the process


def test_the_best_place_there_is_is_taken_and_the_users_own_choice_left_alone(
    sealed: Mapping[str, str], tmp_path: Path
) -> None:
    assert run(TELL, {**sealed, "NUMBA_CACHE_DIR": str(tmp_path / "mine")}) == str(tmp_path / "mine")
    cache = tmp_path / "new" / "cache"
    assert Path(run(TELL, {**sealed, "XDG_CACHE_HOME": str(cache)})).parent == cache / "numba"
    (tmp_path / "install" / "sweep" / "__pycache__").unlink()
    assert Path(run(TELL, sealed)).parent == tmp_path / "install" / "sweep" / "__pycache__"
    assert not Path(sealed["TMPDIR"], FOLDER).exists()


@pytest.mark.parametrize("changed", ["network/random_kernels.py", "routing.py"])
def test_a_changed_source_has_a_folder_of_its_own(
    sealed: Mapping[str, str], tmp_path: Path, changed: str
) -> None:
    # A kernel that calls a changed one would otherwise be taken from its cache with the old one inside.
    before = run(TELL, sealed)
    assert run(TELL, sealed) == before
    with (tmp_path / "install" / "sweep" / changed).open("a") as file:
        file.write("# changed\n")
    assert run(TELL, sealed) != before


def test_every_source_that_a_kernel_is_made_from_is_watched() -> None:
    watched, made = set(sources_of_kernels()), set()
    for file in PACKAGE.glob("*/*kernels.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "sweep":
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                made |= {source(name) for name in names}
        module = importlib.import_module(f"sweep.{file.parent.name}.{file.stem}")
        made |= {source(value.__module__) for value in vars(module).values() if isinstance(value, Dispatcher)}
    made = {file for file in made if file.exists()}
    assert PACKAGE / "routing.py" in made
    assert made <= watched


def source(module: str) -> Path:
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")


def test_an_account_without_a_home_gets_no_folder_named_for_one(sealed: Mapping[str, str]) -> None:
    nobody = {name: value for name, value in sealed.items() if name != "XDG_CACHE_HOME"}
    assert run(TELL, {**nobody, "HOME": "~"}).startswith(str(Path(sealed["TMPDIR"], FOLDER)))


def test_nothing_is_said_where_nothing_can_be_written(sealed: Mapping[str, str]) -> None:
    code = "import tempfile\ndef refuse(): raise FileNotFoundError('full')\ntempfile.gettempdir = refuse\n"
    assert run(code + TELL, sealed) == "None"
