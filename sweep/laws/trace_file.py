"""Files of positive numbers: text, one number a line, or .npy arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sweep.laws.parameters import NUMBER
from sweep.wording import shown

FloatArray = NDArray[np.float64]

#: Most numbers of a file.
LARGEST = 1_000_000
_LEAST, _MOST = 1e-100, 1e100
_RULE = "a positive number, from 1e-100 to 1e100"
_SHOWN = 60


def read_numbers(path: str) -> FloatArray:
    """Return the numbers of a file, in its order, shape (number,).

    A file that has not changed since is not read again.

    Parameters
    ----------
    path
        Text with one number a line, where blank lines and all from `#` on are skipped; or an array of any
        shape, if the name ends in .npy.

    Raises
    ------
    ValueError
        The file is missing, unreadable or without numbers, or holds more than a million or one that is not
        positive.

    Examples
    --------
    >>> read_numbers("no such file")
    Traceback (most recent call last):
    ...
    ValueError: path must name a readable file, got 'no such file': No such file or directory; ...
    """
    try:
        status = os.stat(path)
        return _read(os.path.abspath(path), path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise ValueError(
            f"path must name a readable file, got {shown(path)}: {error.strerror}; a relative path starts "
            f"from {os.getcwd()!r}"
        ) from None


@lru_cache(maxsize=8)
def _read(absolute: str, path: str, modified: int, size: int) -> FloatArray:  # noqa: ARG001 (part of the key)
    numbers = _read_array(path) if path.endswith(".npy") else np.array(list(_read_lines(path)))
    if not numbers.size:
        raise ValueError(f"{path} must hold at least one number, got none: write one a line")
    numbers.setflags(write=False)
    return numbers


def _read_array(path: str) -> FloatArray:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} must be an .npy array of numbers, got another file: {error}") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuf":
        raise ValueError(f"{path} must be an .npy array of numbers, got type {getattr(array, 'dtype', None)}")
    if array.size > LARGEST:
        raise ValueError(_too_many(path, f"{array.size}"))
    numbers = array.ravel().astype(np.float64)
    refused = np.flatnonzero(~((numbers >= _LEAST) & (numbers <= _MOST)))
    if refused.size:
        index = int(refused[0])
        raise ValueError(
            f"{path} entry {index} must be {_RULE}, got {float(numbers[index])!r}: correct it or leave it out"
        )
    return numbers


def _read_lines(path: str) -> Iterator[float]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            found = 0
            for index, line in enumerate(file, start=1):
                text = line.partition("#")[0].strip()
                if not text:
                    continue
                number = float(text) if NUMBER.fullmatch(text) else 0.0
                if not _LEAST <= number <= _MOST:
                    raise ValueError(
                        f"{path} line {index} must be {_RULE}, got {text[:_SHOWN]!r}: correct it, leave it "
                        "out or put # before it"
                    )
                found += 1
                if found > LARGEST:
                    raise ValueError(_too_many(path, "more"))
                yield number
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be text with one number a line or end in .npy, got bytes") from None


def _too_many(path: str, got: str) -> str:
    return f"{path} must hold at most {LARGEST} numbers, got {got}: keep every k-th"
