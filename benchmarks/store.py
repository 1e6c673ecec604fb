"""What a store costs as its cells grow: writing shards, building results.nc, running again, loading.

Run by name: `python benchmarks/store.py [--quick]`. Replicas are made up, all else is as in a run. Stores
with keep = "errors" have 10 replicas a cell, those with keep = "paths" 8 of 101 times and 12 levels. Times
are CPU seconds of this process, and for writing also wall seconds, which include the disk. The plain file is
the same arrays written and read by the netCDF library alone, compressed alike: no checksums, no keys, one
file.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import sweep
from sweep.cube import consolidate
from sweep.layout import Layout, make_layout
from sweep.plan import make_plan
from sweep.spec import parse_spec
from sweep.store import Store
from sweep.studies.base import SweepSpec
from sweep.work import solve_limit

CELLS = {"errors": (100, 1_000, 10_000, 100_000), "paths": (100, 1_000)}
REPLICAS = {"errors": 10, "paths": 8}
#: Replicas of a shard: about those of a batch.
SHARD = {"errors": 20_000, "paths": 1_000}
_CHUNK_BYTES = 1 << 20
COLUMNS = (
    "keep",
    "cells",
    "MB",
    "shards",
    "write s (wall)",
    "results.nc s",
    "run again s",
    "load s",
    "plain write s",
    "plain read s",
    "MB on disk",
)
Floats = NDArray[np.float64]


def spec(keep: str, cells: int) -> SweepSpec:
    """Return a spec of so many cells, with a hundredth of as many limits, at most 100."""
    loads = [round(0.1 + 0.008 * i, 3) for i in range(min(100, cells // 100))]
    return parse_spec(
        {
            "name": "benchmark",
            "study": "transient",
            "seed": 1,
            "grid": {
                "N": list(range(10, 10 + cells // len(loads))),
                "d": 2,
                "lam": loads,
                "G": "exponential",
            },
            "run": {"horizon": 10.0, "times": 101, "levels": 12, "replicas": REPLICAS[keep], "keep": keep},
        }
    )


def seconds(call: Callable[[], Any]) -> tuple[float, float]:
    """Return CPU and wall seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return time.process_time() - cpu, time.perf_counter() - wall


def made_up(checked: SweepSpec, layout: Layout, count: int) -> dict[str, Floats]:
    """Return arrays of so many replicas: values of few digits, as counts over N are."""
    rng = np.random.default_rng(1)
    sizes = {dim: len(values) for dim, values in checked.coordinates().items()}
    return {
        name: rng.integers(0, 1000, (count, *(sizes[dim] for dim in variable.dims))) / 1000.0
        for name, variable in layout.variables(checked.REPLICA_KIND).items()
    }


def write(store: Store, checked: SweepSpec, arrays: dict[str, Floats]) -> None:
    """Write shards of all replicas, each of the same values."""
    items = [(case.key, number) for case in checked.cells() for number in range(case.replicas)]
    size = len(next(iter(arrays.values())))
    with store.lock():
        for first in range(0, len(items), size):
            keys, numbers = zip(*items[first : first + size], strict=True)
            part = {name: values[: len(keys)] for name, values in arrays.items()}
            store.write_shard(checked.REPLICA_KIND, list(keys), list(numbers), part)


def write_plain(path: Path, arrays: dict[str, Floats], count: int) -> None:
    """Write as many replicas of the same values to one file."""
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        file.createDimension("item", count)
        for name, values in arrays.items():
            dims = tuple(f"{name}_{axis}" for axis in range(1, values.ndim))
            for dim, size in zip(dims, values.shape[1:], strict=True):
                file.createDimension(dim, size)
            chunk = min(count, max(1, _CHUNK_BYTES // values[0].nbytes))
            target = file.createVariable(
                name,
                "f8",
                ("item", *dims),
                zlib=True,
                complevel=1,
                shuffle=True,
                chunksizes=(chunk, *values.shape[1:]),
            )
            for first in range(0, count, len(values)):
                target[first : first + len(values)] = values[: count - first]


def read_plain(path: Path) -> None:
    """Read all of it."""
    with netCDF4.Dataset(path) as file:
        for name in file.variables:
            file[name][...]


def measure(keep: str, cells: int, folder: Path) -> list[str]:
    """Return one row of the table."""
    checked = spec(keep, cells)
    layout = make_layout(make_plan(checked, workers=1))
    count = cells * REPLICAS[keep]
    arrays = made_up(checked, layout, min(SHARD[keep], count))
    size = sum(values[:1].nbytes for values in arrays.values()) * count
    store = Store.create(folder / "store", checked.frame(), checked.to_toml())
    wrote = seconds(lambda: write(store, checked, arrays))
    limits = {case.limit.key: case.limit for case in checked.cells() if case.limit is not None}
    with store.lock():
        for key, limit in limits.items():
            solved = solve_limit({"limit": limit, "grids": checked.grids()}, {})
            store.write_shard(checked.LIMIT_KIND, [key], None, solved)
    built = seconds(lambda: consolidate(store, layout))
    again = seconds(lambda: sweep.run(checked, store=store.path, engine="serial", workers=1))
    loaded = seconds(lambda: sweep.load(store.path))
    plain = seconds(lambda: write_plain(folder / "plain.nc", arrays, count))
    read = seconds(lambda: read_plain(folder / "plain.nc"))
    disk = sum(file.stat().st_size for file in store.path.rglob("*") if file.is_file())
    return [
        keep,
        f"{cells:,}",
        f"{size / 1e6:,.1f}",
        f"{-(-count // SHARD[keep])} + {len(limits)}",
        f"{wrote[0]:.2f} ({wrote[1]:.2f})",
        *(f"{cpu:.2f}" for cpu, _ in (built, again, loaded, plain, read)),
        f"{disk / 1e6:,.1f}",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the largest of each kind")
    quick = parser.parse_args().quick
    table = Table(title=f"load {os.getloadavg()[0]:.1f} before")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "keep" else "right")
    with tempfile.TemporaryDirectory() as name:
        measure("errors", 100, Path(name))  # imports everything
    for keep, sizes in CELLS.items():
        for cells in sizes[:-1] if quick else sizes:
            with tempfile.TemporaryDirectory() as name:
                table.add_row(*measure(keep, cells, Path(name)))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
