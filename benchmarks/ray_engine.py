"""What Ray costs a sweep: short replicas, long ones, and many cells, beside the same in one process.

Run by name: `python benchmarks/ray_engine.py [--quick]`. Each sweep is run by the serial engine, then by Ray
with two actors. What is compared is replicas a second from the moment that an eighth of them is done, by when
every worker has loaded its kernels, to the last; the time to the solved limit is shown as start-up. The share
of the ideal is Ray's rate over twice the serial one. Driver memory and logs are of the run of many cells.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]
from rich.console import Console
from rich.table import Table

import sweep
from sweep.driver import Progress

ACTORS = 2
_MEGABYTE = 1e6


@dataclass
class Watch:
    """Takes the time of a run, and the memory of this process along the way."""

    started: float
    solved: float = 0.0
    first: tuple[float, int] | None = None  # time, and replicas done, from which the rate is taken
    last: tuple[float, int] = (0.0, 0)
    early: int = 0  # bytes after an eighth of the replicas
    late: int = 0
    logs: int = 0

    def __call__(self, state: Progress) -> None:
        """Take note of the state after a task."""
        now = time.perf_counter()
        if state.limits_done < state.limits_total or not self.solved:
            self.solved = now
            return
        if 8 * state.replicas_done < state.replicas_total:
            return
        self.last = now, state.replicas_done
        self.first = self.first or self.last
        self.late = psutil.Process().memory_info().rss
        self.early = self.early or self.late
        if state.replicas_done == state.replicas_total:
            self.logs = log_bytes()

    @property
    def startup(self) -> float:
        """Seconds until the limit is solved."""
        return self.solved - self.started

    @property
    def rate(self) -> float:
        """Replicas a second."""
        began, done = self.first or self.last
        return (self.last[1] - done) / (self.last[0] - began)


def log_bytes() -> int:
    """Return the size of the logs of the Ray that this process is connected to, 0 if there is none."""
    import ray

    if not ray.is_initialized():
        return 0
    place: Any = ray._private.worker._global_node
    return sum(file.stat().st_size for file in Path(place.get_logs_dir_path()).rglob("*") if file.is_file())


def run(spec: Mapping[str, Any], engine: str) -> Watch:
    """Run a sweep into a store that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch(time.perf_counter())
        workers = ACTORS if engine == "ray" else None
        summary = sweep.run(
            spec, store=Path(folder) / "store", engine=engine, workers=workers, progress=watch
        )
        if summary.failures:
            raise RuntimeError(f"{len(summary.failures)} cells failed: {summary.failures[0].error}")
    return watch


def spec(grid: Mapping[str, Any], replicas: int, horizon: float) -> dict[str, Any]:
    """Return a sweep, of service with a heavy tail unless the grid says otherwise."""
    return {
        "name": "benchmark",
        "study": "transient",
        "seed": 1,
        "grid": {"d": 2, "lam": 0.9, "G": "lomax(beta=1.5)", **grid},
        "run": {"horizon": horizon, "times": 11, "levels": 5, "replicas": replicas},
    }


def compare(table: Table, name: str, what: Mapping[str, Any], replicas: int) -> None:
    """Add a row of one sweep by both engines."""
    alone, actors = run(what, "serial"), run(what, "ray")
    ratio = actors.rate / alone.rate
    table.add_row(
        name,
        f"{replicas}",
        f"{1e3 / alone.rate:.2f}",
        f"{alone.rate:.1f}",
        f"{actors.rate:.1f}",
        f"{ratio:.2f}",
        f"{ratio / ACTORS:.0%}",
        f"{alone.startup:.1f} / {actors.startup:.1f}",
    )


def many_cells(console: Console, cells: int) -> None:
    """Show what the driver keeps and what is logged when the cells are many."""
    servers = list(range(10, 10 + cells // 100))
    loads = [round(0.3 + 0.005 * i, 3) for i in range(100)]
    grid = {"N": servers, "lam": loads, "G": "exponential"}
    watch = run(spec(grid, 1, 2.0), "ray")
    console.print(
        f"{len(servers) * len(loads)} cells in {watch.last[0] - watch.started:.0f} s; driver "
        f"{watch.early / _MEGABYTE:.0f} MB after an eighth of them, {watch.late / _MEGABYTE:.0f} MB at the "
        f"end; Ray's logs {watch.logs / _MEGABYTE:.2f} MB"
    )


def main() -> None:
    """Print both comparisons and the account of many cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    part = 10 if parser.parse_args().quick else 1
    console = Console(width=110)
    table = Table(title=f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before; {ACTORS} actors")
    for column in ("", "replicas", "ms each", "serial /s", "Ray /s", "ratio", "of ideal", "start-up s"):
        table.add_column(column, justify="right" if column else "left")
    short, long = 10_000 // part, 64 // part
    compare(table, "short replicas", spec({"N": [500, 600, 700, 800]}, short // 4, 10.0), short)
    compare(table, "compute-bound", spec({"N": [100_000, 200_000]}, long // 2, 20.0), 2 * (long // 2))
    console.print(table)
    many_cells(console, 20_000 // part)


if __name__ == "__main__":
    main()
