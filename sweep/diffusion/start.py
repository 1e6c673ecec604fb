"""The law of X_0: point masses, a scaled service law, the stationary law, or a sample."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import canonical, check_count, numbers
from sweep.diffusion import kernels
from sweep.diffusion.exact import stationary
from sweep.diffusion.model import Diffusion
from sweep.laws import Law, parse_law
from sweep.wording import shown, suggestion

Floats = NDArray[np.float64]

#: Least ell with draws from a stationary law whose (1 − U)^{−(ell−1)}, U at most 1 − 2^{−53}, may overflow.
_OVERFLOWS = 20
_CURE = (
    'write "empty", "point(x=1.5)", "points(0.5: 0.2, 2: 0.8)", "law(exponential, mean=0.7)" or '
    '"stationary", or give an array of positions'
)
_NAMES = ("empty", "point", "points", "law", "stationary")
_POINT = re.compile(r"point\(\s*x\s*=\s*(?P<x>[^=]*)\)\Z")
_POINTS = re.compile(r"points\((?P<pairs>.*)\)\Z", re.DOTALL)
_LAW = re.compile(r"law\((?P<law>.*),\s*mean\s*=\s*(?P<mean>[^=,()]*)\)\Z", re.DOTALL)
_STATIONARY = re.compile(
    r"stationary\(\s*b1\s*=(?P<b1>[^,()]*),\s*b0\s*=(?P<b0>[^,()]*),\s*ell\s*=(?P<ell>[^,()]*),"
    r"\s*sigma2\s*=(?P<sigma2>[^,()]*)\)\Z"
)
_NUMBER = re.compile(r"\s*(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*\Z", re.ASCII)


class Shape(Protocol):
    """A law of mean 1 as a start needs it; the laws of `sweep.laws` are such, see there."""

    @property
    def support_end(self) -> float: ...  # noqa: D102
    @property
    def breakpoints(self) -> tuple[float, ...]: ...  # noqa: D102
    def survival(self, x: ArrayLike) -> Floats: ...  # noqa: D102
    def integrated_tail(self, x: ArrayLike) -> Floats: ...  # noqa: D102
    def density(self, x: ArrayLike) -> Floats: ...  # noqa: D102
    def sample(self, rng: np.random.Generator, size: int) -> Floats: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Start:
    """The law of X_0 ≥ 0: `weights` at `points`, and the rest as `scale` times the smooth part of `law`.

    `text` is canonical: two starts are the same law, in the same order, when their texts agree. `is_sample`
    says that the points are positions given one by one, not the support of a law.
    """

    text: str
    points: Floats
    weights: Floats
    law: Shape | None = None
    scale: float = 1.0
    is_sample: bool = False

    def survival(self, x: ArrayLike) -> Floats:
        """P(X_0 > x) for x ≥ 0, of the shape of x."""
        positions = np.asarray(x, dtype=np.float64)
        if self.law is not None:
            return self.law.survival(positions / self.scale)
        order = np.argsort(self.points, kind="stable")
        at_or_below = np.concatenate([[0.0], np.cumsum(self.weights[order])])
        below = at_or_below[np.searchsorted(self.points[order], positions, side="right")]
        return np.asarray(1.0 - below / at_or_below[-1])

    def beyond(self, x: float) -> float:
        """E (X_0 − x)⁺, for x ≥ 0."""
        if self.law is not None:
            return self.scale * float(self.law.integrated_tail(x / self.scale))
        return float(np.cumsum(self.weights * np.maximum(self.points - x, 0.0))[-1])

    @property
    def mean(self) -> float:
        """E X_0."""
        return self.scale if self.law is not None else self.beyond(0.0)

    def reach(self, share: float) -> float:
        """Return an x beyond which X_0 lies with probability ≤ `share` (0 for points: none lies beyond)."""
        if self.law is None:
            return float(np.max(self.points))
        if self.law.support_end < math.inf:
            return self.scale * self.law.support_end
        x = self.scale
        while self.law.survival(x / self.scale) > share:
            x *= 1.25
        return x

    def density(self, x: ArrayLike) -> Floats:
        """Density at x ≥ 0 of the part of the law that has one, of the shape of x."""
        positions = np.asarray(x, dtype=np.float64)
        if self.law is None:
            return np.zeros(positions.shape)
        return np.asarray(self.law.density(positions / self.scale) / self.scale)

    def quantile(self, probability: float) -> float:
        """Return the least q with P(X_0 ≤ q) ≥ `probability`, in (0, 1)."""
        low, high = 0.0, self.scale
        if self.survival(0.0) <= 1.0 - probability:
            return 0.0
        while self.survival(high) > 1.0 - probability:
            low, high = high, 2.0 * high
        while low < (middle := low + 0.5 * (high - low)) < high:
            low, high = (middle, high) if self.survival(middle) > 1.0 - probability else (low, middle)
        return high

    def masses(self, cells: int, h: float) -> Floats:
        """Return the masses of cells of width h, shape (cells,), that stand for the law.

        A point is shared by the three cells about it (the quadratic B-spline), so that its mean is exact and
        its variance h²/4 wherever it lies; the smooth part keeps its mean (the linear B-spline). What comes
        to lie below 0 is reflected, what lies beyond the last cell is put into it.
        """
        u = np.zeros(cells)
        if self.law is not None:
            u += self._smooth_masses(self.law, cells, h)
        kernels.share_points(self.points, self.weights, h, u)
        return np.asarray(u / np.cumsum(u)[-1])

    def _smooth_masses(self, law: Shape, cells: int, h: float) -> Floats:
        centers = (np.arange(cells) + 0.5) * h
        tail = self.scale * law.integrated_tail(centers / self.scale)
        for point, weight in zip(self.points.tolist(), self.weights.tolist(), strict=True):
            tail -= weight * np.maximum(point - centers, 0.0)
        # E (X − c)⁺ falls by h times the share of the mass that goes to later cells.
        later = (tail[:-1] - tail[1:]) / h
        mass = 1.0 - sum(self.weights.tolist())
        return np.maximum(-np.diff(np.concatenate([[mass], later, [0.0]])), 0.0)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw `size` independent values of X_0; a sample of that size is returned as it stands."""
        if self.law is not None:
            return self.law.sample(rng, size) * self.scale
        if self.is_sample and self.points.size == size:
            return self.points.copy()
        places = np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(size), side="right")
        return np.asarray(self.points[places])


def as_start(value: str | Start | ArrayLike, field: str = "initial", model: Diffusion | None = None) -> Start:
    """Return the law of X_0 from its text, from positions, or from itself.

    Parameters
    ----------
    value
        "empty" (X_0 = 0), "point(x=1.5)", "points(0.5: 0.2, 2: 0.8)" (the rest of the mass at 0),
        "law(exponential, mean=0.7)" with any law of `sweep.laws`, "stationary" for the stationary law of
        `model`, "stationary(b1=-2, b0=1, ell=2, sigma2=2)" for that of other parameters, or an array of
        positions ≥ 0, shape (n,), of equal weight.
    field
        What the caller's parameter is called, for errors.
    model
        The parameters that "stationary" alone refers to.

    Raises
    ------
    TypeError, ValueError
        Another form; a position, share or mean outside its range; a stationary law that does not exist, is of
        infinite mean, or whose parameters are not known.

    Examples
    --------
    >>> str(as_start("law( lomax(beta=3.0),mean = 2)").text)
    'law(lomax(beta=3), mean=2.0)'
    >>> as_start("points(0.5: 0.2, 2: 0.8)").mean
    1.7000000000000002
    """
    if isinstance(value, Start):
        return value
    if not isinstance(value, str):
        return _sample(value, field)
    text = value.strip()
    if text == "empty":
        return _points({0.0: 1.0})
    if form := _POINT.match(text):
        return _points({_read(form["x"], "x", field, text): 1.0})
    if form := _POINTS.match(text):
        return _shares(form["pairs"], field, text)
    if form := _LAW.match(text):
        return _scaled(parse_law(form["law"], field), _read(form["mean"], "mean", field, text), field, text)
    if text == "stationary" or _STATIONARY.match(text):
        return _stationary(text, field, model)
    near = suggestion(text.partition("(")[0], _NAMES)
    raise ValueError(f"{field} must be a law of X_0, got {shown(text)}{near}: {_CURE}")


def was_infinite(text: str) -> bool:
    """Whether a draw from the start of this canonical text overflowed to inf in versions that did not say so.

    Examples
    --------
    >>> was_infinite("stationary(b1=-2.0, b0=1.0, ell=50, sigma2=2.0)"), was_infinite("empty")
    (True, False)
    """
    form = _STATIONARY.match(text) if text.startswith("stationary(") else None
    return form is not None and int(form["ell"]) >= _OVERFLOWS


def _read(value: str, name: str, field: str, text: str) -> float:
    if not _NUMBER.match(value) or float(value) == math.inf:
        raise ValueError(
            f"{field} must have {name} a number ≥ 0, got {shown(value.strip())} in {shown(text)}: {_CURE}"
        )
    return canonical(float(value))


def _points(shares: dict[float, float]) -> Start:
    kept = {x: shares[x] for x in sorted(shares) if shares[x] > 0.0}
    if list(kept) == [0.0]:
        text = "empty"
    elif len(kept) == 1:
        text = f"point(x={next(iter(kept))!r})"
    else:
        text = "points(" + ", ".join(f"{x!r}: {share!r}" for x, share in kept.items()) + ")"
    return Start(text, np.array(list(kept)), np.array(list(kept.values())))


def _shares(pairs: str, field: str, text: str) -> Start:
    shares: dict[float, float] = {}
    for part in pairs.split(","):
        left, colon, right = part.partition(":")
        if not colon:
            raise ValueError(
                f"{field} must list position: share, got {shown(part.strip())} in {shown(text)}: {_CURE}"
            )
        x = _read(left, "positions", field, text)
        if x in shares:
            raise ValueError(f"{field} must name each position once, got {x:g} twice in {shown(text)}")
        shares[x] = _read(right, "shares", field, text)
    rest = 1.0 - sum(shares.values())
    if rest < -1e-9:
        raise ValueError(f"{field} must have shares that sum to at most 1, got {shown(text)}")
    if rest > 1e-9:
        shares[0.0] = shares.get(0.0, 0.0) + rest
    return _points(shares)


def _stationary(text: str, field: str, model: Diffusion | None) -> Start:
    if form := _STATIONARY.match(text):
        b1, b0, sigma2 = (_signed(form[name], name, field, text) for name in ("b1", "b0", "sigma2"))
        ell = check_count("ell", _read(form["ell"], "ell", field, text), 2)
        model = Diffusion(b1=b1, b0=b0, ell=ell, sigma2=sigma2)
    if model is None:
        raise ValueError(
            f"{field} must say of which parameters it is stationary, got {shown(text)}: "
            'write "stationary(b1=-2, b0=1, ell=2, sigma2=2)"'
        )
    law = stationary(b1=model.b1, b0=model.b0, ell=model.ell, sigma2=model.sigma2)
    if law.mean == math.inf:
        raise ValueError(
            f"{field} must have a finite mean, got the stationary law of {model.text}: take a negative b1"
        )
    canonical_text = f"stationary({model.text.replace(' ', ', ')})"
    return Start(canonical_text, np.empty(0), np.empty(0), law.unit_shape, law.mean)


def _signed(value: str, name: str, field: str, text: str) -> float:
    number = value.strip()
    return (
        -_read(number[1:], name, field, text) if number.startswith("-") else _read(number, name, field, text)
    )


def _scaled(law: Law, mean: float, field: str, text: str) -> Start:
    if mean == 0.0:
        raise ValueError(f"{field} must have a positive mean, got {shown(text)}; X_0 = 0 is written empty")
    points = np.array([age * mean for age, _ in law.atoms])
    weights = np.array([mass for _, mass in law.atoms])
    smooth = law if sum(weights.tolist()) < 1.0 - 1e-9 else None
    return Start(f"law({law}, mean={mean!r})", points, weights, smooth, mean)


def _sample(values: ArrayLike, field: str) -> Start:
    try:
        positions = numbers(field, values).copy()
    except ValueError:
        raise ValueError(f"{field} must be text or numbers, got {shown(values)}: {_CURE}") from None
    if positions.ndim != 1 or positions.size == 0:
        raise ValueError(f"{field} must be a row of positions, got shape {positions.shape}: {_CURE}")
    refused = positions[~((positions >= 0.0) & (positions < math.inf))]
    if refused.size:
        raise ValueError(f"{field} must have finite positions ≥ 0, got {float(refused[0])!r}")
    content = hashlib.sha256(positions.astype("<f8").tobytes()).hexdigest()[:32]
    weights = np.full(positions.size, 1.0 / positions.size)
    return Start(f"sample(n={positions.size}, sha256={content})", positions, weights, is_sample=True)
