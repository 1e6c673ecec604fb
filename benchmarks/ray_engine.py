"""What Ray costs a sweep: short replicas, long ones, and many cells, beside the same in one process.

Run by name, on a machine that does nothing else: `python benchmarks/ray_engine.py [--quick]`. The batches of
a sweep are run and stored with the serial engine, then with two actors of Ray, both of which have worked
before the clock starts; how long that took is shown as start-up. Of three turns the shorter counts.
The share of the ideal is the serial time over twice Ray's, and follows the speed of the machine, which may
change between the two; the share of the actors' time that was spent in replicas does not. Driver memory and
logs are of a run of many cells.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]
from rich.console import Console
from rich.table import Table

import sweep
from sweep.engines import make_engine
from sweep.plan import Batch, Plan, make_plan
from sweep.progress import Progress
from sweep.spec import parse_spec
from sweep.store import Store
from sweep.task import Arrays, Outcome, Task, execute
from sweep.work import warm_up

ACTORS = 2
TURNS = 3
_MEGABYTE = 1e6


class Batches:
    """The tasks of some batches, and the limits that they are compared with."""

    def __init__(self, plan: Plan, limits: Mapping[str, Arrays], batches: Iterable[Batch]) -> None:
        self._plan, self._limits, self._left = plan, limits, iter(batches)
        self.batches: dict[str, Batch] = {}

    def next_task(self) -> Task | None:
        """Return the next task, None if there is none."""
        batch = next(self._left, None)
        if batch is None:
            return None
        task = self._plan.batch_task(batch)
        self.batches[task.name] = batch
        return task

    def shared(self, name: str) -> Arrays:
        """Return a limit."""
        return self._limits[name]


def arrays_of(outcome: Outcome) -> Arrays:
    """Return what a task computed."""
    if outcome.arrays is None:
        raise RuntimeError(f"{outcome.task.name} failed: {outcome.error}")
    return outcome.arrays


def measure(what: Mapping[str, Any], engine: str) -> tuple[float, float, float]:
    """Return the working seconds of a sweep, the share of the workers' time spent in tasks, and start-up."""
    checked = parse_spec(what)
    plan = make_plan(checked, workers=ACTORS)
    limits = {
        limit.key: {
            name: values[0] for name, values in arrays_of(execute(plan.limit_task(limit), {})).items()
        }
        for limit in plan.missing_limits
    }
    warm_up(checked)
    workers = ACTORS if engine == "ray" else 1
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, make_engine(engine, workers) as executor:
        store = Store.create(Path(folder) / "store", checked.frame(), checked.to_toml())
        seen: set[str] = set()
        while len(seen) < min(workers, len(plan.batches)):
            seen.update(outcome.worker for outcome in executor.run(Batches(plan, limits, plan.batches[:2])))
        started = time.perf_counter()
        source = Batches(plan, limits, plan.batches)
        busy = 0.0
        for outcome in executor.run(source):
            busy += outcome.seconds
            keep(store, checked.REPLICA_KIND, source.batches[outcome.task.name], arrays_of(outcome))
        seconds = time.perf_counter() - started
        return seconds, busy / seconds / workers, started - begun


def keep(store: Store, kind: str, batch: Batch, arrays: Arrays) -> None:
    """Write a shard, as a run does."""
    items = list(rows(batch))
    store.write_shard(kind, [key for key, _ in items], [number for _, number in items], arrays)


def rows(batch: Batch) -> Iterator[tuple[str, int]]:
    """Yield key and replica of each row of a batch's arrays."""
    for case, numbers in batch.items:
        yield from ((case.key, number) for number in numbers)


class Watch:
    """Keeps an eye on memory and logs during a run."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.seconds = 0.0
        self.early = self.late = self.logs = 0

    def __call__(self, state: Progress) -> None:
        """Take note of the state after a task."""
        self.seconds = time.perf_counter() - self.started
        if 8 * state.replicas_done >= state.replicas_total > 0:
            self.late = psutil.Process().memory_info().rss
            self.early = self.early or self.late
        if state.replicas_done == state.replicas_total:
            self.logs = log_bytes()


def log_bytes() -> int:
    """Return the size of the logs of the Ray that this process is connected to, 0 if there is none."""
    import ray

    if not ray.is_initialized():
        return 0
    place: Any = ray._private.worker._global_node
    return sum(file.stat().st_size for file in Path(place.get_logs_dir_path()).rglob("*") if file.is_file())


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
    turns = [(measure(what, "serial"), measure(what, "ray")) for _ in range(TURNS)]
    alone = min(serial for (serial, _, _), _ in turns)
    actors, busy, _ = min(ray for _, ray in turns)
    startup = min(began for _, (_, _, began) in turns)
    table.add_row(
        name,
        f"{replicas}",
        f"{1e3 * alone / replicas:.2f}",
        f"{alone:.1f}",
        f"{actors:.1f}",
        f"{alone / actors:.2f}",
        f"{alone / actors / ACTORS:.0%}",
        f"{busy:.0%}",
        f"{startup:.1f}",
    )


def many_cells(console: Console, cells: int) -> None:
    """Show what the driver keeps and what is logged when the cells are many."""
    servers = list(range(10, 10 + cells // 100))
    loads = [round(0.3 + 0.005 * i, 3) for i in range(100)]
    grid = {"N": servers, "lam": loads, "G": "exponential"}
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        what, store = spec(grid, 1, 2.0), Path(folder) / "store"
        sweep.run(what, store=store, engine="ray", workers=ACTORS, progress=watch)
    console.print(
        f"{len(servers) * len(loads)} cells in {watch.seconds:.0f} s; driver "
        f"{watch.early / _MEGABYTE:.0f} MB after an eighth of them, {watch.late / _MEGABYTE:.0f} MB at the "
        f"end; Ray's logs {watch.logs / _MEGABYTE:.2f} MB"
    )


def main() -> None:
    """Print both comparisons and the account of many cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the work")
    part = 4 if parser.parse_args().quick else 1
    console = Console(width=110)
    table = Table(title=f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before; {ACTORS} actors")
    names = ["replicas", "ms each", "serial s", "Ray s", "ratio", "of ideal", "in replicas", "start-up s"]
    for column in ["", *names]:
        table.add_column(column, justify="right" if column else "left")
    short, long = 10_000 // part, 240 // part
    compare(table, "short replicas", spec({"N": [1100, 1400, 1700, 2000]}, short // 4, 10.0), short)
    compare(table, "compute-bound", spec({"N": [100_000, 200_000]}, long // 2, 20.0), 2 * (long // 2))
    console.print(table)
    many_cells(console, 20_000 // part)


if __name__ == "__main__":
    main()
