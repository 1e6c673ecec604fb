"""The stationary law of the heavy-traffic limit in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import numbers
from sweep.diffusion.model import Diffusion

Floats = NDArray[np.float64]

#: Exponents whose exponential float64 holds with room, and at all.
_MOST_GROWTH, _LAST_GROWTH = 700.0, 709.78
#: r y below which SciPy's ₂F₁ for ell = 2 has lost digits to cancellation.
_FAR = -1e5


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
        """P(X > x) for x ≥ 0 (in units of √m jobs), of the shape of x.

        Raises
        ------
        ValueError
            An x that is no number, or below 0 (so for the next two).
        """
        return each(self._v, x)

    def u(self, x: ArrayLike) -> Floats:
        """Density −v′(x) = −(b1 v + b0 v^ell)/D, D = σ²/2, of the shape of x."""
        model = self.diffusion
        return each(lambda y: -model.flux(self._v(y)) / model.D, x)

    def quantile(self, probability: ArrayLike) -> Floats:
        """Return q with P(X ≤ q) = `probability` in [0, 1), of the shape of `probability`.

        Raises
        ------
        ValueError
            A probability outside [0, 1).
        """
        return each(self._quantile, probability, "probability")

    def beyond(self, x: ArrayLike) -> Floats:
        """E (X − x)⁺ for x ≥ 0, of the shape of x: (1/θ) ∫_0^{v(x)} dy / (1 − r y^{ell−1})."""
        return each(self._beyond, x)

    @property
    def unit_shape(self) -> UnitShape:
        """The law of X/E X."""
        return UnitShape(self)

    def _beyond(self, x: float) -> float:
        if self.tail_rate == 0.0:
            return math.inf
        return truncated_mean(self.diffusion, self._v(x))

    def _v(self, x: float) -> float:
        if not x >= 0.0:
            raise ValueError(f"x must be at least 0, got {x!r}")
        power = self.diffusion.ell - 1
        rate = self.tail_rate * power
        growth = rate * x
        stretched = math.inf if growth > _MOST_GROWTH else x if rate == 0.0 else math.expm1(growth) / rate
        grown = self._excess * stretched
        if grown == math.inf and rate > 0.0:
            # e^{θ(ell−1)x} or a multiple of it overflows, and r has long been negligible beside it.
            return math.exp(-self.tail_rate * x - math.log(self._excess / rate) / power)
        return math.exp(-math.log1p(grown) / power)

    def _quantile(self, probability: float) -> float:
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"probability must lie in [0, 1), got {probability!r}")
        power = self.diffusion.ell - 1
        rate = self.tail_rate * power
        growth = -power * math.log1p(-probability)
        stretched = math.inf if growth > _LAST_GROWTH else math.expm1(growth) / self._excess
        if rate * stretched == math.inf:
            return (growth + math.log(rate / self._excess)) / rate
        return stretched if rate == 0.0 else math.log1p(rate * stretched) / rate

    @property
    def _excess(self) -> float:
        """Slope at 0 of v^{−(ell−1)}, which solves w′ = −(ell−1)(b1 w + b0)/D."""
        model = self.diffusion
        return -(model.ell - 1) * (model.b1 + model.b0) / model.D


@dataclass(frozen=True)
class UnitShape:
    """A stationary law of finite mean, divided by its mean: `start.Shape`, with the members of a `Law`."""

    of: Stationary

    @property
    def support_end(self) -> float:
        """No bound."""
        return math.inf

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """None: v is smooth."""
        return ()

    def survival(self, x: ArrayLike) -> Floats:
        """P(X > x E X)."""
        return self.of.v(np.asarray(x, dtype=np.float64) * self.of.mean)

    def integrated_tail(self, x: ArrayLike) -> Floats:
        """E (X/E X − x)⁺."""
        return self.of.beyond(np.asarray(x, dtype=np.float64) * self.of.mean) / self.of.mean

    def density(self, x: ArrayLike) -> Floats:
        """Density of X/E X."""
        return self.of.u(np.asarray(x, dtype=np.float64) * self.of.mean) * self.of.mean

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw `size` independent values by inversion, a uniform number each."""
        return self.of.quantile(rng.random(size)) / self.of.mean


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
    A steady state of the PDE of R. Atar and G. Wolansky (Invariance principle and McKean–Vlasov limit for
    randomized load balancing in heavy traffic) has b1 v + b0 v^ell = D v_x, a Bernoulli equation. For
    b1 = 0 > b0 its solution has a power tail and infinite mean. For b1 > 0 > b1 + b0 a share of the mass
    escapes to infinity.

    Examples
    --------
    >>> law = stationary(b1=-2, b0=1, ell=2, sigma2=2)
    >>> round(law.mean, 12) == round(math.log(2), 12)
    True
    >>> float(law.v(0.0)), law.tail_rate
    (1.0, 2.0)
    """
    model = Diffusion(b1=b1, b0=b0, ell=ell, sigma2=sigma2)
    if model.b1 > 0.0 or model.b1 + model.b0 >= 0.0:
        raise ValueError(
            "b1 must be at most 0 and b1 + b0 negative for a stationary law, "
            f"got b1 = {model.b1:g} and b0 = {model.b0:g}; solve_diffusion gives the transient"
        )
    if model.b1 == 0.0:
        return Stationary(diffusion=model, mean=math.inf, tail_rate=0.0)
    return Stationary(diffusion=model, mean=truncated_mean(model, 1.0), tail_rate=-model.b1 / model.D)


def truncated_mean(model: Diffusion, v: float) -> float:
    """Return (1/θ) ∫_0^v dy / (1 − r y^{ell−1}), by its series in r y^{ell−1} summed as ₂F₁."""
    from scipy.special import hyp2f1

    theta, c = -model.b1 / model.D, 1.0 / (model.ell - 1)
    argument = -model.b0 / model.b1
    for _ in range(model.ell - 1):
        argument *= v
    if model.ell == 2 and argument < _FAR:
        return v * math.log1p(-argument) / -argument / theta
    return v * float(hyp2f1(1.0, c, 1.0 + c, argument)) / theta


def each(function: Callable[[float], float], values: ArrayLike, name: str = "x") -> Floats:
    """Apply a function of one number to each of an array, whose shape is kept.

    Raises
    ------
    ValueError
        An entry that is no number.
    """
    array = numbers(name, values)
    return np.array([function(value) for value in array.ravel().tolist()]).reshape(array.shape)
