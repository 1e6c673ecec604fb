"""Arrivals a second that one core simulates by level counts, beside the server-by-server simulator.

Run by name: `python benchmarks/lumped.py [--quick]`. Both simulate SQ(2) from empty in turn, several times;
medians are shown, in CPU seconds of this process without compilation.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from sweep.cell import Cell
from sweep.network.lumped import run_lumped
from sweep.network.simulate import run_replica

LEVELS, TIMES = 20, 101
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
#: (d, λ, share of arrivals that use d choices)
NETWORKS = ((2, 0.9, 1.0), (2, 0.5, 1.0), (5, 0.9, 1.0), (1, 0.9, 1.0), (2, 0.9, 0.5))
#: Arrivals a run, about; networks that are still filling up are not what long runs meet.
ARRIVALS = 5_000_000
SHORTEST = 5.0
Run = Callable[[Cell, np.ndarray], float]


def server_by_server(cell: Cell, times: np.ndarray) -> float:
    """Arrivals a server in one run."""
    ages = np.array([np.inf])
    arrays = run_replica(
        cell, times=times, seed=1, replica=0, levels=LEVELS, snapshots=np.empty(0), ages=ages
    )
    return float(arrays["E"][-1])


def lumped(cell: Cell, times: np.ndarray) -> float:
    """Arrivals a server in one run."""
    return float(run_lumped(cell, times=times, seed=1, replica=0, levels=LEVELS).arrays()["E"][-1])


def rate(run: Run, cell: Cell, shrink: float) -> float:
    """Arrivals a CPU second."""
    horizon = max(SHORTEST, ARRIVALS / shrink / (cell.lam * cell.N))
    times = np.linspace(0.0, horizon, TIMES)
    started = time.process_time()
    arrivals = run(cell, times) * cell.N
    return arrivals / (time.process_time() - started)


def compare(
    d: int, lam: float, fraction: float, sizes: tuple[int, ...], repeats: int, shrink: float
) -> Table:
    """Arrivals a second of both by N, and the ratio of the lumped to the other."""
    table = Table(title=f"d = {d}, λ = {lam}, fraction = {fraction}: arrivals a second per core")
    for column in ("N", "server by server", "lumped", "ratio"):
        table.add_column(column, justify="right")
    for N in sizes:
        cell = Cell(N=N, d=d, lam=lam, G="exponential", fraction=fraction)
        pairs = [(rate(server_by_server, cell, shrink), rate(lumped, cell, shrink)) for _ in range(repeats)]
        ratio = statistics.median(second / first for first, second in pairs)
        first, second = (statistics.median(values) for values in zip(*pairs, strict=True))
        table.add_row(f"{N:,}", f"{first:,.0f}", f"{second:,.0f}", f"{ratio:.2f}")
    return table


def peak(run: Run, N: int) -> float:
    """Megabytes of arrays that a run of horizon .1 holds at most."""
    cell = Cell(N=N, d=2, lam=0.9, G="exponential")
    tracemalloc.start()
    run(cell, np.array([0.1]))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def memory(sizes: tuple[int, ...]) -> Table:
    """Memory by N of both."""
    table = Table(title="most memory of a run, MB")
    for column in ("N", "server by server", "lumped"):
        table.add_column(column, justify="right")
    for N in sizes:
        table.add_row(f"{N:,}", f"{peak(server_by_server, N):.1f}", f"{peak(lumped, N):.1f}")
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="shorter runs, one repeat, N up to 10⁶")
    quick = parser.parse_args().quick
    repeats, shrink, sizes = (1, 5.0, SIZES[:-1]) if quick else (3, 1.0, SIZES)
    console = Console()
    for run in (server_by_server, lumped):  # compiled here
        run(Cell(N=10, d=2, lam=0.9, G="exponential"), np.array([1.0]))
    for d, lam, fraction in NETWORKS:
        console.print(compare(d, lam, fraction, sizes, repeats, shrink))
    console.print(memory(sizes))


if __name__ == "__main__":
    main()
