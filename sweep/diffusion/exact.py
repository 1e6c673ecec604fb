"""Closed forms of the heavy-traffic limit: its stationary law, and Cole–Hopf for ell = 2 from any start."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.diffusion.model import Diffusion, number
from sweep.diffusion.start import Start, as_start

Floats = NDArray[np.float64]
#: Points of the Gauss–Legendre rule that takes the place of a difference quotient between close arguments.
_POINTS = 24
#: Arguments (times √(Dt)) closer than this are close.
_CLOSE = 0.5


@dataclass(frozen=True, kw_only=True)
class Stationary:
    """The law of one queue X = Q/√m in equilibrium, made by `stationary`.

    With r = b0/|b1| and θ = 2|b1|/σ²,  v(x) = P(X > x) = [r + (1 − r) e^{θ(ell−1)x}]^{−1/(ell−1)}.

    Attributes
    ----------
    mean
        E X = (1/θ) ∫_0^1 dy / (1 − r y^{ell−1}), inf for b1 = 0.
    tail_rate
        θ, the rate at which v decays; 0 for b1 = 0, where v ~ x^{−1/(ell−1)}.
    """

    diffusion: Diffusion
    mean: float
    tail_rate: float

    def v(self, x: ArrayLike) -> Floats:
        """P(X > x) for x ≥ 0 (in units of √m jobs), of the shape of x."""
        return _each(self._v, x)

    def u(self, x: ArrayLike) -> Floats:
        """Density −v′(x) = −(b1 v + b0 v^ell)/D, D = σ²/2, of the shape of x."""
        model = self.diffusion
        return _each(lambda y: -model.flux(self._v(y)) / model.D, x)

    def quantile(self, probability: ArrayLike) -> Floats:
        """Return q with P(X ≤ q) = `probability` in [0, 1), of the shape of `probability`.

        Raises
        ------
        ValueError
            A probability outside [0, 1).
        """
        return _each(self._quantile, probability)

    def _v(self, x: float) -> float:
        if not x >= 0.0:
            raise ValueError(f"x must be at least 0, got {x!r}")
        power = self.diffusion.ell - 1
        rate = self.tail_rate * power
        growth = rate * x
        if growth > 700.0:
            # e^{θ(ell−1)x} overflows, and r has long been negligible beside it.
            return math.exp(-self.tail_rate * x - math.log(self._excess / rate) / power)
        stretched = x if rate == 0.0 else math.expm1(growth) / rate
        return math.exp(-math.log1p(self._excess * stretched) / power)

    def _quantile(self, probability: float) -> float:
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"probability must lie in [0, 1), got {probability!r}")
        power = self.diffusion.ell - 1
        rate = self.tail_rate * power
        stretched = math.expm1(-power * math.log1p(-probability)) / self._excess
        return stretched if rate == 0.0 else math.log1p(rate * stretched) / rate

    @property
    def _excess(self) -> float:
        """Slope at 0 of v^{−(ell−1)}, which solves w′ = −(ell−1)(b1 w + b0)/D."""
        model = self.diffusion
        return -(model.ell - 1) * (model.b1 + model.b0) / model.D


def stationary(*, b1: float, b0: float, ell: int, sigma2: float) -> Stationary:
    """Return the stationary law of the heavy-traffic limit in closed form.

    Parameters
    ----------
    b1, b0
        Drift b1 + b0 ell v^{ell−1}, in units of √m jobs per time m.
    ell
        Choices of an arrival of the second stream, ≥ 2.
    sigma2
        Variance σ² > 0 of the noise per unit of time.

    Returns
    -------
    Stationary
        v, u and quantiles as methods; `mean` to 1e-12 relative, `tail_rate`.

    Raises
    ------
    TypeError, ValueError
        An argument of the wrong type or outside its range.
    ValueError
        There is no stationary law: b1 > 0 or b1 + b0 ≥ 0.

    Notes
    -----
    A steady state of the PDE has b1 v + b0 v^ell = D v_x, a Bernoulli equation (R. Atar and G. Wolansky,
    Invariance principle and McKean–Vlasov limit for randomized load balancing in heavy traffic). For b1 = 0 > b0
    its solution has a power tail and infinite mean. For b1 > 0 > b1 + b0 a share of the mass escapes.

    Examples
    --------
    >>> law = stationary(b1=-2, b0=1, ell=2, sigma2=2)
    >>> round(law.mean, 12) == round(math.log(2), 12)
    True
    >>> float(law.v(0.0)), law.tail_rate
    (1.0, 2.0)
    """
    from scipy.special import hyp2f1

    model = Diffusion(b1=b1, b0=b0, ell=ell, sigma2=sigma2)
    if model.b1 > 0.0 or model.b1 + model.b0 >= 0.0:
        raise ValueError(
            "b1 must be at most 0 and b1 + b0 negative for a stationary law, "
            f"got b1 = {model.b1:g} and b0 = {model.b0:g}; solve_diffusion gives the transient"
        )
    if model.b1 == 0.0:
        return Stationary(diffusion=model, mean=math.inf, tail_rate=0.0)
    theta, c = -model.b1 / model.D, 1.0 / (model.ell - 1)
    # The integral of the class's formula, term by term in r.
    mean = float(hyp2f1(1.0, c, 1.0 + c, -model.b0 / model.b1)) / theta
    return Stationary(diffusion=model, mean=mean, tail_rate=theta)



def cole_hopf(*, b1: float, b0: float, sigma2: float, t: float, x: ArrayLike) -> Floats:
    """Return v(x, t) = P(X_t > x) for ell = 2 and X_0 = 0 exactly, of the shape of x.

    Parameters
    ----------
    b1, b0, sigma2
        As for `stationary`; any signs of b1 and b0, zeros and b1 + b0 = 0 included.
    t
        Scaled time > 0.
    x
        Positions ≥ 0.

    Raises
    ------
    TypeError, ValueError
        An argument of the wrong type or outside its range.

    Notes
    -----
    With α = −b1/σ², κ = (b1 + 2 b0)/σ² and D = σ²/2, the function φ = e^{αx+Dα²t} − (α+κ) f[−α, α, −κ] solves
    φ_t = D φ_xx with φ_x + κφ = 0 at x = 0 and φ = e^{αx} at t = 0, where f[·,·,·] is the second divided
    difference of f(h) = h e^{hx+Dh²t} erfc(x/(2√(Dt)) + h√(Dt)). Then ψ = (φ_x + κφ)/(α+κ) vanishes at x = 0,

        ψ = ½ e^{Dα²t} (e^{αx} erfc(−(x+2Dαt)/(2√(Dt))) − e^{−αx} erfc((x−2Dαt)/(2√(Dt)))),   v = 1 − ψ/φ.

    No term divides by b0. Where two or three arguments of the divided difference are close (b0, b1 or b1 + b0
    near 0) it is an integral of f′ or f″ instead. Absolute error about 1e-13.

    Examples
    --------
    >>> cole_hopf(b1=-2, b0=1, sigma2=2, t=50.0, x=[0.0, 1.0]).round(9).tolist()  # 1/(r + (1−r)e^{2x})
    [1.0, 0.238405844]
    """
    model = Diffusion(b1=b1, b0=b0, ell=2, sigma2=sigma2)
    time = _positive_time(t)
    alpha, kappa = -model.b1 / model.sigma2, (model.b1 + 2.0 * model.b0) / model.sigma2
    return _each(lambda y: _from_empty(alpha, kappa, math.sqrt(model.D * time), y), x)


def _from_empty(alpha: float, kappa: float, width: float, x: float) -> float:
    """v for X_0 = 0, with `width` = √(Dt); everything is multiplied by e^{y²−c}, y = x/(2√(Dt))."""
    from scipy.special import erfc

    if not x >= 0.0:
        raise ValueError(f"x must be at least 0, got {x!r}")
    y = x / (2.0 * width)
    ends = [y + h * width for h in (alpha, -alpha, -kappa)]
    c = max(ends[0] ** 2, *(z * z for z in ends if z < 0.0), 0.0)
    free = math.exp(ends[0] ** 2 - c)
    psi = 0.5 * (free * float(erfc(-ends[0])) - _scaled_erfc(ends[1], c))
    arguments = sorted((-alpha, alpha, -kappa))
    phi = free - (alpha + kappa) * _second_difference(arguments, width, y, c)
    return 1.0 - psi / phi


def _scaled_erfc(z: float, c: float) -> float:
    """Return e^{z²−c} erfc(z); no factor overflows as long as c ≥ z² for z < 0 and c ≥ 0."""
    from scipy.special import erfc, erfcx

    return float(erfcx(z)) * math.exp(-c) if z > 0.0 else float(erfc(z)) * math.exp(z * z - c)


def _derivatives(h: float, width: float, y: float, c: float) -> tuple[float, float, float]:
    """f, f′ and f″ of f(h) = h e^{z²−c} erfc(z) at z = y + h √(Dt)."""
    z = y + h * width
    flat = math.exp(-c) * 2.0 / math.sqrt(math.pi)
    E = _scaled_erfc(z, c)
    E1 = 2.0 * z * E - flat
    E2 = 2.0 * E + 2.0 * z * E1
    return h * E, E + h * width * E1, width * (2.0 * E1 + h * width * E2)


def _second_difference(h: Sequence[float], width: float, y: float, c: float) -> float:
    """f[h0, h1, h2] for h0 ≤ h1 ≤ h2."""
    if (h[2] - h[0]) * width > _CLOSE:
        upper = _difference(h[1], h[2], width, y, c)
        return (upper - _difference(h[0], h[1], width, y, c)) / (h[2] - h[0])
    # Hermite–Genocchi: the mean of f″ over the triangle of convex combinations, times its area.
    nodes, weights = _unit_rule()
    total = 0.0
    for s, ws in zip(nodes, weights, strict=True):
        for r, wr in zip(nodes, weights, strict=True):
            at = h[0] + s * ((h[1] - h[0]) + r * (h[2] - h[1]))
            total += ws * wr * s * _derivatives(at, width, y, c)[2]
    return total


def _difference(a: float, b: float, width: float, y: float, c: float) -> float:
    """f[a, b] for a ≤ b."""
    if (b - a) * width > _CLOSE:
        return (_derivatives(b, width, y, c)[0] - _derivatives(a, width, y, c)[0]) / (b - a)
    nodes, weights = _unit_rule()
    slopes = (_derivatives(a + s * (b - a), width, y, c)[1] for s in nodes)
    return math.fsum(w * slope for w, slope in zip(weights, slopes, strict=True))


@cache
def _unit_rule() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Gauss–Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    return tuple((0.5 + 0.5 * nodes).tolist()), tuple((0.5 * weights).tolist())


def cole_hopf_from(
    initial: str | Start, *, b1: float, b0: float, sigma2: float, t: float, x: ArrayLike
) -> Floats:
    """Return v(x, t) for ell = 2 and any law of X_0, by quadrature to about 1e-10, of the shape of x.

    With φ_0(y) = exp(αy − (2 b0/σ²) ∫_0^y P(X_0 > s) ds) and the Gaussian kernel p of variance σ²t,

        v = 1 − ∫_0^∞ (p(x−y) − p(x+y)) φ_0(y) P(X_0 ≤ y) dy / φ(x),   φ = ∫_0^∞ K(x, y) φ_0(y) dy,
        K = p(x−y) + p(x+y) + κ e^{−κ(x+y)+Dκ²t} erfc((x+y−2Dκt)/(2√(Dt))).

    Parameters
    ----------
    initial
        As `start.as_start` takes it.
    b1, b0, sigma2, t, x
        As for `cole_hopf`, which this does not use.

    Raises
    ------
    TypeError, ValueError
        An argument of the wrong type or outside its range.

    Examples
    --------
    >>> cole_hopf_from("empty", b1=-2, b0=1, sigma2=2, t=50.0, x=[1.0]).round(9).tolist()
    [0.238405844]
    """
    model = Diffusion(b1=b1, b0=b0, ell=2, sigma2=sigma2)
    start, time = as_start(initial), _positive_time(t)
    return _each(lambda y: _from_start(model, start, time, y), x)


def _from_start(model: Diffusion, start: Start, t: float, x: float) -> float:
    if not x >= 0.0:
        raise ValueError(f"x must be at least 0, got {x!r}")
    s2, kappa = model.sigma2, (model.b1 + 2.0 * model.b0) / model.sigma2
    width = math.sqrt(model.D * t)
    end = x + 2.0 * width * (width * model.fastest / s2 + 7.0)

    def exponents(y: float) -> tuple[float, float]:
        # Those of p(x − y) φ_0(y) and of p(x + y) φ_0(y).
        log_phi0 = -(model.b1 * y + 2.0 * model.b0 * (start.mean - start.beyond(y))) / s2
        near, far = (x - y) / (2.0 * width), (x + y) / (2.0 * width)
        return log_phi0 - near * near, log_phi0 - far * far

    def robin(y: float) -> tuple[float, float]:
        return (x + y) / (2.0 * width) - kappa * width, exponents(y)[1]

    grid = [end * i / 200.0 for i in range(201)]
    largest = [exponents(y)[0] for y in grid] + [e + z * z for z, e in map(robin, grid) if z < 0.0]
    c = max(largest)

    def psi(y: float) -> float:
        near, far = exponents(y)
        return (math.exp(near - c) - math.exp(far - c)) * (1.0 - float(start.survival(y)))

    def phi(y: float) -> float:
        (near, far), (z, e) = exponents(y), robin(y)
        third = 2.0 * width * math.sqrt(math.pi) * kappa * _scaled_erfc(z, c - e)
        return math.exp(near - c) + math.exp(far - c) + third

    jumps = [*start.points.tolist()]
    if start.law is not None:
        jumps += [start.scale * age for age in start.law.breakpoints]
    edges = sorted({0.0, end, *(y for y in [*jumps, *grid[::10], x] if 0.0 < y < end)})
    return 1.0 - _integral(psi, edges) / _integral(phi, edges)


def _integral(function: Callable[[float], float], edges: Sequence[float]) -> float:
    from scipy.integrate import quad

    parts = (
        quad(function, a, b, epsabs=1e-15, epsrel=1e-12, limit=200)[0]
        for a, b in zip(edges, edges[1:], strict=False)
    )
    return math.fsum(parts)


def _positive_time(t: Any) -> float:
    time = number("t", t)
    if not 0.0 < time < math.inf:
        raise ValueError(f"t must be positive and finite, got {t!r}")
    return time


def _each(function: Callable[[float], float], values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return np.array([function(value) for value in array.ravel().tolist()]).reshape(array.shape)
