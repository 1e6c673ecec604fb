"""The network in equilibrium against two published tables, row by row.

The mean number of jobs per queue is estimated with two control variates whose means are known exactly: the
share of busy servers, λ, and the arrivals, λ a server and unit of time. S_ℓ is estimated likewise.

Run: python examples/finite_n.py STORE
"""

from __future__ import annotations

import argparse
import csv
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

import sweep

Floats = NDArray[np.float64]
REFERENCE = Path(__file__).parents[1] / "tests" / "reference"


def published() -> list[dict[str, Any]]:
    """Return the rows of both tables: d, lam, N, mean queue with its standard error, S_2 and so on."""
    rows = []
    for name in ("finite_n_d2_exponential", "finite_n_tails_exponential"):
        with (REFERENCE / f"{name}.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                half = float(row.get("ci_2sigma") or row["ci2sigma"])
                rows.append(
                    {
                        "table": name,
                        "d": int(row.get("d", 2)),
                        "lam": float(row.get("lam") or row["rho"]),
                        "N": int(row["N"]),
                        "mean": float(row["mean_queue_length"]),
                        "stderr": half / 2.0,
                        "tails": [float(row[key]) for key in ("S2", "S3", "S4", "S5", "S6") if key in row],
                    }
                )
    return rows


def controlled(values: Floats, controls: Floats) -> tuple[float, float]:
    """Return mean and standard error of `values` (replica,) after regression on controls of mean 0."""
    design = np.column_stack([np.ones(len(values)), controls])
    solution, *_ = np.linalg.lstsq(design, values, rcond=None)
    residuals = values - design @ solution
    variance = float(residuals @ residuals) / (len(values) - design.shape[1])
    return float(solution[0]), math.sqrt(variance * float(np.linalg.inv(design.T @ design)[0, 0]))


def estimates(cell: xr.Dataset, lam: float, length: float, levels: int) -> list[tuple[float, float]]:
    """Return (value, standard error) of the mean queue and of S_2 … S_`levels` of one network."""
    done = cell.X_batch.notnull().values
    busy = cell.S_batch.sel(level=1).values[done] - lam
    arrivals = cell.E_batch.values[done] / length - lam
    controls = np.column_stack([busy, arrivals])
    values = [cell.X_batch.values[done]]
    values += [cell.S_batch.sel(level=level).values[done] for level in range(2, levels + 1)]
    return [controlled(value, controls) for value in values]


def compare(tree: xr.DataTree) -> list[tuple[Any, ...]]:
    """Return each row: d, λ, N, mean, own and published standard error, z, and the largest |z| of S_ℓ.

    Differences are in units of hypot(own standard error, that published for the mean).
    """
    run = tomllib.loads(tree.attrs["spec"])["run"]
    length = (run["horizon"] - run["warmup"]) / run["batches"]
    results, lines = tree["equilibrium"].dataset, []
    for row in published():
        cell = results.sel(N=row["N"], d=row["d"], lam=row["lam"], G="exponential").isel(batch=0)
        expected = [row["mean"], *row["tails"]]
        found = estimates(cell, row["lam"], length, len(expected))
        z = [
            (value - other) / math.hypot(error, row["stderr"])
            for (value, error), other in zip(found, expected, strict=True)
        ]
        mean, error = found[0]
        worst = max((abs(value) for value in z[1:]), default=math.nan)
        replicas = int(cell.X_batch.notnull().sum())
        lines.append(
            (row["d"], row["lam"], row["N"], replicas, mean, row["mean"], error, row["stderr"], z[0], worst)
        )
    return lines


def main() -> None:
    """Print the comparison, and whether every row holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("store", help="store of examples/finite_n.toml")
    lines = compare(sweep.load(parser.parse_args().store))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("d", "λ", "N", "n", "mean", "published", "s.e.", "theirs", "z", "|z| S_ℓ"):
        table.add_column(name, justify="right", no_wrap=True)
    for *parameters, mean, other, error, theirs, z, worst in lines:
        table.add_row(
            *map(str, parameters), f"{mean:.5f}", f"{other:.5f}", f"{error:.1e}", f"{theirs:.1e}",
            f"{z:+.1f}", "" if math.isnan(worst) else f"{worst:.1f}",
        )  # fmt: skip
    console = Console(highlight=False)
    console.print(table)
    precise = sum(error <= max(theirs, 2e-4 * mean) for *_, mean, _, error, theirs, _, _ in lines)
    near = sum(abs(z) <= 4.0 and not worst > 4.0 for *_, z, worst in lines)
    console.print(f"{precise} of {len(lines)} rows are precise enough, {near} within 4 standard errors")


if __name__ == "__main__":
    main()
