"""What holds for every path, from every start and with all arrivals: balances, order, ages, causes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.cell import Cell
from sweep.network.simulate import Path, run_path, simulate
from sweep.network.start import servers_at_start

LAWS = (
    "exponential",
    "gamma(shape=0.5)",
    "lomax(beta=1.5)",
    "uniform(width=1)",
    "deterministic",
    "phase_type(alpha=[0, 1], T=[[-5, 0], [1.25, -1.25]])",
)
ARRIVALS = (
    "exponential",
    "deterministic",
    "renewal(lomax(beta=1.5), age=0.7)",
    "renewal(deterministic, age=stationary)",
    "profile(0: 1, 0.5: 0, 1: 2.5, period=1.5)",
    "profile(0: 3, 1: 0)",
)
STARTS = (
    "empty",
    "lengths(1: 0.5, 4: 0.25)",
    "lengths(1: 0.5, 4: 0.25, ages=equilibrium)",
    "invariant",
    "scaled(law(exponential, mean=0.7), m=4, fixed=[2])",
    "scaled(points(1: 0.5), m=9, exchangeable=false)",
    ([3, 0, 1, 0, 0, 0, 2, 1], [0.2, 0.0, 0.6, 0.0, 0.0, 0.0, 0.0, 0.9]),
)
TIMES = np.array([0.0, 0.3, 1.0, 2.2, 4.0])
AGES = np.array([0.0, 0.25, 1.0, math.inf])
#: Levels of which tables are made; an invariant state may have longer queues.
LONG = 60


@st.composite
def cells(draw: Any) -> Cell:
    """Eight servers with every kind of arrivals and start."""
    return Cell(
        N=8,
        d=draw(st.sampled_from([1, 2, 3])),
        lam=draw(st.sampled_from([0.3, 0.9])),
        G=draw(st.sampled_from(LAWS)),
        arrivals=draw(st.sampled_from(ARRIVALS)),
        initial=draw(st.sampled_from(STARTS)),
        replacement=draw(st.booleans()),
        fraction=draw(st.sampled_from([0.0, 0.4, 1.0])),
    )


def path(cell: Cell, seed: int, times: Any = TIMES, snapshots: Any = TIMES, **options: Any) -> Path:
    chosen = {"levels": None, **options}
    return run_path(
        cell, times=np.asarray(times), snapshots=np.asarray(snapshots), seed=seed, replica=0, **chosen
    )


def lengths0(cell: Cell, seed: int) -> np.ndarray:
    groups = servers_at_start(cell, seed, 0, np.ones)
    return np.concatenate([group.lengths for group in groups])


def ages0(cell: Cell, seed: int) -> np.ndarray:
    groups = servers_at_start(cell, seed, 0, np.ones)
    return np.concatenate([group.ages for group in groups])


@settings(max_examples=60, deadline=None)
@given(cell=cells(), seed=st.integers(0, 2**64))
def test_jobs_are_conserved_and_tails_are_in_order(cell: Cell, seed: int) -> None:
    at_first = lengths0(cell, seed)
    long = at_first.max() > LONG
    arrays = path(cell, seed, levels=LONG if long else None).arrays(AGES)
    S, D, X, E, nu = (arrays[name] for name in ("S", "D", "X", "E", "nu_cdf"))
    assert np.allclose(E - D[:, 0], X - at_first.mean(), rtol=1e-12)
    assert np.allclose(X, S.sum(axis=1), atol=1e-12) or long
    assert X[0] == at_first.mean()
    assert ((S >= 0.0) & (S <= 1.0)).all()
    for tails in (S, D, nu[..., -1]):
        assert (np.diff(tails, axis=1) <= 0.0).all()
    for counts in (D, E):
        assert (np.diff(counts, axis=0) >= 0.0).all()
    assert np.allclose(nu[..., -1], S, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(cell=cells(), seed=st.integers(0, 2**64))
def test_departures_from_a_level_are_balanced_by_arrivals_to_it(cell: Cell, seed: int) -> None:
    """S_ℓ(t) − S_ℓ(0) counts arrivals that raise a queue to ℓ and departures from one of length ℓ."""
    run = path(cell, seed, levels=12)
    arrays = run.arrays(AGES)
    S, D = arrays["S"], arrays["D"]
    exactly = D - np.column_stack([D[:, 1:], run.departures[:, 12:] / cell.N])
    at_first = (lengths0(cell, seed)[:, None] >= np.arange(1, 13)).mean(axis=0)
    joined = S - at_first + exactly
    assert (joined >= -1e-12).all()
    assert np.allclose(joined, run.arrivals[:, :12] / cell.N, atol=1e-12)
    assert np.allclose(joined.sum(axis=1), arrays["E"], atol=1e-12) or run.arrivals[:, 12:].any()


@settings(max_examples=60, deadline=None)
@given(cell=cells(), seed=st.integers(0, 2**64))
def test_ages_lie_between_zero_and_the_elapsed_time_and_age_at_first(cell: Cell, seed: int) -> None:
    run, oldest = path(cell, seed, levels=1), ages0(cell, seed)
    for time, ages, lengths in zip(TIMES.tolist(), run.ages, run.lengths, strict=True):
        assert (ages >= 0.0).all()
        assert (ages <= (time + oldest) * (1.0 + 1e-12) + 1e-12).all()
        assert not ages[lengths == 0].any()
        begun = (lengths > 0) & (ages > time + 1e-9)  # still the first job, one as old as that
        assert np.allclose(ages[begun], time + oldest[begun], rtol=1e-12)
        assert (ages[lengths > 0] <= cell.G.support_end + 1e-9).all()


@settings(max_examples=60, deadline=None)
@given(cell=cells(), seed=st.integers(0, 2**64), block=st.integers(1, 40))
def test_the_path_depends_on_neither_blocks_nor_times_nor_snapshots(
    cell: Cell, seed: int, block: int
) -> None:
    levels = LONG if lengths0(cell, seed).max() > LONG else None
    whole, again = path(cell, seed, levels=levels), path(cell, seed, levels=levels, block=block)
    some = path(cell, seed, times=TIMES[1:4], snapshots=TIMES[2:3], levels=5, block=block)
    arrays, repeated, part = (run.arrays(AGES) for run in (whole, again, some))
    assert all(np.array_equal(arrays[name], repeated[name]) for name in arrays)
    for name in ("X", "E"):
        assert np.array_equal(arrays[name][1:4], part[name])
    shared = min(5, whole.levels)
    for name in ("S", "D"):
        assert np.array_equal(arrays[name][1:4, :shared], part[name][:, :shared])
    assert np.array_equal(whole.ages[2], some.ages[0])
    assert np.array_equal(whole.lengths[2], some.lengths[0])


@settings(max_examples=20, deadline=None)
@given(cell=cells(), seed=st.integers(0, 2**64))
def test_a_simulation_is_the_replica_of_its_cell(cell: Cell, seed: int) -> None:
    data = simulate(
        levels=LONG,
        N=cell.N,
        d=cell.d,
        lam=cell.lam,
        G=str(cell.G),
        arrivals=str(cell.arrivals),
        initial=cell.initial,
        replacement=cell.replacement,
        fraction=cell.fraction,
        times=TIMES,
        seed=seed,
        snapshots=TIMES,
        ages=AGES[:-1],
    )
    arrays = path(cell, seed, levels=LONG).arrays(AGES)
    assert all(np.array_equal(data[name], arrays[name]) for name in ("S", "D", "X", "E", "nu_cdf"))
