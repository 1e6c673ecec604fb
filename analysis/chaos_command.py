"""The table that `python -m analysis.chaos STORE` prints."""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.chaos import LEAST_N, ChaosFit, chaos_table, fit_chaos
from analysis.norms import NORMS
from analysis.tagged import measure_chaos

if TYPE_CHECKING:
    from rich.table import Table

_LONGEST_LAW = 18  # characters on one line of the table


def run(arguments: Sequence[str] | None = None) -> int:
    """Print how dependence falls with N in a store; return 0, or 2 if the input is bad."""
    from rich.console import Console

    from sweep.errors import StoreError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a λ must not end it on a terminal of another encoding
    options = _parser().parse_args(arguments)
    try:
        measured = measure_chaos(
            options.store, options.k, time=options.time, snapshot=options.snapshot, levels=options.levels
        )
        fits = fit_chaos(measured, options.norm, options.least_N)
        console = Console(highlight=False)
        rows = list(chaos_table(fits))
        console.print(table(rows, f"{options.norm} norm, {options.k} queues, {measured.attrs['source']}"))
        for row in rows:
            console.print(f"d = {row.d}, λ = {row.lam:g}, {row.G}: {row.verdict}", soft_wrap=True)
        if options.figure:
            from analysis.chaos_figures import chaos_figure
            from analysis.figures import save

            console.print(f"figure: {save(chaos_figure(measured, fits), options.figure)}", soft_wrap=True)
    except (ValueError, OSError, StoreError) as error:
        Console(stderr=True, highlight=False).print(f"analysis.chaos: {error}", markup=False, soft_wrap=True)
        return 2
    return 0


def table(rows: Sequence[ChaosFit], title: str) -> Table:
    """Lay the rows out for 80 columns.

    Examples
    --------
    >>> from analysis.chaos import FITTED
    >>> row = ChaosFit(d=1, lam=0.8, G="exponential", p_zero=0.43, signal=0.7, n=50_000,
    ...                **dict.fromkeys(FITTED, math.nan))
    >>> table([row], "frobenius norm").row_count
    1
    """
    from rich import box
    from rich.table import Table

    layout = Table(
        title=f"joint law − product, {title}", box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False
    )
    layout.add_column("d", justify="right", no_wrap=True)
    layout.add_column("λ", justify="right", no_wrap=True)
    layout.add_column("G", overflow="fold", min_width=_LONGEST_LAW)
    for header in ("exponent", "95 % interval", "p(fit)", "lim N·norm", "p(0)", "n"):
        layout.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        law = row.G if len(row.G) <= _LONGEST_LAW else row.G.replace("(", "\n(", 1)
        layout.add_row(str(row.d), f"{row.lam:g}", law, *_numbers(row))
    return layout


def _numbers(row: ChaosFit) -> tuple[str, ...]:
    """Text of the fitted numbers, plain minus signs so that they can be copied."""
    exponent = "-" if math.isnan(row.exponent) else f"{row.exponent:.3f}"
    interval = "-" if math.isnan(row.exponent) else f"{row.exponent_lo:.3f} {row.exponent_hi:.3f}"
    first = "-" if math.isnan(row.first) else f"{row.first:.3g}±{row.first_stderr:.1g}"
    return exponent, interval, probability(row.p_value), first, probability(row.p_zero), str(row.n)


def probability(p: float) -> str:
    """Three decimals of a p-value, "-" if there is none.

    Examples
    --------
    >>> probability(0.0314), probability(1e-9)
    ('.031', '<.001')
    """
    if math.isnan(p):
        return "-"
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.chaos",
        description="Estimate how far the joint law of tagged queues is from a product, and how that falls "
        "with N.",
    )
    parser.add_argument("store", metavar="STORE", help="folder that `sweep run` wrote")
    parser.add_argument("--figure", metavar="FILE", help="also draw the picture: .png, .svg or .pdf")
    parser.add_argument("--k", type=int, default=2, choices=(2, 3), help="tagged queues (default: 2)")
    parser.add_argument("--norm", default="frobenius", choices=list(NORMS), help="default: frobenius")
    parser.add_argument("--time", type=float, help="stored time (default: the last)")
    parser.add_argument("--snapshot", type=float, help="lengths with ages, at this snapshot")
    parser.add_argument("--levels", type=int, nargs="+", help="queue lengths (default: what is seen)")
    parser.add_argument(
        "--least-N", type=int, default=LEAST_N, metavar="N", help=f"smallest N used (default: {LEAST_N})"
    )
    return parser
