"""Random streams: a stateless function of root seed, cell, replica and purpose."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum

import numpy as np

#: Part of every key; raised whenever stored numbers change (docs/changes.md says why).
NUMBERS_VERSION = 2


_version = ContextVar("version of the numbers in keys", default=NUMBERS_VERSION)


class Purpose(IntEnum):
    """The independent streams of a replica."""

    ARRIVALS = 0
    SERVICES = 1
    ROUTING = 2
    INITIAL = 3


def digest(text: str) -> str:
    """Hexadecimal key (128 bits) of a canonical text under the present `NUMBERS_VERSION`."""
    return hashlib.sha256(f"{_version.get()}\n{text}".encode()).hexdigest()[:32]


@contextmanager
def keys_of(version: int) -> Iterator[None]:
    """Make keys as another version of the numbers does, to find what it has stored."""
    token = _version.set(version)
    try:
        yield
    finally:
        _version.reset(token)


def stream(seed: int, key: str, replica: int, purpose: Purpose) -> np.random.Generator:
    """Return the generator of one stream of one replica.

    Parameters
    ----------
    seed
        Root seed of the sweep, ≥ 0.
    key
        `digest` of the cell's canonical law-defining parameters.
    replica
        Counted from 0.
    purpose
        Which of the replica's streams.

    Raises
    ------
    ValueError
        A negative seed or replica.

    Examples
    --------
    >>> key = digest("N=10 d=2")
    >>> a, b = (stream(1, key, 0, Purpose.ROUTING).integers(2**32, size=4) for _ in range(2))
    >>> bool((a == b).all())
    True
    """
    root = _words(seed)
    root += [0] * (4 - len(root))  # as SeedSequence fills up a seed before a spawn key
    words = [int(key[i : i + 8], 16) for i in range(0, 32, 8)]
    # SeedSequence(seed, spawn_key=(*words, replica, purpose)) is the same, and takes twice the time.
    entropy = np.array([*root, *words, *_words(replica), purpose], dtype=np.uint32)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


def _words(number: int) -> list[int]:
    """Return a number ≥ 0 in base 2³², the least digit first; ValueError if it is below 0."""
    number = operator.index(number)
    if number < 0:
        raise ValueError(f"seed and replica must be at least 0, got {number}")
    words = [number & 0xFFFFFFFF]
    while number := number >> 32:
        words.append(number & 0xFFFFFFFF)
    return words
