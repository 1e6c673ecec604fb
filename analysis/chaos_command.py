"""The table that `python -m analysis.chaos STORE` prints."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from analysis.chaos import ChaosFit, chaos_table, fit_chaos
from analysis.command import drawn, run_command, store_parser
from analysis.command_tables import NONE, law, probability, rows_table, with_error
from analysis.evidence import LEAST_N
from analysis.norms import NORMS
from analysis.rows import name_of
from analysis.stores import COMMANDS, opened_for
from analysis.tagged import measure_chaos

if TYPE_CHECKING:
    from rich.table import Table

    from analysis.command import Part

_MODULE = "analysis.chaos"


def run(arguments: Sequence[str] | None = None) -> int:
    """Print how dependence falls with N in a store; return 0, or 2 if the input is bad."""
    return run_command(_MODULE, _parser(), arguments, _answer)


def _answer(options: argparse.Namespace) -> Iterator[Part]:
    needs = COMMANDS[_MODULE]
    if options.snapshot is not None:
        needs = {**needs, "transient": ("network/nu_cdf",)}
    tree = opened_for(_MODULE, options.store, needs)
    measured = measure_chaos(
        tree, options.k, time=options.time, snapshot=options.snapshot, levels=options.levels
    )
    fits = fit_chaos(measured, options.norm, options.least_N)
    rows = list(chaos_table(fits))
    yield table(
        rows, f"{options.norm.replace('_', ' ')} norm, {options.k} queues, {measured.attrs['source']}"
    )
    for row in rows:
        yield f"{name_of(row)}: {row.verdict}"
    from analysis.chaos_figures import chaos_figure

    yield from drawn(options.figure, lambda: chaos_figure(measured, fits))


def table(rows: Sequence[ChaosFit], title: str) -> Table:
    """Lay the rows out for 80 columns.

    Examples
    --------
    >>> from analysis.chaos import FITTED
    >>> row = ChaosFit(d=1, lam=0.8, G="exponential", p_zero=0.43, signal=0.7, n=50_000, least_n=10_000,
    ...                **dict.fromkeys(FITTED, math.nan))
    >>> table([row], "frobenius norm").row_count
    1
    """
    headers = ("exponent", "95 % interval", "p(fit)", "lim N·norm", "p(0)", "n")
    layout = rows_table(f"joint law − product, {title}", headers)
    for row in rows:
        layout.add_row(str(row.d), f"{row.lam:g}", law(row.G), *_numbers(row))
    return layout


def _numbers(row: ChaosFit) -> tuple[str, ...]:
    """Text of the fitted numbers, plain minus signs so that they can be copied."""
    exponent = NONE if math.isnan(row.exponent) else f"{row.exponent:.3f}"
    interval = NONE if math.isnan(row.exponent) else f"{row.exponent_lo:.3f} {row.exponent_hi:.3f}"
    first = with_error(row.first, row.first_stderr, sign="±")
    if not row.n:
        return exponent, interval, NONE, first, NONE, str(row.replicas)
    return exponent, interval, probability(row.p_value), first, probability(row.p_zero), str(row.n)


def _parser() -> argparse.ArgumentParser:
    parser = store_parser(
        _MODULE,
        "Estimate how far the joint law of tagged queues is from a product, and how that falls with N.",
    )
    parser.add_argument("--k", type=int, default=2, choices=(2, 3), help="tagged queues (default: 2)")
    parser.add_argument("--norm", default="frobenius", choices=list(NORMS), help="default: frobenius")
    parser.add_argument("--time", type=float, help="stored time (default: the last)")
    parser.add_argument("--snapshot", type=float, help="lengths with ages, at this snapshot")
    parser.add_argument("--levels", type=int, nargs="+", help="queue lengths (default: what is seen)")
    parser.add_argument(
        "--least-N", type=int, default=LEAST_N, metavar="N", help=f"smallest N used (default: {LEAST_N})"
    )
    return parser
