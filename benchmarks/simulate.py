"""Arrivals a second that one core simulates, beside textbook event-driven simulators and by service law.

Run by name: `python benchmarks/simulate.py [--quick]`. Every simulator runs the same network (SQ(2), λ = .9,
exponential, from empty) in turn, several times over, in one process after the other; the median is shown.
Times are CPU seconds of the running process, without compilation, which is shown apart. The C++ simulators
are one std::priority_queue of events, g++ -O2: the faster keeps queue lengths and draws a service time as
service begins, which general service allows too; the other keeps queues of jobs with their service times.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import heap_simulator
import numpy as np
import simpy_simulator
from rich.console import Console
from rich.table import Table

from sweep.cell import Cell
from sweep.network.simulate import run_path

D, LAM, TIMES, LEVELS = 2, 0.9, 101, 20
#: Horizon by N: about ten million arrivals for the kernel, enough of them near equilibrium.
HORIZONS = {1_000: 10_000.0, 100_000: 100.0, 1_000_000: 12.0}
#: Arrivals asked of the slow simulators, which get a shorter horizon.
FEW = 100_000
LAWS = (
    "exponential",
    "erlang(k=4)",
    "gamma(shape=0.5)",
    "hyperexponential(scv=10)",
    "lomax(beta=1.5)",
    "pareto(beta=1.5)",
    "weibull(shape=0.5)",
    "lognormal(sigma=1.5)",
    "uniform(width=1)",
    "deterministic",
)
Run = Callable[[int, float, int], float]


def kernel(N: int, horizon: float, seed: int, G: str = "exponential") -> float:
    """Arrivals a CPU second of the package's own simulator."""
    cell = Cell(N=N, d=D, lam=LAM, G=G)
    started = time.process_time()
    path = run_path(
        cell,
        times=np.linspace(0.0, horizon, TIMES),
        seed=seed,
        replica=0,
        levels=LEVELS,
        snapshots=np.empty(0),
    )
    return float(path.arrivals[-1].sum()) / (time.process_time() - started)


def python_run(simulate: Callable[[int, int, float, float, int], int]) -> Run:
    """Arrivals a CPU second of a simulator in Python, over a shorter horizon."""

    def run(N: int, horizon: float, seed: int) -> float:
        started = time.process_time()
        arrivals = simulate(N, D, LAM, min(horizon, FEW / (LAM * N)), seed)
        return arrivals / (time.process_time() - started)

    return run


def compiled_run(program: Path) -> Run:
    """Arrivals a CPU second of the C++ simulator."""

    def run(N: int, horizon: float, seed: int) -> float:
        arguments = [N, D, LAM, horizon, TIMES, LEVELS, seed]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        answer = subprocess.run(
            [str(program), *map(str, arguments)], capture_output=True, text=True, check=True
        ).stdout
        return int(answer.split()[0]) / (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)

    return run


def compile_heap_simulators(folder: Path) -> dict[str, Run]:
    """Compile both forms of the C++ simulator with g++ -O2; none where there is no g++."""
    compiler = shutil.which("g++")
    if compiler is None:
        return {}
    source = Path(__file__).with_name("heap_simulator.cpp")
    simulators: dict[str, Run] = {}
    for name, flags in (("queue lengths", []), ("queues of jobs", ["-DJOBS"])):
        program = folder / name.replace(" ", "_")
        subprocess.run([compiler, "-O2", *flags, "-o", str(program), str(source)], check=True)
        simulators[f"C++ heap, {name}"] = compiled_run(program)
    return simulators


def compare(simulators: dict[str, Run], repeats: int, shrink: float) -> Table:
    """Arrivals a second by simulator and N, and each as a ratio to the kernel's."""
    rates: dict[tuple[str, int], list[float]] = {}
    for repeat in range(repeats):
        for N, horizon in HORIZONS.items():
            for name, run in simulators.items():
                rates.setdefault((name, N), []).append(run(N, max(2.0, horizon / shrink), repeat))
    table = Table(title="arrivals a second per core (how many times slower than this package)")
    table.add_column("simulator")
    for N in HORIZONS:
        table.add_column(f"N = {N:,}", justify="right")
    for name in simulators:
        cells = []
        for N in HORIZONS:
            ratio = statistics.median(
                fast / slow for fast, slow in zip(rates["sweep.simulate", N], rates[name, N], strict=True)
            )
            cells.append(f"{statistics.median(rates[name, N]):,.0f} ({ratio:.1f})")
        table.add_row(name, *cells)
    return table


def laws(repeats: int, shrink: float) -> Table:
    """Cost of each service law relative to exponential service, N = 10⁵."""
    rates: dict[str, list[float]] = {}
    for repeat in range(repeats):
        for law in LAWS:
            rates.setdefault(law, []).append(kernel(100_000, max(2.0, 30.0 / shrink), repeat, law))
    table = Table(title="service laws, N = 100,000")
    for column in ("law", "arrivals a second", "cost / exponential"):
        table.add_column(column, justify="left" if column == "law" else "right")
    for law in LAWS:
        ratio = statistics.median(a / b for a, b in zip(rates["exponential"], rates[law], strict=True))
        table.add_row(law, f"{statistics.median(rates[law]):,.0f}", f"{ratio:.2f}")
    return table


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a fifth of the horizons, one repeat")
    quick = parser.parse_args().quick
    repeats, shrink = (1, 5.0) if quick else (5, 1.0)
    console = Console()
    started = time.perf_counter()
    kernel(10, 1.0, 0)
    console.print(
        f"kernel ready after {time.perf_counter() - started:.1f} s (compiled, or read from its cache)"
    )
    simulators: dict[str, Run] = {"sweep.simulate": kernel}
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_heap_simulators(Path(folder))
        if not compiled:
            console.print("no g++ here: the C++ rows are left out")
        simulators.update(compiled)
        simulators[f"Python heapq ({FEW:,} arrivals)"] = python_run(heap_simulator.simulate)
        simulators[f"SimPy ({FEW:,} arrivals)"] = python_run(simpy_simulator.simulate)
        console.print(compare(simulators, repeats, shrink))
    console.print(laws(repeats, shrink))


if __name__ == "__main__":
    main()
