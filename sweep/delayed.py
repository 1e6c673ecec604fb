"""Renewal arrivals that began before time 0: a law of gaps, and the age of the gap under way."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import final

from sweep.arguments import canonical, check_text, real
from sweep.laws import Law, as_law
from sweep.laws.parameters import NUMBER, number_text
from sweep.wording import shown

_FORM = re.compile(r"\s*renewal\s*\((?P<law>.*?)(?:,\s*age\s*=\s*(?P<age>[^=,()]*?))?\s*\)\s*\Z", re.DOTALL)
_CURE = 'write "renewal(lomax(beta=1.5), age=2)" or "renewal(erlang(k=2), age=stationary)"'


@final
@dataclass(frozen=True)
class Delayed:
    """Delayed renewal arrivals: the gap under way at time 0 has age R.

    The process of one server's share of arrivals has gaps of mean 1/λ; the network's clock runs N times as
    fast. So R is in mean service times, the first arrival comes after 1/N times the residual life, given age
    R, of a gap of mean 1/λ, and the backward recurrence time at 0 is R/N.

    Parameters
    ----------
    law
        Law of the gaps, of mean 1; they are scaled to mean 1/λ.
    age
        R ≥ 0; None for the random age of a process that has run for ever: the first gap then has the
        stationary excess law.

    Raises
    ------
    TypeError
        No law, or an age that is no number.
    ValueError
        An age below 0 or not finite.

    Examples
    --------
    >>> arrivals = parse_delayed("renewal( erlang(k=2), age=0.50)")
    >>> str(arrivals), arrivals.age
    ('renewal(erlang(k=2), age=0.5)', 0.5)
    >>> str(parse_delayed("renewal(deterministic, age=stationary)"))
    'renewal(deterministic, age=stationary)'
    """

    law: Law
    age: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.law, Law):
            raise TypeError(f"law must be a law of `sweep.laws`, got {shown(self.law)}: {_CURE}")
        if self.age is None:
            return
        age = canonical(real("age", self.age))
        if not 0.0 <= age < math.inf:
            raise ValueError(f"arrivals must have a finite age ≥ 0, got {shown(self.age)}: {_CURE}")
        object.__setattr__(self, "age", age)

    def __str__(self) -> str:
        return f"renewal({self.law}, age={self._age_text})"

    @property
    def identity(self) -> str:
        """The text that stands for the arrivals in keys."""
        return f"renewal({self.law.identity}, age={self._age_text})"

    @property
    def _age_text(self) -> str:
        return "stationary" if self.age is None else number_text(self.age)

    def check(self, lam: float) -> None:
        """Raise a ValueError unless gaps of mean 1/λ exceed the age with positive probability."""
        if self.age is not None and not float(self.law.log_survival(lam * self.age)) > -math.inf:
            longest = self.law.support_end / lam
            raise ValueError(
                f"arrivals must have an age that gaps exceed, got age = {number_text(self.age)} with "
                f"{self.law} and lam = {lam:g}: take one below {longest:g}"
            )


def parse_delayed(text: str, field: str = "arrivals") -> Law | Delayed:
    """Read `renewal(lomax(beta=1.5), age=2)`; without an age, or of age 0, it is the law of the gaps itself.

    Raises
    ------
    TypeError
        Not text.
    ValueError
        Text of another form, or a law or age that is impossible.
    """
    form = _FORM.match(check_text(field, text, _CURE))
    if form is None:
        raise ValueError(f"{field} must be a renewal process, got {shown(text)}: {_CURE}")
    law, age = as_law(form["law"], field), form["age"]
    if age is None:
        return law
    if age == "stationary":
        return Delayed(law)
    if not NUMBER.fullmatch(age):
        raise ValueError(
            f"{field} must have an age that is a number or stationary, got {shown(age)}: {_CURE}"
        )
    try:
        delayed = Delayed(law, float(age))
    except ValueError as error:
        raise ValueError(str(error).replace("arrivals", field, 1)) from None
    return delayed if delayed.age else law
