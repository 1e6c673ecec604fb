"""Checks of what callers pass: numbers, rows of numbers, choices by name, and sizes that memory must hold."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Collection
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.wording import shown, suggestion

Floats = NDArray[np.float64]

#: Bytes that are asked for without a look at the memory there is.
_MODEST = 2**30


def canonical(value: float) -> float:
    """Round to 12 significant digits, so that 0.3 and 3 × 0.1 are one grid point.

    Examples
    --------
    >>> canonical(3 * 0.1)
    0.3
    """
    return float(f"{float(value):.12g}")


# ---- single values ----------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return what a NumPy scalar, or an array of no dimension, holds; other values as they are."""
    item = getattr(value, "item", None)
    return item() if getattr(value, "ndim", None) == 0 and callable(item) else value


def as_float(value: Any) -> float | None:
    """Return a real number as a float, None for anything else: truth values, text, dates, arrays.

    Raises
    ------
    OverflowError
        A whole number that float64 cannot hold.
    """
    if type(value) is float or type(value) is int:
        return float(value)
    if getattr(getattr(value, "dtype", None), "kind", "f") not in "iufO" or _is_masked(value):
        return None
    number = plain(value)
    if isinstance(number, (bool, np.ndarray, np.complexfloating)) or not hasattr(number, "__float__"):
        return None
    try:
        return float(number)
    except (TypeError, ValueError):
        return None


def real(name: str, value: Any) -> float:
    """Return a real number as a float, infinite ones and nan included.

    Parameters
    ----------
    name
        What the caller's parameter is called, for errors.
    value
        A number of Python or NumPy, or an array of no dimension.

    Raises
    ------
    TypeError
        Not a number; truth values, text and complex numbers are none.
    ValueError
        A whole number that float64 cannot hold.

    Examples
    --------
    >>> import numpy as np
    >>> real("lam", np.array(0.9)), real("lam", 1)
    (0.9, 1.0)
    """
    try:
        number = as_float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that float64 can hold, got {shown(value)}") from None
    if number is None:
        raise TypeError(f"{name} must be a number, got {shown(value)}")
    return number


def check_count(name: str, value: Any, least: int = 1, most: int | None = None, cost: str = "") -> int:
    """Return `value` as an int if it is a whole number between `least` and `most`.

    Parameters
    ----------
    name
        What the caller's parameter is called, for errors.
    value
        A whole number of Python or NumPy; 10.0 is one too.
    least, most
        The range; `most` None for no upper end.
    cost
        What one above `most` would cost, for the error.

    Raises
    ------
    TypeError
        Not a whole number (truth values are not numbers here).
    ValueError
        Below `least` or above `most`.

    Examples
    --------
    >>> import numpy as np
    >>> check_count("N", np.int64(10)), check_count("N", 10.0)
    (10, 10)
    """
    count = _as_whole(value)
    if count is None:
        raise TypeError(f"{name} must be a whole number, got {shown(value)}")
    if count < least:
        raise ValueError(f"{name} must be at least {least}, got {shown(value)}")
    if most is not None and count > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(value)}{cost and ': ' + cost}")
    return count


def _as_whole(value: Any) -> int | None:
    number = plain(value)
    if getattr(getattr(value, "dtype", None), "kind", "f") not in "iufO" or _is_masked(value):
        return None
    if isinstance(number, (float, np.floating)):
        return int(number) if number.is_integer() else None
    if isinstance(number, (Decimal, Fraction)):
        return int(number) if math.isfinite(number) and number == int(number) else None
    try:
        return None if isinstance(number, (bool, np.ndarray)) else operator.index(number)
    except TypeError:
        return None


def _is_masked(value: Any) -> bool:
    """Whether NumPy hides entries of an array as missing."""
    return hasattr(value, "mask") and isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


def check_switch(name: str, value: Any) -> bool:
    """Return `value` as a bool if it is true or false.

    Raises
    ------
    TypeError
        Anything else, 0 and 1 included.
    """
    switch = plain(value)
    if not isinstance(switch, bool):
        raise TypeError(f"{name} must be true or false, got {shown(value)}")
    return switch


def check_tolerance(value: Any, least: float) -> float:
    """Return a tolerance as a float if it is a number from `least` to below 1.

    Raises
    ------
    TypeError
        Not a number.
    ValueError
        Outside the range.
    """
    tolerance = real("tolerance", value)
    if not least <= tolerance < 1.0:
        raise ValueError(f"tolerance must lie in [{least:g}, 1), got {shown(value)}")
    return tolerance


def check_text(name: str, value: Any, cure: str = "") -> str:
    """Return `value` if it is text.

    Raises
    ------
    TypeError
        Anything else.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {shown(value)}{cure and ': ' + cure}")
    return str(value)


def check_path(name: str, value: Any) -> str:
    """Return a path as text.

    Raises
    ------
    TypeError
        Neither text nor a path.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise TypeError(f"{name} must be text or a path, got {shown(value)}")
    return path


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return `value` if it is one of the texts in `choices`.

    Raises
    ------
    TypeError
        Not text.
    ValueError
        None of them.

    Examples
    --------
    >>> check_choice("method", "fast", ["servers", "lumped"])
    Traceback (most recent call last):
    ...
    ValueError: method must be one of servers, lumped, got 'fast'
    """
    text = check_text(name, value, f"choose one of {', '.join(choices)}")
    if text not in choices:
        near = suggestion(text, choices)
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {shown(text)}{near}")
    return text


# ---- arrays -----------------------------------------------------------------------------------------------


def numbers(name: str, values: ArrayLike, cure: str = "") -> Floats:
    """Return real numbers of any shape as a float64 array, `values` itself if it is one.

    Parameters
    ----------
    name
        What the caller's parameter is called, for errors.
    values
        A number, nested sequences of numbers, or an array of them.
    cure
        What to write instead, for the error.

    Raises
    ------
    ValueError
        Rows of different lengths, or entries that are no numbers: truth values, text, None, dates, complex.

    Examples
    --------
    >>> numbers("times", [0, 2.5])
    array([0. , 2.5])
    >>> numbers("times", [0, "2.5"])
    Traceback (most recent call last):
    ...
    ValueError: times must be numbers, got [0, '2.5']
    """
    given: Any = values
    if type(given) is float:
        return np.array(given)
    if type(given) is np.ndarray and given.dtype == np.float64:
        return given
    # Entries one by one where they may be of any kind: NumPy would take True and "1" in a list for numbers.
    array = np.asarray(given) if hasattr(given, "dtype") else np.array(given, dtype=object)
    if array.dtype.kind in "iuf" and not _is_masked(given):
        return np.asarray(array, dtype=np.float64)
    if array.dtype.kind == "O" and not _is_masked(given):
        try:
            entries = [as_float(entry) for entry in array.ravel().tolist()]
        except OverflowError:
            entries = [None]
        if None not in entries:
            return np.array(entries, dtype=np.float64).reshape(array.shape)
    raise ValueError(f"{name} must be numbers, got {shown(values)}{cure and ': ' + cure}")


def row(name: str, values: ArrayLike, cure: str = "", *, rule: str = "a sequence of numbers") -> Floats:
    """Return numbers as a float64 array of one dimension, which may be empty: `numbers` and their shape.

    Raises
    ------
    ValueError
        Another shape, or entries that are no numbers.
    """
    array = numbers(name, values, cure)
    if array.ndim != 1:
        got = shown(values) if array.ndim == 0 else f"shape {array.shape}"
        raise ValueError(f"{name} must be {rule}, got {got}{cure and ': ' + cure}")
    return array


# ---- sizes ------------------------------------------------------------------------------------------------


def check_memory(name: str, value: Any, size: float, cure: str) -> None:
    """Refuse what needs more memory than this process may have now.

    Parameters
    ----------
    name, value
        The parameter that decides on the size, for the error.
    size
        Bytes needed at the peak.
    cure
        What to take instead.

    Raises
    ------
    ValueError
        The size is above what is available.
    """
    if size <= _MODEST:
        return
    from sweep.machine import available_memory

    free = available_memory()
    if size > free:
        raise ValueError(
            f"{name} must fit into memory, got {shown(value)}, which takes {size / 1e9:,.3g} GB "
            f"where {free / 1e9:,.3g} GB are free: {cure}"
        )
