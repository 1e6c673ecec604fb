"""The parameters of the heavy-traffic limit: drift b1 + b0 ell v^{ell−1} and variance σ²."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sweep.arguments import check_count
from sweep.diffusion.checks import finite, number
from sweep.laws import Law, as_law
from sweep.wording import shown

#: Largest ell.
MOST_CHOICES = 1000
#: Least σ², of which float64 still holds the digits.
_LEAST = 1e-300
_MOST_SERVERS = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class Diffusion:
    """Parameters of dX = (b1 + b0 ell v(X, t)^{ell−1}) dt + σ dW + dL, reflected at 0, checked when made.

    Parameters
    ----------
    b1, b0
        Any finite numbers: excess rate of the uniform stream and rate of the stream with ell choices, both
        times √m, per server.
    ell
        Queues that an arrival of the second stream samples, 2 … 1000.
    sigma2
        Variance σ² > 0 of the noise per unit of (scaled) time; see `sigma2_of`.

    Raises
    ------
    TypeError, ValueError
        A value of the wrong type or outside its range.

    Examples
    --------
    >>> Diffusion(b1=-2, b0=1, ell=2, sigma2=2).text
    'b1=-2.0 b0=1.0 ell=2 sigma2=2.0'
    """

    b1: float
    b0: float
    ell: int
    sigma2: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "b1", finite("b1", self.b1))
        object.__setattr__(self, "b0", finite("b0", self.b0))
        object.__setattr__(self, "ell", check_count("ell", self.ell, 2, MOST_CHOICES))
        sigma2 = number("sigma2", self.sigma2)
        if sigma2 == math.inf:
            raise ValueError(
                "sigma2 must be finite, got inf: the limit needs service times of finite variance, "
                "such as lomax(beta=2.5)"
            )
        if not sigma2 > 0.0:
            raise ValueError(f"sigma2 must be positive, got {shown(self.sigma2)}")
        if sigma2 < _LEAST:
            raise ValueError(f"sigma2 must be at least {_LEAST:g}, got {shown(self.sigma2)}: scale length")
        object.__setattr__(self, "sigma2", sigma2)

    @property
    def D(self) -> float:
        """Diffusion coefficient σ²/2."""
        return 0.5 * self.sigma2

    @property
    def text(self) -> str:
        """Canonical text, part of the key of random streams."""
        return f"b1={self.b1!r} b0={self.b0!r} ell={self.ell} sigma2={self.sigma2!r}"

    def flux(self, v: float) -> float:
        """F(v) = b1 v + b0 v^ell, the part of the flux of v that drift makes."""
        power = 1.0
        for _ in range(self.ell - 1):
            power *= v
        return v * (self.b1 + self.b0 * power)

    @property
    def fastest(self) -> float:
        """Largest |drift| at any v in [0, 1]; the drift is monotone in v."""
        return max(abs(self.b1), abs(self.b1 + self.b0 * self.ell))


def sigma2_of(G: str | Law, arrivals: str | Law = "exponential", n: int | None = None) -> float:
    """Return σ² = 1 + (C_a² − 1)/n + Var(S) of a queue that serves one n-th of a renewal stream.

    Parameters
    ----------
    G
        Service law, of unit mean.
    arrivals
        Law of the gaps, of squared coefficient of variation C_a²: a stream of which each arrival is kept
        with probability 1/n has 1 + (C_a² − 1)/n.
    n
        Number of servers; None stands for the limit, where the stream is Poisson whatever its gaps are.

    Raises
    ------
    TypeError, ValueError
        Not a law, or not a number of servers.
    ValueError
        A variance that enters is infinite.

    Examples
    --------
    >>> sigma2_of("erlang(k=4)"), sigma2_of("exponential", "deterministic", n=4)
    (1.25, 1.75)
    """
    service, gaps = as_law(G, "G"), as_law(arrivals, "arrivals")
    servers = None if n is None else check_count("n", n, most=_MOST_SERVERS)
    if service.variance == math.inf:
        raise ValueError(
            f"G must have finite variance in heavy traffic, got {service}: "
            "take for example lomax(beta=2.5) or lognormal(sigma=1)"
        )
    if servers is None:
        return 1.0 + service.variance
    if gaps.variance == math.inf:
        raise ValueError(f"arrivals must have finite variance for a finite n, got {gaps}: leave n out")
    return 1.0 + (gaps.variance - 1.0) / servers + service.variance
