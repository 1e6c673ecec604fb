"""Cost of an arrival in general simulators of queues, beside this package: one small SQ(2) network.

Run by name: `python benchmarks/peers.py [--quick]`, in an environment that also has the peers; those that are
missing are said to be so. To make one:

    python3.11 -m venv peers && peers/bin/pip install -e . simpy ciw queueing-tool

Times are CPU seconds of this process; building the network is measured apart. A second table shows that all
simulate the same network: jobs per server at one time, averaged over runs from empty, beside the exact mean
from the generator of the whole chain.
"""

from __future__ import annotations

import argparse
import importlib
import math
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.linalg import expm

from sweep.cell import Cell
from sweep.network.simulate import run_path

D, LAM = 2, 0.9
SIZES = (10, 100, 1_000)
#: Arrivals of a timed run: of a peer, and of this package.
FEW, MANY = 5_000, 5_000_000
PEERS = {"simpy": "simpy_simulator", "ciw": "ciw_simulator", "queueing-tool": "queueing_tool_simulator"}
#: The network whose mean is compared: servers, longest queue of its exact twin, time.
SERVERS, LONGEST, TIME = 3, 12, 3.0
Prepare = Callable[[int, int, float, int], Callable[[float], tuple[int, int]]]


def prepare_own(N: int, d: int, lam: float, seed: int) -> Callable[[float], tuple[int, int]]:
    """Return what runs this package's simulator to a horizon and tells arrivals and jobs left."""
    cell = Cell(N=N, d=d, lam=lam, G="exponential")

    def run(horizon: float) -> tuple[int, int]:
        path = run_path(
            cell, times=np.array([horizon]), seed=seed, replica=0, levels=1, snapshots=np.empty(0)
        ).arrays(np.empty(0))
        return round(float(path["E"][-1]) * N), round(float(path["X"][-1]) * N)

    return run


def simulators() -> tuple[dict[str, Prepare], list[str]]:
    """Return what can run here, this package first, and the names of what is not installed."""
    found: dict[str, Prepare] = {"sweep.simulate": prepare_own}
    missing = []
    for name, module in PEERS.items():
        try:
            found[f"{name} {version(name)}"] = importlib.import_module(module).prepare
        except ImportError:  # as is PackageNotFoundError
            missing.append(name)
    return found, missing


def cost(prepare: Prepare, N: int, arrivals: int, seed: int) -> tuple[float, float]:
    """Return microseconds an arrival, and the seconds that building the network takes."""
    began = time.process_time()
    run = prepare(N, D, LAM, seed)
    built = time.process_time()
    counted, _ = run(arrivals / (LAM * N))
    return 1e6 * (time.process_time() - built) / counted, built - began


def costs(found: dict[str, Prepare], shrink: int, repeats: int) -> Table:
    """Microseconds an arrival by simulator and N, each as a ratio to this package's, and the building."""
    table = Table(title="µs an arrival (how many times this package's); seconds to build the network")
    table.add_column("simulator")
    for N in SIZES:
        table.add_column(f"N = {N:,}", justify="right")
        table.add_column("to build", justify="right")
    own = {
        N: statistics.median(cost(prepare_own, N, MANY // shrink, seed)[0] for seed in range(3))
        for N in SIZES
    }
    for name, prepare in found.items():
        cells = []
        for N in SIZES:
            arrivals = (MANY if prepare is prepare_own else FEW) // shrink
            pairs = [cost(prepare, N, arrivals, seed) for seed in range(repeats)]
            micro, build = (statistics.median(values) for values in zip(*pairs, strict=True))
            ratio = "" if prepare is prepare_own else f" ({micro / own[N]:,.0f})"
            cells += [f"{micro:.3g}{ratio}", f"{build:.2g}"]
        table.add_row(name, *cells)
    return table


def exact_mean() -> float:
    """Return the mean of jobs per server at `TIME` from empty, queues cut at `LONGEST`, by the full chain."""
    shape = (LONGEST + 1,) * SERVERS
    rates: NDArray[np.float64] = np.zeros((math.prod(shape),) * 2)
    states = np.indices(shape).reshape(SERVERS, -1).T
    for here, state in enumerate(states):
        for i in range(SERVERS):
            if state[i] > 0:
                rates[here, np.ravel_multi_index(tuple(state - np.eye(SERVERS, dtype=int)[i]), shape)] += 1.0
            for j in range(SERVERS):
                chosen = i if state[i] <= state[j] else j
                if state[chosen] < LONGEST:
                    there = np.ravel_multi_index(tuple(state + np.eye(SERVERS, dtype=int)[chosen]), shape)
                    rates[here, there] += LAM * SERVERS / SERVERS**D
    np.fill_diagonal(rates, -rates.sum(axis=1))
    return float(expm(TIME * rates)[0] @ states.mean(axis=1))


def means(found: dict[str, Prepare], replicas: int) -> Table:
    """Mean of jobs per server at one time by simulator, beside the exact one."""
    exact = exact_mean()
    table = Table(title=f"jobs per server at t = {TIME:g}, N = {SERVERS}; exact {exact:.4f}")
    for column in ("simulator", "mean", "standard error", "z"):
        table.add_column(column, justify="left" if column == "simulator" else "right")
    for name, prepare in found.items():
        jobs = [prepare(SERVERS, D, LAM, seed)(TIME)[1] / SERVERS for seed in range(replicas)]
        error = statistics.stdev(jobs) / math.sqrt(replicas)
        mean = statistics.fmean(jobs)
        table.add_row(name, f"{mean:.4f}", f"{error:.4f}", f"{(mean - exact) / error:+.1f}")
    return table


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one repeat")
    quick = parser.parse_args().quick
    console = Console(width=110)
    found, missing = simulators()
    prepare_own(10, D, LAM, 0)(1.0)  # compiled here
    for name in missing:
        console.print(f"{name}: not installed")
    console.print(costs(found, *((10, 1) if quick else (1, 3))))
    console.print(means(found, 200 if quick else 2_000))


if __name__ == "__main__":
    main()
