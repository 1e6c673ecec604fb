"""An initial state given by arrays: how many jobs of which age are in service at queues of which length."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sweep.arguments import numbers
from sweep.initial import Initial
from sweep.laws import Law
from sweep.wording import shown

Floats = NDArray[np.float64]
#: Rounding by which masses may break a rule.
_SLACK = 1e-12


@final
@dataclass(frozen=True)
class AgeProfile(Initial):
    """ν_ℓ(0) for ℓ = 1, 2, …: masses of ages between given ones, and at some ages.

    Parameters
    ----------
    ages
        Increasing finite ages ≥ 0, in mean service times.
    cdf
        For each level, the share of servers with queues of length ≥ ℓ whose job has an age of at most each of
        `ages`, atoms left out, 0 at the first. Between two ages the density is proportional to Ḡ.
    atoms
        Pairs of an age, in increasing order, and the masses at it by level.

    Raises
    ------
    TypeError, ValueError
        What is no sequence of numbers; ages that do not increase, arrays that do not fit, masses that are
        negative, increase with the level, or exceed 1.

    Examples
    --------
    Half the servers serve jobs of ages up to 2, a fifth has one more job waiting, a tenth has just started:

    >>> state = AgeProfile(ages=(0, 1, 2), cdf=((0, 0.3, 0.5), (0, 0.1, 0.2)), atoms=((0, (0.1, 0)),))
    >>> state.tails(3).tolist()
    [0.6, 0.2, 0.0]
    """

    ages: tuple[float, ...]
    cdf: tuple[tuple[float, ...], ...]
    atoms: tuple[tuple[float, tuple[float, ...]], ...] = ()

    def __post_init__(self) -> None:
        # Arrays are welcome, and become tuples: states are values.
        object.__setattr__(self, "ages", _row("ages", self.ages))
        object.__setattr__(self, "cdf", tuple(_row("a cdf", row) for row in _each("a cdf", self.cdf)))
        atoms = tuple(_atom(pair) for pair in _each("atoms", self.atoms))
        object.__setattr__(self, "atoms", atoms)
        for name, ages in (("ages", self.ages), ("ages of atoms", tuple(age for age, _ in atoms))):
            if not all(0.0 <= age < math.inf for age in ages) or any(a >= b for a, b in pairwise(ages)):
                raise ValueError(f"initial must have {name} that increase from 0 or above, got {list(ages)}")
        for row in self.cdf:
            if len(row) != len(self.ages):
                raise ValueError(
                    f"initial must have a cdf of {len(self.ages)} values, one an age, got {len(row)}"
                )
            if row and row[0] != 0.0:
                raise ValueError(
                    f"initial must have a cdf of 0 at the first age, got {row[0]!r}: put that mass into atoms"
                )
        for _, masses in atoms:
            if len(masses) != len(self.cdf):
                raise ValueError(
                    f"initial must have atoms of {len(self.cdf)} masses, one a level, got {len(masses)}"
                )
        self._check_masses()

    def _check_masses(self) -> None:
        both = np.hstack([self.masses, self.atom_masses])
        if not np.all(both >= -_SLACK):
            raise ValueError(f"initial must have a cdf that increases with age, got a mass of {both.min():g}")
        if np.any(np.diff(both, axis=0) > _SLACK):
            raise ValueError(
                "initial must have masses that decrease with the level between any two ages, got "
                f"{np.diff(both, axis=0).max():g} more: longer queues are among them"
            )
        total = float(self.tails(1)[0])
        if total > 1.0 + _SLACK:
            raise ValueError(f"initial must have masses that sum to at most 1, got {total:.12g}")

    @cached_property
    def masses(self) -> Floats:
        """Masses between neighbouring ages, shape (level, cell)."""
        cdf = np.array(self.cdf, dtype=np.float64).reshape(len(self.cdf), len(self.ages))
        return cdf[:, 1:] - cdf[:, :-1]

    @cached_property
    def atom_masses(self) -> Floats:
        """Masses at the ages of atoms, shape (level, atom)."""
        return (
            np.array([masses for _, masses in self.atoms], dtype=np.float64)
            .reshape(len(self.atoms), len(self.cdf))
            .T
        )

    def __str__(self) -> str:
        numbers = repr((self.ages, self.cdf, self.atoms))
        digest = hashlib.sha256(numbers.encode()).hexdigest()[:16]
        return f"ages({len(self.ages)} ages, {len(self.cdf)} levels, {digest})"

    @property
    def fresh(self) -> bool:
        """Whether there is an atom at age 0."""
        return any(age == 0.0 and max(masses) > 0.0 for age, masses in self.atoms)

    def check(self, N: int, lam: float, G: Law) -> None:  # noqa: ARG002
        """Refuse: masses are not whole numbers of servers.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            f"initial must be a state of whole servers, got {self}: only the limit starts from it; "
            "give arrays (lengths, ages) by server"
        )

    @property
    def longest(self) -> int:
        """The number of levels."""
        return len(self.cdf)

    def tails(self, levels: int) -> Floats:
        """Return S_ℓ(0) for ℓ = 1 … `levels`, shape (levels,)."""
        tails = np.zeros(levels)
        for level in range(min(levels, self.longest)):
            tails[level] = math.fsum([*self.masses[level].tolist(), *self.atom_masses[level].tolist()])
        return tails


def _each(name: str, values: Any) -> list[Any]:
    """Return the entries of a sequence."""
    if not isinstance(values, (list, tuple)) and getattr(values, "ndim", 0) == 0:
        raise TypeError(f"initial must have {name} by level, got {shown(values)}: give sequences of numbers")
    return list(values)


def _row(name: str, values: Any) -> tuple[float, ...]:
    """Return numbers as a tuple."""
    try:
        array = numbers(name, values)
    except ValueError:
        raise ValueError(f"initial must have {name} of numbers, got {shown(values)}") from None
    if array.ndim != 1:
        raise ValueError(f"initial must have {name} in a row, got {shown(values)}")
    return tuple((array + 0.0).tolist())  # −0 becomes 0


def _atom(pair: Any) -> tuple[float, tuple[float, ...]]:
    """Return the age and the masses of an atom."""
    parts = _each("atoms", pair)
    if len(parts) != 2:
        raise ValueError(f"initial must have atoms that are pairs of an age and masses, got {shown(pair)}")
    (age,), masses = _row("ages of atoms", [parts[0]]), _row("masses of atoms", parts[1])
    return age, masses
