"""Invariants of the simulator, what a path depends on, and every error text."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.cell import Cell
from sweep.laws import LAWS
from sweep.network import random_kernels, state
from sweep.network.simulate import _LEVELS as START_LEVELS
from sweep.network.simulate import Path, run_path, run_replica, simulate
from sweep.network.supply import LANES, Supply, Words
from tests.processors import NATIVE, PLAIN_CODE, UNCOMPILED, WITHOUT_AVX512, printed

TIMES = np.array([0.0, 0.4, 1.0, 2.5, 3.3])
SNAPSHOTS = np.array([0.0, 1.0, 2.7])
AGES = np.array([0.0, 0.3, 1.0, np.inf])
EXAMPLES = {
    "exponential": "exponential",
    "erlang": "erlang(k=4)",
    "gamma": "gamma(shape=0.5)",
    "hyperexponential": "hyperexponential(scv=10)",
    "lomax": "lomax(beta=1.5)",
    "pareto": "pareto(beta=1.5)",
    "weibull": "weibull(shape=0.5)",
    "lognormal": "lognormal(sigma=1.5)",
    "uniform": "uniform(width=1)",
    "deterministic": "deterministic",
    "phase_type": "phase_type(alpha=[1, 0], T=[[-2, 1], [0, -1]])",
}


@st.composite
def cells(draw: Any) -> Cell:
    """Small networks with every option."""
    N = draw(st.sampled_from([1, 2, 5, 20]))
    replacement = draw(st.booleans())
    return Cell(
        N=N,
        d=draw(st.integers(1, 4 if replacement else min(4, N))),
        lam=draw(st.sampled_from([0.3, 0.9, 1.5])),
        G=draw(st.sampled_from(list(EXAMPLES.values()))),
        arrivals=draw(st.sampled_from(["exponential", "deterministic", "gamma(shape=0.5)"])),
        initial=draw(
            st.sampled_from(["empty", "lengths(3: 1)"] if N < 5 else ["empty", "lengths(1: 0.4, 6: 0.2)"])
        ),
        replacement=replacement,
        fraction=draw(st.sampled_from([0.0, 0.4, 1.0])),
    )


def path(
    cell: Cell, times: Any = TIMES, levels: int | None = 30, snapshots: Any = SNAPSHOTS, **options: Any
) -> Path:
    chosen = {"seed": 5, "replica": 0, **options}
    return run_path(cell, times=np.asarray(times), levels=levels, snapshots=np.asarray(snapshots), **chosen)


@settings(max_examples=60, deadline=None)
@given(cell=cells(), seed=st.integers(0, 2**70))
def test_a_path_conserves_jobs_and_orders_its_tails(cell: Cell, seed: int) -> None:
    run = path(cell, seed=seed, levels=None, times=np.append(TIMES, 4.0), snapshots=TIMES)
    arrays = run.arrays(AGES)
    S, D, X, E, nu = (arrays[name] for name in ("S", "D", "X", "E", "nu_cdf"))
    assert ((S >= 0) & (S <= 1)).all()
    for tails in (S, D, nu[..., -1]):
        assert (np.diff(tails, axis=1) <= 0).all()
    assert (np.diff(D, axis=0) >= 0).all()
    assert np.allclose(X, S.sum(axis=1), atol=1e-12)
    start = cell.initial.lengths(cell.N).mean()
    assert np.allclose(X, start + E - D[:, 0], atol=1e-12)
    assert (np.diff(nu, axis=2) >= 0).all()
    assert (nu[..., -1] == S[: TIMES.size]).all()


@settings(max_examples=40, deadline=None)
@given(cell=cells())
def test_each_level_balances_its_events(cell: Cell) -> None:
    """S_ℓ(t) = S_ℓ(0) + arrivals to ℓ − departures from exactly ℓ, and D_ℓ − D_(ℓ+1) is the latter."""
    run = path(cell)
    arrays = run.arrays(AGES)
    exactly = -np.diff(arrays["D"] * cell.N, axis=1)
    raised = run.arrivals[:, :29] + cell.N * cell.initial.tails(29)
    assert np.allclose(arrays["S"][:, :29] * cell.N, raised - exactly, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(cell=cells(), block=st.sampled_from([1, 2, 7, 64]))
def test_the_path_does_not_depend_on_buffer_sizes(cell: Cell, block: int) -> None:
    expected, other = path(cell), path(cell, block=block)
    assert all(np.array_equal(getattr(expected, name), getattr(other, name)) for name in Path.__annotations__)


@settings(max_examples=40, deadline=None)
@given(cell=cells())
def test_the_path_does_not_depend_on_what_is_stored(cell: Cell) -> None:
    """Other times, a longer horizon, fewer levels, no snapshots: equal bits where both look."""
    expected = path(cell).arrays(AGES)
    longer = path(cell, times=[0.4, 0.7, 3.3, 7.0], snapshots=[1.0, 2.2, 2.7, 6.9]).arrays(AGES)
    fewer = path(cell, levels=2, snapshots=[]).arrays(AGES)
    for name in ("S", "D", "X", "E"):
        assert np.array_equal(expected[name][[1, 4]], longer[name][[0, 2]])
        assert np.array_equal(expected[name] if name in "XE" else expected[name][:, :2], fewer[name])
    assert np.array_equal(expected["nu_cdf"][1:], longer["nu_cdf"][[0, 2]])


def test_automatic_levels_end_at_the_longest_queue_seen() -> None:
    cell = Cell(N=3, d=1, lam=4.0, G="exponential")
    times = np.linspace(0.0, 20.0, 11)
    S = path(cell, times, levels=None, snapshots=[]).arrays(AGES)["S"]
    assert S.shape[1] > 2 * START_LEVELS
    assert S[:, -1].any()
    wide = path(cell, times, levels=S.shape[1] + 5, snapshots=[]).arrays(AGES)["S"]
    assert np.array_equal(wide[:, : S.shape[1]], S)
    assert not wide[:, S.shape[1] :].any()


def test_jobs_above_the_stored_levels_are_counted_in_X_and_D() -> None:
    cell = Cell(N=4, d=1, lam=2.0, G="exponential", initial="lengths(5: 1)")
    one, many = (path(cell, levels=levels, snapshots=[]).arrays(AGES) for levels in (1, 60))
    assert np.array_equal(one["X"], many["X"])
    assert np.array_equal(one["D"][:, 0], many["D"][:, 0])


def test_events_at_a_stored_time_count_there() -> None:
    """One server, all deterministic: arrivals at 1, 2, 3, departures at 2, 3, …, departures first."""
    cell = Cell(N=1, d=1, lam=1.0, G="deterministic", arrivals="deterministic")
    arrays = path(cell, [0.0, 0.999, 1.0, 1.999, 2.0, 3.0], levels=2, snapshots=[1.0, 1.5, 2.0]).arrays(AGES)
    assert arrays["E"].tolist() == [0, 0, 1, 1, 2, 3]
    assert arrays["D"][:, 0].tolist() == [0, 0, 0, 0, 1, 2]
    assert arrays["S"].tolist() == [[0, 0], [0, 0], [1, 0], [1, 0], [1, 0], [1, 0]]
    assert arrays["nu_cdf"][:, 0].tolist() == [[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]]


def test_arrivals_of_a_poisson_stream_have_its_variance() -> None:
    """E(t) is Poisson with mean λNt; var/mean has standard error √(2/n), and the twin's mean is 4 % off."""
    cell = Cell(N=20, d=2, lam=0.9, G="exponential")
    counts = np.array([path(cell, [0.0, 5.0], 1, [], replica=r).arrivals[-1].sum() for r in range(2000)])
    assert abs(counts.var(ddof=1) / counts.mean() - 1.0) <= 4.0 * np.sqrt(2.0 / 2000)
    for mean, agrees in ((90.0, True), (90.0 * 1.04, False)):
        assert bool(abs(counts.mean() - mean) <= 4.0 * np.sqrt(mean / 2000)) is agrees


@pytest.mark.parametrize(("d", "replacement"), [(1, True), (2, True), (3, False), (4, False), (7, False)])
def test_sampled_servers_are_uniform(d: int, replacement: bool) -> None:
    """χ² of each place of the sample over N = 7 servers, and of pairs; without replacement none is repeated.

    d = 3 redraws repeated servers and d = 4, 7 shuffle. χ² with k degrees of freedom stays below k +
    4√(2k); a server 5 % too frequent exceeds it.
    """
    N, rows = 7, 200_000
    words = np.random.Generator(np.random.PCG64(3)).integers(2**32, size=rows * d * 8, dtype=np.uint32)
    targets = np.zeros(rows * d, dtype=np.uint32)
    cell = Cell(N=N, d=d, lam=0.9, G="exponential", replacement=replacement)
    filled, _ = random_kernels.route(Supply(cell, 1, 0, 64).routing, words, targets, rows)
    assert filled == rows
    sample = targets.reshape(rows, d).astype(np.int64)
    if not replacement:
        assert (np.diff(np.sort(sample, axis=1), axis=1) > 0).all()

    def excess(counts: Any, expected: Any) -> float:
        k = counts.size - 1
        return float((((counts - expected) ** 2 / expected).sum() - k) / np.sqrt(2.0 * k))

    for place in range(d):
        counts = np.bincount(sample[:, place], minlength=N)
        assert excess(counts, rows / N) <= 4.0
        assert excess(counts + np.where(np.arange(N) == 0, 0.05 * rows / N, 0.0), rows / N) > 4.0
    if d > 1:
        pairs = np.bincount(sample[:, 0] * N + sample[:, -1], minlength=N * N)
        allowed = np.arange(N * N) if replacement else np.flatnonzero(~np.eye(N, dtype=bool).ravel())
        assert excess(pairs[allowed], rows / allowed.size) <= 4.0


@pytest.mark.parametrize(
    "options",
    [{"d": 1}, {"d": 4, "fraction": 0.3}, {"d": 3, "replacement": False}, {"d": 5, "replacement": False}],
)
@pytest.mark.parametrize("room", [0, 1, 4])
def test_targets_are_those_of_one_run_of_words(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], room: int
) -> None:
    """However many are dealt at a time and however few may be left over, no word is lost or used twice."""
    cell = Cell(N=5, lam=0.9, G="exponential", **options)
    whole = Supply(cell, seed=1, replica=0, block=2000)
    monkeypatch.setattr("sweep.network.supply._ROOM", room)
    monkeypatch.setattr("sweep.network.supply._WORDS", 1)
    parts = Supply(cell, seed=1, replica=0, block=64)
    found, used = [parts.draws.targets[-parts.draws.ahead :].copy()], np.zeros(2, dtype=np.int64)
    while sum(part.size for part in found) < 1000 * cell.d:
        parts.refill(state.NEEDS_GAPS, used)
        found.append(parts.draws.targets[parts.draws.ahead :].copy())
    whole.refill(state.NEEDS_GAPS, used)
    assert np.array_equal(np.concatenate(found)[: 1000 * cell.d], whole.draws.targets[: 1000 * cell.d])


def test_rejected_words_are_replaced_and_none_is_lost() -> None:
    """N = 3·10⁹ rejects 30 % of the words; a plain reckoning in whole numbers, for every number of rows."""
    N, d = 3_000_000_000, 2
    routing = Supply(Cell(N=N, d=d, lam=0.9, G="exponential"), 1, 0, 64).routing
    words = np.random.Generator(np.random.PCG64(4)).integers(2**32, size=400, dtype=np.uint32)
    products = [int(word) * N for word in words]
    kept = [place for place, product in enumerate(products) if product % 2**32 >= 2**32 % N]
    for rows in range(1, len(kept) // d + 5):
        targets = np.zeros(rows * d, dtype=np.uint32)
        filled, used = random_kernels.route(routing, words, targets, rows)
        assert filled == min(rows, len(kept) // d)
        assert targets[: filled * d].tolist() == [products[place] >> 32 for place in kept[: filled * d]]
        assert kept[filled * d - 1] < used <= (kept[filled * d] if filled * d < len(kept) else words.size)


def test_words_are_those_of_sfc64_generators_in_turn() -> None:
    """Against NumPy's SFC64, seeded by the same words, whatever the sizes drawn."""
    seeds = np.random.PCG64(6).random_raw(3 * LANES).reshape(3, LANES)
    words = Words(np.random.Generator(np.random.PCG64(6)))
    found = np.concatenate([words.draw(size) for size in (1, 0, 200, LANES, 5 * LANES - 201)])
    for lane in range(LANES):
        generator = np.random.SFC64(0)
        state_words = np.append(seeds[:, lane], np.uint64(1))
        generator.state = {**generator.state, "state": {"state": state_words}}
        generator.random_raw(12)
        assert (found.reshape(-1, LANES)[:, lane] == generator.random_raw(6)).all()


def test_exponential_times_are_exact_logarithms() -> None:
    """−log u to 4e-16 of its value for u on the grid of 2⁻⁵², the ends among them."""
    ends = np.array([0, 2**12 - 1, 2**12, 2**63 - 1, 2**63, 2**64 - 2**12, 2**64 - 1], dtype=np.uint64)
    words = np.append(ends, np.random.PCG64(7).random_raw(100_000))
    times = np.empty(words.size)
    random_kernels.exponential_times(words, times)
    exact = [-math.log(1.0 - (int(word) >> 12) * 2.0**-52) for word in words]
    assert times[:2].tolist() == [0.0, 0.0]
    assert times[ends.size - 1] == pytest.approx(52 * math.log(2), rel=1e-15)
    np.testing.assert_allclose(times, exact, rtol=4e-16, atol=0.0)


def test_exponential_times_have_their_law() -> None:
    """Tails at seven ages; a time 1 % too long is found out at age 1 already."""
    times, n = np.empty(1 << 20), 1 << 20
    random_kernels.exponential_times(Words(np.random.Generator(np.random.PCG64(8))).draw(n), times)
    for stretch, agrees in ((1.0, True), (1.01, False)):
        z = [
            ((times * stretch > age).mean() - math.exp(-age))
            / math.sqrt(math.exp(-age) * -math.expm1(-age) / n)
            for age in (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
        ]
        assert bool(max(map(abs, z)) <= 4.0) is agrees


def test_many_choices_work_with_small_buffers() -> None:
    for N, d, replacement in ((200, 60, False), (200, 150, False), (200, 200, False), (50, 300, True)):
        cell = Cell(N=N, d=d, lam=0.9, G="exponential", replacement=replacement)
        small, large = path(cell, block=7).arrays(AGES), path(cell).arrays(AGES)
        assert all(np.array_equal(small[name], large[name]) for name in small)


def test_replicas_and_seeds_differ() -> None:
    cell = Cell(N=20, d=2, lam=0.9, G="exponential")
    runs = [path(cell, seed=seed, replica=replica) for seed, replica in ((1, 0), (1, 1), (2, 0))]
    assert len({run.departures.tobytes() for run in runs}) == 3


def test_the_dataset_is_labelled_and_equals_the_replica() -> None:
    data = simulate(
        N=10, d=2, lam=0.9, G="uniform(width=1)", times=TIMES, seed=1, replica=3, levels=4, snapshots=[1, 2]
    )
    assert dict(data.sizes) == {"t": 5, "level": 4, "snapshot": 2, "age": 66}
    assert data.age[-1] == np.inf
    assert all(
        variable.attrs["units"] and variable.attrs["long_name"] for variable in data.variables.values()
    )
    cell = Cell(N=10, d=2, lam=0.9, G="uniform(width=1)")
    arrays = run_replica(
        cell,
        times=TIMES,
        seed=1,
        replica=3,
        levels=4,
        snapshots=np.array([1.0, 2.0]),
        ages=data.age.values,
    )
    assert all(np.array_equal(data[name], values) for name, values in arrays.items())


BITS = """
import hashlib, json, sys
import numpy as np
from sweep.cell import Cell
from sweep.network.simulate import run_path
found = {}
for law in json.loads(sys.argv[1]):
    digest = hashlib.sha256()
    for replacement, fraction in ((True, 1.0), (False, 0.5)):
        cell = Cell(N=10, d=2, lam=0.9, G=law, arrivals=law, replacement=replacement, fraction=fraction)
        run = run_path(
            cell, times=np.linspace(0, 3, 13), seed=5, replica=0, levels=None, snapshots=np.array([1.5])
        )
        for values in run.arrays(np.array([0.1, 0.5, np.inf])).values():
            digest.update(np.ascontiguousarray(values).tobytes())
        digest.update(run.ages.tobytes())
    found[law] = digest.hexdigest()
print(json.dumps(found))
"""


def bits(laws: list[str], environment: Mapping[str, str] = NATIVE) -> dict[str, str]:
    found: dict[str, str] = json.loads(printed(BITS, json.dumps(laws), environment=environment))
    return found


@pytest.fixture(scope="module")
def every_law(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """One law of each kind; that of a trace needs a file."""
    file = tmp_path_factory.mktemp("laws") / "trace.txt"
    file.write_text("0.3\n1.1\n0.7\n4.2\n0.9\n")
    assert {*EXAMPLES, "trace"} == set(LAWS), "each law needs an example here"
    return [*EXAMPLES.values(), f"trace({file})"]


@pytest.fixture(scope="module")
def native_bits(every_law: list[str]) -> dict[str, str]:
    return bits(every_law)


def test_bits_do_not_depend_on_vector_units(every_law: list[str], native_bits: dict[str, str]) -> None:
    assert bits(every_law, WITHOUT_AVX512) == native_bits


def test_bits_do_not_depend_on_compilation(every_law: list[str], native_bits: dict[str, str]) -> None:
    assert bits(every_law, UNCOMPILED) == native_bits


def test_bits_do_not_depend_on_the_processor_compiled_for(native_bits: dict[str, str]) -> None:
    """Plain code against the host's: neither wider vectors nor fused multiply-adds may change a time."""
    plain = bits(["exponential"], PLAIN_CODE)
    assert plain == {"exponential": native_bits["exponential"]}


def test_every_law_gives_the_same_path_from_small_buffers(every_law: list[str]) -> None:
    for law in every_law:
        cell = Cell(N=10, d=2, lam=0.9, G=law, arrivals=law)
        small, large = path(cell, block=5).arrays(AGES), path(cell).arrays(AGES)
        assert all(np.array_equal(small[name], large[name]) for name in small), law


def test_a_longer_run_goes_on_with_the_same_bits_at_any_scale() -> None:
    """A medium network whose buffers are refilled many times, and its digest under two horizons."""
    cell = Cell(N=3000, d=3, lam=0.95, G="lomax(beta=1.5)")
    digests = {
        hashlib.sha256(path(cell, times, 12, [], block=block).arrays(AGES)["S"][:3].tobytes()).hexdigest()
        for times, block in (([1.0, 4.0, 9.5], None), ([1.0, 4.0, 9.5, 20.0], None), ([1.0, 4.0, 9.5], 1000))
    }
    assert len(digests) == 1
