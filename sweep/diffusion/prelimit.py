"""Networks on the way to the heavy-traffic limit: rates at finite m, and equilibria there for N → ∞."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.arguments import check_count, real, row
from sweep.cell import Limit
from sweep.diffusion.checks import finite
from sweep.diffusion.density import extrapolate
from sweep.diffusion.model import MOST_CHOICES, sigma2_of
from sweep.errors import AccuracyError
from sweep.laws import Law, as_law
from sweep.wording import shown

Floats = NDArray[np.float64]

#: Share of queues below which a longer queue adds nothing to a mean, and levels at most.
_NOTHING, _MOST_LEVELS = 1e-20, 10**6
#: Largest estimated error of a mean, as a share of it.
_ERROR = 1e-4
#: What the three last means weigh when two terms are eliminated, in absolute value.
_WEIGHTS = (1.0 / 3.0, 2.0, 8.0 / 3.0)


def prelimit(m: float, b1: float, b0: float) -> tuple[float, float]:
    """Return the arrival rate λ per server and the fraction p of arrivals that choose, at scale m.

    The uniform stream has rate 1 + b1/√m per server, the stream that joins the shortest of ell has b0/√m:
    λ = 1 + (b1 + b0)/√m and p = b0/(√m λ).

    Parameters
    ----------
    m
        Scale: queues are of the order of √m jobs, time of m mean service times.
    b1, b0
        Drifts of the limit.

    Raises
    ------
    TypeError, ValueError
        m below 1, a drift that is not finite.
    ValueError
        A stream of negative rate (b0 < 0, or b1 < −√m), or no arrivals at all.

    Examples
    --------
    >>> prelimit(100, -2, 1)
    (0.9, 0.11111111111111112)
    """
    scale, slope, choice = finite("m", m), finite("b1", b1), finite("b0", b0)
    if scale < 1.0:
        raise ValueError(f"m must be at least 1, got {shown(m)}")
    if choice < 0.0:
        raise ValueError(
            f"b0 must be at least 0 for a network, got {shown(b0)}: a stream of arrivals has no negative "
            "rate; solve_diffusion and simulate_particles take it"
        )
    root = math.sqrt(scale)
    if slope < -root:
        raise ValueError(
            f"m must be at least b1² = {slope * slope:g} for a network, got {shown(m)}: "
            "the uniform stream has rate 1 + b1/√m"
        )
    lam = 1.0 + (slope + choice) / root
    if lam <= 0.0:
        raise ValueError(f"m must be above b1² = {slope * slope:g} for jobs to arrive, got {shown(m)}")
    return lam, min(choice / root / lam, 1.0)


def prelimit_tails(m: float, b1: float, b0: float, ell: int) -> Floats:
    """Return S_0 = 1, S_1, … of the invariant state at scale m for N → ∞, exponential service.

    Arrivals at queues of length ≥ k balance departures from those of length ≥ k + 1:
    S_{k+1} = λφ(S_k) = S_k + m^{−1/2} (b1 S_k + b0 S_k^ell), an Euler step of the stationary equation.

    Parameters
    ----------
    m, b1, b0
        As for `prelimit`.
    ell
        Queues that an arrival of the second stream samples, ≥ 2.

    Raises
    ------
    TypeError, ValueError
        As `prelimit`; ell below 2; b1 + b0 ≥ 0, where there is no invariant state.
    AccuracyError
        Queues so long that a million levels do not hold them.

    Examples
    --------
    >>> prelimit_tails(100, -2, 1, 2)[:3].tolist()
    [1.0, 0.9, 0.801]
    """
    m, b1, b0 = real("m", m), real("b1", b1), real("b0", b0)
    choices = _checked(m, b1, b0, ell)
    step, tails = 1.0 / math.sqrt(m), [1.0]
    # A level has at least the share 1 + b1/√m of the one below.
    least = math.exp(_MOST_LEVELS * math.log1p(b1 * step)) if b1 * step > -1.0 else 0.0
    if least > _NOTHING:
        raise _too_long(m, b1, b0, least)
    while tails[-1] > _NOTHING:
        power = tails[-1]
        for _ in range(choices - 1):
            power *= tails[-1]
        tails.append(tails[-1] + step * (b1 * tails[-1] + b0 * power))
        if len(tails) > _MOST_LEVELS:
            raise _too_long(m, b1, b0, tails[-1])
    return np.array(tails)


def prelimit_mean(m: float, b1: float, b0: float, ell: int, G: str | Law = "exponential") -> float:
    """Return E X = E Q/√m of the invariant state at scale m for N → ∞, in units of √m jobs, to 1e-4 of it.

    Parameters
    ----------
    m, b1, b0, ell
        As for `prelimit_tails`.
    G
        Service law of finite variance.

    Raises
    ------
    TypeError, ValueError
        As `prelimit_tails`; a law of infinite variance.
    AccuracyError
        The invariant state is out of reach, or queues are so long that its mean is.

    Examples
    --------
    >>> round(prelimit_mean(100, -2, 1, 2), 4), round(prelimit_mean(100, -2, 1, 2, "erlang(k=4)"), 4)
    (0.6135, 0.4159)
    """
    return _mean(m, b1, b0, ell, G).value


@dataclass(frozen=True)
class Extrapolated:
    """A value at m = ∞ and the estimate of its error."""

    value: float
    error: float


@dataclass(frozen=True)
class _Mean:
    value: float
    error: float


def _mean(m: float, b1: float, b0: float, ell: int, G: str | Law) -> _Mean:
    """Return `prelimit_mean` with its estimated error, 0 where that is rounding."""
    law = as_law(G, "G")
    m, b1, b0 = real("m", m), real("b1", b1), real("b0", b0)
    choices = _checked(m, b1, b0, ell)
    sigma2_of(law)
    root = math.sqrt(m)
    if str(law) == "exponential":
        return _Mean(math.fsum(prelimit_tails(m, b1, b0, ell)[1:].tolist()) / root, 0.0)
    from sweep.fluid.invariant import solve_invariant

    lam, fraction = prelimit(m, b1, b0)
    length = solve_invariant(Limit(d=choices, lam=lam, G=law, fraction=fraction)).length
    mean = _Mean(float(length.value) / root, float(length.error) / root)
    if not mean.error <= _ERROR * mean.value:
        raise AccuracyError(
            f"m must be smaller for b1 = {b1:g}, b0 = {b0:g} and {law}, got {m:g}: "
            f"queues are so long that their mean {mean.value:g} √m has an error of {mean.error:.0e} √m",
            mean.error,
        )
    return mean


def extrapolated_mean(
    b1: float, b0: float, ell: int, G: str | Law = "exponential", m: Sequence[float] = (100, 400, 1600, 6400)
) -> Extrapolated:
    """Return the limit of `prelimit_mean` as m → ∞, by Richardson's steps in m^{−1/2}.

    E X at scale m has an expansion in m^{−1/2}. Its first two terms are eliminated, from scales that grow
    fourfold; the error is estimated by the last elimination, and by the errors of the last three means.

    Parameters
    ----------
    b1, b0, ell, G
        As for `prelimit_mean`.
    m
        Three or more scales, each four times the one before.

    Raises
    ------
    TypeError, ValueError, AccuracyError
        As `prelimit_mean`; scales of another kind.

    Examples
    --------
    >>> abs(extrapolated_mean(-2, 1, 2).value - math.log(2)) < 2e-5
    True
    """
    scales = [finite("m", value) for value in row("m", m, "write (100, 400, 1600)").tolist()]
    if len(scales) < 3 or any(scales[i + 1] != 4.0 * scales[i] for i in range(len(scales) - 1)):
        raise ValueError(f"m must be three or more scales that grow fourfold, got {shown(m)}")
    means = [_mean(scale, b1, b0, ell, G) for scale in scales]
    value, error = extrapolate([np.array([mean.value]) for mean in means], (1.0, 2.0))
    carried = math.fsum(weight * mean.error for weight, mean in zip(_WEIGHTS, means[-3:], strict=True))
    return Extrapolated(float(value[0]), float(error[0]) + carried)


def _too_long(m: float, b1: float, b0: float, share: float) -> AccuracyError:
    return AccuracyError(
        f"m must be smaller for b1 = {b1:g} and b0 = {b0:g}, got {m:g}: "
        f"a share {share:.0e} of queues is longer than {_MOST_LEVELS}",
        share,
    )


def _checked(m: float, b1: float, b0: float, ell: int) -> int:
    """Return ell as an int if the network at scale m has an invariant state."""
    choices = check_count("ell", ell, 2, MOST_CHOICES)
    prelimit(m, b1, b0)
    if b1 + b0 >= 0.0:
        raise ValueError(
            f"b1 + b0 must be negative for an invariant state, got b1 = {b1:g} and b0 = {b0:g}: "
            "all servers are busy for ever"
        )
    return choices
