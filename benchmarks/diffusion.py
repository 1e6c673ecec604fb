"""What the heavy-traffic limit costs: the PDE by tolerance beside its true error, particles by number."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.diffusion import kernels
from sweep.diffusion.cole_hopf import cole_hopf, cole_hopf_from
from sweep.diffusion.density import solve_diffusion
from sweep.diffusion.exact import stationary
from sweep.diffusion.particles import simulate_particles

Floats = NDArray[np.float64]
TIMES = (0.1, 1.0, 10.0)
#: b1, b0 and the start; ell = 2 and σ² = 2, so that Cole–Hopf is exact.
CASES = (
    (-2.0, 1.0, "empty"),
    (-1.0, -3.0, "empty"),
    (1.0, 0.5, "empty"),
    (-2.0, 1.0, "point(x=1.5)"),
    (-2.0, 1.0, "law(exponential, mean=0.7)"),
)
ROW = "{:<34}{:>10}{:>10}{:>12}{:>12}"


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the time of a call and its result."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def true_error(data: Any, b1: float, b0: float, initial: str) -> float:
    """Return the largest |v − Cole–Hopf| at every eighth position."""
    worst = 0.0
    for t in TIMES:
        at = data.sel(t=t).isel(x=slice(None, None, 8))
        values: dict[str, Any] = {"b1": b1, "b0": b0, "sigma2": 2.0, "t": t, "x": at.x.values}
        exact = cole_hopf(**values) if initial == "empty" else cole_hopf_from(initial, **values)
        worst = max(worst, float(np.abs(at.v.values - exact).max()))
    return worst


def measure_pde() -> None:
    """Print seconds, estimated and true error for each case and tolerance, then equilibria."""
    print(ROW.format("PDE, b1 b0 start", "tolerance", "seconds", "estimate", "error"))
    for b1, b0, initial in CASES:
        for tolerance in (1e-4, 1e-6, 1e-8):
            solve = partial(solve_diffusion, b1=b1, b0=b0, ell=2, sigma2=2.0, times=TIMES, initial=initial)
            cost, data = seconds(partial(solve, tolerance=tolerance))
            error = true_error(data, b1, b0, initial)
            texts = f"{tolerance:.0e}", f"{cost:.2f}", f"{float(data.v_error.max()):.1e}", f"{error:.1e}"
            print(ROW.format(f"{b1:g} {b0:g} {initial}", *texts), flush=True)
    print(ROW.format("equilibrium mean, ell", "tolerance", "seconds", "estimate", "error"))
    for ell in (2, 3, 5):
        solve = partial(solve_diffusion, b1=-2.0, b0=1.0, ell=ell, sigma2=2.0, times=[60.0])
        cost, data = seconds(partial(solve, x=[0.0, 0.5, 1.0], tolerance=1e-8))
        error = abs(float(data["mean"][0]) - stationary(b1=-2.0, b0=1.0, ell=ell, sigma2=2.0).mean)
        texts = "1e-08", f"{cost:.2f}", f"{float(data.mean_error[0]):.1e}", f"{error:.1e}"
        print(ROW.format(str(ell), *texts), flush=True)


def measure_particles() -> None:
    """Print nanoseconds per particle and step, and of sorting alone beside numpy.argsort."""
    print("{:<12}{:>12}{:>12}{:>16}".format("particles", "ns a step", "ns sorting", "ns np.argsort"))
    for M in (10**4, 10**5, 10**6):
        steps = max(10, 10**6 // M)
        run = partial(simulate_particles, b1=-2.0, b0=1.0, ell=2, sigma2=2.0, times=[1.0], seed=1)
        cost, data = seconds(partial(run, particles=M, step=1.0 / steps, positions=True))
        X = data.X.values[0]
        order, first = np.empty(M, np.int64), np.empty(M + 1, np.int64)
        ours, _ = seconds(partial(kernels.sort_particles, X, first, order))
        theirs, _ = seconds(partial(np.argsort, X))
        print(
            f"{M:<12}{cost / steps / M * 1e9:>12.0f}{ours / M * 1e9:>12.0f}{theirs / M * 1e9:>16.0f}",
            flush=True,
        )


def main() -> None:
    """Compile, then measure both."""
    solve_diffusion(b1=-2.0, b0=1.0, ell=2, sigma2=2.0, times=[1.0], tolerance=1e-2)
    simulate_particles(b1=-2.0, b0=1.0, ell=2, sigma2=2.0, times=[1.0], particles=100, seed=1, step=0.5)
    measure_pde()
    measure_particles()


if __name__ == "__main__":
    main()
