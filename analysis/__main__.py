"""`python -m analysis STORE`: the table of fitted rates, and the picture on request."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from analysis.command import drawn, run_command, store_parser
from analysis.command_tables import NONE, law, plain, rows_table, with_error
from analysis.evidence import CONFIDENCE
from analysis.quantities import needed_for, replicas_of
from analysis.rate_models import MODELS, SIZES
from analysis.rates import RateFit, fit_replicas, rate_table
from analysis.regression import STATISTICS
from analysis.rows import ROW, stored_rows
from analysis.stores import opened_for

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

    from analysis.command import Part

_MODULE = "analysis"
_LONGEST_LAW = 20  # characters on one line of the table of powers
_PERCENT = f"{100 * CONFIDENCE:.0f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rates fitted to a store; return 0, or 2 if the input is bad."""
    return run_command(_MODULE, _parser(), arguments, _answer)


def _answer(options: argparse.Namespace) -> Iterator[Part]:
    if options.figure and options.model != "power":
        raise ValueError(
            f"figure must be left out with the model {options.model}, as it draws single powers, got "
            f"{options.figure}: leave out --figure or --model"
        )
    tree = opened_for(_MODULE, options.store, {"transient": needed_for(options.quantity)})
    values = _select(replicas_of(tree, options.quantity), options)
    fits = fit_replicas(values, options.statistic, model=options.model, sizes=options.sizes)
    if options.model == "power":
        stored = [row.replicas.item() for row in stored_rows(fits)]
        yield table(list(rate_table(fits)), options.quantity, options.statistic, stored)
    else:
        yield two_term_table(fits)
    from analysis.figures import replicas_figure

    yield from drawn(options.figure, lambda: replicas_figure(values, options.statistic, options.sizes))


def _select(values: xr.DataArray, options: argparse.Namespace) -> xr.DataArray:
    """Return the distances at the snapshot, level and time asked for, or at the only one there is.

    Raises
    ------
    ValueError
        None is asked for and there are several, or there is none such, or no such axis.
    """
    for dim in ("level", "snapshot", "t"):
        asked = getattr(options, dim)
        if dim not in values.dims:
            if asked is not None:
                raise ValueError(f"{dim} must be left out for {values.name}, which has none, got {asked:g}")
            continue
        stored = values[dim].values.tolist()
        if asked is None and len(stored) > 1:
            raise ValueError(f"{dim} must be given for {values.name}: add --{dim} with one of {stored}")
        if asked is not None and asked not in stored:
            raise ValueError(f"{dim} must be one of {stored}, got {asked:g}")
        values = values.sel({dim: stored[0] if asked is None else asked})
    return values


def table(rows: Sequence[RateFit], quantity: str, statistic: str, stored: Sequence[int] = ()) -> Table:
    """Lay the rows out for 80 columns; `stored` counts the replicas of each, shown where none were used.

    Examples
    --------
    >>> row = RateFit(d=2, lam=0.9, G="exponential", exponent=-0.498, exponent_stderr=0.008,
    ...               exponent_lo=-0.514, exponent_hi=-0.482, constant=1.2, constant_stderr=0.1,
    ...               p_value=0.41, n=128)
    >>> table([row], "S_sup", "mean").row_count
    1
    """
    headers = ("exponent", "s.e.", f"{_PERCENT} interval", "constant", "p", "n")
    layout = rows_table(f"{statistic} of {quantity} = constant · N^exponent", headers, law_width=16)
    for row, replicas in zip(rows, stored or [0] * len(rows), strict=True):
        layout.add_row(str(row.d), f"{row.lam:g}", law(row.G, _LONGEST_LAW), *_numbers(row, replicas))
    return layout


def two_term_table(fits: xr.Dataset) -> Table:
    """Lay out what `fit_rate(…, model="two-term")` returns, a line for each coefficient."""
    headers = ("term", "coefficient", "s.e.", f"{_PERCENT} interval", "p", "N ≥")
    title = f"{fits.attrs['statistic']} of {fits.attrs['quantity']} = sum of coefficient · N^term"
    layout = rows_table(title, headers, law_width=1)
    for row in stored_rows(fits, (*ROW, "term")):
        place = (str(row.d.item()), f"{row.lam.item():g}", row.G.item(), f"{row.term.item():g}")
        if row.n.item() == 0:
            layout.add_row(*place, "no fit", NONE, NONE, NONE, NONE)
            continue
        value, error, low, high = (
            f"{row['coefficient' + part].item():.4g}" for part in ("", "_stderr", "_lo", "_hi")
        )
        layout.add_row(
            *place, value, error, f"{low} {high}", _p_value(row.p_value.item()), f"{row.N_min.item():.0f}"
        )
    return layout


def _p_value(value: float) -> str:
    return "<.001" if value < 0.001 else plain(value, 3)


def _numbers(row: RateFit, stored: int) -> tuple[str, ...]:
    """Text of the fitted numbers, plain minus signs so that they can be copied."""
    if row.n == 0:
        return (NONE, NONE, "no fit", NONE, NONE, str(stored))
    return (
        f"{row.exponent:.3f}",
        f"{row.exponent_stderr:.4f}",
        f"{row.exponent_lo:.3f} {row.exponent_hi:.3f}",
        _constant(row.constant, row.constant_stderr),
        _p_value(row.p_value),
        str(row.n),
    )


def _constant(value: float, error: float) -> str:
    """Value ± error, with exponents where the value is small or large."""
    if 1e-3 <= value < 1e4:
        return with_error(value, error)
    return f"{value:.2e}±{error:.0e}"


def _parser() -> argparse.ArgumentParser:
    parser = store_parser(
        _MODULE, "Fit statistic = constant · N^exponent to the replicas of a store and print the table."
    )
    parser.add_argument(
        "--quantity", default="S_sup",
        help="distance stored in the network group, or S, D, X, E (distance from the limit at a time) or "
        "S_sup_t, … (its largest over time); default: S_sup",
    )  # fmt: skip
    parser.add_argument("--t", type=float, help="stored time, for quantities that have one")
    parser.add_argument("--snapshot", type=float, help="time of the snapshot, for quantities that have one")
    parser.add_argument("--level", type=float, help="queue length, for quantities that have one")
    parser.add_argument("--statistic", default="mean", choices=list(STATISTICS), help="default: mean")
    parser.add_argument(
        "--model",
        default="power",
        choices=MODELS,
        help="one power of N, or a N^(-1/2) + b N^(-1); default: power",
    )
    parser.add_argument(
        "--sizes", default="all", choices=SIZES,
        help="all N, or smallest N left out while the model does not fit and 3 remain; default: all",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
