"""The tables and pictures that `python -m analysis.fluctuations STORE…` makes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.command import drawn, run_command
from analysis.command_tables import NONE, law, plain, rows_table, score
from analysis.constants import Network, network_of
from analysis.fluctuations import ConstantFit, clt_constants, constant_table
from analysis.rows import stored_rows
from analysis.stores import opened_for

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

    from analysis.command import Part

_MODULE = "analysis.fluctuations"


def run(arguments: Sequence[str] | None = None) -> int:
    """Print the constants of equilibrium stores; return 0, or 2 if the input is bad."""
    return run_command(_MODULE, _parser(), arguments, _answer)


def _answer(options: argparse.Namespace) -> Iterator[Part]:
    for store in options.stores:
        tree = opened_for(_MODULE, store)
        try:
            fits = clt_constants(tree)
        except ValueError as error:
            raise ValueError(f"{store}: {error}") from error
        yield table(fits, network_of(tree), store)
        yield from _figure(fits, options, store)


def _figure(fits: xr.Dataset, options: argparse.Namespace, store: str) -> Iterator[str]:
    if options.figure:
        from analysis.fluctuation_figures import constants_figure

        target = Path(options.figure)
        if len(options.stores) > 1:  # one picture a store
            target = target.with_stem(f"{target.stem}_{Path(store).stem}")
        yield from drawn(str(target), lambda: constants_figure(fits))


def table(fits: xr.Dataset, network: Network | None, title: str) -> Table:
    """Lay out what `clt_constants` returns, for 80 columns, a line between networks."""
    sampling = f", sampling {network.sampling} replacement" if network is not None else ""
    layout = rows_table(f"{title}: limits for large N{sampling}", (), law_width=11)
    layout.add_column("constant", no_wrap=True)
    for header in ("value", "s.e.", "s.e. %", "exact", "z", "p", "N ≥"):
        layout.add_column(header, justify="right", no_wrap=True)
    for place in stored_rows(fits):
        heading = [str(place.d.item()), f"{place.lam.item():g}", law(str(place.G.item()), 11)]
        rows = list(constant_table(place))
        if not any(row.n for row in rows):
            layout.add_row(*heading, NONE, "no fit", end_section=True)
            continue
        for row in rows:
            layout.add_row(*heading, row.constant, *_numbers(row), end_section=row is rows[-1])
            heading = ["", "", ""]
    return layout


def _numbers(row: ConstantFit) -> tuple[str, ...]:
    """Text of the fitted numbers, plain minus signs so that they can be copied."""
    exact = plain(row.exact)
    if row.n == 0:
        return ("no fit", NONE, NONE, exact, NONE, NONE, NONE)
    return (
        f"{row.value:.4f}",
        f"{row.value_stderr:.4f}",
        f"{100 * row.value_stderr / abs(row.value):.1f}" if row.value else NONE,
        exact,
        score(row.z, 2),
        plain(row.p_value, 3),
        f"{row.N_min:.0f}",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {_MODULE}",
        description="Print the limits of N bias, N variance and √N sd of equilibrium stores.",
    )
    parser.add_argument("stores", metavar="STORE", nargs="+", help="folder that `sweep run` wrote")
    parser.add_argument("--figure", metavar="FILE", help="also draw the picture: .png, .svg or .pdf")
    return parser
