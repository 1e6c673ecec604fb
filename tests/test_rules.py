"""The table of routing rules: invariants, what a path depends on, a rule of one's own, every error text."""

from __future__ import annotations

import hashlib
import heapq
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from sweep.cell import Cell
from sweep.network.eager import run_eager
from sweep.network.eager_kernels import Network
from sweep.network.eager_state import EagerSupply, Tables, network_at_start
from sweep.network.path import Path
from sweep.network.rule_kernels import idle_first, shortest_of_all, shortest_sampled
from sweep.network.supply import sampler
from sweep.routing import ROUTING
from sweep.seeds import Purpose, stream
from tests.processors import UNCOMPILED, WITHOUT_AVX512, printed

TIMES = np.array([0.0, 0.4, 1.0, 2.5, 3.3])
SNAPSHOTS = np.array([0.0, 1.0, 2.7])
AGES = np.array([0.0, 0.3, 1.0, np.inf])
SERVICES = ["exponential", "erlang(k=4)", "gamma(shape=0.5)", "lomax(beta=1.5)", "deterministic"]


@st.composite
def runs(draw: Any) -> tuple[Cell, str]:
    """Small networks under every rule."""
    N, rule = draw(st.sampled_from([1, 2, 5, 20])), draw(st.sampled_from(list(ROUTING)))
    samples, replacement = ROUTING[rule].samples, draw(st.booleans())
    return Cell(
        N=N,
        d=draw(st.integers(1, 4 if replacement else min(4, N))) if samples else 1,
        lam=draw(st.sampled_from([0.3, 0.9, 1.5])),
        G=draw(st.sampled_from(SERVICES)),
        arrivals=draw(
            st.sampled_from(
                [
                    "exponential",
                    "deterministic",
                    "gamma(shape=0.5)",
                    "renewal(lomax(beta=1.5), age=2)",
                    "profile(0: 1.5, 1: 0.5, period=1.5)",
                ]
            )
        ),
        initial=draw(
            st.sampled_from(
                ["empty", "lengths(3: 1)"]
                if N < 5
                else ["empty", "lengths(1: 0.4, 6: 0.2)", "lengths(2: 0.6, ages=equilibrium)"]
            )
        ),
        replacement=replacement,
        fraction=draw(st.sampled_from([0.0, 0.4, 1.0])) if samples else 1.0,
    ), rule


def path(
    run: tuple[Cell, str],
    times: Any = TIMES,
    levels: int | None = 30,
    snapshots: Any = SNAPSHOTS,
    **more: Any,
) -> Path:
    options = {"seed": 5, "replica": 0, **more}
    cell, rule = run
    options = {"averages": True, "measure": True, **options}
    grids = {"times": np.asarray(times), "snapshots": np.asarray(snapshots, dtype=np.float64)}
    return run_eager(cell, rule, levels=levels, **grids, **options)


@settings(max_examples=60, deadline=None)
@given(run=runs(), seed=st.integers(0, 2**70))
def test_a_path_conserves_jobs_and_orders_its_tails(run: tuple[Cell, str], seed: int) -> None:
    arrays = path(run, seed=seed, levels=None, snapshots=TIMES).arrays(AGES)
    S, D, X, E, nu = (arrays[name] for name in ("S", "D", "X", "E", "nu_cdf"))
    assert ((S >= 0) & (S <= 1)).all()
    for tails in (S, D, nu[..., -1]):
        assert (np.diff(tails, axis=1) <= 0).all()
    assert (np.diff(D, axis=0) >= 0).all()
    assert np.allclose(X, S.sum(axis=1), atol=1e-12)
    assert np.allclose(X, X[0] + E - D[:, 0], atol=1e-12)
    assert (np.diff(nu, axis=2) >= 0).all()
    assert (nu[..., -1] == S).all()


@settings(max_examples=40, deadline=None)
@given(run=runs(), block=st.sampled_from([1, 2, 7, 64]))
def test_the_path_does_not_depend_on_buffer_sizes(run: tuple[Cell, str], block: int) -> None:
    expected, other = path(run), path(run, block=block)
    for name in ("arrivals", "departures", "ages", "lengths", "longest"):
        assert np.array_equal(getattr(expected, name), getattr(other, name))
    arrays = other.arrays(AGES)
    assert all(np.array_equal(v, arrays[n], equal_nan=True) for n, v in expected.arrays(AGES).items())


@settings(max_examples=40, deadline=None)
@given(run=runs())
def test_the_path_does_not_depend_on_what_is_stored(run: tuple[Cell, str]) -> None:
    """Other times, a longer horizon, fewer levels, no snapshots: equal bits where both look."""
    expected = path(run).arrays(AGES)
    longer = path(run, times=[0.4, 0.7, 3.3, 7.0], snapshots=[1.0, 2.2, 2.7, 6.9]).arrays(AGES)
    fewer = path(run, levels=2, snapshots=[]).arrays(AGES)
    plain = path(run, averages=False, measure=False).arrays(AGES)
    for name in ("S", "D", "X", "E", "R_E"):
        assert np.array_equal(expected[name][[1, 4]], longer[name][[0, 2]])
        assert np.array_equal(expected[name], plain[name])
    for name, values in fewer.items():
        seen = expected[name][:, :2] if name in ("S", "D", "S_average") else expected[name]
        assert np.array_equal(seen, values, equal_nan=True)
    assert expected["longest"] == plain["longest"] <= longer["longest"]
    assert np.array_equal(expected["nu_cdf"][1:], longer["nu_cdf"][[0, 2]])


@settings(max_examples=20, deadline=None)
@given(run=runs())
def test_automatic_levels_show_what_fixed_ones_do(run: tuple[Cell, str]) -> None:
    cell = Cell(N=run[0].N, d=1, lam=9.0, G=run[0].G)
    times = np.linspace(0.0, 6.0, 7)
    S = path((cell, run[1]), times, levels=None, snapshots=[]).arrays(AGES)["S"]
    assert S[:, -1].any()
    wide = path((cell, run[1]), times, levels=S.shape[1] + 5, snapshots=[]).arrays(AGES)["S"]
    assert np.array_equal(wide[:, : S.shape[1]], S)
    assert not wide[:, S.shape[1] :].any()


def test_automatic_levels_hold_queues_of_thousands_of_jobs() -> None:
    cell = Cell(N=2, d=1, lam=30.0, G="exponential", initial="lengths(5000: 1)")
    run = path((cell, "shortest"), levels=None, snapshots=TIMES)
    arrays = run.arrays(AGES)
    assert arrays["S"].shape[1] == run.lengths.max() > 5050
    assert np.array_equal(arrays["S"].sum(axis=1), arrays["X"])
    assert arrays["X"][-1] == run.lengths[-1].mean()
    assert arrays["longest"] >= run.lengths.max()


@pytest.mark.parametrize("G", SERVICES)
def test_queues_served_in_turn_follow_a_plain_event_list(G: str) -> None:
    """The same gaps and services on a heap of events: the same S, D, E and ages, to the last bit."""
    N, seed, horizon = 7, 9, 40.0
    cell = Cell(N=N, d=1, lam=0.9, G=G, arrivals="gamma(shape=0.5)")
    gaps, services = np.empty(1000), np.empty(1000)
    sampler(cell.arrivals, stream(seed, cell.key, 0, Purpose.ARRIVALS))(gaps)
    sampler(cell.G, stream(seed, cell.key, 0, Purpose.SERVICES))(services)
    queues: list[list[float]] = [[] for _ in range(N)]
    started, completed, service = [0.0] * N, [0] * 1000, iter(services.tolist())
    stays: list[tuple[float, float]] = []
    events: list[tuple[float, int, int]] = []
    now, arrived = 0.0, 0
    for arrived, gap in enumerate(gaps.tolist()):
        arrival = now + gap * (1.0 / (cell.lam * N))
        while events and events[0][0] <= min(arrival, horizon):
            instant, _, server = heapq.heappop(events)
            completed[len(queues[server])] += 1
            came = queues[server].pop(0)
            stays.append((instant - came, started[server] - came))
            started[server] = instant
            if queues[server]:
                heapq.heappush(events, (instant + next(service), 0, server))
        if arrival > horizon:
            break
        server, now = arrived % N, arrival
        queues[server].append(now)
        if len(queues[server]) == 1:
            started[server] = now
            heapq.heappush(events, (now + next(service), 0, server))
    run = path((cell, "round-robin"), [horizon], levels=200, snapshots=[horizon], seed=seed)
    assert arrived > 200
    assert run.arrivals[-1].sum() == arrived
    assert run.departures[-1].tolist() == completed[1:202]
    assert run.lengths[0].tolist() == [len(queue) for queue in queues]
    assert run.ages[0].tolist() == [
        horizon - s if queue else 0.0 for queue, s in zip(queues, started, strict=True)
    ]
    arrays = run.arrays(AGES)
    assert arrays["R_E"].tolist() == [horizon - now]
    assert arrays["time_in_system"][0] == pytest.approx(
        sum(stay for stay, _ in stays) / len(stays), rel=1e-12
    )
    assert arrays["waiting_time"][0] == pytest.approx(sum(wait for _, wait in stays) / len(stays), rel=1e-12)
    present = sum(stay for stay, _ in stays) + sum(horizon - came for queue in queues for came in queue)
    assert arrays["X_average"][0] == pytest.approx(present / (N * horizon), rel=1e-12)


def test_events_at_one_time_are_departures_first() -> None:
    """All deterministic, one server: arrivals at 1, 2, 3 and departures at 2, 3, whatever the rule."""
    cell = Cell(N=1, d=1, lam=1.0, G="deterministic", arrivals="deterministic")
    for rule in ROUTING:
        run = path((cell, rule), [0.0, 0.999, 1.0, 1.999, 2.0, 3.0], levels=2, snapshots=[1.0, 1.5, 2.0])
        arrays = run.arrays(AGES)
        assert arrays["E"].tolist() == [0, 0, 1, 1, 2, 3]
        assert arrays["D"][:, 0].tolist() == [0, 0, 0, 0, 1, 2]
        assert arrays["S"].tolist() == [[0, 0], [0, 0], [1, 0], [1, 0], [1, 0], [1, 0]]
        assert arrays["nu_cdf"][:, 0].tolist() == [[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]]


@settings(max_examples=30, deadline=None)
@given(run=runs())
def test_averages_are_those_of_every_interval(run: tuple[Cell, str]) -> None:
    """On a grid that holds few events: between the values at both ends, and they add up on a coarser one."""
    N = run[0].N
    fine = path(run, np.linspace(0.0, 2.0, 2001), levels=40, snapshots=[]).arrays(AGES)
    coarse = path(run, [0.5, 2.0], levels=40, snapshots=[]).arrays(AGES)
    events = np.diff(fine["E"]) + np.diff(fine["D"][:, 0])
    for name in ("S", "X"):
        values, averages = fine[name], fine[f"{name}_average"]
        assert np.array_equal(averages[0], values[0])
        assert np.allclose(averages[1:][events == 0.0], values[1:][events == 0.0], rtol=0.0, atol=1e-12)
        low, high = np.minimum(values[:-1], values[1:]), np.maximum(values[:-1], values[1:])
        single = events < 1.5 / N
        assert (averages[1:][single] >= low[single] - 1e-12).all()
        assert (averages[1:][single] <= high[single] + 1e-12).all()
        assert np.allclose(coarse[f"{name}_average"][0], averages[1:501].mean(axis=0), atol=1e-12)
        assert np.allclose(coarse[f"{name}_average"][1], averages[501:].mean(axis=0), atol=1e-12)


def test_jobs_that_are_there_at_the_start_are_not_measured() -> None:
    """Two queues of two fresh jobs, services and gaps of 1: of two arrivals one waits, both leave at 3."""
    cell = Cell(
        N=2,
        d=1,
        lam=0.5,
        G="deterministic",
        arrivals="deterministic",
        initial="lengths(2: 1)",
    )
    arrays = path((cell, "shortest"), [0.5, 2.5, 3.5], levels=3, snapshots=[]).arrays(AGES)
    assert arrays["longest"] == 2
    assert np.isnan(arrays["time_in_system"][:2]).all()
    assert arrays["time_in_system"][2] == pytest.approx(1.5)
    assert arrays["waiting_time"][2] == pytest.approx(0.5)


@njit(nogil=True)
def choices(choose: Any, network: Network, counts: Any) -> None:
    """Count how often each server is chosen while the words last."""
    word = 0
    while True:
        server, word = choose(network, word)
        if word > network.words.size:
            break
        counts[server] += 1


#: Rule, d, start of five servers, and the exact probability of each of them.
CHOICES: list[tuple[Any, int, bool, str, list[float]]] = [
    (shortest_of_all, 1, True, "lengths(1: 0.4)", [0, 0, 1 / 3, 1 / 3, 1 / 3]),
    (shortest_of_all, 1, True, "lengths(1: 0.4, 2: 0.6)", [0, 0, 0, 1 / 2, 1 / 2]),
    (idle_first, 1, True, "lengths(1: 0.4)", [0, 0, 1 / 3, 1 / 3, 1 / 3]),
    (idle_first, 2, True, "lengths(1: 0.4, 2: 0.6)", [0.12, 0.12, 0.12, 0.32, 0.32]),
    (shortest_sampled, 2, True, "lengths(1: 0.4)", [0.08, 0.08, 0.28, 0.28, 0.28]),
    (shortest_sampled, 2, False, "lengths(1: 0.4)", [0.05, 0.05, 0.3, 0.3, 0.3]),
]


@pytest.mark.parametrize(("choose", "d", "replacement", "initial", "law"), CHOICES)
def test_each_server_is_chosen_with_its_exact_probability(
    choose: Any, d: int, replacement: bool, initial: str, law: list[float]
) -> None:
    """χ² over five servers, the longest queues first; below k + 4√(2k), and a server 5 % too often fails."""
    cell = Cell(N=5, d=d, lam=0.9, G="exponential", initial=initial, replacement=replacement)
    network = network_at_start(cell, 3, 0, EagerSupply(cell, 3, 0, 200_000), Tables(np.array([1.0]), 3))
    lengths0 = network.lengths
    counts = np.zeros(5, dtype=np.int64)
    choices(choose, network, counts)
    expected = counts.sum() * np.array(law)[np.argsort(np.argsort(-lengths0, kind="stable"))]
    support = expected > 0.0
    assert not counts[~support].any()

    def excess(found: Any) -> float:
        k = int(support.sum()) - 1
        return float((((found - expected) ** 2)[support] / expected[support]).sum() - k) / math.sqrt(2.0 * k)

    assert excess(counts) <= 4.0
    assert excess(counts + np.where(np.arange(5) == counts.argmax(), 0.05 * expected, 0.0)) > 4.0


@pytest.mark.parametrize("G", ["deterministic", "exponential"])
def test_the_shortest_of_all_keeps_queues_level(G: str) -> None:
    """Without departures to speak of, n arrivals at N queues leave lengths ⌊n/N⌋ and ⌈n/N⌉."""
    cell = Cell(N=7, d=1, lam=1000.0, G=G, arrivals="deterministic")
    lengths = path((cell, "shortest"), [0.005], levels=8, snapshots=[0.005]).lengths[0]
    assert lengths.sum() + 1 >= 35
    assert lengths.max() - lengths.min() <= 1


def test_an_idle_server_is_never_passed_over() -> None:
    """An arrival joins a busy server only when all are busy, wherever a grid shows it alone."""
    N, horizon = 4, 200.0
    cell = Cell(N=N, d=1, lam=0.9, G="lomax(beta=1.5)")
    times = np.linspace(0.0, horizon, 100_001)

    def passed_over(rule: str) -> tuple[int, int, int]:
        """Arrivals seen alone, those of them that join a busy server, and such ones beside an idle server."""
        run = path((cell, rule), times, levels=2, snapshots=[])
        arrivals, departures = (np.diff(table, axis=0) for table in (run.arrivals, run.departures))
        alone = (arrivals.sum(axis=1) == 1) & (departures.sum(axis=1) == 0)
        queued = alone & (arrivals[:, 0] == 0)
        idle = run.arrays(AGES)["S"][:-1, 0] < 1.0
        return int(alone.sum()), int(queued.sum()), int((queued & idle).sum())

    seen, queued, wrong = passed_over("idle")
    assert seen > 0.95 * cell.lam * N * horizon
    assert 0.2 * seen < queued < 0.8 * seen
    assert wrong == 0
    # One sampled server is passed over often.
    assert passed_over("sampled")[2] > 50


BITS = """
import hashlib
import numpy as np
from sweep.cell import Cell
from sweep.network.eager import run_eager
from sweep.routing import ROUTING
digest = hashlib.sha256()
for rule in ROUTING:
    cell = Cell(N=12, d=1, lam=0.9, G="lognormal(sigma=1.5)", arrivals="gamma(shape=0.5)")
    run = run_eager(cell, rule, times=np.linspace(0, 5, 9), seed=5, replica=0, levels=None, averages=True,
                    measure=True, snapshots=np.array([2.0, 4.5]), block=50)
    for values in (run.arrivals, run.departures, run.ages, run.lengths, *run.averages.values(), run.R_E):
        digest.update(np.ascontiguousarray(values).tobytes())
print(digest.hexdigest())
"""


def test_bits_depend_on_neither_vector_units_nor_compilation() -> None:
    native = printed(BITS)
    assert len(native.strip()) == 2 * hashlib.sha256().digest_size
    assert printed(BITS, environment=WITHOUT_AVX512) == native
    assert printed(BITS, environment=UNCOMPILED) == native
