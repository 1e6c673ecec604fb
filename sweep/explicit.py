"""An initial state given server by server: jobs at each, and the age of the one in service."""

from __future__ import annotations

import hashlib
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import numbers
from sweep.initial import LONGEST, Initial
from sweep.laws import Law
from sweep.wording import shown

if TYPE_CHECKING:
    from sweep.age_profile import AgeProfile

Floats = NDArray[np.float64]
_CURE = "give two arrays of shape (N,)"


@final
class Explicit(Initial):
    """Length and age of each of N servers, in their order. Equality and text are those of the numbers.

    Parameters
    ----------
    lengths
        Jobs at each server, whole numbers ≥ 0, shape (N,).
    ages
        Age of the job in service at each, in mean service times, 0 where there is none, shape (N,).

    Raises
    ------
    ValueError
        Arrays of other shapes or numbers: lengths that are negative or not whole, ages that are negative or
        not finite, an idle server with an age.

    Examples
    --------
    >>> state = Explicit([2, 0, 1], [0.5, 0.0, 3.0])
    >>> state.longest, state.tails(2).tolist()
    (2, [0.6666666666666666, 0.3333333333333333])
    """

    lengths: NDArray[np.int32]
    ages: Floats

    def __init__(self, lengths: ArrayLike, ages: ArrayLike) -> None:
        rows, times = _numbers("lengths", lengths), _numbers("ages", ages)
        if rows.shape != times.shape:
            raise ValueError(
                f"initial must have as many ages as lengths, got {times.size} and {rows.size}: {_CURE}"
            )
        _refuse(
            ~((rows >= 0.0) & (rows <= LONGEST) & (rows == np.floor(rows))), rows, "lengths whole and ≥ 0"
        )
        _refuse(~((times >= 0.0) & (times < math.inf)), times, "finite ages ≥ 0")
        _refuse((rows == 0.0) & (times > 0.0), times, "age 0 where no job is in service")
        self.lengths, self.ages = rows.astype(np.int32), times + 0.0  # no negative zeros
        for array in (self.lengths, self.ages):
            array.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explicit) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __str__(self) -> str:
        return f"explicit(N={self.lengths.size}, sha256={self._digest[:32]})"

    @cached_property
    def _digest(self) -> str:
        parts = self.lengths.astype("<i4").tobytes() + self.ages.astype("<f8").tobytes()
        return hashlib.sha256(parts).hexdigest()

    @property
    def fresh(self) -> bool:
        """Whether some job has just started."""
        return bool(np.any((self.lengths > 0) & (self.ages == 0.0)))

    @property
    def longest(self) -> int:
        """Length of the longest queue."""
        return int(self.lengths.max())

    def tails(self, levels: int) -> Floats:
        """Return the share of queues of length ≥ ℓ for ℓ = 1 … `levels`, shape (levels,)."""
        counts = np.bincount(np.minimum(self.lengths, levels), minlength=levels + 1)
        return np.asarray(counts[:0:-1].cumsum()[::-1] / self.lengths.size)

    def check(self, N: int, lam: float, G: Law) -> None:  # noqa: ARG002
        """Raise unless there are N servers, of ages that services exceed with positive probability."""
        if self.lengths.size != N:
            raise ValueError(
                f"initial must have one length and age a server, got {self.lengths.size} with N = {N}"
            )
        oldest = float(self.ages.max())
        if self.ages.any() and not float(G.log_survival(oldest)) > -math.inf:
            raise ValueError(f"initial must have ages that {G} reaches, got {oldest!r}")

    def profile(self) -> AgeProfile:
        """Return the same state as one of the limit: a mass of 1/N at the age of each job in service."""
        from sweep.age_profile import AgeProfile

        busy = self.lengths > 0
        ages, place = np.unique(self.ages[busy], return_inverse=True)
        levels = self.longest
        counts = np.zeros((ages.size, levels + 1), dtype=np.int64)
        np.add.at(counts, (place, self.lengths[busy]), 1)
        masses = counts[:, :0:-1].cumsum(axis=1)[:, ::-1] / self.lengths.size
        atoms = tuple((age, tuple(row)) for age, row in zip(ages.tolist(), masses.tolist(), strict=True))
        return AgeProfile(ages=(), cdf=((),) * levels, atoms=atoms)


def _numbers(name: str, values: Any) -> Floats:
    try:
        array = numbers(name, values)
    except ValueError:
        raise ValueError(f"initial must have {name} that are numbers, got {shown(values)}: {_CURE}") from None
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"initial must have a row of {name}, got shape {array.shape}: {_CURE}")
    return array


def _refuse(refused: NDArray[np.bool_], values: Floats, rule: str) -> None:
    if refused.any():
        server = int(np.flatnonzero(refused)[0])
        raise ValueError(f"initial must have {rule}, got {float(values[server])!r} at server {server}")
