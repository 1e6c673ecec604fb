"""Cost and error of `solve_fluid` by law: seconds, reported and true error, and DOP853's cost at equal error.

`--horizon 1000` shows that the cost of a step does not grow with the horizon, if beside `--horizon 10`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from sweep.cell import Limit
from sweep.errors import AccuracyError
from sweep.fluid.exact import phase_type, solve_phase_type
from sweep.fluid.transient import solve

Floats = NDArray[np.float64]
LAWS = (
    "exponential",
    "erlang(k=4)",
    "hyperexponential(scv=4)",
    "lomax(beta=1.5)",
    "pareto(beta=1.5)",
    "uniform(width=1)",
    "uniform(width=0.7718281)",
    "deterministic",
    "lognormal(sigma=1.5)",
    "weibull(shape=0.5)",
    "weibull(shape=1.5)",
    "gamma(shape=0.5)",
    "gamma(shape=2.5)",
)
STARTS = ("empty", "lengths(2: 0.2, 3: 0.7)")
TOLERANCE = 1e-8


def solved(limit: Limit, times: Floats) -> dict[str, Floats]:
    """Solve at the default tolerance, without age distributions."""
    return solve(
        limit, times=times, levels=None, snapshots=np.empty(0), ages=np.array([np.inf]), tolerance=TOLERANCE
    )


def against_ode(limit: Limit, times: Floats, S: Floats) -> tuple[str, str]:
    """Return the distance to the phase-type ODE and the seconds in which DOP853 gets as near to it.

    Dashes for laws without phases. The right-hand side of the ODE is Python; the stepper is scipy's.
    """
    try:
        phase_type(limit.G)
    except TypeError:
        return "–", "–"
    levels = S.shape[1] + 4
    exact = solve_phase_type(limit, times, levels)["S"][:, : S.shape[1]]
    error = float(np.abs(S - exact).max())
    for power in range(4, 13):
        began = time.process_time()
        other = solve_phase_type(limit, times, levels, 10.0**-power)["S"][:, : S.shape[1]]
        seconds = time.process_time() - began
        if np.abs(other - exact).max() <= error:
            break
    return f"{error:.1e}", f"{seconds:.3f}"


def row(law: str, start: str, horizon: float, repeats: int) -> Sequence[str]:
    """Return the cells of one row of the table."""
    limit = Limit(d=2, lam=0.9, G=law, initial=start)
    times = np.linspace(0.0, horizon, 101)
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        try:
            fluid = solved(limit, times)
        except AccuracyError as error:
            spent = f"{time.process_time() - began:.3f}"
            return law, start, spent, f"{error.reached:.1e} (not reached)", "–", "–"
        seconds.append(time.process_time() - began)
    reported = f"{fluid['S_error'].max():.1e}"
    return (
        law,
        start,
        f"{min(seconds):.3f}",
        reported,
        *against_ode(limit, times[[10, 50, 100]], fluid["S"][[10, 50, 100]]),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one repeat, four laws")
    options = parser.parse_args()
    laws = LAWS[:4] if options.quick else LAWS
    solved(Limit(d=2, lam=0.9, G="exponential"), np.array([1.0]))  # compiles
    table = Table(
        title=f"d = 2, λ = 0.9, T = {options.horizon:g}, 101 times, tolerance {TOLERANCE:g}; "
        "least of repeated solves, compilation left out"
    )
    for column in ("law", "start", "seconds", "reported error", "true error", "DOP853, seconds"):
        table.add_column(column)
    for law in laws:
        for start in STARTS:
            table.add_row(*row(law, start, options.horizon, 1 if options.quick else options.repeats))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
