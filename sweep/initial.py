"""The initial state ν(0): what the queues hold at time 0."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

_FORM = re.compile(r"lengths\((?P<pairs>.*)\)\Z")
_PAIR = re.compile(r"\s*(?P<length>\d+)\s*:\s*(?P<share>[0-9.eE+-]+)\s*\Z")
_CURE = 'write "empty", "lengths(2: 0.2, 3: 0.8)" or "invariant"'
#: Jobs by which N times a share may miss a whole number (shares are typed with few digits).
_SLACK = 0.01


class Initial(ABC):
    """What the queues hold at time 0: their lengths, and the ages of the jobs in service.

    Kinds are frozen values, equal when they are the same state; `str` is their canonical text.
    """

    @abstractmethod
    def __str__(self) -> str: ...

    @property
    def identity(self) -> str:
        """The text that stands for the state in keys."""
        return str(self)

    @property
    @abstractmethod
    def fresh(self) -> bool:
        """Whether jobs of age 0 have a positive mass at time 0."""


@final
@dataclass(frozen=True)
class Invariant(Initial):
    """The invariant state of the limit with the same d, λ, G and fraction.

    Examples
    --------
    >>> str(parse_initial("invariant"))
    'invariant'
    """

    def __str__(self) -> str:
        return "invariant"

    @property
    def fresh(self) -> bool:
        """Ages have a density."""
        return False


@final
@dataclass(frozen=True)
class Lengths(Initial):
    """Exact proportions of queue lengths, every job in service just started (age 0).

    `shares` holds (length, proportion) with length ≥ 1 increasing and proportions > 0; the rest is empty.

    Examples
    --------
    >>> initial = parse_initial("lengths(3: 0.5, 2: 0.25)")
    >>> str(initial)
    'lengths(2: 0.25, 3: 0.5)'
    >>> initial.tails(4).tolist()
    [0.75, 0.75, 0.5, 0.0]
    >>> initial.lengths(4).tolist()
    [3, 3, 2, 0]
    """

    shares: tuple[tuple[int, float], ...] = ()

    def __str__(self) -> str:
        if not self.shares:
            return "empty"
        return "lengths(" + ", ".join(f"{length}: {share!r}" for length, share in self.shares) + ")"

    @property
    def fresh(self) -> bool:
        """Every job in service has just started."""
        return bool(self.shares)

    @property
    def longest(self) -> int:
        """Length of the longest queue, 0 from empty."""
        return self.shares[-1][0] if self.shares else 0

    def tails(self, levels: int) -> NDArray[np.float64]:
        """Return S_ℓ(0) for ℓ = 1 … `levels`, shape (levels,)."""
        tails = np.zeros(levels)
        for length, share in self.shares:
            tails[: min(length, levels)] += share
        return tails

    def counts(self, N: int) -> tuple[tuple[int, int], ...]:
        """Return (length, number of queues) among N queues, for the lengths above 0.

        Raises
        ------
        ValueError
            A proportion of which N servers do not make a whole number.
        """
        counts = []
        for length, share in self.shares:
            count = round(N * share)
            if count == 0 or abs(N * share - count) > _SLACK:
                raise ValueError(
                    f"initial must give whole numbers of queues, got {self} with N = {N}: "
                    f"{share!r} of them is {N * share:g}; choose N or the proportion to fit"
                )
            counts.append((length, count))
        return tuple(counts)

    def lengths(self, N: int) -> NDArray[np.int32]:
        """Return the length of each of N queues, shape (N,), longest first; raises as `counts` does."""
        lengths = np.zeros(N, dtype=np.int32)
        first = 0
        for length, count in reversed(self.counts(N)):
            lengths[first : first + count] = length
            first += count
        return lengths


def parse_initial(text: str, field: str = "initial") -> Initial:
    """Read `empty`, `invariant` or `lengths(2: 0.2, 3: 0.8)`, whose missing proportions are empty queues.

    Raises
    ------
    ValueError
        Text of another form, a repeated length, or proportions outside [0, 1] in sum or alone.
    """
    text = text.strip()
    if text == "empty":
        return Lengths()
    if text == "invariant":
        return Invariant()
    form = _FORM.match(text)
    if form is None:
        raise ValueError(f"{field} must be an initial state, got {text!r}: {_CURE}")
    shares: dict[int, float] = {}
    for part in form["pairs"].split(","):
        pair = _PAIR.match(part)
        share = _number(pair["share"]) if pair else None
        if pair is None or share is None:
            raise ValueError(
                f"{field} must list length: proportion, got {part.strip()!r} in {text!r}: {_CURE}"
            )
        length = int(pair["length"])
        if length in shares:
            raise ValueError(f"{field} must name each length once, got {length} twice in {text!r}")
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{field} must have proportions in [0, 1], got {share:g} in {text!r}")
        shares[length] = share
    if sum(shares.values()) > 1.0 + 1e-9:
        raise ValueError(f"{field} must have proportions that sum to at most 1, got {text!r}")
    return Lengths(tuple((n, shares[n]) for n in sorted(shares) if n > 0 and shares[n] > 0.0))


def as_initial(value: str | Initial, field: str = "initial") -> Initial:
    """Return an `Initial` from its text or from itself.

    Raises
    ------
    TypeError
        Neither.
    ValueError
        Text that is not an initial state.
    """
    if isinstance(value, Initial):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{field} must be text, got {value!r}: {_CURE}")
    return parse_initial(value, field)


def _number(text: str) -> float | None:
    try:
        return float(f"{float(text):.12g}")
    except ValueError:
        return None
