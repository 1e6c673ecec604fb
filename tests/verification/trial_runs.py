"""What the trials share: sweeps run by the command, in processes that can be killed and counted."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]

import sweep
from sweep.spec import parse_spec

ROOT = Path(__file__).parents[2]
#: Axes and settings of a trial's sweep unless it says otherwise, and axes with a single limit.
GRID = {"N": [100], "d": [1, 2], "lam": [0.7, 0.9], "G": ["exponential", "lomax(beta=1.5)"]}
RUN = {"horizon": 20.0, "times": 101, "levels": 8, "replicas": 24}
PLAIN = {"d": [2], "lam": [0.9], "G": ["exponential"]}
#: Imported by each process at its start. Workers write down what they execute before they begin, and do to
#: cells of certain N what TRIAL_DEEDS says; the driver rebuilds its results as often as TRIAL_REFRESH says.
_SITE = """
import json, os, sys
if "sweep.engines.worker" in sys.orig_argv:
    import sweep.task as module
    plain = module.execute
    deeds = json.loads(os.environ.get("TRIAL_DEEDS", "{}"))
    def execute(task, shared):
        with open(os.environ["TRIAL_LOG"], "a") as log:
            log.write(task.name + "\\n")
        for item in task.payload.get("items", ()):
            for name, deed in deeds.items():
                if f"N={name} " in item[0].text:
                    task = dataclasses.replace(task, function="tests.engine_tasks:" + deed)
        return plain(task, shared)
    import dataclasses
    module.execute = execute
elif "sweep.cli" in sys.orig_argv and os.environ.get("TRIAL_REFRESH"):
    import sweep.driver
    sweep.driver._REFRESH_SECONDS, sweep.driver._REFRESH_SHARE = float(os.environ["TRIAL_REFRESH"]), 1.0
"""

Show = Callable[[str, object], None]
Contents = dict[str, tuple[tuple[str, ...], Any, bytes]]


class Failed(Exception):
    """A trial did not show what it must."""


def must(condition: object, text: str) -> None:
    """Fail the trial unless the condition holds."""
    if not condition:
        raise Failed(text)


def tables(name: str, seed: int, grid: Mapping[str, Any], **run: Any) -> dict[str, Any]:
    """Return the tables of a transient sweep: what is given, and else `GRID` and `RUN`."""
    return {
        "name": name,
        "study": "transient",
        "seed": seed,
        "grid": {**GRID, **grid},
        "run": {**RUN, **run},
    }


def write_spec(folder: Path, sweep_tables: Mapping[str, Any]) -> Path:
    """Write a spec into a folder, made if need be, and return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / "spec.toml"
    path.write_text(parse_spec(sweep_tables).to_toml())
    return path


def start(
    spec: Path, store: Path, *options: str, workers: int = 2, **environment: str
) -> subprocess.Popen[str]:
    """Start `sweep run` on local processes; output is kept in a file beside the spec."""
    site = spec.parent / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(_SITE)
    command = [
        sys.executable,
        "-m",
        "sweep.cli",
        "run",
        spec,
        "--store",
        store,
        "--workers",
        workers,
        *options,
    ]
    path = os.pathsep.join([str(site), str(ROOT), os.environ.get("PYTHONPATH", "")])
    with (spec.parent / "output.txt").open("a") as output:
        return subprocess.Popen(
            list(map(str, command)),
            env={
                **os.environ,
                "PYTHONPATH": path,
                "TRIAL_LOG": str(spec.parent / "executed.txt"),
                **environment,
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )


def finish(spec: Path, store: Path, *options: str, workers: int = 2) -> float:
    """Run a sweep to its end and return the seconds."""
    began = time.perf_counter()
    code = start(spec, store, *options, workers=workers).wait()
    must(code == 0, f"exit code {code}: {(spec.parent / 'output.txt').read_text()[-2000:]}")
    return time.perf_counter() - began


def executed(folder: Path) -> list[str]:
    """Return the names of all tasks that workers began."""
    log = folder / "executed.txt"
    return log.read_text().splitlines() if log.exists() else []


def workers_of(driver: int) -> list[psutil.Process]:
    """Return the worker processes of a driver, none if it has ended."""
    found = []
    try:
        for child in psutil.Process(driver).children(recursive=True):
            if "sweep.engines.worker" in child.cmdline():
                found.append(child)
    except psutil.NoSuchProcess:
        pass
    return found


def must_be_gone(processes: list[psutil.Process], seconds: float = 5.0) -> None:
    """Fail the trial if one of the processes is alive after that long."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    left = [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    for one in left:
        one.kill()
    must(not left, f"{len(left)} processes were left behind")


def contents(store: Path) -> Contents:
    """Return every variable and coordinate of the results outside /cells, with its bytes."""
    return {
        f"{group}/{name}": (tuple(map(str, variable.dims)), str(variable.dtype), variable.values.tobytes())
        for group, node in sweep.load(store).children.items()
        if group != "cells"
        for name, variable in node.dataset.variables.items()
    }


def must_be_equal(found: Contents, expected: Contents) -> None:
    """Fail the trial unless two results are equal bit for bit."""
    must(found.keys() == expected.keys(), f"variables differ: {found.keys() ^ expected.keys()}")
    differing = [name for name in expected if found[name] != expected[name]]
    must(not differing, f"other bits in {', '.join(differing)}")


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str], pause: float = 0.001) -> bool:
    """Wait until something holds; False if the process ended before."""
    while not condition():
        if process.poll() is not None:
            return bool(condition())
        time.sleep(pause)
    return True


def undisturbed(folder: Path, sweep_tables: Mapping[str, Any], show: Show) -> Contents:
    """Run a sweep that nothing happens to in a folder, show how long it takes, and return its results."""
    seconds = finish(write_spec(folder, sweep_tables), folder / "store")
    show("undisturbed run", f"{seconds:.1f} s")
    return contents(folder / "store")


@contextmanager
def trial(name: str) -> Iterator[tuple[Show, Path]]:
    """Run a trial: give a function that prints a figure and a folder; exit 1 with the reason if it fails."""
    began = time.perf_counter()

    def show(what: str, value: object) -> None:
        print(f"{what:<58} {value}", flush=True)

    print(f"== {name}", flush=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield show, Path(folder)
    except Failed as failure:
        print(f"FAILED: {failure}", flush=True)
        sys.exit(1)
    show("passed after", f"{time.perf_counter() - began:.0f} s")
