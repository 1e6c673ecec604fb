"""The tables and pictures that `python -m analysis.fluctuations STORE…` makes."""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.constants import Network, network_of
from analysis.fluctuations import ConstantFit, clt_constants, constant_table

if TYPE_CHECKING:
    from rich.table import Table


def run(arguments: Sequence[str] | None = None) -> int:
    """Print the constants of equilibrium stores; return 0, or 2 if the input is bad."""
    from rich.console import Console

    from sweep.errors import StoreError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a λ must not end it on a terminal of another encoding
    options = _parser().parse_args(arguments)
    try:
        import sweep

        console = Console(highlight=False)
        for store in options.stores:
            tree = sweep.load(store)
            fits = clt_constants(tree)
            rows = list(constant_table(fits))
            seen = {row.place for row in rows if row.n}  # cases leave most of a grid empty
            console.print(table([row for row in rows if row.place in seen], network_of(tree), store))
            if options.figure:
                from analysis.figures import save
                from analysis.fluctuation_figures import constants_figure

                target = Path(options.figure)
                if len(options.stores) > 1:  # one picture a store
                    target = target.with_stem(f"{target.stem}_{Path(store).stem}")
                console.print(f"figure: {save(constants_figure(fits), target)}", soft_wrap=True)
    except (ValueError, OSError, StoreError) as error:
        Console(stderr=True, highlight=False).print(
            f"analysis.fluctuations: {error}", markup=False, soft_wrap=True
        )
        return 2
    return 0


def table(rows: Sequence[ConstantFit], network: Network | None, title: str) -> Table:
    """Lay the rows out for 80 columns, a line between networks.

    Examples
    --------
    >>> table([], None, "store").row_count
    0
    """
    from rich import box
    from rich.table import Table

    sampling = f", sampling {network.sampling} replacement" if network is not None else ""
    layout = Table(
        title=f"{title}: limits for large N{sampling}", box=box.SIMPLE_HEAD, padding=0, show_edge=False,
        pad_edge=False,
    )  # fmt: skip
    layout.add_column("d", justify="right", no_wrap=True)
    layout.add_column("λ", justify="right", no_wrap=True)
    layout.add_column("G", overflow="fold", min_width=11)
    layout.add_column("constant", no_wrap=True)
    for header in ("value", "s.e.", "s.e. %", "exact", "z", "p", "N ≥"):
        layout.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        layout.add_row(
            str(row.d), f"{row.lam:g}", row.G, row.constant, *_numbers(row),
            end_section=row.constant == rows[-1].constant,
        )  # fmt: skip
    return layout


def _numbers(row: ConstantFit) -> tuple[str, ...]:
    """Text of the fitted numbers, plain minus signs so that they can be copied."""
    exact = "-" if math.isnan(row.exact) else f"{row.exact:.4f}"
    if row.n == 0:
        return ("no fit", "-", "-", exact, "-", "-", "-")
    return (
        f"{row.value:.4f}",
        f"{row.value_stderr:.4f}",
        f"{100 * row.value_stderr / abs(row.value):.1f}",
        exact,
        "-" if math.isnan(row.z) else f"{row.z:+.2f}",
        "-" if math.isnan(row.p_value) else f"{row.p_value:.3f}",
        f"{row.N_min:.0f}",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.fluctuations",
        description="Print the limits of N bias, N variance and √N sd of equilibrium stores.",
    )
    parser.add_argument("stores", metavar="STORE", nargs="+", help="folder that `sweep run` wrote")
    parser.add_argument("--figure", metavar="FILE", help="also draw the picture: .png, .svg or .pdf")
    return parser
