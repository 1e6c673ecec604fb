"""What a store costs as its cells grow: writing shards, building results.nc, looking for nothing to do, loading.

Run by name: `python benchmarks/store.py [--quick]`. Replicas are made up; shards, limits, layout and cube are those
of a run. Stores with keep = "errors" hold 10 replicas a cell, those with keep = "paths" 101 times and 12 levels of
each. CPU seconds are of this process and wall seconds, which include the disk, stand beside them. The bound is the
same arrays written to one file each way by the netCDF library, compressed alike, without checks, keys or names.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import sweep
from sweep.cube import consolidate
from sweep.layout import make_layout
from sweep.schema import stored_variables
from sweep.spec import parse_spec
from sweep.store import Store
from sweep.studies.base import SweepSpec
from sweep.work import solve_limit

ERROR_CELLS, PATH_CELLS = (100, 1_000, 10_000, 100_000), (100, 1_000)
REPLICAS = {"errors": 10, "paths": 8}
#: Items of a shard by what is kept: about those of a batch of a second.
SHARD = {"errors": 20_000, "paths": 200}
COLUMNS = ("keep", "cells", "replicas", "MB of arrays", "write", "bound", "results.nc", "resume", "load", "MB on disk")
Arrays = dict[str, NDArray[np.float64]]


def spec(keep: str, cells: int) -> SweepSpec:
    """Return a spec of so many cells, with a hundredth of as many limits, at most 100."""
    loads = [round(0.1 + 0.008 * i, 3) for i in range(min(100, max(1, cells // 100)))]
    tables: dict[str, Any] = {
        "name": "benchmark",
        "study": "transient",
        "seed": 1,
        "grid": {"N": list(range(10, 10 + cells // len(loads))), "d": 2, "lam": loads, "G": "exponential"},
        "run": {"horizon": 10.0, "replicas": REPLICAS[keep], "keep": keep, "times": 101, "levels": 12},
    }
    return parse_spec(tables)


def batches(checked: SweepSpec, size: int) -> Iterator[tuple[list[str], list[int], Arrays]]:
    """Yield keys, replica numbers and made-up arrays of each shard."""
    rng = np.random.default_rng(1)
    sizes = {dim: len(values) for dim, values in checked.coordinates().items()}
    variables = stored_variables(checked.REPLICA_KIND, **stored_options(checked))
    items = [(case.key, number) for case in checked.cells() for number in range(case.replicas)]
    for first in range(0, len(items), size):
        part = items[first : first + size]
        arrays = {
            name: rng.random((len(part), *(sizes[dim] for dim in variable.dims)))
            for name, variable in variables.items()
        }
        yield [key for key, _ in part], [number for _, number in part], arrays
