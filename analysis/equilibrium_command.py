"""The table that `python -m analysis.equilibrium STORE` prints."""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis.chaos_command import probability
from analysis.equilibrium import compare_equilibrium
from analysis.equilibrium_bias import LEAST_N, SIGNIFICANT, fit_bias

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

_LONGEST_LAW = 18  # characters on one line of the table


def run(arguments: Sequence[str] | None = None) -> int:
    """Print how a store in equilibrium compares with the invariant state; return 0, or 2 if it is bad."""
    from rich.console import Console

    from sweep.errors import StoreError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a λ must not end it on a terminal of another encoding
    options = _parser().parse_args(arguments)
    try:
        compared = compare_equilibrium(options.store, options.levels, control=options.control)
        fits = fit_bias(compared, options.least_N)
        console = Console(highlight=False)
        console.print(table(fits))
        for row in _rows(fits):
            console.print(f"{_name(row)}: {row.verdict.item()}", soft_wrap=True)
            console.print(f"    E S_1 = λ: p {probability(float(row.busy_p))}{_batches(compared, row)}")
        if options.figure:
            from analysis.equilibrium_figures import equilibrium_figure
            from analysis.figures import save

            console.print(
                f"figure: {save(equilibrium_figure(compared, fits), options.figure)}", soft_wrap=True
            )
    except (ValueError, OSError, StoreError) as error:
        Console(stderr=True, highlight=False).print(
            f"analysis.equilibrium: {error}", markup=False, soft_wrap=True
        )
        return 2
    return 0


def table(fits: xr.Dataset) -> Table:
    """Lay out what `analysis.equilibrium_bias.fit_bias` returns, for 80 columns."""
    from rich import box
    from rich.table import Table

    layout = Table(
        title="N (E S_ℓ^(N)/N − S_ℓ) = C + C₂/N, and the difference left at N = ∞",
        box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False,
    )  # fmt: skip
    layout.add_column("d", justify="right", no_wrap=True)
    layout.add_column("λ", justify="right", no_wrap=True)
    layout.add_column("G", overflow="fold", min_width=_LONGEST_LAW)
    for header in ("of", "C", "exact", "p(fit)", "left at ∞", "p(0)"):
        layout.add_column(header, justify="right", no_wrap=True)
    for row in _rows(fits):
        G = str(row.G.item())
        heading = [str(row.d.item()), f"{row.lam.item():g}"]
        heading.append(G if len(G) <= _LONGEST_LAW else G.replace("(", "\n(", 1))
        for name in row.quantity.values:
            one = row.sel(quantity=name)
            if not math.isnan(one.constant):
                layout.add_row(*heading, str(name), *_numbers(one))
                heading = ["", "", ""]
        if heading[0]:
            layout.add_row(*heading, "-", "no fit", "-", "-", "-", "-")
    return layout


def _numbers(one: xr.Dataset) -> tuple[str, ...]:
    exact = float(one.constant_exact)
    return (
        _with_error(float(one.constant), float(one.constant_stderr)),
        "-" if math.isnan(exact) else f"{exact:.3f}",
        probability(float(one.fit_p)),
        _scientific(float(one.remainder), float(one.remainder_stderr)),
        probability(float(one.remainder_p)),
    )


def _with_error(value: float, error: float) -> str:
    """Value ± error with the decimals that two digits of the error call for, at most four."""
    decimals = min(max(1 - math.floor(math.log10(error)), 0), 4) if error > 0.0 else 4
    return f"{value:.{decimals}f}±{error:.{decimals}f}"


def _scientific(value: float, error: float) -> str:
    """Value ± error with a common exponent, that of the larger."""
    if math.isnan(value):
        return "-"
    exponent = math.floor(math.log10(max(abs(value), error)))
    scale = 10.0**exponent
    return f"{value / scale:.1f}±{error / scale:.1f}e{exponent}"


def _rows(fits: xr.Dataset) -> list[xr.Dataset]:
    shape = (fits.sizes["d"], fits.sizes["lam"], fits.sizes["G"])
    return [fits.isel(d=i, lam=j, G=k) for i, j, k in np.ndindex(shape)]


def _name(row: xr.Dataset) -> str:
    return f"d = {row.d.item()}, λ = {row.lam.item():g}, {row.G.item()}"


def _batches(compared: xr.Dataset, row: xr.Dataset) -> str:
    """Say whether means of batches would have told the same errors."""
    place = compared.sel(d=row.d, lam=row.lam, G=row.G)
    p_values = place.batch_p.values[np.isfinite(place.batch_p.values)]
    if not p_values.size:
        return "; batch means are not used"
    worst = min(float(p_values.min()) * p_values.size, 1.0)
    agree = "have the errors of replicas" if worst >= SIGNIFICANT else "would mislead about errors"
    return f"; batch means {agree} (p {probability(worst)})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.equilibrium",
        description="Compare networks in equilibrium with the invariant state of their limit, over N.",
    )
    parser.add_argument("store", metavar="STORE", help="folder that `sweep run` wrote, study equilibrium")
    parser.add_argument("--figure", metavar="FILE", help="also draw the picture: .png, .svg or .pdf")
    parser.add_argument("--levels", type=int, nargs="+", help="queue lengths (default: what is seen)")
    parser.add_argument("--control", action="store_true", help="use E S_1 = λ as a control variate")
    parser.add_argument(
        "--least-N", type=int, default=LEAST_N, metavar="N", help=f"smallest N used (default: {LEAST_N})"
    )
    return parser
