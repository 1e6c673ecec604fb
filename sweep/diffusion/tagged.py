"""One queue in the limit: its law from a given position, and its joint law at two times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import real
from sweep.diffusion import kernels
from sweep.diffusion.cells import pilot, plan_steps, substeps
from sweep.diffusion.checks import check_positions, check_tolerance, finite
from sweep.diffusion.model import Diffusion
from sweep.diffusion.readout import interpolate
from sweep.diffusion.start import Start, as_start
from sweep.errors import AccuracyError
from sweep.grids import check_times
from sweep.wording import shown

Floats = NDArray[np.float64]

#: Mass that may reach the end of the domain, and standard deviations that a queue is given room for.
_SPILL, _DEVIATIONS = 1e-9, 7.0
#: Cells of the coarsest resolution; each finer one has twice as many cells and half the steps.
_CELLS = 256
_RESOLUTIONS, _MOST_RESOLUTIONS = 3, 6


@dataclass(frozen=True)
class Row:
    """P(X_t > x) at times, shape (t, x), with its estimated absolute error."""

    v: Floats
    error: float


def tagged_tail(
    *,
    b1: float,
    b0: float,
    ell: int,
    sigma2: float,
    times: ArrayLike,
    position: float,
    x: ArrayLike,
    initial: str | Start | ArrayLike = "empty",
    tolerance: float = 1e-4,
) -> Row:
    """Return P(X_t > x | X_0 = position) of one queue among queues of law v(·, t).

    dX = (b1 + b0 ell v(X, t)^{ell−1}) dt + σ dW + dL, where v solves the PDE from `initial` whatever the
    position of this queue is: the second invariance principle of R. Atar and G. Wolansky.

    Parameters
    ----------
    b1, b0, ell, sigma2, times, initial
        As for `solve_diffusion`.
    position
        X_0 ≥ 0 in units of √m jobs.
    x
        Increasing positions ≥ 0, shape (x,).
    tolerance
        Largest estimated absolute error of v.

    Raises
    ------
    TypeError, ValueError
        An argument of the wrong type or outside its range, before anything is computed.
    AccuracyError
        The tolerance is out of reach.

    Notes
    -----
    The Markov chain on cells that solves the PDE is applied to the masses of this queue too: one linear step
    with the rates of each step of v. Second order in the width of cells and the steps, extrapolated once.

    Examples
    --------
    >>> row = tagged_tail(b1=-1, b0=0, ell=2, sigma2=2, times=[1.0], position=1.0, x=[0.5])
    >>> round(float(row.v[0, 0]), 3)  # reflected Brownian motion
    0.581
    """
    model = Diffusion(b1=b1, b0=b0, ell=ell, sigma2=sigma2)
    t, start, at = check_times(times), as_start(initial, model=model), check_positions(x)
    place = finite("position", position)
    if place < 0.0:
        raise ValueError(f"position must be at least 0, got {shown(position)}")
    accepted = check_tolerance(tolerance)
    own = as_start([place])
    later = [time for time in t.tolist() if time > 0.0]
    frame = _Frame.of(model, start, later, place)
    rows = (
        _refined(model, lambda parts: _read(frame.follow(parts, own), at), accepted)
        if later
        else Row(at[:0], 0)
    )
    if t[0] == 0.0:
        first = np.asarray(at < place, dtype=np.float64)[np.newaxis]
        return Row(np.concatenate([first, rows.v]) if later else first, rows.error)
    return rows


def joint_tail(
    *,
    b1: float,
    b0: float,
    ell: int,
    sigma2: float,
    times: Sequence[float],
    x: float,
    y: ArrayLike,
    initial: str | Start | ArrayLike = "empty",
    tolerance: float = 1e-4,
) -> Row:
    """Return P(X_s > x, X_t > y) of the McKean–Vlasov process at two times 0 < s < t, shape (1, y).

    Parameters
    ----------
    b1, b0, ell, sigma2, initial, tolerance
        As for `tagged_tail`.
    times
        s and t.
    x
        Position ≥ 0 at time s.
    y
        Increasing positions ≥ 0 at time t, shape (y,).

    Raises
    ------
    TypeError, ValueError, AccuracyError
        As for `tagged_tail`; not two times.

    Examples
    --------
    >>> row = joint_tail(b1=-1, b0=0, ell=2, sigma2=2, times=[50.0, 100.0], x=1.0, y=[1.0])
    >>> round(float(row.v[0, 0]), 3)  # far apart in time, both exponential of mean 1: e^{−2}
    0.135
    """
    model = Diffusion(b1=b1, b0=b0, ell=ell, sigma2=sigma2)
    t, start, at = check_times(times), as_start(initial, model=model), check_positions(y, "y")
    if t.size != 2 or t[0] == 0.0:
        raise ValueError(f"times must be two positive ones, got {t.tolist()}")
    place, accepted = real("x", x), check_tolerance(tolerance)
    if not 0.0 <= place < math.inf:
        raise ValueError(f"x must be finite and at least 0, got {shown(x)}")
    frame = _Frame.of(model, start, t.tolist(), place)
    return _refined(model, lambda parts: _read(frame.cut(parts, place), at), accepted)


@dataclass(frozen=True)
class _Frame:
    """Nodes and a domain, wide enough for the population and for one queue, that all resolutions share."""

    model: Diffusion
    start: Start
    roots: tuple[float, ...]
    outputs: frozenset[int]
    domain: float

    @classmethod
    def of(cls, model: Diffusion, start: Start, times: list[float], position: float) -> _Frame:
        if not times:
            return cls(model, start, (), frozenset(), 0.0)
        schedule, _ = pilot(model, start, times, _SPILL)
        spread = math.sqrt(model.sigma2 * times[-1])
        # At its own start the drift of a queue is at most `fastest`; far out it is b1.
        room = position + _DEVIATIONS * spread + max(model.b1, 0.0) * times[-1]
        roots, outputs = plan_steps(times)
        return cls(model, start, roots, outputs, max(schedule.last_domain, room))

    def follow(self, parts: int, own: Start) -> list[_Masses]:
        """Return the masses of a queue that starts from `own`, at the output times."""
        walk = _Walk(self, parts, own)
        found = []
        for node in range(1, len(self.roots)):
            walk.advance(node)
            if node in self.outputs:
                found.append(_Masses(walk.w.copy(), walk.h))
        return found

    def cut(self, parts: int, place: float) -> list[_Masses]:
        """Return the masses at the last time of queues beyond `place` at the first."""
        walk, middle = _Walk(self, parts, self.start), min(self.outputs)
        for node in range(1, len(self.roots)):
            walk.advance(node)
            if node == middle:
                walk.keep_beyond(place)
        return [_Masses(walk.w, walk.h)]


@dataclass(frozen=True)
class _Masses:
    w: Floats
    h: float


class _Walk:
    """The population u and one queue w on the same cells."""

    def __init__(self, frame: _Frame, parts: int, own: Start) -> None:
        count = _CELLS * parts
        self.frame, self.parts, self.h = frame, parts, frame.domain / count
        self.u, self.w = frame.start.masses(count, self.h), own.masses(count, self.h)
        model = frame.model
        self.arguments = kernels.Model(model.b1, model.b0, model.ell, model.D)
        self.scratch, self.other = (_scratch(count) for _ in range(2))

    def advance(self, node: int) -> None:
        steps = substeps(self.frame.roots[node - 1], self.frame.roots[node], self.parts)
        kernels.march_with(self.arguments, self.u, self.w, self.h, steps, self.scratch, self.other)

    def keep_beyond(self, place: float) -> None:
        """Put the mass beyond `place` at the same distance from it on average, and drop the rest."""
        v = np.empty(self.w.size + 1)
        kernels.cumulate(self.w, v)
        cell = min(int(place / self.h), self.w.size - 1)
        inside = float(interpolate(v, np.array([place / self.h]))[0]) - float(v[cell + 1])
        self.w[: cell + 1] = 0.0
        self.w[cell] = max(inside, 0.0)


def _scratch(cells: int) -> kernels.Scratch:
    rows = (np.empty(cells + (name in ("v", "guess"))) for name in kernels.Scratch._fields)
    return kernels.Scratch(*rows)


def _read(found: Sequence[_Masses], x: Floats) -> Floats:
    rows = []
    for masses in found:
        v = np.empty(masses.w.size + 1)
        kernels.cumulate(masses.w, v)
        place = x / masses.h
        inside = place < masses.w.size
        rows.append(np.where(inside, interpolate(v, np.where(inside, place, 0.0)), 0.0))
    return np.array(rows)


def _refined(model: Diffusion, run: Any, tolerance: float) -> Row:
    """Double the resolution until two extrapolated results agree within the tolerance."""
    results = [run(1), run(2)]
    extrapolated = results[1] + (results[1] - results[0]) / 3.0
    for refinement in range(_RESOLUTIONS - 1, _MOST_RESOLUTIONS):
        results.append(run(1 << refinement))
        before, extrapolated = extrapolated, results[-1] + (results[-1] - results[-2]) / 3.0
        error = float(np.max(np.abs(extrapolated - before)))
        if math.isnan(error):
            break
        if error <= tolerance:
            return Row(np.clip(extrapolated, 0.0, 1.0), error)
    if math.isnan(error):
        raise AccuracyError(
            f"b1, b0 and sigma2 must be such that numbers do not overflow, got {model.text}: "
            "scale time and length",
            math.inf,
        )
    raise AccuracyError(f"tolerance must be at least {error:.1e} here, got {tolerance:g}", error)
