"""What every `python -m analysis…` does: read, decide everything, and only then print; or one error and 2."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

    #: A table, or a line of text.
    Part: TypeAlias = Table | str


def run_command(
    module: str,
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    work: Callable[[argparse.Namespace], Iterable[Part]],
) -> int:
    """Print what `work` makes of the options once all of it is made; return 0, or 2 if the input is bad.

    Parameters
    ----------
    module
        What runs, named by an error.
    parser
        Options; an error names `store` as well, where it is one of them.
    arguments
        Command line without the program, that of the process for None.
    work
        Yields tables and lines; its ValueError, OSError, StoreError and AccuracyError become one line.
    """
    from rich.console import Console

    from sweep.errors import AccuracyError, StoreError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a λ must not end it on a terminal of another encoding
    options = parser.parse_args(arguments)
    try:
        parts = list(work(options))
    except (ValueError, OSError, StoreError, AccuracyError) as error:
        text, store = str(error), str(getattr(options, "store", ""))
        about = f"{store}: " if store not in text else ""
        _print(Console(stderr=True, highlight=False), f"{module}: {about}{text}")
        return 2
    console = Console(highlight=False)
    for part in parts:
        _print(console, part)
    return 0


def _print(console: Console, part: Part) -> None:
    if isinstance(part, str):
        console.print(part, markup=False, emoji=False, soft_wrap=True)
    else:
        console.print(part)


def store_parser(module: str, description: str, *, figure: bool = True) -> argparse.ArgumentParser:
    """Return a parser with STORE, and --figure unless the command draws nothing."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("store", metavar="STORE", help="folder that `sweep run` wrote, or an exported file")
    if figure:
        parser.add_argument("--figure", metavar="FILE", help="also draw the picture: .png, .svg or .pdf")
    return parser


def drawn(file: str | None, make: Callable[[], Figure]) -> Iterable[str]:
    """Save a figure if a file is asked for, and yield the line that names it.

    Raises
    ------
    ValueError
        A suffix that is no format of a figure, or results that cannot be drawn.
    """
    if file:
        from analysis.drawing import save

        yield f"figure: {save(make(), file)}"
