"""The servers of a replica at time 0: queue lengths, ages of the jobs in service, and when these complete."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell, Limit
from sweep.errors import AccuracyError
from sweep.explicit import Explicit
from sweep.initial import LONGEST, Invariant, Lengths, Scaled, check_longest
from sweep.network.corrections import LEVELS, may_be_geometric
from sweep.network.length_biased import equilibrium_times
from sweep.network.residuals import residual_times
from sweep.seeds import Purpose, stream

if TYPE_CHECKING:
    from sweep.fluid.state import InvariantState

Floats = NDArray[np.float64]
Lengths32 = NDArray[np.int32]
#: Draws service times of as many jobs that begin at time 0.
Services = Callable[[int], Floats]

#: Servers drawn at a time, so that memory stays modest. Another value gives other numbers, under another
#: `NUMBERS_VERSION`.
GROUP = 1 << 17
#: Levels of an invariant state at first, which it has in full unless its tail is long.
_FEW = 400
#: Part of a queue by which N times a share may miss, by rounding, what decides on it.
_SLACK = 1e-7


class Servers(NamedTuple):
    """Consecutive servers, all arrays of shape (server,): idle ones have age 0 and complete at inf."""

    first: int
    lengths: Lengths32
    ages: Floats
    completions: Floats


def servers_at_start(cell: Cell, seed: int, replica: int, services: Services) -> Iterator[Servers]:
    """Yield all servers of a replica at time 0, in their order, a group at a time.

    Parameters
    ----------
    cell
        The network and its initial state.
    seed, replica
        Root seed and number of the replica: lengths and ages, and what is left of services with an age, come
        from its stream `Purpose.INITIAL` alone.
    services
        Draws service times from the replica's stream for services: for jobs of age 0 where all have that age.

    Notes
    -----
    `lengths(…)` and arrays fill the first servers with the longest queues, or as given; servers of an
    invariant state are independent. A job of age a has S − a left, given S > a.
    """
    draw = _group(cell, partial(stream, seed, cell.key, replica, Purpose.INITIAL))
    for first in range(0, cell.N, GROUP):
        lengths, ages, residuals = draw(first, min(GROUP, cell.N - first))
        busy = lengths > 0
        completions, all_ages = np.full(lengths.size, math.inf), np.zeros(lengths.size)
        if residuals is None:
            completions[busy] = services(int(np.count_nonzero(busy)))
        else:
            completions[busy], all_ages[busy] = residuals, ages
        yield Servers(first, lengths, all_ages, completions)


def lengths_at_start(cell: Cell, seed: int, replica: int) -> NDArray[np.int64]:
    """Return how many queues hold 0, 1, 2, … jobs at time 0, shape (longest + 1,), of the same servers."""
    if isinstance(cell.initial, Lengths):
        counts = np.zeros(cell.initial.longest + 1, dtype=np.int64)
        for length, count in cell.initial.counts(cell.N):
            counts[length] = count
        counts[0] = cell.N - counts.sum()
        return counts
    total = np.zeros(1, dtype=np.int64)
    for servers in servers_at_start(cell, seed, replica, np.ones):
        more = np.bincount(servers.lengths)
        if more.size > total.size:
            total, more = more, total
        total[: more.size] += more
    return total


Drawn = tuple[Lengths32, Floats | None, Floats | None]


def _group(cell: Cell, begin: Callable[[], np.random.Generator]) -> Callable[[int, int], Drawn]:
    """Return what draws lengths of servers, and ages and residuals of the busy ones, None if fresh.

    `begin` makes the stream, and is called only where something is drawn.
    """
    initial = cell.initial
    if isinstance(initial, Lengths):
        rng = None if initial.ages == "fresh" else begin()
        counts = initial.counts(cell.N)
        lengths = np.array([length for length, _ in counts[::-1]] + [0], dtype=np.int32)
        ends = np.append(np.cumsum([count for _, count in counts[::-1]], dtype=np.int64), cell.N)

        def of_lengths(first: int, size: int) -> Drawn:
            drawn = lengths[np.searchsorted(ends, np.arange(first, first + size), side="right")]
            if rng is None:
                return drawn, None, None
            return drawn, *equilibrium_times(cell.G, rng, int(np.count_nonzero(drawn)))

        return of_lengths
    rng = begin()
    if isinstance(initial, Explicit):

        def of_arrays(first: int, size: int) -> Drawn:
            drawn = initial.lengths[first : first + size]
            ages = initial.ages[first : first + size][drawn > 0]
            return drawn, ages, residual_times(cell.G, rng, ages)

        return of_arrays
    if isinstance(initial, Scaled):
        scaled = _Positions(initial, cell.N, rng)
        return lambda first, size: (scaled.lengths(first, size), None, None)
    if isinstance(initial, Invariant):
        return _Stationary(cell, rng).draw
    raise TypeError(f"initial must be a state of whole servers, got {initial}")


# ---- servers in the invariant state -----------------------------------------------------------------------


class _Stationary:
    """Servers drawn independently from the invariant state of the limit."""

    def __init__(self, cell: Cell, rng: np.random.Generator) -> None:
        self._rng = rng
        self._state = _invariant_state(Limit(d=cell.d, lam=cell.lam, G=cell.G, fraction=cell.fraction))

    def draw(self, first: int, size: int) -> Drawn:  # noqa: ARG002 (one signature)
        """Ages have density Ḡ, and given its age a queue a length ≥ ℓ with probability f_ℓ(a)/λ."""
        limit = self._state.limit
        busy = self._rng.random(size) < limit.lam
        ages, residuals = equilibrium_times(limit.G, self._rng, int(np.count_nonzero(busy)))
        lengths = np.zeros(size, dtype=np.int32)
        lengths[busy] = self._beyond(self._state.lengths(ages, self._rng.random(ages.size)))
        return lengths, ages, residuals

    def _beyond(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Continue lengths that reach the levels held as S_ℓ falls there, geometrically or by a power."""
        log_S, top = self._state.log_S, self._state.levels
        at_top = lengths == top
        if top < _FEW:  # all there are, but for 1e-10
            return lengths
        half, rate = top // 2, _geometric_rate(self._state)
        power = (log_S[half - 1] - log_S[-1]) / math.log(top / half)
        for place in np.flatnonzero(at_top).tolist():
            drop = float(self._rng.standard_exponential())
            longer = top * math.exp(min(drop / power, 30.0)) if rate is None else top + drop / rate
            lengths[place] = math.floor(min(LONGEST, longer))
        return lengths


def _geometric_rate(state: InvariantState) -> float | None:
    """Return by how much log S_ℓ falls a level at the levels held, None if by a power of ℓ rather.

    Of the drops over the third and the last quarter of the levels, the second is as large as the first where
    S_ℓ is geometric, and log(4/3)/log(3/2) = .71 of it for any power.
    """
    if not may_be_geometric(state.limit):
        return None
    top = state.levels
    half, middle, last = state.log_S[[top // 2 - 1, 3 * top // 4 - 1, top - 1]].tolist()
    nearer = 0.5 * (1.0 + math.log(4.0 / 3.0) / math.log(1.5))
    return (middle - last) / (top - 3 * top // 4) if middle - last > nearer * (half - middle) else None


@lru_cache(maxsize=4)
def _invariant_state(limit: Limit) -> InvariantState:
    """Solve with as many levels as queues may have, solved once for all replicas of a cell."""
    from sweep.fluid.invariant import solve_invariant

    state = solve_invariant(limit)
    if state.levels >= _FEW:
        try:
            return solve_invariant(limit, LEVELS, vanishing=True)
        except AccuracyError:
            pass  # the levels that are in reach then
    return state


# ---- queues in heavy traffic ------------------------------------------------------------------------------


class _Positions:
    """Lengths ⌊√m x_i⌋ with x_i drawn from the law of X_0, or its mid-quantiles."""

    def __init__(self, initial: Scaled, N: int, rng: np.random.Generator) -> None:
        from sweep.diffusion.start import as_start

        self._start, self._root, self._N, self._rng = as_start(initial.start), math.sqrt(initial.m), N, rng
        self._initial = initial
        self._fixed = np.array(initial.fixed)
        self._ends = None if initial.exchangeable else self._steps()

    def lengths(self, first: int, size: int) -> Lengths32:
        """Return the lengths of servers `first` on."""
        if self._ends is None:
            lengths = self._whole(self._drawn(size))
        else:
            lengths = np.searchsorted(self._ends, np.arange(first, first + size), side="right").astype(
                np.int32
            )
        fixed = self._fixed[first : first + size]
        lengths[: fixed.size] = self._whole(fixed)
        return lengths

    def _drawn(self, size: int) -> Floats:
        # A sample of exactly `size` positions would come back as it is.
        more = size + (self._start.law is None and self._start.points.size == size)
        return self._start.draw(self._rng, more)[:size]

    def _whole(self, positions: Floats) -> Lengths32:
        lengths = self._root * positions
        check_longest(float(lengths.max(initial=0.0)), self._initial)
        return np.floor(lengths).astype(np.int32)

    def _steps(self) -> NDArray[np.int64]:
        """Return, for k = 1, 2, …, up to the longest queue, how many mid-quantiles give fewer than k jobs.

        F⁻¹((i + ½)/N) ≥ x where P(X_0 ≥ x) > 1 − (i + ½)/N: where N − 1 − i + ½ < N P(X_0 ≥ x).
        """
        if self._shorter(LONGEST + 1, LONGEST + 2)[0] < self._N:
            last = self._root * self._start.quantile(1.0 - 0.5 / self._N)
            check_longest(max(last, LONGEST + 1.0), self._initial)
        ends = self._shorter(1, 65)
        while ends[-1] < self._N:
            more = self._shorter(ends.size + 1, min(2 * ends.size + 65, LONGEST + 2))
            ends = np.concatenate([ends, more])
        return ends

    def _shorter(self, first: int, end: int) -> NDArray[np.int64]:
        """Return how many mid-quantiles give fewer than k jobs for k = first … end − 1."""
        shares = self._start.survival(np.nextafter(np.arange(first, end) / self._root, 0.0))
        longer = np.ceil(self._N * shares - 0.5 - _SLACK)
        return np.asarray((self._N - np.maximum(longer, 0.0)).astype(np.int64))
