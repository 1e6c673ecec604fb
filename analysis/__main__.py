"""`python -m analysis STORE`: the table of fitted rates, and the picture on request."""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.rates import CONFIDENCE, RateFit, fit_rate, rate_table
from analysis.regression import STATISTICS

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

_LONGEST_LAW = 20  # characters on one line of the table


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rates fitted to a store; return 0, or 2 if the input is bad."""
    from rich.console import Console

    from sweep.errors import StoreError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a λ must not end it on a terminal of another encoding
    options = _parser().parse_args(arguments)
    try:
        import sweep

        tree = _select(sweep.load(options.store), options)
        fits = fit_rate(tree, options.quantity, options.statistic)
        rows = list(rate_table(fits))
        console = Console(highlight=False)
        console.print(table(rows, options.quantity, options.statistic))
        if options.figure:
            from analysis.figures import rate_figure, save

            picture = save(rate_figure(tree, options.quantity, options.statistic), options.figure)
            console.print(f"figure: {picture}", soft_wrap=True)
    except (ValueError, OSError, StoreError) as error:
        Console(stderr=True, highlight=False).print(f"analysis: {error}", markup=False, soft_wrap=True)
        return 2
    return 0


def _select(tree: xr.DataTree, options: argparse.Namespace) -> xr.Dataset:
    """Return the network group at the snapshot and level asked for, or at the only one there is.

    Raises
    ------
    ValueError
        None is asked for and there are several, or there is none such.
    """
    network = tree["network"].to_dataset()
    dims = network[options.quantity].dims if options.quantity in network else ()
    for dim in {"snapshot", "level"} & set(dims):
        values, asked = network[dim].values.tolist(), getattr(options, dim)
        if asked is None and len(values) > 1:
            raise ValueError(f"{dim} must be given for {options.quantity}: add --{dim} with one of {values}")
        if asked is not None and asked not in values:
            raise ValueError(f"{dim} must be one of {values}, got {asked:g}")
        network = network.sel({dim: values[0] if asked is None else asked})
    return network


def table(rows: Sequence[RateFit], quantity: str, statistic: str) -> Table:
    """Lay the rows out for 80 columns.

    Examples
    --------
    >>> row = RateFit(d=2, lam=0.9, G="exponential", exponent=-0.498, exponent_stderr=0.008,
    ...               exponent_lo=-0.514, exponent_hi=-0.482, constant=1.2, constant_stderr=0.1,
    ...               p_value=0.41, n=128)
    >>> table([row], "S_sup", "mean").row_count
    1
    """
    from rich import box
    from rich.table import Table

    layout = Table(
        title=f"{statistic} of {quantity} = constant · N^exponent",
        box=box.SIMPLE_HEAD,
        padding=0,
        show_edge=False,
        pad_edge=False,
    )
    layout.add_column("d", justify="right", no_wrap=True)
    layout.add_column("λ", justify="right", no_wrap=True)
    layout.add_column("G", overflow="fold", min_width=16)
    for header in ("exponent", "s.e.", f"{100 * CONFIDENCE:.0f} % interval", "constant", "p", "n"):
        layout.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        layout.add_row(str(row.d), f"{row.lam:g}", _law(row.G), *_numbers(row))
    return layout


def _law(name: str) -> str:
    """Break the name of a law before its parameters if it is long."""
    return name if len(name) <= _LONGEST_LAW else name.replace("(", "\n(", 1)


def _numbers(row: RateFit) -> tuple[str, ...]:
    """Text of the fitted numbers, plain minus signs so that they can be copied."""
    if row.n == 0:
        return ("-", "-", "no fit", "-", "-", "0")
    p_value = "<.001" if row.p_value < 0.001 else f"{row.p_value:.3f}"
    return (
        f"{row.exponent:.3f}",
        f"{row.exponent_stderr:.4f}",
        f"{row.exponent_lo:.3f} {row.exponent_hi:.3f}",
        _with_error(row.constant, row.constant_stderr),
        "-" if math.isnan(row.p_value) else p_value,
        str(row.n),
    )


def _with_error(value: float, error: float) -> str:
    """Value ± error with the decimals that two digits of the error call for, at most three."""
    if not 1e-3 <= value < 1e4:
        return f"{value:.2e}±{error:.0e}"
    decimals = 3 if error == 0 else min(max(1 - math.floor(math.log10(error)), 0), 3)
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis",
        description="Fit statistic = constant · N^exponent to the replicas of a store and print the table.",
    )
    parser.add_argument("store", metavar="STORE", help="folder that `sweep run` wrote")
    parser.add_argument("--figure", metavar="FILE", help="also draw the picture: .png, .svg or .pdf")
    parser.add_argument("--quantity", default="S_sup", help="variable of the network group (default: S_sup)")
    parser.add_argument("--snapshot", type=float, help="time of the snapshot, for quantities that have one")
    parser.add_argument("--level", type=float, help="queue length, for quantities that have one")
    parser.add_argument("--statistic", default="mean", choices=list(STATISTICS), help="default: mean")
    return parser


if __name__ == "__main__":
    sys.exit(main())
