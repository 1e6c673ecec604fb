"""How cost grows with N, d, horizon, levels, times, load and cells: one row a quantity, one column a value.

Run by name: `python benchmarks/scaling.py [--quick]`. Each row varies one quantity and keeps the others.
Times are CPU seconds of this process without compilation, the least of three turns over the row, and in
brackets as multiples of the row's first. Memory is the most that arrays hold at once. What each row keeps is
in its name; networks start empty with d = 2, λ = .9 and exponential service unless it says otherwise.
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sweep.cell import Cell, Limit
from sweep.fluid.invariant import solve_invariant
from sweep.fluid.transient import solve
from sweep.network.simulate import run_path
from sweep.plan import make_plan
from sweep.spec import parse_spec

TURNS = 3
HEAVY = "lomax(beta=1.5)"


def network(
    *,
    N: int = 10_000,
    d: int = 2,
    horizon: float = 50.0,
    levels: int = 12,
    times: int = 101,
    G: str = "exponential",
) -> Callable[[], object]:
    """Return one replica."""
    cell, grid = Cell(N=N, d=d, lam=0.9, G=G), np.linspace(0.0, horizon, times)
    return lambda: run_path(cell, times=grid, seed=1, replica=0, levels=levels, snapshots=np.empty(0))


def limit(
    *,
    horizon: float = 10.0,
    d: int = 2,
    lam: float = 0.9,
    levels: int | None = None,
    tolerance: float = 1e-7,
    initial: str = "empty",
) -> Callable[[], object]:
    """Return one solve of the limit, heavy-tailed service."""
    rest: dict[str, Any] = {"snapshots": np.empty(0), "ages": np.array([np.inf])}
    problem = Limit(d=d, lam=lam, G=HEAVY, initial=initial)
    times = np.linspace(0.0, horizon, 101)
    return lambda: solve(problem, times=times, levels=levels, tolerance=tolerance, **rest)


def invariant(
    *, lam: float = 0.9, d: int = 2, G: str = "exponential", levels: int | None = None
) -> Callable[[], object]:
    """Return one solve of the invariant state."""
    problem = Limit(d=d, lam=lam, G=G)
    return lambda: solve_invariant(problem, levels)


def plan(*, cells: int) -> Callable[[], object]:
    """Return the check of a spec of many cells, and its plan."""
    grid = {"N": list(range(10, 10 + cells // 10)), "lam": [round(0.05 * k, 2) for k in range(1, 11)]}
    tables: dict[str, Any] = {
        "name": "plan",
        "study": "transient",
        "seed": 1,
        "grid": {**grid, "d": 2, "G": "exponential"},
        "run": {"horizon": 1.0, "times": 3, "replicas": 10},
    }
    return lambda: make_plan(parse_spec(tables), workers=2)


#: Row, quantity, its values, what is run; what the time is divided by and named.
ROWS: tuple[tuple[str, str, Sequence[Any], Callable[..., Callable[[], object]]], ...] = (
    (
        "a replica, N·T = 10⁶",
        "N",
        (10**2, 10**3, 10**4, 10**5, 10**6),
        lambda N: network(N=N, horizon=1e6 / N),
    ),
    ("a replica to T = 1", "N", (10**4, 10**5, 10**6, 10**7), lambda N: network(N=N, horizon=1.0)),
    ("a replica, N = 10⁴, T = 50", "d", (1, 2, 3, 5, 10, 20), lambda d: network(d=d)),
    ("a replica, N = 10³", "T", (10, 100, 1_000, 10_000), lambda T: network(N=1_000, horizon=float(T))),
    (
        "a replica, N = 10⁴, T = 50, lomax(1.5)",
        "levels",
        (5, 10, 20, 40, 80),
        lambda levels: network(levels=levels, G=HEAVY),
    ),
    ("a replica, N = 10⁴, T = 50", "times", (11, 101, 1_001, 10_001), lambda times: network(times=times)),
    ("limit, lomax(1.5)", "T", (10, 30, 100, 300, 1_000), lambda T: limit(horizon=float(T))),
    ("limit, lomax(1.5), T = 10", "d", (1, 2, 3, 5, 10), lambda d: limit(d=d)),
    ("limit, lomax(1.5), T = 10", "levels", (5, 10, 20, 40), lambda levels: limit(levels=levels)),
    (
        "limit, lomax(1.5), T = 10",
        "tolerance",
        (1e-4, 1e-6, 1e-8, 1e-10),
        lambda tolerance: limit(tolerance=tolerance),
    ),
    ("limit, lomax(1.5), T = 10", "λ", (0.5, 0.9, 0.99, 1.2), lambda lam: limit(lam=lam)),
    ("invariant state, exponential", "λ", (0.5, 0.9, 0.99, 0.999), lambda lam: invariant(lam=lam)),
    (
        "invariant state, lomax(1.5), λ = .7",
        "levels",
        (10, 50, 200, 400),
        lambda levels: invariant(lam=0.7, G=HEAVY, levels=levels),
    ),
    ("spec and plan", "cells", (10**2, 10**3, 10**4, 10**5), lambda cells: plan(cells=cells)),
)


def timed(calls: Sequence[Callable[[], object]], turns: int) -> list[float]:
    """Return the least CPU seconds of each call, in turns over all of them."""
    least = [np.inf] * len(calls)
    for _ in range(turns):
        for position, call in enumerate(calls):
            began = time.process_time()
            call()
            least[position] = min(least[position], time.process_time() - began)
    return least


def shown(seconds: float) -> str:
    """Return a time with three digits."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def memory(values: Sequence[int]) -> list[float]:
    """Return the most bytes that the arrays of a short replica hold, by N."""
    most = []
    for N in values:
        run = network(N=N, horizon=0.1)
        tracemalloc.start()
        run()
        most.append(float(tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    return most


def line(
    name: str, quantity: str, values: Sequence[Any], texts: Sequence[str], costs: Sequence[float]
) -> list[str]:
    """Return the two lines of a row: values above costs."""
    cells = [
        f"{quantity} = {value:,}\n{text} ({cost / costs[0]:.3g})"
        for value, text, cost in zip(values, texts, costs, strict=True)
    ]
    return [name, *cells]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one turn, without the last value of each row")
    quick = parser.parse_args().quick
    table = Table(title=f"load {os.getloadavg()[0]:.1f} before", show_lines=True, show_header=False)
    for call in (network(N=100, horizon=1.0), network(N=100, horizon=1.0, G=HEAVY), limit(), invariant()):
        call()  # compiled here
    for name, quantity, values, make in ROWS:
        chosen = values[:-1] if quick else values
        costs = timed([make(value) for value in chosen], 1 if quick else TURNS)
        table.add_row(*line(name, quantity, chosen, [shown(cost) for cost in costs], costs))
    sizes = (10**4, 10**5, 10**6) if quick else (10**4, 10**5, 10**6, 10**7)
    most = memory(sizes)
    table.add_row(*line("memory of a replica", "N", sizes, [f"{size / 1e6:.3g} MB" for size in most], most))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
