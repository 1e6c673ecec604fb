"""What is left of a service or gap of a given age: random draws, exact in law."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from sweep.laws import Deterministic, Exponential, Law, Lomax, Pareto, Trace, Uniform

Floats = NDArray[np.float64]
Generator = np.random.Generator

#: Times drawn, one after the other, until one exceeds the age; each does with probability Ḡ(age).
_DRAWS = 32
#: Largest time: sums of two are finite.
LARGEST = 1e300
#: Steps of the search for a root, of which every third halves the interval: enough for any two ages.
_STEPS = 3300
#: Error of a value, relative to the target, that counts as none: functions of age are good to 2e-14.
_ROUNDING = 1e-13


def residual_times(law: Law, rng: Generator, ages: Floats) -> Floats:
    """Draw S − a given S > a, independently for each age.

    Parameters
    ----------
    law
        Law of S.
    rng
        Source of random numbers; how many are taken may depend on their values.
    ages
        Ages a ≥ 0 with Ḡ(a) > 0, shape (size,), in mean service times.

    Returns
    -------
    ndarray
        Residual times, shape (size,): P(S − a > r | S > a) = Ḡ(a + r)/Ḡ(a).

    Notes
    -----
    Where the law is not of a form that age leaves alone, times are drawn until one exceeds the age. Where 32
    of them do not, log Ḡ(a + r) = log Ḡ(a) − E is solved for r with an exponential E, to 1e-13. The bits are
    the same on every processor.

    Examples
    --------
    >>> from sweep.laws import parse_law
    >>> rng = np.random.default_rng(1)
    >>> residual_times(parse_law("deterministic"), rng, np.array([0.25, 0.5])).tolist()
    [0.75, 0.5]
    """
    return _RESIDUALS.get(type(law), _residual)(law, rng, ages)


# ---- laws of a form that age leaves alone -----------------------------------------------------------------


def _exponential_residual(law: Law, rng: Generator, ages: Floats) -> Floats:
    return law.sample(rng, ages.size)


def _deterministic_residual(law: Law, rng: Generator, ages: Floats) -> Floats:  # noqa: ARG001 (one signature)
    return 1.0 - ages


def _uniform_residual(law: Law, rng: Generator, ages: Floats) -> Floats:
    """S given S > a is uniform between the later of a and the start, and the end."""
    end = law.support_end
    start = np.maximum(ages, 2.0 - end)
    return (start - ages) + (end - start) * (1.0 - rng.random(ages.size))


def _lomax_residual(law: Law, rng: Generator, ages: Floats) -> Floats:
    """Ḡ(a + r)/Ḡ(a) = (1 + r/(s + a))^{−β}: the law itself, s + a in place of s = β − 1."""
    assert isinstance(law, Lomax)
    return (law.beta - 1.0 + ages) * rng.pareto(law.beta, ages.size)


def _pareto_residual(law: Law, rng: Generator, ages: Floats) -> Floats:
    """S given S > a has the larger of a and m in place of m."""
    assert isinstance(law, Pareto)
    start = np.maximum(ages, law.breakpoints[0])
    return (start - ages) + start * rng.pareto(law.beta, ages.size)


def _trace_residual(law: Law, rng: Generator, ages: Floats) -> Floats:
    """One of the larger numbers, each as likely."""
    assert isinstance(law, Trace)
    size = law.values.size
    passed = np.searchsorted(law.values, ages, side="right")
    drawn = passed + (rng.random(ages.size) * (size - passed)).astype(np.int64)
    return np.asarray(law.values[np.minimum(drawn, size - 1)] - ages)


_RESIDUALS: Mapping[type[Law], Callable[[Law, Generator, Floats], Floats]] = MappingProxyType(
    {
        Exponential: _exponential_residual,
        Deterministic: _deterministic_residual,
        Uniform: _uniform_residual,
        Lomax: _lomax_residual,
        Pareto: _pareto_residual,
        Trace: _trace_residual,
    }
)
# ---- any law ----------------------------------------------------------------------------------------------


def _residual(law: Law, rng: Generator, ages: Floats) -> Floats:
    residuals, pending = np.empty(ages.size), np.arange(ages.size)
    for _ in range(_DRAWS):
        times = law.sample(rng, pending.size)
        met = times > ages[pending]
        residuals[pending[met]] = times[met] - ages[pending[met]]
        pending = pending[~met]
    old = ages[pending]
    targets = law.log_survival(old) - rng.standard_exponential(old.size)
    residuals[pending] = decreasing_root(law.log_survival, targets, old, law.support_end) - old
    return residuals


def decreasing_root(
    function: Callable[[Floats], Floats], targets: Floats, low: Floats, most: float
) -> Floats:
    """Return x where a decreasing function falls to its target or below it, for each target.

    Parameters
    ----------
    function
        Acts entry by entry on x of shape (size,); it may fall to −inf, and is at most the target at `most`.
    targets
        Shape (size,).
    low
        Where each search begins, with function(low) ≥ target, shape (size,).
    most
        Where it ends, inf for nowhere.

    Notes
    -----
    False position with the Illinois rule, every third step a bisection, until the value meets the target to
    rounding or the ends are neighbours. No step depends on other entries, so results do not depend on the
    size.
    """
    left, right = low.copy(), np.minimum(2.0 * low + 1.0, most)
    left_value, right_value = function(left) - targets, function(right) - targets
    while (short := np.flatnonzero((right_value > 0.0) & (right < LARGEST))).size:
        left[short], left_value[short] = right[short], right_value[short]
        right[short] = np.minimum(2.0 * right[short], most)
        right_value[short] = function(right[short]) - targets[short]
    kept = np.zeros(left.size, dtype=np.int64)  # which end the last step left alone: −1, 1, or none
    active = np.arange(left.size)
    for step in range(_STEPS):
        a, b = left[active], right[active]
        middle = a + 0.5 * (b - a)
        open_ = (middle > a) & (middle < b) & (left_value[active] > 0.0)
        active, a, b, middle = active[open_], a[open_], b[open_], middle[open_]
        if not active.size:
            break
        if step % 3 < 2:
            middle = _between(a, b, left_value[active], right_value[active], middle)
        value = function(middle) - targets[active]
        met = np.abs(value) <= _ROUNDING * np.abs(targets[active])
        a, value = np.where(met, middle, a), np.where(met, 0.0, value)
        above = value > 0.0
        side = np.where(above, 1, -1)
        again = kept[active] == side
        # Illinois: an end that is left alone twice counts half, so that the next step passes it by.
        halved = np.where(again, 0.5, 1.0)
        left[active] = np.where(above, middle, a)
        right[active] = np.where(above, b, middle)
        left_value[active] = np.where(above, value, left_value[active] * halved)
        right_value[active] = np.where(above, right_value[active] * halved, value)
        kept[active] = side
    return np.where(left_value > 0.0, right, left)


def _between(a: Floats, b: Floats, above: Floats, below: Floats, middle: Floats) -> Floats:
    """Return where the chord crosses 0, or the middle where that is no point inside."""
    finite = np.isfinite(above) & np.isfinite(below) & (above > below)
    drop = np.where(finite, above - below, 1.0)
    point = a + (b - a) * (np.where(finite, above, 0.5) / drop)
    return np.where(finite & (point > a) & (point < b), point, middle)
