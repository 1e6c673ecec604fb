"""Time averages, times in system, R_E and the longest queue, against a recursion and exact identities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.network import state
from sweep.network.simulate import Path, run_path, simulate
from sweep.network.supply import Supply

Floats = NDArray[np.float64]
AGES = np.array([0.5, np.inf])
LAWS = ["exponential", "deterministic", "gamma(shape=0.5)", "lomax(beta=1.5)", "erlang(k=3)"]


def run(cell: Cell, times: Any, levels: int | None = 8, **options: Any) -> Path:
    chosen = {"seed": 3, "replica": 1, "snapshots": np.empty(0), "averages": True, "measure": True, **options}
    return run_path(cell, times=np.asarray(times, dtype=np.float64), levels=levels, **chosen)


class Queue:
    """One server, one queue: arrivals and departures of all jobs by the recursion of Lindley.

    The numbers are those of the replica: with one server, services are handed out in the order of arrival.
    """

    def __init__(self, cell: Cell, jobs: int, present: int = 0) -> None:
        supply = Supply(cell, 3, 1, jobs + 64)
        busy = supply.initial_services(min(present, 1))
        gaps = np.empty(jobs)
        supply._fill_gaps(gaps)
        services = np.append(busy, np.empty(jobs + present - busy.size))
        supply._services(services[busy.size :])
        arrivals = np.zeros(present).tolist()
        now = 0.0
        for gap in gaps.tolist():
            now += gap * (1.0 / (cell.lam * cell.N))
            arrivals.append(now)
        began, left, free = [], [], 0.0
        for arrival, service in zip(arrivals, services.tolist(), strict=True):
            began.append(max(arrival, free))
            free = began[-1] + service
            left.append(free)
        self.arrivals, self.began, self.left = np.array(arrivals), np.array(began), np.array(left)
        self.present = present

    def averages(self, start: float, end: float, levels: int) -> Floats:
        """Time averages of 1{length ≥ ℓ} for ℓ = 1 … `levels`."""
        times = np.append(self.arrivals, self.left)
        order = np.argsort(times, kind="stable")
        steps = np.repeat([1, -1], [self.arrivals.size, self.left.size])[order]
        edges = np.clip(np.concatenate([[start], times[order], [end]]), start, end)
        length = np.append(0, np.cumsum(steps))
        lasting = np.diff(edges)
        return np.array([lasting[length >= level].sum() for level in range(1, levels + 1)]) / (end - start)


@pytest.mark.parametrize("initial", ["empty", "lengths(3: 1)"])
@pytest.mark.parametrize("G", LAWS)
def test_one_queue_follows_the_recursion_of_lindley(G: str, initial: str) -> None:
    """Averages, times in system, waits, R_E and the longest queue of one server, event by event."""
    cell = Cell(N=1, d=1, lam=0.8, G=G, arrivals="gamma(shape=0.5)", initial=initial)
    times = np.array([0.0, 0.7, 5.0, 20.3, 60.0])
    path = run(cell, times)
    queue = Queue(cell, 200, 0 if initial == "empty" else 3)
    assert queue.arrivals[-1] > times[-1]
    arrays = path.arrays(AGES)
    for k in range(1, times.size):
        start, end = times[k - 1], times[k]
        exact = queue.averages(start, end, 200)
        np.testing.assert_allclose(arrays["S_average"][k], exact[:8], rtol=0, atol=1e-12)
        assert arrays["X_average"][k] == pytest.approx(exact.sum(), abs=1e-11)
        jobs = (queue.left > start) & (queue.left <= end)
        jobs[: queue.present] = False
        if jobs.any():
            system = (queue.left - queue.arrivals)[jobs].mean()
            waiting = (queue.began - queue.arrivals)[jobs].mean()
            assert arrays["time_in_system"][k] == pytest.approx(system, rel=1e-12)
            assert arrays["waiting_time"][k] == pytest.approx(waiting, rel=1e-12, abs=1e-12)
        else:
            assert np.isnan(arrays["time_in_system"][k])
        earlier = queue.arrivals[queue.present :][queue.arrivals[queue.present :] <= end]
        assert arrays["R_E"][k] == end - (earlier[-1] if earlier.size else 0.0)
    assert arrays["S_average"][0].tolist() == arrays["S"][0].tolist()
    assert np.isnan(arrays["time_in_system"][0])
    lengths = [
        np.sum(queue.arrivals <= t) - np.sum(queue.left <= t)
        for t in queue.arrivals[queue.arrivals <= times[-1]]
    ]
    assert arrays["longest"] == max(lengths)


@settings(max_examples=30, deadline=None)
@given(
    N=st.sampled_from([1, 3, 20, 300]),
    d=st.integers(1, 3),
    G=st.sampled_from(LAWS),
)
def test_times_in_system_sum_to_the_integral_of_the_number_of_jobs(N: int, d: int, G: str) -> None:
    """Arrivals end at time 5 and all jobs leave: Σ times in system = ∫ X, Σ waits = ∫ (X − S_1), exactly."""
    cell = Cell(N=N, d=d, lam=0.9, G=G, arrivals="profile(0: 1, 5: 0)")
    # Of 1400 services of lomax(1.5) one takes longer than 1e5 with probability 5e-5.
    times = np.array([2.0, 5.0, 60.0, 400.0, 1e5])
    arrays = run(cell, times, levels=None).arrays(AGES)
    assert arrays["X"][-1] == 0.0
    length = np.diff(times, prepend=0.0)
    left = np.diff(arrays["D"][:, 0], prepend=0.0)
    for name, jobs in (
        ("time_in_system", arrays["X_average"]),
        ("waiting_time", arrays["X_average"] - arrays["S_average"][:, 0]),
    ):
        measured, integral = (np.nan_to_num(arrays[name]) * left).sum(), (jobs * length).sum()
        assert measured == pytest.approx(integral, rel=1e-11, abs=1e-11)


@settings(max_examples=30, deadline=None)
@given(
    N=st.sampled_from([1, 5, 40, 400]),
    G=st.sampled_from(LAWS),
    d=st.sampled_from([1, 2, 5]),
    block=st.sampled_from([1, 7, 64, 1000]),
    levels=st.sampled_from([None, 1, 30]),
)
def test_averages_add_up_and_change_nothing(N: int, G: str, d: int, block: int, levels: int | None) -> None:
    """A coarse average is the mean of fine ones; asking, and buffers, leave the path as it is."""
    cell = Cell(N=N, d=d, lam=1.2, G=G, initial="lengths(3: 1)")
    fine, coarse = np.linspace(0.0, 6.0, 37)[1:], np.array([1.0, 3.0, 6.0])
    both = [run(cell, times, levels=30) for times in (fine, coarse)]
    for name in ("S_average", "X_average"):
        first, second = (path.arrays(AGES)[name] for path in both)
        ends = np.searchsorted(fine, coarse - 1e-9) + 1
        for k, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            np.testing.assert_allclose(first[a:b].mean(axis=0), second[k], rtol=1e-11, atol=1e-12)
    plain = run(cell, coarse, levels=levels, averages=False, measure=False).arrays(AGES)
    asked, blocked = (run(cell, coarse, levels=levels, block=b).arrays(AGES) for b in (None, block))
    assert set(asked) - set(plain) == {"S_average", "X_average", "time_in_system", "waiting_time"}
    assert all(np.array_equal(plain[name], asked[name]) for name in plain)
    assert all(np.array_equal(blocked[name], asked[name], equal_nan=True) for name in asked)
    shown = asked["S_average"].shape[1]
    assert shown == asked["S"].shape[1]
    assert np.array_equal(asked["S_average"], both[1].arrays(AGES)["S_average"][:, :shown])


def test_the_longest_queue_is_that_up_to_the_last_stored_time_whatever_the_levels() -> None:
    cell = Cell(N=5, d=1, lam=2.0, G="exponential")
    times = np.linspace(0.0, 12.0, 1201)
    longest = [run(cell, times[: k + 1], levels=2).longest for k in (0, 300, 640, 1200)]
    automatic = run(cell, times, levels=None)
    S = automatic.arrays(AGES)["S"]
    for k, value in zip((0, 300, 640, 1200), longest, strict=True):
        seen = int((S[: k + 1] > 0).any(axis=0).sum())
        assert value is not None
        assert seen <= value <= seen + 1


def test_the_age_of_arrivals_counts_from_before_time_0() -> None:
    """Gaps of 2/N and R = 1.5: R_E is R/N at 0, and the first arrival comes at 0.5/N."""
    cell = Cell(N=4, d=1, lam=0.5, G="exponential", arrivals="renewal(deterministic, age=1.5)")
    R_E = run(cell, [0.0, 0.1, 0.125, 0.2, 0.65]).arrays(AGES)["R_E"]
    np.testing.assert_allclose(R_E, [0.375, 0.475, 0.0, 0.075, 0.025], rtol=0, atol=1e-12)


def test_simulate_labels_what_is_asked_for() -> None:
    arguments: dict[str, Any] = {
        "N": 50,
        "d": 2,
        "lam": 0.9,
        "G": "erlang(k=2)",
        "times": [0.0, 2.0, 5.0],
        "seed": 1,
    }
    plain = simulate(**arguments)
    assert {"S", "D", "X", "E", "R_E", "longest"} == set(plain)
    full = simulate(**arguments, averages=True, measure=True)
    assert set(full) - set(plain) == {"S_average", "X_average", "time_in_system", "waiting_time"}
    assert full.S_average.dims == ("t", "level")
    assert all(full[name].attrs["units"] and full[name].attrs["long_name"] for name in full)
    for name in ("averages", "measure"):
        with pytest.raises(TypeError, match=f"{name} must be true or false, got 1"):
            simulate(**{**arguments, name: 1})


def test_room_for_jobs_grows() -> None:
    """Overloaded queues hold far more jobs than there was room for at first; measuring goes on."""
    cell = Cell(N=2, d=2, lam=30.0, G="exponential")
    arrays = run(cell, [10.0, 20.0]).arrays(AGES)
    assert arrays["X"][-1] > 200
    assert (arrays["waiting_time"] > 1.0).all()
    assert state.make_jobs(np.zeros(2, dtype=np.int32), 2, 18).arrived.size == 18
