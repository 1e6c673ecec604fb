"""Ranges of law parameters, and the one text that stands for each number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


def canonical_number(value: float) -> float:
    """Round to 12 significant digits, so that 0.3 and 3 × 0.1 are one parameter.

    Examples
    --------
    >>> canonical_number(3 * 0.1)
    0.3
    """
    return float(f"{value:.12g}")


def number_text(value: float) -> str:
    """Return the shortest text that reads back to `value`; whole numbers have no decimal point.

    Examples
    --------
    >>> number_text(4.0), number_text(0.5)
    ('4', '0.5')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


@dataclass(frozen=True, kw_only=True)
class Range:
    """The numbers a law parameter may take, from `least` to `most`.

    `open_least` leaves `least` itself out; `whole` admits integers only.

    Examples
    --------
    >>> Range(least=1.0, most=1e6, open_least=True).check("beta", 1.5)
    1.5
    >>> Range(least=1, most=1e4, whole=True).text
    'a whole number from 1 to 10000'
    """

    least: float
    most: float
    open_least: bool = False
    whole: bool = False

    @property
    def text(self) -> str:
        """The range in words, as error messages and lists of choices show it."""
        kind = "a whole number" if self.whole else "a number"
        least = (
            f"above {number_text(float(self.least))} and up to"
            if self.open_least
            else (f"from {number_text(float(self.least))} to")
        )
        return f"{kind} {least} {number_text(float(self.most))}"

    def check(self, name: str, value: Any) -> float:
        """Return the canonical number for `value`: an int where `whole`, a float elsewhere.

        Raises
        ------
        TypeError
            Not a number; booleans and text are not numbers here.
        ValueError
            Not finite, outside the range, or not whole where it must be.
        """
        if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
            raise TypeError(f"{name} must be {self.text}, got {value!r}")
        try:
            number = canonical_number(float(value))
        except OverflowError:
            number = math.inf
        inside = self.least < number if self.open_least else self.least <= number
        if not (inside and number <= self.most) or (self.whole and not number.is_integer()):
            raise ValueError(f"{name} must be {self.text}, got {value!r}")
        return int(number) if self.whole else number
