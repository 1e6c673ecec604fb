"""What defines the law of a replica (`Cell`) and of its limit (`Limit`), checked when made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import canonical, check_count, check_switch, real
from sweep.arrivals import Profile, as_arrivals
from sweep.delayed import Delayed
from sweep.explicit import Explicit
from sweep.initial import Initial, Invariant, Lengths, Scaled, as_initial
from sweep.laws import Law, as_law
from sweep.routing import check_routing, limit_phi
from sweep.seeds import digest
from sweep.wording import shown

_POISSON = as_law("exponential")
_EMPTY = Lengths()
_USUAL = {"routing": "sampled", "method": "servers"}
#: Largest N (server indices come from 32-bit words), d and λ.
MOST_SERVERS, MOST_CHOICES, MOST_RATE = 2**32 - 1, 10**6, 1e6
_MOST_SERVERS_COST = "so many servers take 86 GB already"


def check_rate(value: Any) -> float:
    """Return λ as a canonical float if it is a positive number.

    Raises
    ------
    TypeError
        Not a number.
    ValueError
        Not positive, or not finite.
    """
    rate = canonical(real("lam", value))
    if not 0.0 < rate < math.inf:
        raise ValueError(f"lam must be positive and finite, got {shown(value)}")
    if rate > MOST_RATE:
        raise ValueError(f"lam must be at most {MOST_RATE:g}, got {shown(value)}")
    return rate


def check_fraction(value: Any) -> float:
    """Return the share of arrivals that use d choices if it lies in [0, 1].

    Raises
    ------
    TypeError
        Not a number.
    ValueError
        Outside [0, 1].
    """
    fraction = canonical(real("fraction", value))
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"fraction must lie in [0, 1], got {shown(value)}")
    return fraction


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Parameters of the hydrodynamic limit: d choices, arrival rate λ per server, service law G.

    Raises
    ------
    TypeError, ValueError
        A parameter of the wrong type or outside its range.

    Examples
    --------
    >>> Limit(d=2, lam=0.9, G="exponential").text
    'd=2 lam=0.9 G=exponential arrivals=exponential initial=empty fraction=1.0'
    """

    d: int
    lam: float
    G: Law
    arrivals: Law | Delayed | Profile = _POISSON
    initial: Initial = _EMPTY
    fraction: float = 1.0

    if TYPE_CHECKING:  # laws and initial states may be given as text

        def __init__(
            self,
            *,
            d: int,
            lam: float,
            G: str | Law,
            arrivals: str | Law | Delayed | Profile = ...,
            initial: str | Initial | tuple[ArrayLike, ArrayLike] = ...,
            fraction: float = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        convert: dict[str, Callable[[Any], Any]] = {
            "d": lambda value: check_count("d", value, most=MOST_CHOICES),
            "lam": check_rate,
            "G": lambda value: as_law(value, "G"),
            "arrivals": as_arrivals,
            "initial": as_initial,
            "fraction": check_fraction,
        }
        for name, function in convert.items():
            object.__setattr__(self, name, function(getattr(self, name)))

    def mean_arrivals(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return arrivals per server by each time in the limit: λt, or ∫ λ(s) ds."""
        if isinstance(self.arrivals, Profile):
            return np.asarray(self.lam * self.arrivals.integral(times))
        return np.asarray(self.lam * times)

    @property
    def text(self) -> str:
        """Every parameter with its value, as one line."""
        return " ".join(f"{name}={getattr(self, name)}" for name in self._names())

    @cached_property
    def key(self) -> str:
        """Hexadecimal identity in the store: of the parameters, and of what a law read from a file holds."""
        values = {name: getattr(self, name) for name in self._names()}
        identities = {
            n: v.identity if isinstance(v, (Law, Delayed, Profile, Initial)) else v for n, v in values.items()
        }
        words = [f"{name}={value}" for name, value in identities.items()]
        return digest(" ".join([*words, *self._corrections()]))

    def _names(self) -> tuple[str, ...]:
        return ("d", "lam", "G", "arrivals", "initial", "fraction")

    def _corrections(self) -> Iterator[str]:
        """Yield a word for each fault by which earlier versions may have stored wrong numbers of this.

        They are computed anew under another key; all others keep theirs, and their random streams.
        """
        from sweep.fluid.mesh import was_graded  # which needs this class

        if was_graded(self):
            yield "mesh=even"


@dataclass(frozen=True, kw_only=True)
class Cell(Limit):
    """Parameters of the N-server network: those of its limit, N, and how arrivals are routed.

    `routing` names a rule of `sweep.routing.ROUTING`. `method` is "servers" or "lumped"; given as "auto" it
    becomes one of them.

    Raises
    ------
    TypeError, ValueError
        A parameter of the wrong type or outside its range, or two that do not go together.

    Examples
    --------
    >>> cell = Cell(N=100, d=2, lam=0.9, G="exponential")
    >>> cell.text
    'N=100 replacement=True d=2 lam=0.9 G=exponential arrivals=exponential initial=empty fraction=1.0'
    >>> cell.limit == Limit(d=2, lam=0.9, G="exponential")
    True
    """

    N: int
    replacement: bool = True
    routing: str = "sampled"
    method: str = "servers"

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            N: int,
            d: int,
            lam: float,
            G: str | Law,
            arrivals: str | Law | Delayed | Profile = ...,
            initial: str | Initial | tuple[ArrayLike, ArrayLike] = ...,
            replacement: bool = ...,
            fraction: float = ...,
            routing: str = ...,
            method: str = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        servers = check_count("N", self.N, most=MOST_SERVERS, cost=_MOST_SERVERS_COST)
        object.__setattr__(self, "N", servers)
        object.__setattr__(self, "replacement", check_switch("replacement", self.replacement))
        if not self.replacement and self.d > self.N:
            raise ValueError(f"d must be at most N without replacement, got d = {self.d} with N = {self.N}")
        if isinstance(self.arrivals, Delayed):
            self.arrivals.check(self.lam)
        self.initial.check(self.N, self.lam, self.G)
        check_routing(
            self.routing,
            self.d,
            self.fraction,
            replacement=self.replacement,
            invariant=isinstance(self.initial, Invariant),
        )
        from sweep.network.lumped_method import choose_method  # which needs this class

        chosen = choose_method(self, method=self.method, routing=self.routing)
        object.__setattr__(self, "method", chosen)

    def _names(self) -> tuple[str, ...]:
        # Named only where they differ from what nearly every cell has.
        special = [name for name in ("routing", "method") if getattr(self, name) != _USUAL[name]]
        return ("N", "replacement", *super()._names(), *special)

    def _corrections(self) -> Iterator[str]:
        from sweep.diffusion.start import was_infinite
        from sweep.network.corrections import was_beyond_tables, was_continued_as_power

        yield from super()._corrections()
        if was_continued_as_power(self):
            yield "tail=geometric"
        if was_beyond_tables(self):
            yield "tables=whole"
        if (
            isinstance(self.initial, Scaled)
            and self.initial.exchangeable
            and was_infinite(self.initial.start)
        ):
            yield "draws=finite"

    @property
    def limit(self) -> Limit:
        """Parameters of the N → ∞ limit of this cell, where the age of the first gap is forgotten.

        From arrays by server it starts from the shares of them that have each length and age.

        Raises
        ------
        ValueError
            A routing rule whose limit is not implemented.
        """
        limit_phi(self.routing)
        return Limit(
            d=self.d,
            lam=self.lam,
            G=self.G,
            arrivals=self.arrivals.law if isinstance(self.arrivals, Delayed) else self.arrivals,
            initial=self.initial.profile() if isinstance(self.initial, Explicit) else self.initial,
            fraction=self.fraction,
        )
