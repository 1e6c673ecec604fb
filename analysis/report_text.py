"""Numbers and places in words, as a report prints them."""

from __future__ import annotations

import html
import math
import re
from typing import Any

#: What stands for a number that is not there.
NONE = "–"

_BREAK = re.compile(r"[(,](?=\S)")
_INDEX = re.compile(r"\b([SXVCd])_(\w+|𝕊)")
_POWER = re.compile(r"\^(?:\(([^()]*)\)|(−?\w+(?:\.\w+)*))")


def signed(value: float, decimals: int = 3) -> str:
    """Return a number with a typographic minus sign.

    Examples
    --------
    >>> signed(-0.4953), signed(-1e-9), signed(math.nan)
    ('−0.495', '0.000', '–')
    """
    # Adding 0 turns a rounded −0 into 0.
    return f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−") if math.isfinite(value) else NONE


def with_error(value: float, error: float) -> str:
    """Return value ± error with two digits of the error, with a common power of ten where they are small.

    Examples
    --------
    >>> with_error(-0.4953, 0.0071), with_error(812.3, 41.0), with_error(3.2e-7, 4e-8)
    ('−0.4953 ± 0.0071', '812 ± 41', '(3.20 ± 0.40)·10⁻⁷')
    >>> with_error(0.25, math.nan), with_error(math.nan, 1.0)
    ('0.25', '–')
    """
    if not math.isfinite(value):
        return NONE
    if not (math.isfinite(error) and error > 0.0):
        return f"{value:.4g}".replace("-", "−")
    if max(abs(value), error) < 1e-3:
        power = math.floor(math.log10(max(abs(value), error)))
        scale = math.pow(10.0, power)
        return f"({with_error(value / scale, error / scale)})·10{_raised(power)}"
    decimals = min(max(1 - math.floor(math.log10(error)), 0), 6)
    return f"{value:.{decimals}f} ± {error:.{decimals}f}".replace("-", "−")


def between(low: float, high: float, decimals: int = 3) -> str:
    """Return the ends of an interval.

    Examples
    --------
    >>> between(-0.514, -0.482)
    '−0.514 … −0.482'
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return NONE
    return f"{signed(low, decimals)} … {signed(high, decimals)}"


def p_value(p: float) -> str:
    """Return a p-value with two digits.

    Examples
    --------
    >>> p_value(0.4123), p_value(1e-9), p_value(math.nan)
    ('0.41', '< 0.001', '–')
    """
    if math.isnan(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def clause(p: float) -> str:
    """Return a p-value as an equation, or the inequality that is known.

    Examples
    --------
    >>> clause(0.41), clause(1e-9)
    ('p = 0.41', 'p < 0.001')
    """
    return f"p {p_value(p)}" if p < 0.001 else f"p = {p_value(p)}"


def scaled_place(row: Any) -> str:
    """Name a critical network by the parameters of its limit."""
    numbers = f"b1 = {row.b1:g}, b0 = {row.b0:g}, ℓ = {row.ell}".replace("-", "−")
    return f"{numbers}, {row.G}"


def listed(values: Any, most: int = 8) -> str:
    """List numbers or names, the middle of a long list left out.

    Examples
    --------
    >>> listed([100, -0.5]), listed(range(12)), listed(["trace(times-1.txt)"])
    ('100, −0.5', '0, 1, 2, …, 10, 11', 'trace(times-1.txt)')
    """
    text = [
        f"{value:g}".replace("-", "−") if isinstance(value, (int, float)) else str(value) for value in values
    ]
    return ", ".join(text if len(text) <= most else [*text[:3], "…", *text[-2:]])


def marked_up(text: str) -> str:
    """Return text as HTML, with the indices and powers of symbols set below and above.

    Examples
    --------
    >>> marked_up("S_1 < N^(−1/2), d_𝕊 & N^p, log_S, N^−0.98.")
    'S<sub>1</sub> &lt; N<sup>−1/2</sup>, d<sub>𝕊</sub> &amp; N<sup>p</sup>, log_S, N<sup>−0.98</sup>.'
    """
    lowered = _INDEX.sub(r"\1<sub>\2</sub>", html.escape(text))
    return _POWER.sub(lambda found: f"<sup>{found[1] or found[2]}</sup>", lowered)


def breakable(markup: str) -> str:
    """Let lines of HTML end after an opening parenthesis or a comma, as in the name of a law.

    Examples
    --------
    >>> breakable("lomax(beta=2.5), trace(a,b)")
    'lomax(<wbr>beta=2.5), trace(<wbr>a,<wbr>b)'
    """
    return _BREAK.sub(r"\g<0><wbr>", markup)


def _raised(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
