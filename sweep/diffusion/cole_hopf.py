"""The PDE with ell = 2 solved exactly by Cole–Hopf: from X_0 = 0 in closed form, else by quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.diffusion.checks import number
from sweep.diffusion.exact import each
from sweep.diffusion.model import Diffusion
from sweep.diffusion.start import Start, as_start
from sweep.errors import AccuracyError
from sweep.wording import shown

Floats = NDArray[np.float64]
#: Points of the Gauss–Legendre rule that takes the place of a difference quotient between close arguments.
_POINTS = 24
#: Arguments (times √(Dt)) closer than this are close.
_CLOSE = 0.5


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
    return _each(lambda y: _from_empty(alpha, kappa, math.sqrt(model.D * time), y), x, model, time)


def _from_empty(alpha: float, kappa: float, width: float, x: float) -> float:
    """Return v for X_0 = 0, with `width` = √(Dt); everything is multiplied by e^{y²−c}, y = x/(2√(Dt))."""
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
    """Return f, f′ and f″ of f(h) = h e^{z²−c} erfc(z) at z = y + h √(Dt)."""
    z = y + h * width
    flat = math.exp(-c) * 2.0 / math.sqrt(math.pi)
    E = _scaled_erfc(z, c)
    E1 = 2.0 * z * E - flat
    E2 = 2.0 * E + 2.0 * z * E1
    return h * E, E + h * width * E1, width * (2.0 * E1 + h * width * E2)


def _second_difference(h: Sequence[float], width: float, y: float, c: float) -> float:
    """Return f[h0, h1, h2] for h0 ≤ h1 ≤ h2."""
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
    """Return f[a, b] for a ≤ b."""
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
    AccuracyError
        Integrals that the quadrature does not resolve.

    Examples
    --------
    >>> cole_hopf_from("empty", b1=-2, b0=1, sigma2=2, t=50.0, x=[1.0]).round(9).tolist()
    [0.238405844]
    """
    model = Diffusion(b1=b1, b0=b0, ell=2, sigma2=sigma2)
    start, time = as_start(initial, model=model), _positive_time(t)
    return _each(lambda y: _from_start(model, start, time, y), x, model, time)


def _from_start(model: Diffusion, start: Start, t: float, x: float) -> float:
    if not x >= 0.0:
        raise ValueError(f"x must be at least 0, got {x!r}")
    if x == math.inf:
        raise ValueError("x must be finite, got inf")
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

    parts = []
    for a, b in pairwise(edges):
        value, error, _, *trouble = quad(
            function, a, b, epsabs=1e-15, epsrel=1e-12, limit=200, full_output=True
        )
        if trouble:
            raise AccuracyError(
                f"t and x must be within reach of quadrature, got an error of {error:.1e} where X_0 lies "
                f"between {a:g} and {b:g}",
                error,
            )
        parts.append(value)
    return math.fsum(parts)


def _each(function: Callable[[float], float], x: ArrayLike, model: Diffusion, t: float) -> Floats:
    try:
        return each(function, x)
    except (OverflowError, ZeroDivisionError):
        raise ValueError(
            f"b1, b0, sigma2, t and x must be such that numbers do not overflow, got {model.text} t={t!r}: "
            "scale time and length"
        ) from None


def _positive_time(t: Any) -> float:
    time = number("t", t)
    if not 0.0 < time < math.inf:
        raise ValueError(f"t must be positive and finite, got {shown(t)}")
    return time
