"""The initial state ν(0): what the queues hold at time 0."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sweep.arguments import canonical, check_count, check_switch, check_text, real, row
from sweep.laws import Law
from sweep.laws.parameters import NUMBER, number_text
from sweep.wording import shown, suggestion

_FORM = re.compile(r"lengths\((?P<pairs>.*)\)\Z", re.DOTALL)
_PAIR = re.compile(r"\s*(?P<length>\d+)\s*:\s*(?P<share>[0-9.eE+-]+)\s*\Z")
_AGES = re.compile(r"\s*ages\s*=\s*(?P<ages>[^=,]*?)\s*\Z")
_SCALED = re.compile(r"scaled\((?P<inner>.*)\)\Z", re.DOTALL)
_OPTION = re.compile(
    r",\s*(?:(?P<name>m|exchangeable)\s*=\s*(?P<value>[^=,()\[\]]*)|fixed\s*=\s*\[(?P<fixed>[^\[\]]*)\])\s*\Z"
)
_CURE = (
    'write "empty", "lengths(2: 0.2, 3: 0.8)", "lengths(2: 0.2, ages=equilibrium)", "invariant" or '
    '"scaled(law(exponential, mean=0.7), m=100)"'
)
_NAMES = ("empty", "lengths", "invariant", "scaled")
#: Ages that jobs in service may have at time 0.
AGES = ("fresh", "equilibrium")
#: Longest queue at time 0 that is accepted; longer ones of an invariant state are drawn as long as this.
LONGEST = 10**7
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

    @abstractmethod
    def check(self, N: int, lam: float, G: Law) -> None:
        """Raise a ValueError unless N servers of rate λ and service law G can start so."""


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

    def check(self, N: int, lam: float, G: Law) -> None:  # noqa: ARG002
        """Raise unless λ < 1."""
        if lam >= 1.0:
            raise ValueError(
                f"initial must not be invariant where no invariant state exists, got lam = {lam:g}: "
                "take lam below 1 or another start"
            )


@final
@dataclass(frozen=True)
class Lengths(Initial):
    """Exact proportions of queue lengths, and jobs in service that have just started or are in equilibrium.

    `shares` holds (length, proportion) with length ≥ 1 increasing and proportions > 0, of 12 digits; the rest
    is empty. `ages` is "fresh" for jobs of age 0, or "equilibrium" for independent ages of density Ḡ.

    Raises
    ------
    TypeError, ValueError
        Shares that are no pairs of a length and a proportion, lengths that do not increase, are below 1 or
        above ten million, proportions that are not positive or sum to more than 1; other ages.

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
    ages: str = "fresh"

    def __post_init__(self) -> None:
        if not isinstance(self.ages, str) or self.ages not in AGES:
            raise ValueError(f"initial must have ages {' or '.join(AGES)}, got {shown(self.ages)}")
        object.__setattr__(self, "shares", _pairs(self.shares))
        if not self.shares:  # no job, no age
            object.__setattr__(self, "ages", "fresh")
        elif self.longest > LONGEST:
            raise ValueError(f"initial must have lengths of at most {LONGEST}, got {shown(self.longest)}")
        if any(not before < after for (before, _), (after, _) in pairwise(self.shares)):
            raise ValueError(f"initial must have lengths that increase, got {shown(self.shares)}")
        if sum(share for _, share in self.shares) > 1.0 + 1e-9:
            raise ValueError(f"initial must have proportions that sum to at most 1, got {shown(self.shares)}")

    def __str__(self) -> str:
        if not self.shares:
            return "empty"
        parts = [f"{length}: {share!r}" for length, share in self.shares]
        if self.ages != "fresh":
            parts.append(f"ages={self.ages}")
        return f"lengths({', '.join(parts)})"

    @property
    def fresh(self) -> bool:
        """Every job in service has just started."""
        return bool(self.shares) and self.ages == "fresh"

    def check(self, N: int, lam: float, G: Law) -> None:  # noqa: ARG002
        """Raise unless N servers make whole numbers of all proportions."""
        self.counts(N)

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


@final
@dataclass(frozen=True, kw_only=True)
class Scaled(Initial):
    """Queue i holds ⌊√m x_i⌋ jobs, the one in service just started: the start of a network in heavy traffic.

    Parameters
    ----------
    start
        The law F of X_0, as `sweep.diffusion.start.as_start` reads it.
    m
        The scale, a number ≥ 1.
    exchangeable
        Whether the x_i are independent draws from F; otherwise they are its mid-quantiles
        F⁻¹((i + ½)/N), i = 0, …, N − 1, in increasing order.
    fixed
        Positions x of the first queues, instead of those.

    Raises
    ------
    TypeError, ValueError
        A law, scale or position that is none.

    Examples
    --------
    >>> start = parse_initial("scaled(point( x=1.50 ), m=400, fixed=[2, 0.5])")
    >>> str(start)
    'scaled(point(x=1.5), m=400, fixed=[2, 0.5])'
    >>> start.exchangeable
    True
    """

    start: str
    m: float
    exchangeable: bool = True
    fixed: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        from sweep.diffusion.start import as_start

        if not isinstance(self.start, str):
            raise TypeError(f"initial must have a start that is text, got {shown(self.start)}")
        object.__setattr__(self, "exchangeable", check_switch("exchangeable", self.exchangeable))
        m, given = canonical(real("m", self.m)), row("fixed", self.fixed, "write [1.5, 2]")
        fixed = tuple(map(canonical, given.tolist()))
        if not 1.0 <= m < math.inf:
            raise ValueError(f"initial must have a scale m of at least 1, got {shown(self.m)}")
        for x in fixed:
            if not 0.0 <= x * math.sqrt(m) <= LONGEST:
                raise ValueError(
                    f"initial must have fixed positions ≥ 0 with queues of at most {LONGEST} jobs, got {x!r}"
                )
        # The mass at 0 that points leave is a difference; read once more, it has 12 digits as all others.
        object.__setattr__(self, "start", as_start(as_start(self.start).text).text)
        object.__setattr__(self, "m", m)
        object.__setattr__(self, "fixed", fixed)

    def __str__(self) -> str:
        parts = [self.start, f"m={number_text(self.m)}"]
        if not self.exchangeable:
            parts.append("exchangeable=false")
        if self.fixed:
            parts.append(f"fixed=[{', '.join(map(number_text, self.fixed))}]")
        return f"scaled({', '.join(parts)})"

    @property
    def fresh(self) -> bool:
        """Every job in service has just started."""
        return True

    def check(self, N: int, lam: float, G: Law) -> None:  # noqa: ARG002
        """Raise if there are more fixed positions than servers, or points with queues that are too long."""
        from sweep.diffusion.start import as_start

        if len(self.fixed) > N:
            raise ValueError(f"initial must fix at most N queues, got {len(self.fixed)} with N = {N}")
        points = as_start(self.start).points.tolist()
        check_longest(math.sqrt(self.m) * max(points, default=0.0), self)


def check_longest(jobs: float, initial: Scaled) -> None:
    """Refuse a queue of ⌊`jobs`⌋ jobs in a start in heavy traffic where that is more than `LONGEST`.

    Raises
    ------
    ValueError
        So long a queue.
    """
    if jobs >= LONGEST + 1:
        raise ValueError(
            f"initial must have queues of at most {LONGEST} jobs, got one of {jobs:.4g} from {initial}: "
            "take a smaller m, smaller positions or a lighter law"
        )


def parse_initial(text: str, field: str = "initial") -> Initial:
    """Read `empty`, `invariant`, `lengths(2: 0.2, 3: 0.8)` or `scaled(law(exponential, mean=0.7), m=100)`.

    Proportions that miss are empty queues; `ages=equilibrium` as a last entry of `lengths` gives ages of
    density Ḡ. After m, `scaled` takes `exchangeable=false` and `fixed=[1.5, 2]`, see `Scaled`.

    Raises
    ------
    TypeError
        Not text.
    ValueError
        Text of another form, a repeated length, or proportions outside [0, 1] in sum or alone.
    """
    text = check_text(field, text, _CURE).strip()
    if text == "empty":
        return Lengths()
    if text == "invariant":
        return Invariant()
    if scaled := _SCALED.match(text):
        return _parse_scaled(scaled["inner"], field, text)
    form = _FORM.match(text)
    if form is None:
        near = suggestion(text.partition("(")[0], _NAMES)
        raise ValueError(f"{field} must be an initial state, got {shown(text)}{near}: {_CURE}")
    *parts, last = form["pairs"].split(",")
    ages = _AGES.match(last) if parts else None
    if ages is None:
        parts.append(last)
    elif ages["ages"] not in AGES:
        raise ValueError(
            f"{field} must have ages {' or '.join(AGES)}, got {shown(ages['ages'])} in {shown(text)}"
        )
    shares: dict[int, float] = {}
    for part in parts:
        pair = _PAIR.match(part)
        if pair is None or not NUMBER.fullmatch(pair["share"]):
            raise ValueError(
                f"{field} must list length: proportion, got {shown(part.strip())} in {shown(text)}: {_CURE}"
            )
        length, share = int(pair["length"]), canonical(float(pair["share"]))
        if length in shares:
            raise ValueError(f"{field} must name each length once, got {length} twice in {shown(text)}")
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{field} must have proportions in [0, 1], got {share:g} in {shown(text)}")
        shares[length] = share
    if sum(shares.values()) > 1.0 + 1e-9:
        raise ValueError(f"{field} must have proportions that sum to at most 1, got {shown(text)}")
    kept = tuple((n, shares[n]) for n in sorted(shares) if n > 0 and shares[n] > 0.0)
    return Lengths(kept, ages["ages"] if ages else "fresh")


def _parse_scaled(inner: str, field: str, text: str) -> Scaled:
    """Take options off the end, in any order: what is left is the law of X_0."""
    given: dict[str, Any] = {}
    while option := _OPTION.search(inner):
        name = option["name"] or "fixed"
        if name in given:
            raise ValueError(f"{field} must give {name} once, got {shown(text)}: {_CURE}")
        given[name], inner = option["value"] if option["name"] else option["fixed"], inner[: option.start()]
    m, exchangeable = given.get("m", "").strip(), given.get("exchangeable", "true").strip()
    fixed = [x.strip() for x in given.get("fixed", "").split(",") if x.strip()]
    if not all(NUMBER.fullmatch(number) for number in (m, *fixed)) or exchangeable not in ("true", "false"):
        raise ValueError(
            f"{field} must give m as a number, fixed as numbers and exchangeable as true or false, "
            f"got {shown(text)}: {_CURE}"
        )
    try:
        return Scaled(
            start=inner.strip(),
            m=float(m),
            exchangeable=exchangeable == "true",
            fixed=tuple(map(float, fixed)),
        )
    except ValueError as error:
        raise ValueError(str(error).replace("initial", field, 1)) from None


def as_initial(value: Any, field: str = "initial") -> Initial:
    """Return an `Initial` from itself, from its text, or from a pair of arrays: lengths and ages by server.

    Raises
    ------
    TypeError
        None of these.
    ValueError
        Text that is not an initial state; arrays that are not, see `sweep.explicit.Explicit`.
    """
    if isinstance(value, Initial):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        from sweep.explicit import Explicit

        return Explicit(*value)
    if not isinstance(value, str):
        raise TypeError(f"{field} must be text or (lengths, ages), got {shown(value)}: {_CURE}")
    return parse_initial(value, field)


def _pairs(shares: Any) -> tuple[tuple[int, float], ...]:
    """Return pairs of a length ≥ 1 and a proportion > 0 as canonical numbers of Python."""
    entries: Any = None if isinstance(shares, str) else shares
    try:
        pairs = [(length, share) for length, share in entries]
    except (TypeError, ValueError):
        raise TypeError(f"initial must have pairs of a length and a share, got {shown(shares)}") from None
    found = []
    for length, given in pairs:
        share = canonical(real("proportions of initial", given))
        if not 0.0 < share <= 1.0:
            raise ValueError(f"initial must have proportions in (0, 1], got {shown(given)}: {_CURE}")
        found.append((check_count("length", length), share))
    return tuple(found)
