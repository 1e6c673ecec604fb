"""What a sweep costs beyond its tasks: 10⁴ trivial cells in this package and in xyzpy.

Run by name: `python benchmarks/sweeps.py [--quick]`, in an environment that also has xyzpy, which is said to
be missing otherwise. To make one:

    python3.11 -m venv peers && peers/bin/pip install -e . xyzpy h5netcdf

Every task is the same call in both: one replica of a tiny network, compared with its limit. A bare loop over
the tasks, the fastest of several, is the floor. xyzpy's Harvester keeps results in memory until all are there
and merges them into its file; its Crop writes every batch to disk, as this package does. CPU seconds are of
the driver and its workers, imports and compilation left out; a second run finds everything done.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]
import trivial_task
from rich.console import Console
from rich.table import Table

import sweep
from sweep.spec import parse_spec
from sweep.work import warm_up

LOADS = [round(0.05 * k, 2) for k in range(1, 11)]
WORKERS = 2
#: Tasks of a batch that xyzpy writes at once.
BATCH = 100


def clock() -> float:
    """Return CPU seconds of this process and of its children, finished or not."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    alive = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + sum(
        times.user + times.system for times in alive
    )


def spent(call: Callable[[], Any]) -> tuple[float, float]:
    """Return CPU and wall seconds of a call."""
    cpu, wall = clock(), time.perf_counter()
    call()
    return clock() - cpu, time.perf_counter() - wall


class Rows:
    """What is timed, a row a way of running all tasks."""

    def __init__(self, title: str, cells: int) -> None:
        self.count = cells
        self.axes: dict[str, list[Any]] = {"N": list(range(10, 10 + cells // len(LOADS))), "lam": LOADS}
        self.spec = {
            "name": "trivial",
            "study": "transient",
            "seed": 1,
            "grid": {**self.axes, "d": trivial_task.D, "G": "exponential"},
            "run": {
                "horizon": trivial_task.HORIZON,
                "times": trivial_task.TIMES,
                "levels": trivial_task.LEVELS,
                "replicas": 1,
                "keep": "errors",
            },
        }
        warm_up(parse_spec(self.spec))
        self._title = title
        self._timed: list[tuple[str, tuple[float, float], list[str]]] = []
        for lam in LOADS:
            trivial_task.limit(lam)
        self._loops = [spent(self._loop)]

    def _loop(self) -> None:
        for N, lam in itertools.product(*self.axes.values()):
            trivial_task.task(N, lam)

    def add(
        self, name: str, place: Path, first: Callable[[], Any], again: Callable[[], Any] | None, load: Any
    ) -> None:
        """Time one way: run, run again, load; and the bare loop once more."""
        run = spent(first)
        size = sum(file.stat().st_size for file in [place, *place.rglob("*")] if file.is_file())
        repeated = "–" if again is None else f"{spent(again)[0]:.2f}"
        self._timed.append((name, run, [repeated, f"{spent(load)[0]:.2f}", f"{size / 1e6:.1f}"]))
        self._loops.append(spent(self._loop))

    def table(self) -> Table:
        """Return the table; the floor is the fastest of the bare loops."""
        floor = min(self._loops)
        table = Table(title=self._title)
        for column in ("", "CPU s", "wall s", "µs a task above the loop", "again, CPU s", "load, s", "MB"):
            table.add_column(column, justify="right" if column else "left")
        table.add_row("bare loop", *(f"{value:.1f}" for value in floor), "", "", "", "")
        for name, (cpu, wall), rest in self._timed:
            above = f"{1e6 * (cpu - floor[0]) / self.count:,.0f}"
            table.add_row(name, f"{cpu:.1f}", f"{wall:.1f}", above, *rest)
        return table


def own(rows: Rows, folder: Path) -> None:
    """Add this package's engines."""
    for engine, workers in (("serial", 1), ("local", WORKERS)):
        store = folder / engine
        run = partial(sweep.run, rows.spec, store=store, engine=engine, workers=workers)
        name = f"sweep.run, {engine}" + (f", {workers} workers" if workers > 1 else "")
        rows.add(name, store, run, run, partial(sweep.load, store))


def peer(rows: Rows, folder: Path) -> None:
    """Add xyzpy's ways."""
    import xyzpy  # type: ignore[import-not-found,import-untyped,unused-ignore]

    def harvester(file: Path) -> Any:
        runner = xyzpy.Runner(trivial_task.task, var_names=["S_sup"], fn_args=["N", "lam"])
        return xyzpy.Harvester(runner, data_name=str(file))

    settings: dict[str, dict[str, Any]] = {
        "serial": {},
        f"{WORKERS} workers": {"parallel": True, "num_workers": WORKERS},
    }
    for name, chosen in settings.items():
        file = folder / f"{name[0]}.h5"
        first = partial(harvester(file).harvest_combos, rows.axes, verbosity=0, **chosen)
        again = partial(harvester(file).harvest_combos, rows.axes, verbosity=0, missing_only=True)
        rows.add(f"xyzpy Harvester, {name}", file, first, again, partial(xyzpy.load_ds, str(file)))
    file = folder / "crop.h5"

    def grow() -> None:
        crop = harvester(file).Crop(name="trivial", parent_dir=str(folder), batchsize=BATCH)
        crop.sow_combos(rows.axes, verbosity=0)
        crop.grow_missing(verbosity=0)
        crop.reap()

    rows.add(f"xyzpy Crop, serial, batches of {BATCH}", file, grow, None, partial(xyzpy.load_ds, str(file)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks")
    cells = 1_000 if parser.parse_args().quick else 10_000
    console = Console(width=120)
    sweep.load  # noqa: B018 - imported before the clock starts, as is xarray
    import xarray  # noqa: F401

    try:
        title = f"{cells:,} cells of one replica; xyzpy {version('xyzpy')}"
    except PackageNotFoundError:
        title = ""
        console.print("xyzpy: not installed")
    rows = Rows(title or f"{cells:,} cells of one replica", cells)
    with tempfile.TemporaryDirectory() as name:
        own(rows, Path(name))
        if title:
            peer(rows, Path(name))
    console.print(rows.table())


if __name__ == "__main__":
    main()
