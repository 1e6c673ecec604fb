"""Arrivals a second that one core simulates, beside textbook simulators, beside a bound, and by law.

Run by name: `python benchmarks/simulate.py [--quick] [--largest]`. Every simulator runs the same network
(SQ(2), λ = .9, exponential, from empty) in turn, several times over, in one process after the other; the
median is shown. Times are CPU seconds of the running process, without compilation, which is shown apart. The
C++ simulators are one std::priority_queue of events, g++ -O2. The textbook one keeps a queue of jobs with
their service times at every server; the other keeps queue lengths alone and draws a service time as service
begins, which is faster and serves general service too. The bound draws the same random numbers and reads and
writes the servers sampled, and does nothing else. `--largest` runs N = 10⁸ to time 1, for its memory.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bound_kernels
import heap_simulator
import numpy as np
import simpy_simulator
from rich.console import Console
from rich.table import Table

from sweep.cell import Cell
from sweep.network import state
from sweep.network.simulate import run_path
from sweep.network.supply import BLOCK, Supply

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
    "phase_type(alpha=[1, 0], T=[[-2, 1], [0, -1]])",
)
LARGEST = 10**8
Run = Callable[[int, float, int], float]


def kernel(N: int, horizon: float, seed: int, G: str = "exponential", arrivals: str = "exponential") -> float:
    """Arrivals a CPU second of the package's own simulator."""
    cell = Cell(N=N, d=D, lam=LAM, G=G, arrivals=arrivals)
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


def bound(N: int, horizon: float, seed: int) -> float:
    """Arrivals a CPU second of drawing the random numbers, reading and writing the servers, and no more."""
    arrivals = round(LAM * N * horizon)
    started = time.process_time()
    supply = Supply(Cell(N=N, d=D, lam=LAM, G="exponential"), seed, 0, BLOCK)
    clock, servers = state.make_clock(supply.draws, 0), np.zeros(N, dtype=state.SERVER)
    bound_kernels.touch(supply.routing, supply.draws, clock, servers, arrivals)
    return arrivals / (time.process_time() - started)


def beside_bound(repeats: int, shrink: float) -> Table:
    """Cost of the kernel relative to the bound, by N."""
    table = Table(title="random numbers, reads and writes alone")
    for column in ("N", "arrivals a second", "kernel: cost / bound"):
        table.add_column(column, justify="right")
    bound(10, 1.0, 0)
    for N, horizon in HORIZONS.items():
        pairs = [
            (bound(N, horizon / shrink, repeat), kernel(N, horizon / shrink, repeat))
            for repeat in range(repeats)
        ]
        ratio = statistics.median(fast / slow for fast, slow in pairs)
        table.add_row(f"{N:,}", f"{statistics.median(fast for fast, _ in pairs):,.0f}", f"{ratio:.2f}")
    return table


def laws(repeats: int, shrink: float) -> Table:
    """Cost of each law, of service and of gaps between arrivals, relative to exponential; N = 10⁵."""
    rates: dict[tuple[str, str], list[float]] = {}
    for repeat in range(repeats):
        for law in LAWS:
            for role in ("G", "arrivals"):
                run = kernel(100_000, max(2.0, 30.0 / shrink), repeat, **{role: law})
                rates.setdefault((law, role), []).append(run)
    table = Table(title="laws, N = 100,000: arrivals a second (cost / exponential)")
    for column in ("law", "as service", "as arrivals"):
        table.add_column(column, justify="left" if column == "law" else "right")
    for law in LAWS:
        cells = []
        for role in ("G", "arrivals"):
            pairs = zip(rates["exponential", role], rates[law, role], strict=True)
            ratio = statistics.median(a / b for a, b in pairs)
            cells.append(f"{statistics.median(rates[law, role]):,.0f} ({ratio:.2f})")
        table.add_row(law, *cells)
    return table


def largest() -> str:
    """Time and memory of N = 10⁸ to time 1, in a process of its own."""
    child = subprocess.run(
        [sys.executable, __file__, "--largest-here"], capture_output=True, text=True, check=True
    )
    return child.stdout.strip()


def largest_here() -> str:
    """Time and peak memory of this process, which has done nothing else."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = time.perf_counter()
    rate = kernel(LARGEST, 1.0, 0)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return (
        f"N = {LARGEST:,} to time 1: {seconds:.0f} s, {rate:,.0f} arrivals a CPU second, peak memory "
        f"{peak / 1e6:,.0f} MB, {before / 1e6:,.0f} MB of it before the run: {(peak - before) / LARGEST:.1f} "
        f"bytes a server"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a fifth of the horizons, one repeat")
    parser.add_argument("--largest", action="store_true", help=f"N = {LARGEST:,} alone: its time and memory")
    parser.add_argument("--largest-here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.largest or options.largest_here:
        print(largest() if options.largest else largest_here())
        return
    quick = options.quick
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
    console.print(beside_bound(repeats, shrink))
    console.print(laws(repeats, shrink))


if __name__ == "__main__":
    main()
