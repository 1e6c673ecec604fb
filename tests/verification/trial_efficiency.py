"""What two cores yield and how large a store may be: `python -m tests.verification.trial_efficiency`.

Run it on a machine that does nothing else, or name single parts (speedup, short, large) as arguments.
"""

from __future__ import annotations

import importlib
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

import sweep
from sweep.driver import run
from sweep.progress import Progress
from sweep.spec import parse_spec
from sweep.store import Store
from sweep.work import run_replicas, solve_limit, warm_up
from tests.verification.trial_runs import PLAIN, Show, must, tables, trial


def spec(grid: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """Return tables of one limit and small replicas, but for what is given."""
    small = {"times": 21, "levels": 6, "replicas": 1}
    return tables("efficiency", 15, {**PLAIN, "N": [1000], **grid}, **{**small, **settings})


class Clock:
    """Seconds of a run until its first replicas are stored, and from then until its end."""

    def __init__(self, tables: Mapping[str, Any], store: Path, engine: str, workers: int) -> None:
        self._news: list[tuple[float, int]] = []
        began, spent = time.perf_counter(), processor_seconds()
        run(tables, store=store, engine=engine, workers=workers, progress=self._note)
        ended, self.processor = time.perf_counter(), processor_seconds() - spent
        (first, before), (_, after) = self._news[0], self._news[-1]
        self.total, self.start_up = ended - began, first - began
        self.rest, self.replicas = ended - first, after - before
        working = sum(seconds_of(store)[1:])
        self.busy = working / (workers * (self._news[-1][0] - first)) if working else math.nan

    def _note(self, state: Progress) -> None:
        if state.replicas_done:
            self._news.append((time.perf_counter(), state.replicas_done))

    @property
    def rate(self) -> float:
        """Replicas a second once the first are there, the building of the results included."""
        return self.replicas / self.rest


def processor_seconds() -> float:
    """Return the processor time of this process and of the workers that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def seconds_of(store: Path) -> list[float]:
    """Return how long each stored batch took its worker, in the order they were stored."""
    found = []
    for path in sorted(store.glob("shards/network-*.nc"), key=lambda path: path.stat().st_mtime_ns):
        with netCDF4.Dataset(path) as file:
            found.append(float(file.seconds))
    return found


def speedup(show: Show, folder: Path) -> None:
    """Two workers against one process, on a sweep that computes."""
    what = spec({"N": [100_000], "G": ["lomax(beta=1.5)"]}, replicas=300)
    warm_up(parse_spec(what))
    rates: dict[str, list[float]] = {"serial": [], "local": []}
    for turn in range(2):
        for engine, workers in (("serial", 1), ("local", 2)):
            clock = Clock(what, folder / f"{engine}{turn}", engine, workers)
            rates[engine].append(clock.rate)
            show(
                f"{engine}, {workers} at once",
                f"{clock.rate:.2f} replicas/s, start-up {clock.start_up:.1f} s",
            )
    ratio = max(rates["local"]) / max(rates["serial"])
    show("2 workers against serial (1.85 wanted)", f"{ratio:.2f}")
    must(ratio >= 1.85, "two workers are not worth 1.85 of one")


def short(show: Show, folder: Path) -> None:
    """Ten thousand replicas of about a millisecond, against the same replicas in a bare loop."""
    what = spec({"N": [4000]}, replicas=10_000, keep="errors")
    checked = parse_spec(what)
    (case,), grids = checked.cells(), checked.grids()
    assert case.limit is not None
    warm_up(checked)
    limit = solve_limit({"limit": case.limit, "grids": grids}, {})
    shared = {case.limit.key: {key: values[0] for key, values in limit.items()}}
    payload = {"items": ((case, tuple(range(1000))),), "seed": 15, "grids": grids}
    run_replicas(payload, shared)
    bare, bare_processor, clocks = [], [], []
    # Two limits, for two workers to start.
    tables_of_nothing = spec({"N": [10], "lam": [0.5, 0.6]}, keep="errors")
    nothing = Clock(tables_of_nothing, folder / "nothing", "local", 2)
    for turn in range(3):
        began, spent = time.perf_counter(), time.process_time()
        run_replicas(payload, shared)
        bare.append((time.perf_counter() - began) / 1000)
        bare_processor.append((time.process_time() - spent) / 1000)
        clocks.append(Clock(what, folder / f"{turn}", "local", 2))
        show("start-up", f"{clocks[-1].start_up:.1f} s of {clocks[-1].total:.1f} s")
    share = max(clock.rate for clock in clocks) * min(bare) / 2
    least = min(clock.processor for clock in clocks) - nothing.processor
    show(
        "one replica in a bare loop",
        f"{1e3 * min(bare):.2f} ms, {1e3 * min(bare_processor):.2f} of processor",
    )
    show(
        "processor time of the replicas, share of all but start-up",
        f"{1e4 * min(bare_processor) / least:.1%}",
    )
    show("workers busy from the first batch to the last", f"{max(clock.busy for clock in clocks):.1%}")
    show("load of the machine", f"{os.getloadavg()[0]:.1f} (of {os.cpu_count()} processors)")
    show("10⁴ of them on 2 workers, share of ideal (90 % wanted)", f"{share:.1%}")
    must(share >= 0.9, "less than 90 % of ideal")


def large(show: Show, folder: Path) -> None:
    """A store of 10⁵ cells and 10⁶ replicas with keep = "errors": opening, growing by nothing, loading."""
    folder.mkdir()
    store = folder / "store"
    for part in ("fill", "resume", "resume", "load"):
        command = [sys.executable, "-m", "tests.verification.trial_efficiency", part, str(store)]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        must(told.returncode == 0, told.stderr[-2000:])
        seconds, peak = map(float, told.stdout.split())
        show(f"10⁵ cells × 10 replicas: {part}", f"{seconds:.1f} s, peak {peak / 1e6:.0f} MB")
        if part == "load":
            must(seconds < 5.0, "loading takes 5 s or more")
        must(part == "fill" or peak < 1e9, "1 GB or more of memory")


def many_cells() -> dict[str, Any]:
    """The spec of 10⁵ cells."""
    axes = {
        "N": list(range(10, 1010)),
        "d": [1, 2, 3, 4, 5],
        "lam": [round(0.1 + 0.04 * i, 2) for i in range(20)],
    }
    return spec(axes, replicas=10, keep="errors", horizon=1.0, times=3, levels=4)


def fill(store: Path) -> None:
    """Write shards of made-up errors for every replica, and of each limit, as a run would."""
    checked = parse_spec(many_cells())
    made = Store.create(store, checked.frame(), checked.to_toml())
    cases, rng = checked.cells(), np.random.default_rng(1)
    with made.lock():
        for start in range(0, len(cases), 2000):
            part = cases[start : start + 2000]
            keys = [case.key for case in part for _ in range(10)]
            values = {"S_sup": rng.random(len(keys)), "longest": rng.integers(1, 9, len(keys)).astype(float)}
            made.write_shard("network", keys, list(range(10)) * len(part), values)
        limits = {case.limit.key: case.limit for case in cases if case.limit is not None}
        grids = checked.grids()
        solved = solve_limit({"limit": cases[0].limit, "grids": grids}, {})
        for key in limits:
            made.write_shard("fluid", [key], None, solved)


def resume(store: Path) -> None:
    """Run the finished sweep again: everything is looked at, nothing computed."""
    summary = run(many_cells(), store=store, engine="local", workers=2)
    assert summary.replicas_computed == 0, summary
    assert summary.cells_done == 100_000, summary


def load(store: Path) -> None:
    """Load the results; xarray is there already, as in a notebook."""
    tree = sweep.load(store)
    assert np.isfinite(tree["network"].to_dataset().S_sup.values).all()
    assert (tree["cells"].to_dataset().status.values == "done").all()


if __name__ == "__main__":
    parts: dict[str, Callable[[Show, Path], None]] = {"speedup": speedup, "short": short, "large": large}
    children = {"fill": fill, "resume": resume, "load": load}
    if sys.argv[1:2] and sys.argv[1] in children:
        importlib.import_module("xarray")
        began = time.perf_counter()
        children[sys.argv[1]](Path(sys.argv[2]))
        print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    else:
        with trial("efficiency") as (shown, place):
            for chosen in sys.argv[1:] or parts:
                parts[chosen](shown, place / chosen)
