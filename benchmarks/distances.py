"""What distances of N ages from a fluid measure cost beside sorting; arguments: the N to try."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sweep.distances import (
    Atoms,
    PiecewiseLinear,
    kolmogorov,
    prohorov,
    prohorov_between,
    prohorov_to_cdf,
    residual_norm,
    wasserstein,
)
from sweep.laws import Law, parse_law

LAWS = ("exponential", "lomax(beta=1.5)", "uniform(width=1)", "deterministic")
LOAD, CELLS, OLDEST = 0.9, 64, 10.0
ROW = "{:<18}{:>9}{:>9}{:>13}{:>13}{:>13}{:>10}{:>11}{:>11}{:>11}"


def best(call: Callable[[], object], repeats: int = 3) -> float:
    """Return the least time of some calls, after one that may compile, in seconds."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def equilibrium_ages(law: Law) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return an age grid and the cdf of ages there, of density λḠ up to the oldest age."""
    oldest = min(OLDEST, law.support_end)
    ages = np.append(np.linspace(0.0, oldest, CELLS + 1), math.inf)
    return ages, LOAD * np.append(law.integral(ages[:-1]), law.integral(oldest))


def measure(text: str, N: int) -> None:
    """Print one row: seconds of each part (both Prohorov distances with sorting), then the distances."""
    law = parse_law(text)
    ages, cdf = equilibrium_ages(law)
    fluid = PiecewiseLinear(ages, cdf)
    rng = np.random.default_rng(20190614)
    samples = []
    for _ in range(2):
        level = rng.random(N)
        samples.append(np.interp(level[level < cdf[-1]], cdf[:-1], ages[:-1]))
    ours = Atoms(samples[0], 1.0 / N)
    seconds = [
        best(lambda: np.sort(samples[0])),
        best(lambda: prohorov(samples[0], 1.0 / N, samples[1], 1.0 / N)),
        best(lambda: prohorov_to_cdf(samples[0], 1.0 / N, ages, cdf)),
        best(lambda: (kolmogorov(ours, fluid), wasserstein(ours, fluid))),
        best(lambda: residual_norm(law, ours, fluid)),
    ]
    norm = residual_norm(law, ours, fluid)
    values = [prohorov_between(ours, fluid), norm.value, norm.error]
    print(
        ROW.format(text, N, *(f"{value:.4f}" for value in seconds), *(f"{value:.2e}" for value in values)),
        flush=True,
    )


def main() -> None:
    """Measure every law at every N asked for."""
    print(ROW.format("G", "N", "sort s", "atoms s", "cdf s", "K and W1 s", "V s", "d_P", "V", "error of V"))
    for N in [int(argument) for argument in sys.argv[1:]] or [10**4, 10**5, 10**6]:
        for text in LAWS:
            measure(text, N)


if __name__ == "__main__":
    main()
