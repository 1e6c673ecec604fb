"""Time an invariant state and compare it with what is known exactly.

Prints one row per case: levels held, milliseconds (median of five, compiled), the ratio to the first row, and
the relative error of the mean time in system where a closed form exists. Run: python benchmarks/invariant.py
"""

from __future__ import annotations

import math
import statistics
import time

from sweep.cell import Limit
from sweep.fluid.invariant import solve_invariant
from sweep.fluid.state import InvariantState
from sweep.laws import parse_law

#: d, λ, G, levels (None: as many as the mean needs).
CASES: tuple[tuple[int, float, str, int | None], ...] = (
    (2, 0.9, "exponential", None),
    (2, 0.99, "exponential", None),
    (10, 0.9, "exponential", 5),
    (2, 0.99, "hyperexponential(scv=10)", None),
    (2, 0.99, "erlang(k=16)", None),
    (2, 0.9, "gamma(shape=0.5)", None),
    (2, 0.9, "weibull(shape=0.5)", None),
    (2, 0.9, "lognormal(sigma=1.5)", None),
    (2, 0.9, "uniform(width=1)", None),
    (2, 0.9, "deterministic", None),
    (2, 0.7, "lomax(beta=2.5)", 18),
    (2, 0.7, "lomax(beta=1.5)", 400),
    (2, 0.7, "lomax(beta=1.75)", None),
    (1, 0.9, "lomax(beta=2.5)", None),
    (1, 0.9, "deterministic", None),
)


def exact_time(d: int, lam: float, text: str) -> float:
    """Mean time in system in closed form, nan where there is none."""
    if d == 1:  # Pollaczek–Khinchine
        return 1.0 + lam * (1.0 + parse_law(text).variance) / (2.0 * (1.0 - lam))
    if text == "exponential":
        last = 30 if d == 2 else 6
        return math.fsum(lam ** ((d**level - 1) // (d - 1)) for level in range(1, last)) / lam
    return math.nan


def timed(limit: Limit, levels: int | None) -> tuple[InvariantState, float]:
    """Solve five times after a first; return the state and the median in milliseconds."""
    state = solve_invariant(limit, levels)
    taken = []
    for _ in range(5):
        start = time.process_time()
        solve_invariant(limit, levels)
        taken.append(1e3 * (time.process_time() - start))
    return state, statistics.median(taken)


def main() -> None:
    """Print the table."""
    print(f"{'d':>3} {'lam':>5} {'G':<26} {'levels':>6} {'panels':>6} {'ms':>8} {'ratio':>7} {'error':>9}")
    first = 0.0
    for d, lam, text, levels in CASES:
        state, milliseconds = timed(Limit(d=d, lam=lam, G=parse_law(text)), levels)
        first = first or milliseconds
        error = abs(state.mean_time_in_system / exact_time(d, lam, text) - 1.0)
        shown = "" if math.isnan(error) else f"{error:.1e}"
        print(
            f"{d:>3} {lam:>5} {text:<26} {state.levels:>6} {state.panels.widths.size:>6} "
            f"{milliseconds:>8.2f} {milliseconds / first:>7.1f} {shown:>9}"
        )


if __name__ == "__main__":
    main()
