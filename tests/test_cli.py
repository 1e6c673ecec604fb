"""The command: what it prints, and with which code it ends."""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import xarray as xr
from typer.testing import CliRunner

from sweep.cli import app, main
from sweep.engines import ENGINES
from sweep.reference import EXAMPLES
from sweep.status import Status
from tests.newer_numbers import newer_numbers
from tests.test_run import toml

SMALL = {"N": [10], "d": [2], "replicas": 2, "G": ["exponential"]}


def command(*arguments):
    """Run the command within this process; what it printed, and its exit code."""
    streams = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
    ):
        patch.setattr(sys, "argv", ["sweep", *map(str, arguments)])
        patch.setenv("COLUMNS", "80")
        patch.setenv("NO_COLOR", "1")
        with pytest.raises(SystemExit) as ended:
            main()
    printed = [stream.getvalue() for stream in streams]
    return subprocess.CompletedProcess(arguments, ended.value.code, *printed)


def process(*arguments, **variables):
    """Run the command as a user does, in a process of its own."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **variables}
    return subprocess.run(
        [sys.executable, "-m", "sweep.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    path = toml(folder, **SMALL)
    ended = process("run", path, "--store", folder / "store", "--engine", "serial")
    assert ended.returncode == 0, ended.stderr
    return folder, ended


def test_plan_shows_what_a_run_would_take_and_fits_80_columns(tmp_path):
    ended = command("plan", toml(tmp_path))
    assert ended.returncode == 0
    for word in ("cells", "replicas", "limits", "time", "memory", "arrays"):
        assert word in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 80


def test_plan_with_a_store_counts_only_what_it_lacks(finished):
    folder, _ = finished
    ended = command("plan", folder / "spec.toml", "--store", folder / "store")
    assert "0 to compute, 2 stored" in ended.stdout
    assert re.search(r"time +│ none +│\n│ memory +│ none ", ended.stdout)
    known = json.loads(command("plan", folder / "spec.toml", "--store", folder / "store", "--json").stdout)
    assert (known["seconds"], known["worker_bytes"]) == (0, 0)


@pytest.mark.parametrize("words", [("plan",), ("run", "--dry-run")])
def test_a_plan_takes_and_refuses_the_stores_that_a_run_does(finished, tmp_path, words):
    folder, _ = finished
    empty, full, file = (tmp_path / name for name in ("empty", "full", "file"))
    empty.mkdir()
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    file.write_text("mine")

    def told(store, *words):
        ended = command(*words, folder / "spec.toml", "--store", store)
        return ended.returncode, ended.stdout if ended.returncode == 0 else ended.stderr

    assert "2 to compute, 0 stored" in told(empty, *words)[1]
    with newer_numbers():
        for store, code in ((full, 3), (file, 2), (folder / "store", 2)):
            planned = told(store, *words)
            assert planned == told(store, "run", "--engine", "serial")
            assert planned[0] == code
        assert "add --mix-numbers to have both" in planned[1]
        assert "0 to compute, 2 stored" in told(folder / "store", *words, "--mix-numbers")[1]


def test_a_bad_spec_ends_with_2_and_lists_every_fault(tmp_path):
    path = toml(tmp_path)
    text = path.read_text()
    path.write_text(text.replace("replicas = 4", "replicas = -1").replace("N = [10, 40]", "n = [10]"))
    for arguments in (("plan", path), ("run", path, "--store", tmp_path / "store")):
        ended = command(*arguments)
        assert ended.returncode == 2
        assert "Traceback" not in ended.stderr
        assert "run.replicas must be at least 1, got -1" in ended.stderr
        assert "grid.n is not a key of the spec (did you mean N?)" in ended.stderr
    assert not (tmp_path / "store").exists()


def test_run_says_what_it_did_and_where(finished):
    folder, ended = finished
    assert "1 of 1 cells done; computed 2 replicas and 1 limits" in ended.stdout
    assert str(folder / "store" / "results.nc") in ended.stdout


def test_status_counts_what_is_stored(finished):
    folder, _ = finished
    ended = command("status", folder / "store")
    assert ended.returncode == 0
    assert "small: 1 of 1 cells done, 2 of 2 replicas" in ended.stdout


def test_status_names_some_of_many_failed_cells_and_tells_where_the_others_are(monkeypatch):
    failed = tuple((f"N={number}", "no memory") for number in range(21))
    state = Status(name="s", cells=21, done=0, replicas=0, wanted=21, failed=failed, notes=("a note",))
    monkeypatch.setattr("sweep.status.store_status", lambda _: state)
    ended = command("status", "my store")
    assert ended.returncode == 1
    assert ended.stdout.count("failed  N=") == 20
    assert ended.stdout.startswith("s: 0 of 21 cells done, 0 of 21 replicas\na note\nfailed  N=0\n")
    assert ended.stdout.endswith("\n… and 1 more: see `sweep status 'my store' --json`\n")


def test_status_of_something_else_ends_with_2(tmp_path):
    ended = command("status", tmp_path)
    assert ended.returncode == 2
    assert "not a sweep store" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_status_looks_for_a_store_on_this_machine_and_names_the_variable_of_a_cluster(finished, tmp_path):
    cure = "add --address $RAY_API_SERVER_ADDRESS"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:9")
        there = command("status", finished[0] / "store")
        gone = command("status", tmp_path / "gone")
        here = command("status", tmp_path)  # no store, and on this machine
    assert there.returncode == 0
    assert (gone.returncode, cure in gone.stderr) == (2, True)
    assert (here.returncode, cure in here.stderr) == (2, False)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_API_SERVER_ADDRESS", raising=False)
        assert cure not in command("status", tmp_path / "gone").stderr
        assert "if it is on the cluster, add --address URL" in command("status", "~/gone").stderr
    for name in ("status", "doctor"):
        words = " ".join(command(name, "--help").stdout.replace("│", " ").split())
        assert "not read from RAY_API_SERVER_ADDRESS, for without it" in words


def test_export_writes_one_file_that_plain_xarray_reads(finished, tmp_path):
    folder, _ = finished
    file = tmp_path / "mine.nc"
    assert command("export", folder / "store", file).returncode == 0
    with (
        xr.open_dataset(file, group="network") as network,
        xr.open_dataset(folder / "store" / "results.nc", group="network") as stored,
    ):
        assert network.identical(stored)


def test_export_refuses_the_store_and_a_missing_directory(finished, tmp_path):
    folder, _ = finished
    before = (folder / "store" / "spec.toml").read_text()
    inside = command("export", folder / "store", folder / "store" / "spec.toml")
    assert inside.returncode == 2
    assert "FILE must not lie in the store itself" in inside.stderr
    assert (folder / "store" / "spec.toml").read_text() == before
    below = command("export", folder / "store", folder / "store" / "shards" / "mine.nc")
    assert (below.returncode, "FILE must not lie in the store itself" in below.stderr) == (2, True)
    assert not (folder / "store" / "shards" / "mine.nc").exists()
    missing = command("export", folder / "store", tmp_path / "gone" / "x.nc")
    assert missing.returncode == 2
    assert "FILE must lie in an existing directory" in missing.stderr


def test_a_store_is_looked_at_without_the_files_of_its_laws(tmp_path):
    trace = tmp_path / "service.txt"
    trace.write_text("1\n2\n3\n")
    path = toml(tmp_path, **{**SMALL, "G": [f"trace({trace})"]})
    assert command("run", path, "--store", tmp_path / "store", "--engine", "serial").returncode == 0
    trace.unlink()
    assert "1 of 1 cells done" in command("status", tmp_path / "store").stdout
    assert command("export", tmp_path / "store", tmp_path / "mine.nc").returncode == 0


def test_a_name_may_hold_brackets_and_a_terminal_may_lack_letters(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(toml(tmp_path, **SMALL).read_text().replace('"small"', '"[/red] λ [bold]"'))
    assert command("run", path, "--store", tmp_path / "store", "--engine", "serial").returncode == 0
    ended = process("status", tmp_path / "store", PYTHONIOENCODING="ascii")
    assert ended.returncode == 0
    assert "[/red] ? [bold]: 1 of 1 cells done" in ended.stdout


def test_a_changed_frame_ends_with_2_and_a_cure(finished, tmp_path):
    folder, _ = finished
    ended = command(
        "run", toml(tmp_path, **SMALL, horizon=5.0), "--store", folder / "store", "--engine", "serial"
    )
    assert ended.returncode == 2
    assert "horizon" in ended.stderr
    assert "--store" in ended.stderr


def test_an_interrupted_run_is_resumed_by_the_same_command(tmp_path, monkeypatch):
    given = []

    def interrupted(spec, **options):
        given.append((spec, {name: value for name, value in options.items() if name != "progress"}))
        raise KeyboardInterrupt

    monkeypatch.setattr("sweep.driver.run", interrupted)
    path = toml(tmp_path, **SMALL).rename(tmp_path / "my spec.toml")
    options = ["--workers", 3, "--address", "auto", "--only", "N=10", "--only", "G=exponential"]
    options += ["--fail-fast", "--mix-numbers", "--json"]
    for words in ([], options):
        ended = command("run", path, "--store", tmp_path / "s", "--engine", "serial", *words)
        assert ended.returncode == 130
        again = shlex.split(ended.stderr.splitlines()[-1])
        assert again == ["sweep", *map(str, ended.args)]
        command(*again[1:])
        assert given[-1] == given[-2]
    monkeypatch.setattr("sweep.spec.read_spec", None)  # which `sweep.run` reads again
    assert command("run", path, "--store", tmp_path / "s").returncode == 130


def test_an_interrupt_of_any_command_ends_with_130(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sweep.cli.show_plan", interrupted)
    ended = command("plan", toml(tmp_path, **SMALL))
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_an_unknown_engine_ends_with_2(tmp_path):
    ended = process("run", toml(tmp_path, **SMALL), "--store", tmp_path / "store", "--engine", "cloud")
    assert ended.returncode == 2
    assert "engine must be one of" in ended.stderr


@pytest.mark.parametrize("way", [command, process])
def test_help_names_every_command(way):
    ended = way("--help")
    assert ended.returncode == 0
    for name in ("plan", "run", "status", "export"):
        assert name in ended.stdout


@pytest.mark.parametrize("arguments", [(), ("rum",), ("run",), ("plan", "--wrong")])
def test_a_misused_command_ends_with_2(arguments):
    ended = command(*arguments)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


def test_an_example_is_written_once_and_is_a_spec(tmp_path):
    listed = command("example")
    assert "quickstart" in listed.stdout
    file = tmp_path / "mine.toml"
    assert command("example", "equilibrium", "--output", file).returncode == 0
    assert command("plan", file).returncode == 0
    again = command("example", "equilibrium", "--output", file)
    assert again.returncode == 2
    assert f"{file} exists: give another --output" in again.stderr
    unknown = command("example", "nothing")
    assert unknown.returncode == 2
    assert "NAME must be one of quickstart" in unknown.stderr
    assert "(did you mean equilibrium?)" in command("example", "Equilibrum").stderr
    nowhere = command("example", "ages", "--output", tmp_path / "gone" / "x.toml")
    assert nowhere.returncode == 2
    text = f"--output must lie in an existing directory, got {tmp_path}/gone/x.toml: make {tmp_path}/gone\n"
    assert nowhere.stderr.endswith(text)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sweep example ", list(EXAMPLES)),
        ("sweep example e", ["equilibrium"]),
        ("sweep run spec.toml --engine ", list(ENGINES)),
        ("sweep run spec.toml --engine l", ["local"]),
    ],
)
def test_a_shell_completes_names_of_examples_and_engines(typed, offered):
    asked = {
        "_SWEEP_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    assert CliRunner().invoke(app, [], env=asked, prog_name="sweep").stdout.split() == offered


def test_progress_and_plans_are_read_by_programs(tmp_path):
    path = toml(tmp_path, **SMALL)
    planned = json.loads(command("run", path, "--store", tmp_path / "s", "--dry-run", "--json").stdout)
    assert (planned["cells"], planned["replicas"], planned["limits"]) == (1, 2, 1)
    assert not (tmp_path / "s").exists()
    ended = command("run", path, "--store", tmp_path / "s", "--engine", "serial", "--json")
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {line["event"] for line in lines[:-1]} == {"progress"}
    assert lines[-2]["replicas_done"] == 2
    assert (lines[-1]["event"], lines[-1]["cells_done"], lines[-1]["failed"]) == ("end", 1, [])
    state = json.loads(command("status", tmp_path / "s", "--json").stdout)
    assert (state["done"], state["cells"], state["replicas"]) == (1, 1, 2)


def test_only_the_chosen_cells_are_planned_and_unknown_ones_are_refused(tmp_path):
    path = toml(tmp_path, N=[10, 40], d=[2], replicas=2, G=["exponential"])
    one = command("plan", path, "--only", "N=40", "--json")
    assert json.loads(one.stdout)["replicas"] == 2
    for choice, text in (
        ("N=41", "only must name values of N in the spec (10, 40), got '41'"),
        ("n=10", "only must name an axis (N, d, lam, G), got 'n'"),
        ("N", "--only must be AXIS=VALUE, got 'N'"),
    ):
        refused = command("plan", path, "--only", choice)
        assert refused.returncode == 2
        assert text in refused.stderr


def test_the_doctor_looks_at_this_machine(tmp_path):
    ended = command("doctor", "--store", tmp_path / "store")
    assert ended.returncode == 0, ended.stdout
    for name in ("versions", "CPUs", "memory", "workers"):
        assert name in ended.stdout
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", ["plan", "run", "status", "export", "doctor", "report", "example", "submit"])
def test_the_help_of_a_command_shows_an_example_and_fits_80_columns(name):
    shown = command(name, "--help").stdout
    assert f"sweep {name} " in shown.split("Example")[-1]
    assert max(map(len, shown.splitlines())) <= 80
