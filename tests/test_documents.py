"""What README and the cookbook show is what happens: their commands, their Python, their tables."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from analysis.stores import COMMANDS
from sweep.initial import parse_initial
from sweep.laws.frozen import _LAW_OF as LAW_OF
from sweep.routing import ROUTING
from sweep.spec import STUDIES, parse_spec, read_spec
from tests.pages import (
    BOOK,
    COOKBOOK,
    README,
    ROOT,
    Shell,
    blocks,
    check,
    commands,
    shell_in,
    starting,
    timeless,
    write_specs,
)

PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
EQUILIBRIUM = """
name = "equilibrium"
study = "equilibrium"
seed = 1
grid = { N = [10, 20, 40, 80], d = [2], lam = [0.5], G = ["exponential"] }
run = { horizon = 40.0, warmup = 10.0, batches = 30, levels = 4, replicas = 8 }
"""
HEAVY = """
name = "heavy"
study = "heavy-traffic"
seed = 1
grid = { N = [50, 100], m = [16, 64], b1 = [-2.0], b0 = [1.0], ell = [2], G = ["exponential"] }
run = { horizon = 1.0, times = 3, levels = 80, replicas = 8 }
"""


def executed(code: str, folder: Path) -> str:
    """What a program prints that is run where the reader is."""
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reader is: the project's root with nothing made yet."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.fixture(scope="module")
def shell(folder: Path) -> Shell:
    return shell_in(folder)


@pytest.fixture(scope="module")
def demo(shell: Shell) -> str:
    """What `make demo` prints, and its store."""
    rule = (ROOT / "Makefile").read_text().split("\ndemo: install\n")[1].split("\n\n")[0]
    lines = rule.replace("$(VENV)/bin/", "").replace("$(OUT)", "out").splitlines()
    return "".join(shell(line.strip()) for line in lines)


@pytest.fixture(scope="module")
def mine(folder: Path, shell: Shell) -> Path:
    """The cookbook's own sweep, after its first recipe."""
    write_specs(COOKBOOK, folder)
    check(shell, starting(COOKBOOK.split("## The same")[0], "sweep", "python"))
    return folder / "mine.toml"


@pytest.mark.slow
def test_the_demo_prints_what_readme_shows(demo: str) -> None:
    [(_, shown)] = starting(README, "make demo")
    assert len(shown) == 9
    for line in shown[1:]:
        assert line in demo
    assert timeless(shown[0]) in timeless(demo)


@pytest.mark.slow
@pytest.mark.usefixtures("demo")
def test_commands_on_one_machine(folder: Path, shell: Shell) -> None:
    shutil.copytree(
        folder / "out" / "quickstart", folder / "out" / "again"
    )  # the sweep resumes, with nothing to do
    wanted = [one for one in starting(README, "sweep") if "--address" not in one[0]]
    assert len(wanted) == 6
    check(shell, [(command.replace("out/mine", "out/again"), shown) for command, shown in wanted])
    assert (folder / "mine.nc").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("mine")
def test_commands_of_the_analysis(folder: Path, shell: Shell) -> None:
    for name, text in {"equilibrium": EQUILIBRIUM, "heavy": HEAVY}.items():
        (folder / f"{name}.toml").write_text(text)
        shell(f"sweep run {name}.toml --store out/{name} --engine serial")
    stores = dict.fromkeys(("fluctuations", "equilibrium", "tails"), "equilibrium") | {
        "heavy_traffic": "heavy"
    }
    wanted = starting(README, "python -m analysis")
    assert len(wanted) == 6
    for command, _ in wanted:
        module = command.split()[2].rpartition(".")[2]
        assert shell(command.replace("STORE", f"out/{stores.get(module, 'mine')}")).strip()


@pytest.mark.slow
@pytest.mark.usefixtures("mine")
def test_recipes_after_the_first(folder: Path, shell: Shell) -> None:
    later = COOKBOOK.split("## Grow a store")[1]
    check(shell, commands(later))
    [code] = blocks(later, "python")
    assert "['cells', 'fluid', 'network']" in executed(code, folder)


@pytest.mark.slow
@pytest.mark.usefixtures("demo")
def test_python_of_readme(folder: Path) -> None:
    code = "\n".join(blocks(README, "python"))
    assert code.count("sweep.") >= 5
    executed(code, folder)


def test_readme_has_commands_of_the_cookbook_for_a_cluster() -> None:  # tests/test_jobs.py runs them
    known = [command for command, _ in starting(COOKBOOK, "sweep")]
    shown = [command for command, _ in starting(README, "sweep") if "--address" in command]
    assert len(shown) == 3
    for command in shown:
        same = command.replace("http://HEAD:8265", BOOK).replace("/data/mine", "'~/stores/mine'")
        assert same.replace("spec.toml", "mine.toml") in known


def test_the_page_of_the_model_lists_every_routing_start_and_law_of_scipy() -> None:
    text = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    for name in (*ROUTING, *LAW_OF):
        assert f"`{name}`" in text
    [row] = re.findall(r"^\| starts \| (.*) \|$", text, re.M)
    texts = [text for text in re.findall(r"`([^`]+)`", row) if not text.startswith("ages=")]
    assert [text.partition("(")[0] for text in texts] == ["empty", "lengths", "invariant", "scaled"]
    assert all(str(parse_initial(text)) == text for text in texts)


def test_readme_lists_every_command_by_the_study_it_reads() -> None:
    table = README.split("| study of the store | commands that read it |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", table, re.M)
    assert {study: set(re.findall(r"`([\w.]+)`", cell)) for study, cell in rows} == {
        study: {command for command, studies in COMMANDS.items() if study in studies} for study in STUDIES
    }


def test_the_spec_shown_is_the_one_of_the_demo() -> None:
    [text] = blocks(README, "toml")
    assert parse_spec(tomllib.loads(text)) == read_spec(ROOT / "examples" / "quickstart.toml")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_good_spec(path: Path) -> None:
    assert read_spec(path).cells()


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_points_to_is_there(page: str) -> None:
    file = ROOT / page
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", file.read_text(encoding="utf-8"))
    for target in targets:
        if not target.startswith("http"):
            assert (file.parent / target).exists(), target
