"""Tables of a terminal of 80 columns: their frame, and numbers with plain minus signs, to be copied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

#: What stands for a number that is not there.
NONE = "-"


def rows_table(title: str, headers: Sequence[str], *, law_width: int = 18) -> Table:
    """Return an empty table with the columns d, λ and G before others, which are aligned at the right.

    Examples
    --------
    >>> rows_table("rates", ["exponent"]).row_count
    0
    """
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    table.add_column("d", justify="right", no_wrap=True)
    table.add_column("λ", justify="right", no_wrap=True)
    table.add_column("G", overflow="fold", min_width=law_width)
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def law(name: str, width: int = 18) -> str:
    r"""Break the name of a law before its parameters if it is longer than a line.

    Examples
    --------
    >>> law("exponential"), law("hyperexponential(scv=10)")
    ('exponential', 'hyperexponential\n(scv=10)')
    """
    return name if len(name) <= width else name.replace("(", "\n(", 1)


def probability(p: float) -> str:
    """Three decimals of a p-value, "-" if there is none.

    Examples
    --------
    >>> probability(0.0314), probability(1e-9), probability(math.nan)
    ('.031', '<.001', '-')
    """
    if math.isnan(p):
        return NONE
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def score(z: float, decimals: int = 1) -> str:
    """Return a deviation in standard errors, "-" where there is no error to measure it by.

    Examples
    --------
    >>> score(-1.234), score(math.nan)
    ('-1.2', '-')
    """
    return f"{z:+.{decimals}f}" if math.isfinite(z) else NONE


def plain(value: float, decimals: int = 4) -> str:
    """Return a number, "-" if there is none.

    Examples
    --------
    >>> plain(0.5, 2), plain(-1e-9), plain(math.nan)
    ('0.50', '0.0000', '-')
    """
    # Adding 0 turns a rounded −0 into 0.
    return f"{round(value, decimals) + 0.0:.{decimals}f}" if math.isfinite(value) else NONE


def concise(value: float, error: float) -> str:
    """Value with the error of its last digits in parentheses: -0.495(7) is −0.495 ± 0.007.

    Examples
    --------
    >>> concise(-0.4953, 0.0071), concise(1.26, 0.18), concise(12.3, 4.0), concise(math.nan, 1.0)
    ('-0.495(7)', '1.3(2)', '12(4)', '-')
    """
    if not math.isfinite(value):
        return NONE
    if not (math.isfinite(error) and error > 0.0):
        return f"{value:.3g}"
    decimals = max(-math.floor(math.log10(error)), 0)
    return f"{value:.{decimals}f}({round(error * 10**decimals)})"


def with_error(value: float, error: float, most: int = 3, sign: str = " ± ") -> str:
    """Value ± error with the decimals that two digits of the error call for, at most so many.

    Examples
    --------
    >>> with_error(0.12345, 0.0123), with_error(12.3, 4.0, sign="±"), with_error(0.5, 0.0)
    ('0.123 ± 0.012', '12.3±4.0', '0.5')
    """
    if not math.isfinite(value):
        return NONE
    if not (math.isfinite(error) and error > 0.0):
        return f"{value:.3g}"
    decimals = min(max(1 - math.floor(math.log10(error)), 0), most)
    return f"{value:.{decimals}f}{sign}{error:.{decimals}f}"
