"""How errors word what they were given: values in one line, and the choice that a misspelt word may mean."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Characters of a value that an error shows at most, entries of a list, and digits of a whole number.
_SHOWN, _ENTRIES, _DIGITS = 240, 8, 24
#: Bits of a whole number up to which Python writes it out.
_WRITABLE = 14_000


class _Short(reprlib.Repr):
    """Text of a value in one line, cut where it is long; numbers as Python writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxtuple = self.maxlist = self.maxarray = self.maxdict = self.maxset = _ENTRIES
        self.maxstring = self.maxother = _SHOWN

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002 (one signature)
        if x.bit_length() > _WRITABLE:
            return f"a number of some {round(x.bit_length() * math.log10(2.0))} digits"
        text = str(x)
        return text if len(text) <= _DIGITS else f"a number of {len(text)} digits"

    def repr_ndarray(self, x: NDArray[Any], level: int) -> str:
        return self.repr1(x.tolist(), level) if x.size <= _ENTRIES else f"an array of shape {x.shape}"

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, np.generic) and not isinstance(x.item(), np.generic):
            return self.repr1(x.item(), level)
        return " ".join(super().repr_instance(x, level).split())


class _Toml(_Short):
    """The same as TOML writes it."""

    def repr_tuple(self, x: tuple[Any, ...], level: int) -> str:
        return self.repr_list([*x], level)

    def repr_bool(self, x: bool, level: int) -> str:  # noqa: ARG002 (one signature)
        return str(x).lower()

    def repr_dict(self, x: dict[str, Any], level: int) -> str:
        if level <= 0 and x:
            return "{...}"
        entries = [f"{key} = {self.repr1(value, level - 1)}" for key, value in islice(x.items(), _ENTRIES)]
        return "{" + ", ".join(entries + ["..."] * (len(x) > _ENTRIES)) + "}"


_short, _toml = _Short(), _Toml()
_as_toml: ContextVar[bool] = ContextVar("_as_toml", default=False)


@contextmanager
def toml_values() -> Iterator[None]:
    """Let `shown` write lists, tables and truth values as TOML does: what a spec file holds is read back so.

    Examples
    --------
    >>> with toml_values():
    ...     shown((1.0, {"last": True}))
    '[1.0, {last = true}]'
    """
    token = _as_toml.set(True)
    try:
        yield
    finally:
        _as_toml.reset(token)


def shown(value: Any) -> str:
    """Return a value as text of one line for an error, shortened where it is long.

    Examples
    --------
    >>> import numpy as np
    >>> shown(np.float64(0.5)), shown(10**30), shown(np.zeros((3, 4)))
    ('0.5', 'a number of 31 digits', 'an array of shape (3, 4)')
    """
    return (_toml if _as_toml.get() else _short).repr(value)


def suggestion(word: str, choices: Collection[str]) -> str:
    """Return what an error adds to a misspelt word: the choice that it is likely to mean, if any.

    Examples
    --------
    >>> suggestion("Lumpd", ["servers", "lumped"]), suggestion("fast", ["servers", "lumped"])
    (' (did you mean lumped?)', '')
    """
    near = nearest(word, choices)
    return f" (did you mean {near}?)" if near else ""


def nearest(word: str, choices: Collection[str]) -> str | None:
    """Return the choice that a misspelt word is likely to mean, None if none is near."""
    names = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), names, n=1)
    return names[close[0]] if close and word not in choices else None
