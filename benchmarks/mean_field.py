"""The limit for exponential service and its first correction, beside rmftool: seconds and errors.

Run by name: `python benchmarks/mean_field.py`, in an environment that also has rmftool, which is said to be
missing otherwise. To make one (sympy is needed by rmftool, which does not ask for it):

    python3.11 -m venv peers && peers/bin/pip install -e . rmftool sympy

SQ(2), λ = .9, from empty. Times are CPU seconds of this process, the least of some calls, compilation and
imports left out; rmftool's include the symbolic derivatives that every call takes. Errors are the largest
over levels and times: of paths against an eighth-order method at its finest, of the invariant state against
λ^(2^ℓ − 1), and of lim N · (E S_ℓ^(N)/N − S_ℓ) the difference between the two packages.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from analysis.mean_field import mean_field_constants
from sweep.cell import Limit
from sweep.fluid.exact import solve_phase_type
from sweep.fluid.invariant import solve_invariant
from sweep.fluid.transient import solve

Floats = NDArray[np.float64]
D, LAM, HORIZON, TIMES = 2, 0.9, 10.0, 101
#: Levels of paths, and of the symbolic derivatives, whose cost grows with their cube.
LEVELS, FEW_LEVELS = 16, 8


def best(call: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Return the least CPU seconds of some calls, and the last result."""
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        result = call()
        seconds.append(time.process_time() - began)
    return min(seconds), result


def own_path(method: str, tolerance: float) -> Callable[[], Floats]:
    """Return a solve by this package; its result has shape (t, level)."""
    limit = Limit(d=D, lam=LAM, G="exponential")
    rest: dict[str, Any] = {"snapshots": np.empty(0), "ages": np.array([np.inf])}
    times = np.linspace(0.0, HORIZON, TIMES)
    return lambda: solve(limit, times=times, levels=5, tolerance=tolerance, method=method, **rest)["S"]


def process(levels: int) -> Any:
    """Return rmftool's description of the network: coordinate k is the share of queues longer than k."""
    import rmftool  # type: ignore[import-not-found,import-untyped,unused-ignore]

    model = rmftool.DDPP()
    unit = np.eye(levels)

    def arrival(k: int) -> Callable[[Any], Any]:
        return lambda x: LAM * ((x[k - 1] ** D if k else 1) - x[k] ** D)

    def completion(k: int) -> Callable[[Any], Any]:
        return lambda x: x[k] - (x[k + 1] if k + 1 < levels else 0)

    for k in range(levels):
        model.add_transition(unit[k], arrival(k))
        model.add_transition(-unit[k], completion(k))
    model.set_initial_state(np.zeros(levels))
    return model


def measure(table: Table, peer: bool) -> None:
    """Add the rows of both packages."""
    limit = Limit(d=D, lam=LAM, G="exponential")
    exact = solve_phase_type(limit, np.linspace(0.0, HORIZON, TIMES), 24)["S"]
    fixed = np.array([LAM ** (D**level - 1) for level in range(1, FEW_LEVELS + 1)])

    def add(what: str, name: str, timed: tuple[float, Floats], reference: Floats) -> None:
        seconds, found = timed
        held = np.asarray(found)
        error = np.abs(held - reference[..., : held.shape[-1]]).max()
        table.add_row(what, name, f"{1e3 * seconds:.3g}", f"{error:.1e}")

    for method in ("characteristics", "ode"):
        for tolerance in (1e-6, 1e-8):
            name = f"solve_fluid, {method}, tolerance {tolerance:g}"
            own_path(method, tolerance)()  # compiles
            add("path to t = 10", name, best(own_path(method, tolerance)), exact)
    if peer:
        model = process(LEVELS)
        add(
            "path to t = 10",
            "rmftool ode",
            best(lambda: model.ode(HORIZON, TIMES)[1][:, :5]),
            exact,
        )
    solve_invariant(limit)
    add("invariant state", "invariant_state", best(lambda: solve_invariant(limit).S[:5]), fixed)
    constants = best(lambda: mean_field_constants(d=D, lam=LAM))
    corrections = constants[1].bias[:5]
    if peer:
        model = process(LEVELS)
        add("invariant state", "rmftool fixed_point", best(lambda: model.fixed_point()[:5]), fixed)
    add("correction 1/N", "mean_field_constants", (constants[0], corrections), corrections)
    if peer:
        small = process(FEW_LEVELS)
        found = best(lambda: small.meanFieldExpansionSteadyState(order=1)[1][:5], 1)
        add("correction 1/N", f"rmftool, order 1, {FEW_LEVELS} levels", found, corrections)


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    console = Console(width=110)
    try:
        title = f"rmftool {version('rmftool')} beside this package"
    except PackageNotFoundError:
        title = ""
        console.print("rmftool: not installed")
    table = Table(title=title or None)
    for column in ("what", "by", "ms", "error"):
        table.add_column(column, justify="left" if column in ("what", "by") else "right")
    measure(table, bool(title))
    console.print(table)


if __name__ == "__main__":
    main()
