"""The random numbers of a replica, drawn ahead of the kernel that uses them up."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.laws import Erlang, Exponential, Gamma, Law
from sweep.network import random_kernels, state
from sweep.network.gaps import Gaps
from sweep.seeds import Purpose, stream

Floats = NDArray[np.float64]

#: Goes around kernels whose sums are modulo 2⁶⁴, of which NumPy warns where they are not compiled.
_modular: Callable[[], AbstractContextManager[None]] = (
    nullcontext if hasattr(random_kernels.deal, "py_func") else partial(np.errstate, over="ignore")
)
#: Most numbers drawn ahead where NumPy draws them, and where kernels do: few enough to stay in the second and
#: in the first cache. Results do not depend on it.
BLOCK, SMALL_BLOCK = 1 << 14, 1 << 10
#: Generators that a stream of words is dealt from. Another value gives other numbers, under another
#: `NUMBERS_VERSION`.
LANES = 128
#: Words dealt at a time, at least.
_WORDS = 512
#: Halves of words that may be left over when more are dealt, at first, for each server sampled by an arrival.
_ROOM = 4
#: Rounds without output that mix the seed of a generator into all its words, as many as NumPy's SFC64 takes.
_MIXING = 12
_NOBODY = state.Source(
    state=np.empty((4, 0), dtype=np.uint64),
    words=np.empty(0, dtype=np.uint64),
    used=np.zeros(1, dtype=np.int64),
)


def make_source(rng: np.random.Generator, words: int = _WORDS) -> state.Source:
    """Return a source of words from `LANES` SFC64 generators that `rng` seeds, dealt `words` at a time."""
    lanes = np.ones((4, LANES), dtype=np.uint64)
    lanes[:3] = rng.bit_generator.random_raw(3 * LANES).reshape(3, LANES)
    room = np.empty(math.ceil(words / LANES) * LANES, dtype=np.uint64)
    with _modular():
        random_kernels.fill_words(lanes, np.empty(_MIXING * LANES, dtype=np.uint64))
    return state.Source(state=lanes, words=room, used=np.array([room.size]))


class Words:
    """A stream of random 64-bit words, dealt from `LANES` SFC64 generators that `rng` seeds."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._source = make_source(rng)

    def draw(self, size: int) -> NDArray[np.uint64]:
        """Return the next `size` words."""
        words = np.empty(size, dtype=np.uint64)
        with _modular():
            random_kernels.deal(self._source, words)
        return words


def sampler(law: Law, rng: np.random.Generator) -> Callable[[Floats], None]:
    """Return what fills an array with the next times of a law.

    Exponential times, the most frequent by far, are made in bulk; gamma times, slow in NumPy, by a kernel.
    """
    if isinstance(law, Exponential):
        return _exponential(make_source(rng))
    if isinstance(law, (Gamma, Erlang)):
        return _gamma(law.origin_exponent, make_source(rng), make_source(rng))
    return partial(_fill, law, rng)


def _gamma(shape: float, source: state.Source, boosts: state.Source) -> Callable[[Floats], None]:
    from sweep.network.gamma_kernels import gamma_times
    from sweep.network.gamma_layers import gamma_law, normal_layers

    law, layers = gamma_law(shape), normal_layers()

    def fill(times: Floats) -> None:
        with _modular():
            if shape < 1.0:
                random_kernels.next_exponentials(boosts, times)
            gamma_times(source, layers, law, times)

    return fill


def _exponential(source: state.Source) -> Callable[[Floats], None]:
    def fill(times: Floats) -> None:
        with _modular():
            random_kernels.next_exponentials(source, times)

    return fill


def _fill(law: Law, rng: np.random.Generator, times: Floats) -> None:
    times[:] = law.sample(rng, times.size)


class Supply:
    """The three streams of a replica in buffers, which kernels fill up again, or `refill` where they cannot.

    Parameters
    ----------
    cell
        The network.
    seed, replica
        Root seed and number of the replica.
    block
        Most arrivals to draw at a time; results do not depend on it.

    Attributes
    ----------
    draws, routing
        The buffers, as kernels take them.
    age
        Backward recurrence time of the arrivals at time 0.
    """

    def __init__(self, cell: Cell, seed: int, replica: int, block: int) -> None:
        gaps, services, words = (
            stream(seed, cell.key, replica, purpose)
            for purpose in (Purpose.ARRIVALS, Purpose.SERVICES, Purpose.ROUTING)
        )
        gap_source, service_source = _NOBODY, _NOBODY
        if isinstance(cell.G, Exponential):
            service_source = make_source(services)
            self._services = _exponential(service_source)
        else:
            self._services = sampler(cell.G, services)
        if isinstance(cell.arrivals, Exponential):
            gap_source = make_source(gaps)
            self._fill_gaps, self.age = _exponential(gap_source), 0.0
        else:
            all_gaps = Gaps(cell, gaps, sampler)
            self._fill_gaps, self.age = all_gaps.fill, all_gaps.age / (cell.lam * cell.N)
        batch, least = state.batch_size(cell.N, cell.d), state.least_services(cell.N, cell.d)
        rows = math.ceil(min(block, BLOCK if gap_source is _NOBODY else SMALL_BLOCK) / batch) * batch
        many = min(block, BLOCK if service_source is _NOBODY else 4 * SMALL_BLOCK)
        self.routing = _make_routing(cell, words)
        self.draws = state.Draws(
            gaps=np.empty(rows),
            services=np.empty(max(many, 2 * least)),
            targets=np.empty((rows + state.PADDING) * cell.d, dtype=np.uint32),
            d=cell.d,
            ahead=state.PADDING * cell.d,
            least=least,
            gap_source=gap_source,
            service_source=service_source,
        )
        self._route(state.PADDING)

    def initial_services(self, size: int) -> Floats:
        """Draw the service times of jobs that are in service at time 0."""
        times = np.empty(size)
        self._services(times)
        return times

    def refill(self, reason: int, used: NDArray[np.int64]) -> None:
        """Draw what a kernel has returned for."""
        draws = self.draws
        if reason == state.NEEDS_GAPS:
            self._fill_gaps(draws.gaps)
            used[state.ARRIVALS] = 0
            draws.targets[: draws.ahead] = draws.targets[draws.targets.size - draws.ahead :]
            self._route(draws.gaps.size)
        elif reason == state.NEEDS_WORDS:
            self._route(int(self.routing.used[1]))
        else:
            left = draws.services.size - used[state.SERVICES]
            draws.services[:left] = draws.services[used[state.SERVICES] :]
            self._services(draws.services[left:])
            used[state.SERVICES] = 0

    def _route(self, rows: int) -> None:
        """Fill the last rows of targets, with more room for words where one arrival takes too many."""
        with _modular():
            while random_kernels.route_on(self.routing, self.draws, rows):
                rows = int(self.routing.used[1])
                self.routing = _with_room(self.routing)


def _make_routing(cell: Cell, rng: np.random.Generator) -> state.Routing:
    shuffles = not cell.replacement and 2 * cell.d > cell.N
    return _attach(
        state.Routing(
            N=cell.N,
            d=cell.d,
            fraction=cell.fraction,
            replacement=cell.replacement,
            halves=np.empty(0, dtype=np.uint32),
            used=np.zeros(2, dtype=np.int64),
            order=np.empty(cell.N if shuffles else 0, dtype=np.uint32),
            source=make_source(rng, max(_WORDS, cell.d)),
        ),
        room=_ROOM * (cell.d + 2),
    )


def _with_room(routing: state.Routing) -> state.Routing:
    """Return the same routing with room for twice the halves that are left."""
    return _attach(routing, room=2 * int(routing.halves.size - routing.used[0]))


def _attach(routing: state.Routing, room: int) -> state.Routing:
    """Return the same routing with `room` halves in front of the words; those not used up stay."""
    rest, words = routing.halves[routing.used[0] :], routing.source.words
    both = np.empty(room // 2 + words.size, dtype=np.uint64)
    halves = both.view(np.uint32)
    routing.used[0] = halves.size - rest.size
    halves[routing.used[0] :] = rest
    return routing._replace(halves=halves, source=routing.source._replace(words=both[room // 2 :]))
