"""When jobs arrive: by a renewal process, delayed or not, or Poisson with a rate that follows a profile."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import canonical, check_text, numbers, real
from sweep.delayed import Delayed, parse_delayed
from sweep.laws import Law, as_law, parse_law
from sweep.laws.frozen import FrozenDistribution
from sweep.laws.parameters import NUMBER, number_text
from sweep.wording import shown

Floats = NDArray[np.float64]
_FORM = re.compile(r"\s*profile\s*\((?P<inner>.*)\)\s*\Z", re.DOTALL)
#: Steps of a profile, all periods counted, that a path may follow.
_MOST_STEPS = 10**6
_CURE = 'write "profile(0: 1, 2: 1.5, 4: 0.5)" or "profile(0: 1.5, 5: 0.5, period=10)"'


@final
@dataclass(frozen=True)
class Profile:
    """Poisson arrivals of rate λ(t) = λ · profile(t), piecewise constant and right-continuous.

    `steps` holds (time, factor): the factor holds from that time on, the first time being 0; with a `period`,
    inf for none, all repeats. Values are canonical: of 12 digits, steps that change nothing dropped.

    Raises
    ------
    TypeError
        A period that is no number.
    ValueError
        Steps that are no pairs of numbers; times that do not increase from 0, factors below 0 or all 0, a
        period not after the last step.

    Examples
    --------
    >>> profile = parse_profile("profile(0: 1.50, 5: 0.5, period=10)")
    >>> str(profile)
    'profile(0: 1.5, 5: 0.5, period=10)'
    >>> profile.rate([4.9, 5.0, 12.0]).tolist(), profile.integral([5.0, 20.0]).tolist()
    ([1.5, 0.5, 1.5], [7.5, 20.0])
    >>> profile.inverse([7.5, 8.0]).tolist(), profile.breakpoints(20.0)
    ([5.0, 6.0], (5.0, 10.0, 15.0))
    """

    steps: tuple[tuple[float, float], ...]
    period: float = math.inf

    def __post_init__(self) -> None:
        steps = _steps(self.steps)
        times, period = [t for t, _ in steps], canonical(real("period", self.period))
        if not times or times[0] != 0.0:
            raise ValueError(
                f"arrivals must have a profile that starts at time 0, got {shown(self.steps)}: {_CURE}"
            )
        if any(not before < after < math.inf for before, after in pairwise(times)):
            raise ValueError(f"arrivals must have a profile of increasing times, got {shown(times)}: {_CURE}")
        for _, factor in steps:
            if not 0.0 <= factor < math.inf:
                raise ValueError(
                    f"arrivals must have a profile of finite factors ≥ 0, got {factor!r}: {_CURE}"
                )
        if all(factor == 0.0 for _, factor in steps):
            raise ValueError(
                f"arrivals must have a profile that is not 0 throughout, got {shown(self.steps)}"
            )
        if not period > times[-1]:
            raise ValueError(
                f"arrivals must have a period after the last step, got {self.period!r} "
                f"with a step at {times[-1]:g}: {_CURE}"
            )
        kept = [step for i, step in enumerate(steps) if i == 0 or step[1] != steps[i - 1][1]]
        object.__setattr__(self, "steps", tuple(kept))
        object.__setattr__(self, "period", period if len(kept) > 1 else math.inf)

    def __str__(self) -> str:
        parts = [f"{number_text(t)}: {number_text(factor)}" for t, factor in self.steps]
        if self.period < math.inf:
            parts.append(f"period={number_text(self.period)}")
        return f"profile({', '.join(parts)})"

    @property
    def identity(self) -> str:
        """The text that stands for the profile in keys."""
        return str(self)

    @property
    def most(self) -> float:
        """The largest factor."""
        return max(factor for _, factor in self.steps)

    @cached_property
    def _sums(self) -> tuple[float, ...]:
        """∫ profile up to each step, and up to the end of a period."""
        sums, ends = [0.0], [*(t for t, _ in self.steps[1:]), self.period]
        for (t, factor), end in zip(self.steps, ends, strict=True):
            sums.append(sums[-1] + (factor * (end - t) if factor > 0.0 else 0.0))
        return tuple(sums)

    def rate(self, times: ArrayLike) -> Floats:
        """Return profile(t) at times ≥ 0 of any shape.

        Raises
        ------
        ValueError
            A time that is no number ≥ 0, or infinite where the profile repeats (so for the next two).
        """
        return self._each(times, lambda t: self.steps[self._place(self._split(t)[1])][1])

    def integral(self, times: ArrayLike) -> Floats:
        """Return ∫_0^t profile at times ≥ 0 of any shape."""
        return self._each(times, self._integral)

    def inverse(self, integrals: ArrayLike) -> Floats:
        """Return the least t with ∫_0^t profile = y for each y ≥ 0, inf where the integral never gets there.

        A Poisson process of rate λ(t) is one of rate λ whose times y are moved to this t.
        """
        return self._each(integrals, self._inverse)

    def breakpoints(self, horizon: float) -> tuple[float, ...]:
        """Return the times in (0, horizon) at which the rate jumps.

        Raises
        ------
        TypeError, ValueError
            A horizon that is no finite number, or up to which there are more than a million.
        """
        horizon = real("horizon", horizon)
        if not math.isfinite(horizon):
            raise ValueError(f"horizon must be finite, got {horizon:g}")
        check_periods(self, horizon)
        times = [t for t, _ in self.steps]
        if self.period == math.inf:
            return tuple(t for t in times if 0.0 < t < horizon)
        if self.steps[0][1] == self.steps[-1][1]:
            times = times[1:]
        count = math.ceil(horizon / self.period)
        found = (k * self.period + t for k in range(count) for t in times)
        return tuple(t for t in found if 0.0 < t < horizon)

    def _split(self, time: float) -> tuple[int, float]:
        """Return the number of whole periods before a time, and the rest."""
        if self.period == math.inf:
            return 0, time
        count = math.floor(time / self.period)
        return count, max(time - count * self.period, 0.0)

    def _place(self, time: float) -> int:
        return bisect_right(self.steps, time, key=lambda step: step[0]) - 1

    def _integral(self, time: float) -> float:
        count, rest = self._split(time)
        place = self._place(rest)
        start, factor = self.steps[place]
        whole = count * self._sums[-1] if count else 0.0
        return whole + self._sums[place] + (factor * (rest - start) if factor > 0.0 else 0.0)

    def _inverse(self, y: float) -> float:
        count, whole = 0, self._sums[-1]
        if self.period < math.inf:
            count = max(math.ceil(y / whole) - 1, 0)
            y = min(y - count * whole, whole)
        if y <= 0.0:
            return count * self.period if count else 0.0
        place = next((i for i in range(len(self.steps)) if self._sums[i + 1] >= y), None)
        if place is None or self.steps[place][1] == 0.0:
            return math.inf
        start, factor = self.steps[place]
        before = count * self.period if count else 0.0
        return before + start + (y - self._sums[place]) / factor

    def _each(self, values: ArrayLike, function: Callable[[float], float]) -> Floats:
        given = numbers("times of a profile", values)
        refused = given[~((given >= 0.0) & ((given < math.inf) | (self.period == math.inf)))]
        if refused.size:
            rule = "finite where it repeats" if refused.flat[0] > 0.0 else "at least 0"
            raise ValueError(f"times of a profile must be {rule}, got {float(refused.flat[0])!r}")
        results = np.fromiter(map(function, given.ravel().tolist()), dtype=np.float64, count=given.size)
        return results.reshape(given.shape)


def parse_profile(text: str, field: str = "arrivals") -> Profile:
    """Read `profile(0: 1, 2: 1.5)` or `profile(0: 1.5, 5: 0.5, period=10)`.

    Raises
    ------
    TypeError
        Not text.
    ValueError
        Text of another form, or a profile that is impossible.
    """
    form = _FORM.match(check_text(field, text, _CURE))
    if form is None:
        raise ValueError(f"{field} must be a profile, got {shown(text)}: {_CURE}")
    steps: list[tuple[float, float]] = []
    period = math.inf
    for part in form["inner"].split(","):
        name, sign, value = part.partition("=")
        if sign and name.strip() == "period" and NUMBER.fullmatch(value.strip()) and period == math.inf:
            period = float(value)
            continue
        pair: Sequence[str] = [number.strip() for number in part.split(":")]
        if len(pair) != 2 or not all(NUMBER.fullmatch(number) for number in pair):
            raise ValueError(
                f"{field} must list time: factor, got {shown(part.strip())} in {shown(text)}: {_CURE}"
            )
        steps.append((float(pair[0]), float(pair[1])))
    try:
        return Profile(tuple(steps), period)
    except ValueError as error:
        raise ValueError(str(error).replace("arrivals", field, 1)) from None


def _steps(steps: object) -> list[tuple[float, float]]:
    """Return pairs of canonical numbers."""
    table = numbers("arrivals", steps, _CURE)  # type: ignore[arg-type]
    if table.shape != (0,) and table.shape[1:] != (2,):
        raise ValueError(f"arrivals must have a profile of pairs (time, factor), got {shown(steps)}: {_CURE}")
    return [(canonical(t), canonical(factor)) for t, factor in table.tolist()]


def check_periods(arrivals: Law | Delayed | Profile, horizon: float) -> None:
    """Refuse a profile that repeats more than a million steps up to the horizon.

    Raises
    ------
    ValueError
        So short a period, or so late a horizon.
    """
    if not isinstance(arrivals, Profile):
        return
    steps = horizon / arrivals.period * len(arrivals.steps)
    if steps > _MOST_STEPS:
        raise ValueError(
            f"arrivals must have at most {_MOST_STEPS} steps up to the last time {horizon:g}, "
            f"got {arrivals}, which has {steps:.1e}: take a longer period"
        )


def as_arrivals(
    value: str | Law | Delayed | Profile | FrozenDistribution, field: str = "arrivals"
) -> Law | Delayed | Profile:
    """Return the law of the gaps, or that with an age, or the profile of the rate, from its text or itself.

    Delayed arrivals of age 0 are the law of the gaps itself.

    Raises
    ------
    TypeError
        None of these.
    ValueError
        Text that is none of them.

    Examples
    --------
    >>> str(as_arrivals("deterministic")), str(as_arrivals("profile( 0:1, 2:3.0 )"))
    ('deterministic', 'profile(0: 1, 2: 3)')
    >>> str(as_arrivals("renewal(erlang(k=2), age=1.0)")), str(as_arrivals("renewal(erlang(k=2), age=0)"))
    ('renewal(erlang(k=2), age=1)', 'erlang(k=2)')
    """
    if isinstance(value, Delayed):
        return value.law if value.age == 0.0 else value
    if isinstance(value, Profile):
        return value
    if isinstance(value, str) and value.strip().startswith("profile"):
        return parse_profile(value, field)
    if isinstance(value, str) and value.strip().startswith("renewal"):
        return parse_delayed(value, field)
    if isinstance(value, str):
        return parse_law(value, field, also=("renewal(law, age=2)", "profile(0: 1, 5: 0.5)"))
    return as_law(value, field)
