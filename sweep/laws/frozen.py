"""Frozen scipy.stats distributions of mean 1 that are laws here, as those laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from sweep.arguments import as_float
from sweep.laws.base import Law
from sweep.laws.bounded import Uniform
from sweep.laws.exponential import Exponential
from sweep.laws.gamma import Erlang, Gamma
from sweep.laws.power import Lomax, Pareto
from sweep.laws.stretched import Lognormal, Weibull
from sweep.wording import shown

_MEAN_TOLERANCE = 1e-9


@runtime_checkable
class FrozenDistribution(Protocol):
    """What `scipy.stats.gamma(2, scale=0.5)` and its like offer."""

    dist: Any
    args: Any
    kwds: Any

    def mean(self) -> Any:
        """Return the mean."""


#: Distribution of scipy.stats → law, from the parameters by name; the mean leaves the scale no choice.
_LAW_OF: Mapping[str, Callable[[Mapping[str, Any]], Law]] = MappingProxyType(
    {
        "expon": lambda given: Exponential(),
        "gamma": lambda given: Gamma(shape=given["a"]),
        "erlang": lambda given: Erlang(k=given["a"]),
        "lomax": lambda given: Lomax(beta=given["c"]),
        "pareto": lambda given: Pareto(beta=given["b"]),
        "weibull_min": lambda given: Weibull(shape=given["c"]),
        "lognorm": lambda given: Lognormal(sigma=given["s"]),
        "uniform": lambda given: Uniform(width=given["scale"]),
    }
)


def from_scipy(frozen: FrozenDistribution, field: str = "G") -> Law:
    """Return the law that a frozen scipy.stats distribution is, with its canonical text.

    Raises
    ------
    ValueError
        The distribution is none of the laws here, is shifted, or its mean is not 1 to 1e-9.

    Examples
    --------
    >>> from scipy import stats
    >>> str(from_scipy(stats.gamma(2, scale=0.5)))
    'gamma(shape=2)'
    >>> from_scipy(stats.expon(scale=2))
    Traceback (most recent call last):
    ...
    ValueError: G must have mean 1, got scipy.stats.expon of mean 2: use scale=1
    """
    name = str(frozen.dist.name)
    if name not in _LAW_OF or not type(frozen.dist).__module__.startswith("scipy.stats"):
        raise ValueError(
            f"{field} must be one of scipy.stats {', '.join(_LAW_OF)}, got {name}: write other laws as "
            "phase_type(alpha=, T=) or as trace(path) of a file of samples"
        )
    shapes = frozen.dist.shapes.split(", ") if frozen.dist.shapes else []
    given = {"loc": 0.0, "scale": 1.0, **dict(zip([*shapes, "loc", "scale"], frozen.args, strict=False))}
    given.update(frozen.kwds)
    mean = as_float(frozen.mean())
    if mean is None:
        raise ValueError(f"{field} must be one law, got scipy.stats.{name} of means {shown(frozen.mean())}")
    if name != "uniform" and given["loc"] != 0.0:
        raise ValueError(f"{field} must have loc 0, got scipy.stats.{name} with loc {given['loc']!r}")
    if not abs(mean - 1.0) <= _MEAN_TOLERANCE:
        cure = f"use scale={float(given['scale']) / mean:.12g}" if name != "uniform" else "centre it on 1"
        raise ValueError(f"{field} must have mean 1, got scipy.stats.{name} of mean {mean:.12g}: {cure}")
    try:
        return _LAW_OF[name](given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{field} must be a possible law, got scipy.stats.{name}: {error}") from None
