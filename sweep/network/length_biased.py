"""Services, or renewal processes, in equilibrium: how old they are and what is left, exact in law."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from sweep.laws import (
    Deterministic,
    Erlang,
    Exponential,
    Gamma,
    Hyperexponential,
    Law,
    Lognormal,
    Lomax,
    Pareto,
    Trace,
    Uniform,
    Weibull,
)
from sweep.laws.base import elementwise
from sweep.network.residuals import LARGEST, decreasing_root, residual_times

Floats = NDArray[np.float64]
Generator = np.random.Generator


def equilibrium_times(law: Law, rng: Generator, size: int) -> tuple[Floats, Floats]:
    """Draw ages and residual times of `size` independent services, or renewal processes, in equilibrium.

    Parameters
    ----------
    law
        Law of the times, of mean 1.
    rng
        Source of random numbers; how many are taken may depend on their values.
    size
        How many.

    Returns
    -------
    tuple of ndarray
        Ages and residuals, each of P(· > a) = ∫_a^∞ Ḡ, shape (size,), at most 1e300.

    Notes
    -----
    A time under way is length-biased, of density t g(t), and its age a uniform share of it.

    Examples
    --------
    >>> from sweep.laws import parse_law
    >>> ages, residuals = equilibrium_times(parse_law("deterministic"), np.random.default_rng(1), 1000)
    >>> bool(np.all(ages + residuals == 1.0)), bool(abs(ages.mean() - 0.5) < 0.04)
    (True, True)
    """
    totals = np.minimum(_TOTALS.get(type(law), _total)(law, rng, size), LARGEST)
    ages = rng.random(size) * totals
    return ages, totals - ages


def _exponential_total(law: Law, rng: Generator, size: int) -> Floats:  # noqa: ARG001 (one signature)
    return rng.standard_gamma(2.0, size)


def _gamma_total(law: Law, rng: Generator, size: int) -> Floats:
    shape = law.origin_exponent
    return rng.standard_gamma(shape + 1.0, size) / shape


def _hyperexponential_total(law: Law, rng: Generator, size: int) -> Floats:
    """With balanced means, half of the jobs in service are of either rate."""
    share = 0.5 * (1.0 + math.sqrt((law.variance - 1.0) / (law.variance + 1.0)))
    rarely = 1.0 / (2.0 * share * (law.variance + 1.0))
    rates = np.where(rng.random(size) < 0.5, 2.0 * share, 2.0 * rarely)
    return np.asarray(rng.standard_gamma(2.0, size) / rates)


def _deterministic_total(law: Law, rng: Generator, size: int) -> Floats:  # noqa: ARG001 (one signature)
    return np.ones(size)


def _uniform_total(law: Law, rng: Generator, size: int) -> Floats:
    """Density t/w between start and end, of mean 1."""
    end = law.support_end
    start = 2.0 - end
    return np.sqrt(start * start + rng.random(size) * ((end - start) * 2.0))


def _lomax_total(law: Law, rng: Generator, size: int) -> Floats:
    """Draw the age, of P(age > a) = (1 + a/s)^{−(β−1)}, then what is left."""
    assert isinstance(law, Lomax)
    ages = np.minimum((law.beta - 1.0) * rng.pareto(law.beta - 1.0, size), LARGEST)
    return ages + residual_times(law, rng, ages)


def _pareto_total(law: Law, rng: Generator, size: int) -> Floats:
    """Density ~ t^{−β} from m on."""
    assert isinstance(law, Pareto)
    return law.breakpoints[0] * (1.0 + rng.pareto(law.beta - 1.0, size))


def _weibull_total(law: Law, rng: Generator, size: int) -> Floats:
    """(T/s)^k has density ~ z^{1/k} e^{−z}."""
    power = 1.0 / law.origin_exponent
    scale = 1.0 / math.gamma(1.0 + power)
    return elementwise(lambda z: scale * z**power, rng.standard_gamma(1.0 + power, size))


def _lognormal_total(law: Law, rng: Generator, size: int) -> Floats:
    """Move the mean of log S by σ², as a factor t = e^{log t} does."""
    assert isinstance(law, Lognormal)
    return rng.lognormal(law.sigma * law.sigma / 2.0, law.sigma, size)


def _trace_total(law: Law, rng: Generator, size: int) -> Floats:
    """Each number in proportion to itself."""
    assert isinstance(law, Trace)
    sums = np.cumsum(law.values)
    places = np.searchsorted(sums, rng.random(size) * sums[-1], side="right")
    return np.asarray(law.values[np.minimum(places, law.values.size - 1)])


def _total(law: Law, rng: Generator, size: int) -> Floats:
    targets = 1.0 - rng.random(size)
    ages = decreasing_root(law.integrated_tail, targets, np.zeros(size), law.support_end)
    return ages + residual_times(law, rng, ages)


_TOTALS: Mapping[type[Law], Callable[[Law, Generator, int], Floats]] = MappingProxyType(
    {
        Exponential: _exponential_total,
        Gamma: _gamma_total,
        Erlang: _gamma_total,
        Hyperexponential: _hyperexponential_total,
        Deterministic: _deterministic_total,
        Uniform: _uniform_total,
        Lomax: _lomax_total,
        Pareto: _pareto_total,
        Weibull: _weibull_total,
        Lognormal: _lognormal_total,
        Trace: _trace_total,
    }
)
