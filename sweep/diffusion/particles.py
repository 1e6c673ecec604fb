"""Interacting particles that move by their rank: the McKean–Vlasov SDE with reflection, simulated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import check_count, check_memory, check_switch
from sweep.diffusion import kernels
from sweep.diffusion.checks import check_positions, number
from sweep.diffusion.labels import PARTICLES, labelled
from sweep.diffusion.model import Diffusion
from sweep.diffusion.start import Start, as_start
from sweep.errors import AccuracyError
from sweep.grids import check_times
from sweep.seeds import Purpose, digest, stream
from sweep.wording import shown

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]

#: Intervals of the default positions.
_INTERVALS = 256
#: By default a step is at most this share of the horizon, and of the time D/drift² in which drift matters.
_OF_HORIZON, _OF_TIME = 0.01, 0.05
#: Moves of particles in all at most, hours that one takes, and drifts and distances moved in a step whose
#: squares float64 holds.
_MOST_MOVES, _MOVE_HOURS, _FASTEST, _FARTHEST = 1e13, 1e-11, 1e150, 1e150
#: Most particles; bytes of one at a stored time, and of three more of its numbers.
_MOST_PARTICLES, _PARTICLE = 2**40, 16
#: How far, in steps, an output time may lie from a whole number of them.
_SLACK = 1e-6


@dataclass(frozen=True, kw_only=True)
class Particles:
    """What defines the law of a replica: the diffusion, M particles, where they start, and the step."""

    diffusion: Diffusion
    particles: int
    initial: Start
    step: float

    @property
    def text(self) -> str:
        """The canonical text of which the key of the random streams is made."""
        return (
            f"particles={self.particles} step={self.step!r} {self.diffusion.text} initial={self.initial.text}"
        )


def simulate_particles(
    *,
    b1: float,
    b0: float,
    ell: int,
    sigma2: float,
    times: ArrayLike,
    particles: int,
    seed: int,
    replica: int = 0,
    step: float | None = None,
    initial: str | Start | ArrayLike = "empty",
    x: ArrayLike | None = None,
    positions: bool = False,
) -> xr.Dataset:
    """Simulate M particles with dX_i = (b1 + b0 ell v(X_i, t)^{ell−1}) dt + σ dW_i + dL_i on [0, ∞).

    v(·, t) is the empirical law of the particles themselves, v(x, t) the share beyond x: the drift of a
    particle is a function of its rank. As M → ∞ its law tends to that of `solve_diffusion`.

    Parameters
    ----------
    b1, b0, ell, sigma2
        As for `solve_diffusion`.
    times
        Increasing times ≥ 0 in units of m mean service times, shape (t,).
    particles
        M ≥ 2.
    seed, replica
        Root seed ≥ 0 and which of its independent replicas, from 0.
    step
        Time step; every time must be a multiple of it, and the paths then do not depend on which multiples
        are stored. By default times must be multiples of the first positive one, which is divided into equal
        steps of at most a hundredth of the horizon.
    initial
        As for `solve_diffusion`. An array gives particle i its own start, and must hold M of them; from a law
        or from points the starts are independent draws.
    x
        Increasing positions ≥ 0 of v, shape (x,). By default 257, from 0 to the particle furthest out.
    positions
        Whether to return the position of every particle.

    Returns
    -------
    xarray.Dataset
        v (t, x), mean (t), and with `positions` also X (t, particle), labelled throughout. Errors of the mean
        over replicas are honest; within one replica particles depend on each other.

    Raises
    ------
    TypeError, ValueError
        An argument of the wrong type or outside its range, before anything is computed.
    AccuracyError
        Starts so far out that numbers overflow.

    Notes
    -----
    Drifts are frozen over a step (Euler), the reflection of each step is exact: end and least value of a
    Brownian path are drawn jointly. Weak order 1 in the step but for a logarithm: measured .8 to .9 over
    steps of 1/4 to 1/32, from X_0 = 0 and from smooth laws alike. The error of v is O(M^{−1/2}) in a replica,
    its bias O(1/M). A step costs O(M) for tails that decay exponentially, O(M log M) at worst.

    Examples
    --------
    >>> data = simulate_particles(
    ...     b1=-2, b0=1, ell=2, sigma2=2, times=[0.5, 1.0], particles=2000, seed=1, step=0.05)
    >>> bool(abs(data["mean"][1] - 0.6112) < 0.06), float(data.v[1, 0])
    (True, 1.0)
    """
    diffusion = Diffusion(b1=b1, b0=b0, ell=ell, sigma2=sigma2)
    t, start = check_times(times), as_start(initial, model=diffusion)
    count = check_count("particles", particles, 2, _MOST_PARTICLES, "each takes 16 bytes at every time")
    check_memory("particles", count, float(_PARTICLE * count) * (t.size + 3), "take fewer particles or times")
    system = Particles(
        diffusion=diffusion, particles=count, initial=start, step=check_step(step, t, diffusion, count)
    )
    if start.is_sample and start.points.size != system.particles:
        raise ValueError(
            f"initial must hold {system.particles} positions, one a particle, got {start.points.size}"
        )
    wanted = None if x is None else check_positions(x)
    seeds = check_count("seed", seed, 0), check_count("replica", replica, 0)
    returned = check_switch("positions", positions)
    with np.errstate(over="ignore"):
        X = np.array(list(paths(system, t, *seeds)))
        mean = np.cumsum(X, axis=1)[:, -1] / X.shape[1]
    if not np.all(np.isfinite(mean)):
        raise AccuracyError(
            f"initial must be such that numbers do not overflow, got {start.text}: scale time and length",
            math.inf,
        )
    at: Floats = np.linspace(0.0, float(np.max(X)) or 1.0, _INTERVALS + 1) if wanted is None else wanted
    arrays = {"v": np.array([shares_beyond(row, at) for row in X]), "mean": mean}
    if returned:
        arrays["X"] = X
    coordinates: dict[str, NDArray[Any]] = {"t": t, "x": at, "particle": np.arange(system.particles)}
    attributes = {"parameters": system.text, "seed": seeds[0], "replica": seeds[1], "step": system.step}
    return labelled(PARTICLES, arrays, coordinates, attributes)


def paths(system: Particles, times: Floats, seed: int, replica: int) -> Iterator[Floats]:
    """Yield the positions of all particles, shape (particle,), at times that are multiples of the step."""
    key = digest(system.text)
    normal, least, places = (
        stream(seed, key, replica, purpose)
        for purpose in (Purpose.ARRIVALS, Purpose.SERVICES, Purpose.INITIAL)
    )
    M, diffusion = system.particles, system.diffusion
    model = kernels.Model(diffusion.b1, diffusion.b0, diffusion.ell, diffusion.D)
    x = system.initial.draw(places, M)
    order, first, drift = np.empty(M, np.int64), np.empty(M + 1, np.int64), np.empty(M)
    normals, exponentials = np.empty(M), np.empty(M)
    done = 0
    for time in times.tolist():
        until = round(time / system.step)
        while done < until:
            normal.standard_normal(out=normals)
            least.standard_exponential(out=exponentials)
            kernels.sort_particles(x, first, order)
            kernels.set_drifts(model, x, order, drift)
            kernels.move_particles(model, x, drift, system.step, normals, exponentials)
            done += 1
        yield x.copy()


def shares_beyond(X: Floats, x: Floats) -> Floats:
    """Return the share of particles beyond each position, shape (x,)."""
    beyond = X.size - np.searchsorted(np.sort(X), x, side="right")
    return np.asarray(beyond / X.size)


def check_step(step: Any, times: Floats, diffusion: Diffusion, particles: int = 2) -> float:
    """Return the step as a float that divides all times.

    Raises
    ------
    TypeError
        Not a number.
    ValueError
        Not positive and finite, so small that the path takes days, so large that what a particle moves has no
        square in float64, or a time is not a multiple of it.
    """
    later = times[times > 0.0]
    if step is not None:
        value = number("step", step)
        if not 0.0 < value < math.inf:
            raise ValueError(f"step must be positive and finite, got {shown(step)}")
    elif later.size == 0:
        value = 1.0
    else:
        value = _step_for(float(later[0]), float(later[-1]), diffusion)
    moves = particles * (float(later[-1]) / value if value > 0.0 else math.inf) if later.size else 0.0
    if moves > _MOST_MOVES:
        chosen = "" if step is not None else f", as b1 = {diffusion.b1:g} and b0 = {diffusion.b0:g} demand"
        raise ValueError(
            f"step must make at most {_MOST_MOVES:.0e} moves of particles up to t = {float(later[-1]):g}, "
            f"got {value:g}{chosen}: {moves:.1e} moves take some {moves * _MOVE_HOURS:.1e} hours"
        )
    moved = diffusion.fastest * value + math.sqrt(diffusion.sigma2 * value)
    if later.size and not moved <= _FARTHEST:
        raise ValueError(
            f"step must move particles by at most {_FARTHEST:.0e}, got {value:g} with {diffusion.text}: "
            "take a smaller one, or scale time and length"
        )
    for time in later.tolist():
        if abs(time / value - round(time / value)) > _SLACK * max(1.0, time / value):
            raise ValueError(
                f"times must be multiples of the step {value:g}, got {time:g}: "
                "pass a step that divides them all"
            )
    return value


def _step_for(first: float, last: float, diffusion: Diffusion) -> float:
    """Return the longest step that divides the first time and is short enough, 0 if none is."""
    if diffusion.fastest > _FASTEST:
        return 0.0
    longest = min(_OF_HORIZON * last, _OF_TIME * diffusion.D / (diffusion.fastest**2 or 1e-300))
    steps = first / longest if longest > 0.0 else math.inf
    return first / math.ceil(steps) if steps < math.inf else 0.0
