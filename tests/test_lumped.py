"""Invariants of the lumped simulator, what a path depends on, and every error text."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.cell import Cell
from sweep.network import lumped_kernels as kernels
from sweep.network import place_kernels
from sweep.network.gaps import Gaps
from sweep.network.lumped import run_lumped
from sweep.network.lumped_method import choose_method
from sweep.network.simulate import run_replica
from sweep.network.start import lengths_at_start
from sweep.network.supply import sampler
from sweep.seeds import Purpose, stream
from tests.processors import UNCOMPILED, WITHOUT_AVX512, printed

TIMES = np.array([0.0, 0.4, 1.0, 2.5, 3.3])


@st.composite
def cells(draw: Any) -> Cell:
    """Networks with every option, exponential service."""
    N = draw(st.sampled_from([1, 2, 5, 20, 1000]))
    replacement = draw(st.booleans())
    return Cell(
        N=N,
        d=draw(st.integers(1, 4 if replacement else min(4, N))),
        lam=draw(st.sampled_from([0.3, 0.9, 1.5])),
        G="exponential",
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
            st.sampled_from(["empty", "lengths(3: 1)"] if N < 5 else ["empty", "lengths(1: 0.4, 6: 0.2)"])
        ),
        replacement=replacement,
        fraction=draw(st.sampled_from([0.0, 0.4, 1.0])),
    )


def path(cell: Cell, times: Any = TIMES, levels: int | None = 30, **options: Any) -> dict[str, Any]:
    chosen = {"seed": 5, "replica": 0, "averages": True, **options}
    return run_lumped(cell, times=np.asarray(times), levels=levels, **chosen).arrays()


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return all(np.array_equal(first[name], second[name]) for name in first)


@settings(max_examples=60, deadline=None)
@given(cell=cells(), seed=st.integers(0, 2**70))
def test_a_path_conserves_jobs_and_orders_its_tails(cell: Cell, seed: int) -> None:
    arrays = path(cell, seed=seed, levels=None)
    S, D, X, E = (arrays[name] for name in ("S", "D", "X", "E"))
    assert ((S >= 0) & (S <= 1)).all()
    for tails in (S, D):
        assert (np.diff(tails, axis=1) <= 0).all()
    for counts in (D, E[:, None]):
        assert (np.diff(counts, axis=0) >= 0).all()
    assert np.allclose(S[0], cell.initial.tails(S.shape[1]), atol=1e-12)
    assert np.allclose(X, S.sum(axis=1), atol=1e-12)
    assert np.allclose(X, X[0] + E - D[:, 0], atol=1e-12)
    assert arrays["longest"] >= np.count_nonzero(S.any(axis=0))


@settings(max_examples=40, deadline=None)
@given(cell=cells(), block=st.sampled_from([1, 2, 7, 64]), at_once=st.booleans())
def test_the_path_does_not_depend_on_buffers_and_slots(cell: Cell, block: int, at_once: bool) -> None:
    assert same(path(cell), path(cell, block=block, at_once=at_once))


def test_the_order_of_events_is_kept_when_they_are_applied_at_once() -> None:
    """Slots that need their order and others that do not, at any scale and for long and short queues."""
    for N, d, lam in ((5000, 2, 0.9), (100_000, 1, 0.95), (100_000, 3, 1.5)):
        cell = Cell(N=N, d=d, lam=lam, G="exponential", initial="lengths(1: 0.3, 5: 0.2)")
        expected = path(cell, levels=None, at_once=False)
        assert same(expected, path(cell, levels=None, at_once=True))
        assert same(expected, path(cell, levels=None, block=777))


@settings(max_examples=40, deadline=None)
@given(cell=cells())
def test_the_path_does_not_depend_on_what_is_stored(cell: Cell) -> None:
    expected, longer = path(cell), path(cell, times=[0.4, 0.7, 3.3, 7.0])
    fewer = path(cell, levels=2)
    for name in ("S", "D", "X", "E", "R_E"):
        assert np.array_equal(expected[name][[1, 4]], longer[name][[0, 2]])
    for name in expected:
        seen = expected[name][:, :2] if name in ("S", "D", "S_average") else expected[name]
        assert np.array_equal(seen, fewer[name])
    assert expected["longest"] == fewer["longest"] <= longer["longest"]


@settings(max_examples=30, deadline=None)
@given(cell=cells())
def test_arrival_times_are_those_of_the_network_simulated_server_by_server(cell: Cell) -> None:
    other = run_replica(
        cell, times=TIMES, seed=5, replica=0, levels=3, snapshots=np.empty(0), ages=np.array([math.inf])
    )
    lumped = path(cell, levels=3, averages=False)
    assert np.array_equal(lumped["E"], other["E"])
    assert {name: lumped[name].shape for name in other} == {name: other[name].shape for name in other}


def test_the_longest_queue_is_that_of_a_fine_grid() -> None:
    """At λN = 12 arrivals a unit of time, a grid of 10⁻⁴ misses a peak with probability about 10⁻³."""
    cell = Cell(N=3, d=1, lam=4.0, G="exponential")
    arrays = path(cell, np.linspace(0.0, 5.0, 50_001), levels=None)
    assert arrays["longest"] == arrays["S"].shape[1] == path(cell, [5.0], levels=1)["longest"]


def test_tables_and_counts_grow_with_the_queues() -> None:
    cell = Cell(N=1, d=1, lam=1500.0, G="exponential")
    arrays = path(cell, [0.0, 0.5, 1.0, 2.0], levels=None)
    assert arrays["X"][-1] > 2500
    assert arrays["S"].shape[1] == arrays["X"].max()
    assert same(arrays, path(cell, [0.0, 0.5, 1.0, 2.0], levels=arrays["S"].shape[1]))
    assert same(arrays, path(cell, [0.0, 0.5, 1.0, 2.0], levels=None, block=3))
    empty = path(cell, [0.0], levels=None)
    assert empty["S"].tolist() == [[0.0]]
    assert empty["longest"] == 0


def last_place(N: int, d: int, replacement: bool) -> Any:
    """P(last of d places = p), p = 0 … N − 1."""
    if replacement:
        return np.array([((p + 1) ** d - p**d) / N**d for p in range(N)])
    return np.array([(math.comb(p + 1, d) - math.comb(p, d)) / math.comb(N, d) for p in range(N)])


@pytest.mark.parametrize("fraction", [1.0, 0.4])
@pytest.mark.parametrize(
    ("d", "replacement"), [(1, True), (2, True), (2, False), (3, False), (6, False), (9, False)]
)
def test_the_last_sampled_place_has_its_exact_law(d: int, replacement: bool, fraction: float) -> None:
    """χ² over N = 9 places; 2 of 9 and 3 of 9 are drawn one by one, 6 and 9 of 9 sought from the end.

    χ² with k degrees of freedom stays below k + 4√(2k); a place 5 % too frequent exceeds it.
    """
    N, count = 9, 1 << 17
    places = np.empty(count, dtype=np.uint32)
    words = np.random.Generator(np.random.PCG64(7)).integers(2**32, size=4 * count * (d + 2), dtype=np.uint32)
    filled, used = place_kernels.sample_places(
        place_kernels.Sampling(N, d, fraction, replacement), words, places
    )
    assert filled == count
    assert used < words.size
    law = fraction * last_place(N, d, replacement) + (1.0 - fraction) / N
    support = law > 0.0
    counts = np.bincount(places, minlength=N)
    assert not counts[~support].any()
    if support.sum() == 1:
        return

    def excess(counts: Any) -> float:
        expected, k = count * law[support], support.sum() - 1
        return float((((counts[support] - expected) ** 2 / expected).sum() - k) / np.sqrt(2.0 * k))

    assert excess(counts) <= 4.0
    assert excess(counts + np.where(np.arange(N) == N - 1, 0.05 * count * law, 0.0)) > 4.0


def test_rejected_words_leave_the_places_uniform() -> None:
    """N = 3·2³⁰ rejects a quarter of the words: a place below N/3 has probability 1/3, not 2/4 or 1/4."""
    N, count = 3 << 30, 1 << 16
    places = np.empty(count, dtype=np.uint32)
    words = np.random.Generator(np.random.PCG64(8)).integers(2**32, size=2 * count, dtype=np.uint32)
    filled, used = place_kernels.sample_places(place_kernels.Sampling(N, 1, 1.0, True), words, places)
    assert filled == count
    assert abs(used / count - 4.0 / 3.0) < 0.02
    thirds = np.bincount(places // np.uint32(1 << 30), minlength=3)
    assert (np.abs(thirds - count / 3) <= 4.0 * math.sqrt(count * 2.0 / 9.0)).all()


def test_replicas_and_seeds_differ() -> None:
    cell = Cell(N=20, d=2, lam=0.9, G="exponential")
    runs = [path(cell, seed=seed, replica=replica) for seed, replica in ((1, 0), (1, 1), (2, 0))]
    assert len({run["D"].tobytes() for run in runs}) == 3


@settings(max_examples=30, deadline=None)
@given(cell=cells())
def test_averages_are_those_of_every_interval(cell: Cell) -> None:
    """On a grid that holds few events: between the values at both ends, and they add up on a coarser one."""
    fine = path(cell, np.linspace(0.0, 2.0, 2001), levels=40)
    for name in ("S", "X"):
        values, averages = fine[name], fine[f"{name}_average"]
        assert np.array_equal(averages[0], values[0])
        quiet = (np.diff(fine["E"]) == 0.0) & (np.diff(fine["D"][:, 0]) == 0.0)
        assert np.allclose(averages[1:][quiet], values[1:][quiet], rtol=0.0, atol=1e-12)
        single = np.diff(fine["E"]) + np.diff(fine["D"][:, 0]) < 1.5 / cell.N
        low, high = np.minimum(values[:-1], values[1:]), np.maximum(values[:-1], values[1:])
        assert (averages[1:][single] >= low[single] - 1e-12).all()
        assert (averages[1:][single] <= high[single] + 1e-12).all()
        coarse = path(cell, [0.5, 2.0], levels=40)[f"{name}_average"]
        assert np.allclose(coarse[0], averages[1:501].mean(axis=0), atol=1e-12)
        assert np.allclose(coarse[1], averages[501:].mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("arrivals", ["exponential", "renewal(erlang(k=3), age=0.7)"])
def test_the_time_since_the_last_arrival_is_that_of_the_gaps(arrivals: str) -> None:
    cell, times = Cell(N=4, d=2, lam=0.9, G="exponential", arrivals=arrivals), np.linspace(0.0, 4.0, 41)
    stream_of_gaps = Gaps(cell, stream(5, cell.key, 0, Purpose.ARRIVALS), sampler)
    gaps = np.empty(100)
    stream_of_gaps.fill(gaps)
    scale = 1.0 / (cell.lam * cell.N)
    instants = np.append(-stream_of_gaps.age * scale, np.cumsum(gaps * scale))
    expected = times - instants[np.searchsorted(instants, times, side="right") - 1]
    assert instants[-1] > 4.0
    assert np.allclose(path(cell, times)["R_E"], expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("initial", ["invariant", "lengths(1: 0.5, 3: 0.25, ages=equilibrium)", "explicit"])
def test_lengths_at_the_start_are_those_of_the_servers(initial: str) -> None:
    """Ages do not matter to exponential service."""
    given: Any = (np.arange(40) % 4, np.where(np.arange(40) % 4 > 0, 0.5, 0.0))
    cell = Cell(N=40, d=2, lam=0.8, G="exponential", initial=given if initial == "explicit" else initial)
    arrays = path(cell, levels=None)
    counts = lengths_at_start(cell, 5, 0)
    assert arrays["X"][0] * 40 == (np.arange(counts.size) * counts).sum()
    assert (arrays["S"][0] * 40).round().tolist()[: counts.size - 1] == counts[:0:-1].cumsum()[::-1].tolist()
    assert arrays["E"][-1] > 0


BITS = """
import hashlib
import numpy as np
from sweep.cell import Cell
from sweep.network.lumped import run_lumped
digest = hashlib.sha256()
for N, replacement, fraction in ((10, True, 1.0), (10, False, 0.5), (400, True, 1.0)):
    cell = Cell(N=N, d=2, lam=0.9, G="exponential", arrivals="lognormal(sigma=1.5)",
                replacement=replacement, fraction=fraction)
    run = run_lumped(cell, times=np.linspace(0, 2, 9), seed=5, replica=0, levels=None, averages=True,
                     at_once=N > 100)
    for values in run.arrays().values():
        digest.update(np.ascontiguousarray(values).tobytes())
print(digest.hexdigest())
"""


def test_bits_depend_on_neither_vector_units_nor_compilation() -> None:
    native = printed(BITS)
    assert len(native.strip()) == 2 * hashlib.sha256().digest_size
    assert printed(BITS, environment=WITHOUT_AVX512) == native
    assert printed(BITS, environment=UNCOMPILED) == native


LARGE: dict[str, Any] = {"N": 10**6, "d": 2, "lam": 0.9, "G": "exponential"}


@pytest.mark.parametrize(
    ("change", "method", "chosen"),
    [
        ({}, "servers", "servers"),
        ({}, "lumped", "lumped"),
        ({"N": 10}, "lumped", "lumped"),
        ({"G": "deterministic"}, "servers", "servers"),
        ({}, "auto", "lumped"),
        ({"N": 10**6 - 1}, "auto", "servers"),
        ({"N": 200_000, "d": 3}, "auto", "lumped"),
        ({"N": 199_999, "d": 3}, "auto", "servers"),
        ({"fraction": 0.5}, "auto", "servers"),
        ({"fraction": 0.5, "N": 10**7}, "auto", "lumped"),
        ({"d": 1}, "auto", "servers"),
        ({"G": "deterministic"}, "auto", "servers"),
    ],
)
def test_the_method_follows_from_the_cell(change: dict[str, Any], method: str, chosen: str) -> None:
    assert choose_method(Cell(**{**LARGE, **change}), method=method) == chosen


def test_what_servers_show_does_not_change_the_method() -> None:
    cell = Cell(**{**LARGE, "G": "deterministic"})
    assert choose_method(cell, snapshots=2, tagged=3, measure=True, method="auto") == "servers"
    assert choose_method(cell, routing="shortest", method="auto") == "servers"


@pytest.mark.parametrize(
    ("change", "options", "text"),
    [
        (
            {"G": "lomax(beta=1.5)"},
            {"method": "lumped"},
            r'G must be exponential with method = "lumped", which keeps level counts alone, '
            r'got lomax\(beta=1.5\): use method = "servers"',
        ),
        ({}, {"method": "fast"}, "method must be one of servers, lumped, auto, got 'fast'"),
        (
            {},
            {"method": "lumped", "routing": "idle"},
            'routing must be "sampled" with method = "lumped", got "idle": use method = "servers"',
        ),
        (
            {},
            {"method": "lumped", "snapshots": 2},
            'snapshots must be none with method = "lumped", which keeps level counts alone, got 2: '
            'use method = "servers"',
        ),
        ({}, {"method": "auto", "snapshots": 2}, 'snapshots must be none with method = "auto", which keeps'),
        (
            {},
            {"method": "lumped", "measure": True},
            'measure must be false with method = "lumped", .* got true',
        ),
        ({}, {"method": "lumped", "tagged": 3}, 'tagged must be 0 with method = "lumped", .* got 3'),
    ],
)
def test_methods_that_cannot_be_used_are_refused(
    change: dict[str, Any], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        choose_method(Cell(**{**LARGE, **change}), **options)


def test_cells_that_cannot_be_lumped_are_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "run", None)
    with pytest.raises(ValueError, match='G must be exponential with method = "lumped"'):
        path(Cell(N=10, d=2, lam=0.9, G="deterministic"))
