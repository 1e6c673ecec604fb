"""Arrivals a second that one core simulates under each routing rule that sees all queues.

Run by name: `python benchmarks/rules.py [--quick]`. Networks start empty, λ = .9, exponential service;
medians are shown, in CPU seconds of this process without compilation. The last column is the simulator of
sampled queues, which needs no event list.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from sweep.cell import Cell
from sweep.network.eager import run_eager
from sweep.network.simulate import run_path
from sweep.routing import ROUTING

SIZES = (1_000, 10_000, 100_000, 1_000_000)
NONE = np.empty(0)
#: Arrivals a run, about.
ARRIVALS = 3_000_000
SHORTEST = 2.0


def rate(run: Callable[[Cell, np.ndarray], float], N: int, d: int, shrink: float) -> float:
    """Arrivals a CPU second."""
    cell = Cell(N=N, d=d, lam=0.9, G="exponential")
    times = np.linspace(0.0, max(SHORTEST, ARRIVALS / shrink / (cell.lam * N)), 11)
    started = time.process_time()
    arrivals = run(cell, times) * N
    return arrivals / (time.process_time() - started)


def under(rule: str) -> Callable[[Cell, np.ndarray], float]:
    """Return what runs a network under a rule and gives its arrivals a server."""

    def run(cell: Cell, times: np.ndarray) -> float:
        path = run_eager(cell, rule, times=times, seed=1, replica=0, levels=20, snapshots=NONE)
        return float(path.arrays(NONE)["E"][-1])

    return run


def sampled(cell: Cell, times: np.ndarray) -> float:
    """Arrivals a server in one run of the server-by-server simulator."""
    path = run_path(cell, times=times, seed=1, replica=0, levels=20, snapshots=NONE)
    return float(path.arrays(NONE)["E"][-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="shorter runs, one repeat, N up to 10⁵")
    quick = parser.parse_args().quick
    repeats, shrink, sizes = (1, 5.0, SIZES[:-1]) if quick else (3, 1.0, SIZES)
    runs = [(name, under(name), 2 if rule.samples else 1) for name, rule in ROUTING.items()]
    runs.append(("sampled, no event list", sampled, 2))
    table = Table(title="λ = .9, d = 2 where queues are sampled: arrivals a second per core")
    table.add_column("N", justify="right")
    for name, run, d in runs:
        table.add_column(name, justify="right")
        rate(run, 10, d, 1e6)  # compiled here
    for N in sizes:
        rates = [[rate(run, N, d, shrink) for _ in range(repeats)] for _, run, d in runs]
        table.add_row(f"{N:,}", *(f"{statistics.median(values):,.0f}" for values in rates))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
