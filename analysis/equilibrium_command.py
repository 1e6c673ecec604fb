"""The table that `python -m analysis.equilibrium STORE` prints."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis.command import drawn, run_command, store_parser
from analysis.command_tables import NONE, law, plain, probability, rows_table, with_error
from analysis.equilibrium import compare_equilibrium
from analysis.equilibrium_bias import fit_bias
from analysis.evidence import LEAST_N, SIGNIFICANT
from analysis.rows import name_of, stored_rows
from analysis.stores import opened_for

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

    from analysis.command import Part

_MODULE = "analysis.equilibrium"


def run(arguments: Sequence[str] | None = None) -> int:
    """Print how a store in equilibrium compares with the invariant state; return 0, or 2 if it is bad."""
    return run_command(_MODULE, _parser(), arguments, _answer)


def _answer(options: argparse.Namespace) -> Iterator[Part]:
    tree = opened_for(_MODULE, options.store)
    compared = compare_equilibrium(tree, options.levels, control=options.control)
    fits = fit_bias(compared, options.least_N)
    yield table(fits)
    for row in stored_rows(fits):
        yield f"{name_of(row)}: {row.verdict.item()}"
        yield f"    E S_1 = λ: p {probability(float(row.busy_p))}{_batches(compared, row)}"
    from analysis.equilibrium_figures import equilibrium_figure

    yield from drawn(options.figure, lambda: equilibrium_figure(compared, fits))


def table(fits: xr.Dataset) -> Table:
    """Lay out what `analysis.equilibrium_bias.fit_bias` returns, for 80 columns."""
    title = "N (E S_ℓ^(N)/N − S_ℓ) = C + C₂/N, and the difference left at N = ∞"
    layout = rows_table(title, ("of", "C", "exact", "p(fit)", "left at ∞", "p(0)"))
    for row in stored_rows(fits):
        heading = [str(row.d.item()), f"{row.lam.item():g}", law(str(row.G.item()))]
        for name in row.quantity.values:
            one = row.sel(quantity=name)
            if not math.isnan(one.constant):
                layout.add_row(*heading, str(name), *_numbers(one))
                heading = ["", "", ""]
        if heading[0]:
            layout.add_row(*heading, NONE, "no fit", NONE, NONE, NONE, NONE)
    return layout


def _numbers(one: xr.Dataset) -> tuple[str, ...]:
    return (
        with_error(float(one.constant), float(one.constant_stderr), most=4, sign="±"),
        plain(float(one.constant_exact), 3),
        probability(float(one.fit_p)),
        _scientific(float(one.remainder), float(one.remainder_stderr)),
        probability(float(one.remainder_p)),
    )


def _scientific(value: float, error: float) -> str:
    """Value ± error with a common exponent, that of the larger."""
    if math.isnan(value):
        return NONE
    exponent = math.floor(math.log10(max(abs(value), error)))
    scale = 10.0**exponent
    return f"{value / scale:.1f}±{error / scale:.1f}e{exponent}"


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
    parser = store_parser(
        _MODULE, "Compare networks in equilibrium with the invariant state of their limit, over N."
    )
    parser.add_argument("--levels", type=int, nargs="+", help="queue lengths (default: what is seen)")
    parser.add_argument("--control", action="store_true", help="use E S_1 = λ as a control variate")
    parser.add_argument(
        "--least-N", type=int, default=LEAST_N, metavar="N", help=f"smallest N used (default: {LEAST_N})"
    )
    return parser
