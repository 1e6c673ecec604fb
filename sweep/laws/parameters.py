"""Numbers and arrays that law parameters may be, and the one text that stands for each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, Protocol

from sweep.arguments import as_float, canonical
from sweep.wording import shown

#: The text of a number; words, nan and inf are none.
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class Parameter(Protocol):
    """What a law parameter may be."""

    @property
    def text(self) -> str:
        """The admitted values in words."""

    def check(self, name: str, value: Any) -> Any:
        """Return the canonical form of `value`, or raise TypeError or ValueError."""


def number_text(value: float) -> str:
    """Return the shortest text that reads back to `value`; whole numbers have no decimal point.

    Examples
    --------
    >>> number_text(4.0), number_text(0.5)
    ('4', '0.5')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def value_text(value: Any) -> str:
    """Return the text of a number, or of nested tuples of numbers in brackets.

    Examples
    --------
    >>> value_text(((-1.0, 0.5), (0.0, -2.0)))
    '[[-1, 0.5], [0, -2]]'
    """
    if isinstance(value, tuple):
        return "[" + ", ".join(map(value_text, value)) + "]"
    return number_text(float(value))


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
        try:
            given = as_float(value)
        except OverflowError:
            given = math.inf
        if given is None:
            raise TypeError(f"{name} must be {self.text}, got {shown(value)}")
        number = canonical(given)
        inside = self.least < number if self.open_least else self.least <= number
        if not (inside and number <= self.most) or (self.whole and not number.is_integer()):
            raise ValueError(f"{name} must be {self.text}, got {shown(value)}")
        return int(number) if self.whole else number


@dataclass(frozen=True, kw_only=True)
class Brackets:
    """Finite numbers in brackets: a row of `most` at the longest, or (`depth` 2) rows of one length.

    Examples
    --------
    >>> Brackets(depth=2, most=50).check("T", [[-1, 0.5], [0, -2]])
    ((-1.0, 0.5), (0.0, -2.0))
    """

    depth: int
    most: int

    @property
    def text(self) -> str:
        """The form in words."""
        form = "[a, b, …]" if self.depth == 1 else "[[a, b, …], [c, d, …], …]"
        return f"written as {form}, 1 to {self.most} finite numbers a row"

    def check(self, name: str, value: Any) -> Any:
        """Return nested tuples of canonical floats for a sequence or array.

        Raises
        ------
        TypeError
            Not a sequence of numbers, or nested otherwise.
        ValueError
            A number is not finite, or rows are empty, too long, or of different lengths.
        """
        try:
            entries = self._entries(value, self.depth)
            rows = entries if self.depth == 2 else (entries,)
            lengths = {len(row) for row in rows}
            if len(lengths) != 1 or not 1 <= max(lengths) <= self.most or len(rows) > self.most:
                raise ValueError
        except TypeError:
            raise TypeError(f"{name} must be {self.text}, got {shown(value)}") from None
        except (ValueError, OverflowError):
            raise ValueError(f"{name} must be {self.text}, got {shown(value)}") from None
        return entries

    def _entries(self, value: Any, depth: int) -> Any:
        if depth:
            if isinstance(value, (str, bytes, Mapping, Set)):
                raise TypeError
            if len(value) > self.most:
                raise ValueError
            return tuple(self._entries(entry, depth - 1) for entry in value)
        given = as_float(value)
        if given is None:
            raise TypeError
        number = canonical(given) + 0.0  # −0 becomes 0
        if not math.isfinite(number):
            raise ValueError
        return number
