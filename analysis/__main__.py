"""`python -m analysis STORE`: the table of fitted rates, and the picture on request."""

from __future__ import annotations

import argparse
import io
import itertools
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.quantities import replicas_of
from analysis.rate_models import CONFIDENCE, MODELS, SIZES
from analysis.rates import RateFit, fit_replicas, rate_table
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

        values = _select(replicas_of(sweep.load(options.store), options.quantity), options)
        fits = fit_replicas(values, options.statistic, model=options.model, sizes=options.sizes)
        console = Console(highlight=False)
        if options.model == "power":
            console.print(table(list(rate_table(fits)), options.quantity, options.statistic))
        else:
            console.print(two_term_table(fits))
        if options.figure:
            from analysis.figures import replicas_figure, save

            picture = save(replicas_figure(values, options.statistic, options.sizes), options.figure)
            console.print(f"figure: {picture}", soft_wrap=True)
    except (ValueError, OSError, StoreError) as error:
        Console(stderr=True, highlight=False).print(f"analysis: {error}", markup=False, soft_wrap=True)
        return 2
    return 0


def _select(values: xr.DataArray, options: argparse.Namespace) -> xr.DataArray:
    """Return the distances at the snapshot, level and time asked for, or at the only one there is.

    Raises
    ------
    ValueError
        None is asked for and there are several, or there is none such.
    """
    for dim in sorted({"snapshot", "level", "t"} & set(map(str, values.dims))):
        stored, asked = values[dim].values.tolist(), getattr(options, dim)
        if asked is None and len(stored) > 1:
            raise ValueError(f"{dim} must be given for {values.name}: add --{dim} with one of {stored}")
        if asked is not None and asked not in stored:
            raise ValueError(f"{dim} must be one of {stored}, got {asked:g}")
        values = values.sel({dim: stored[0] if asked is None else asked})
    return values


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


def two_term_table(fits: xr.Dataset) -> Table:
    """Lay out what `fit_rate(…, model="two-term")` returns, a line for each coefficient."""
    from rich import box
    from rich.table import Table

    quantity, statistic = fits.attrs["quantity"], fits.attrs["statistic"]
    layout = Table(
        title=f"{statistic} of {quantity} = sum of coefficient · N^term", box=box.SIMPLE_HEAD, padding=0,
        show_edge=False, pad_edge=False,
    )  # fmt: skip
    for header in (
        "d",
        "λ",
        "G",
        "term",
        "coefficient",
        "s.e.",
        f"{100 * CONFIDENCE:.0f} % interval",
        "p",
        "N ≥",
    ):
        layout.add_column(header, justify="left" if header == "G" else "right", no_wrap=header != "G")
    for index in itertools.product(*(range(fits.sizes[dim]) for dim in ("d", "lam", "G", "term"))):
        row = fits.isel(dict(zip(("d", "lam", "G", "term"), index, strict=True)))
        place = (str(row.d.item()), f"{row.lam.item():g}", row.G.item(), f"{row.term.item():g}")
        if row.n.item() == 0:
            layout.add_row(*place, "no fit", "-", "-", "-", "-")
            continue
        value, error, low, high = (
            f"{row['coefficient' + part].item():.4g}" for part in ("", "_stderr", "_lo", "_hi")
        )
        layout.add_row(
            *place, value, error, f"{low} {high}", _p_value(row.p_value.item()), f"{row.N_min.item():.0f}"
        )
    return layout


def _p_value(value: float) -> str:
    return "-" if math.isnan(value) else "<.001" if value < 0.001 else f"{value:.3f}"


def _law(name: str) -> str:
    """Break the name of a law before its parameters if it is long."""
    return name if len(name) <= _LONGEST_LAW else name.replace("(", "\n(", 1)


def _numbers(row: RateFit) -> tuple[str, ...]:
    """Text of the fitted numbers, plain minus signs so that they can be copied."""
    if row.n == 0:
        return ("-", "-", "no fit", "-", "-", "0")
    return (
        f"{row.exponent:.3f}",
        f"{row.exponent_stderr:.4f}",
        f"{row.exponent_lo:.3f} {row.exponent_hi:.3f}",
        _with_error(row.constant, row.constant_stderr),
        _p_value(row.p_value),
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
