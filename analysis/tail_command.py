"""The verdicts that `python -m analysis.tails STORE` prints."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from analysis.command import drawn, run_command, store_parser
from analysis.rows import name_of
from analysis.stores import cure_of_few, opened_for
from analysis.tail_data import fraction_of
from analysis.tails import classify_tail, tail_table

if TYPE_CHECKING:
    import xarray as xr

    from analysis.command import Part

_MODULE = "analysis.tails"
_ALONE = f"inconclusive: one replica tells no error: finish the run, or {cure_of_few(2, 2)}"


def run(arguments: Sequence[str] | None = None) -> int:
    """Print how tails of queue lengths decay in a store; return 0, or 2 if the input is bad."""
    return run_command(_MODULE, _parser(), arguments, _answer)


def _answer(options: argparse.Namespace) -> Iterator[Part]:
    tree = opened_for(_MODULE, options.store)
    fraction, sources = fraction_of(tree), dict(_sources(tree))
    for place, source in sources.items():
        try:
            for row in tail_table(classify_tail(source, fraction=fraction)):
                if row.depth or row.n:  # a case outside the grid leaves places that no run fills
                    yield f"{place}, {name_of(row)}: {row.verdict if row.n != 1 else _ALONE}"
        except ValueError as error:
            yield f"{place} left out: {error}"
    from analysis.tail_figures import tail_figure

    yield from drawn(options.figure, lambda: tail_figure(next(iter(sources.values())), fraction=fraction))


def _sources(tree: xr.DataTree) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield the invariant states, if there are any, and the networks from the largest down."""
    if "invariant" in tree.children:
        yield "invariant state", tree["invariant"].to_dataset()
    networks = tree["equilibrium"].to_dataset()
    for N in sorted(networks.N.values.tolist(), reverse=True):
        yield f"N = {N}", networks.sel(N=N, drop=True)


def _parser() -> argparse.ArgumentParser:
    return store_parser(
        _MODULE, "Name how the tail of queue lengths decays, in invariant states and in networks."
    )
