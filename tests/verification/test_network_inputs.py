"""Networks with every kind of start and of arrivals against their limits, and against each other.

Means over independent replicas with a fixed seed. Every score is |mean − limit| over the standard error of
the mean, asked to be at most 4, which Student's t of 23 degrees exceeds with probability 6e-4; the up to 30
scores of a check are dependent. N is so large that the bias of order 1/N is below a tenth of the standard
error. Each check is made again with a rate, or an age, that is wrong by at most 5 %, and must then fail.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from chains import worst_score
from numpy.typing import NDArray

from sweep import solve_fluid
from sweep.cell import Cell, Limit
from sweep.fluid.invariant import solve_invariant
from sweep.network.reference import Reference
from sweep.network.simulate import run_replica

Floats = NDArray[np.float64]
BOUND = 4.0
LEVELS = 3
AGES = np.array([0.25, 0.5, 1.0, 2.0, math.inf])
NONE = np.empty(0)


def replicas(cell: Cell, count: int, times: Floats, snapshots: Floats = NONE, name: str = "S") -> Floats:
    """One array of each replica, replicas along the first axis."""
    options: dict[str, Any] = {"times": times, "levels": LEVELS, "snapshots": snapshots, "ages": AGES}
    return np.array([run_replica(cell, seed=2026, replica=r, **options)[name] for r in range(count)])


def worst(values: Floats, expected: Floats, N: int = 4000) -> float:
    """Largest |z|. Counts have whole values, so that S of mean m has variance m (1/N − m) at least.

    What never varies must be exact, but for rounding.
    """
    least = np.maximum(expected * (1.0 / N - expected), 0.0)
    return worst_score(values, expected, least_variance=least)


PROFILE = "profile(0: 1.2, 1: 0.2, 2: 1.6, period=3)"


@pytest.mark.parametrize(
    ("G", "method"),
    [
        ("exponential", "ode"),
        ("erlang(k=3)", "ode"),
        ("erlang(k=3)", "characteristics"),
        ("lomax(beta=1.5)", "characteristics"),
    ],
)
def test_arrivals_with_a_profile_lead_to_the_fluid_with_that_profile(G: str, method: str) -> None:
    times = np.array([0.5, 1.0, 1.75, 2.5, 4.0])
    cell = Cell(N=4000, d=2, lam=0.8, G=G, arrivals=PROFILE)
    found = replicas(cell, 24, times)

    def limit(lam: float) -> Floats:
        path = solve_fluid(d=2, lam=lam, G=G, arrivals=PROFILE, times=times, levels=LEVELS, method=method)
        return np.asarray(path.S)

    assert worst(found, limit(0.8)) <= BOUND
    assert worst(found, limit(0.84)) > BOUND


@pytest.mark.parametrize("G", ["exponential", "erlang(k=4)", "lomax(beta=1.5)", "deterministic"])
def test_a_network_that_starts_invariant_stays_so(G: str) -> None:
    """Means stay at S_ℓ within their error; single paths within a few N^{−1/2}, E sup being about that."""
    times, N, lam = np.array([0.0, 2.0, 5.0, 10.0]), 4000, 0.8
    found = replicas(Cell(N=N, d=2, lam=lam, G=G, initial="invariant"), 24, times)
    S = solve_invariant(Limit(d=2, lam=lam, G=G), LEVELS).S
    assert worst(found, S) <= BOUND
    assert worst(found, solve_invariant(Limit(d=2, lam=1.05 * lam, G=G), LEVELS).S) > BOUND
    # The variance of S_ℓ is at most 1/4N if servers are independent, as they are at first.
    sups = np.abs(found - S).max(axis=(1, 2)) * math.sqrt(N)
    assert sups.mean() <= 2.0


def test_an_empty_start_with_heavy_tails_is_far_from_invariant_when_the_other_is_not() -> None:
    times = np.array([20.0])
    S = solve_invariant(Limit(d=2, lam=0.8, G="lomax(beta=1.5)"), LEVELS).S
    empty, invariant = (
        replicas(Cell(N=2000, d=2, lam=0.8, G="lomax(beta=1.5)", initial=initial), 12, times)
        for initial in ("empty", "invariant")
    )
    assert worst(invariant, S) <= BOUND
    assert worst(empty, S) > BOUND


@pytest.mark.parametrize("G", ["erlang(k=3)", "lomax(beta=1.5)", "deterministic", "weibull(shape=0.5)"])
def test_lengths_with_equilibrium_ages_follow_the_fluid_from_them(G: str) -> None:
    """Lengths and ages; with ages that are fresh both are far from it."""
    times, snapshots = np.array([0.25, 0.7, 1.5, 3.0]), np.array([0.0, 0.7])
    common: dict[str, Any] = {"d": 2, "lam": 0.8, "G": G}
    initial = "lengths(1: 0.3, 3: 0.4, ages=equilibrium)"
    path = solve_fluid(
        **common, times=times, levels=LEVELS, initial=initial, snapshots=snapshots, ages=AGES[:-1]
    )
    cell = Cell(**common, N=4000, initial=initial)
    fresh = Cell(**common, N=4000, initial=initial.replace(", ages=equilibrium", ""))
    for name in ("S", "nu_cdf"):
        limit = np.asarray(path[name])
        assert worst(replicas(cell, 24, times, snapshots, name), limit) <= BOUND
        assert worst(replicas(fresh, 4, times, snapshots, name), limit) > BOUND


@pytest.mark.parametrize(
    "G", ["erlang(k=4)", "lomax(beta=2.5)", "phase_type(alpha=[0.9, 0.1], T=[[-1.8, 0], [0, -0.2]])"]
)
def test_arrays_of_fresh_jobs_are_the_fresh_start_in_law(G: str) -> None:
    """Means of S from arrays of age 0 against those from lengths; ages of 0.05 fail."""
    times, N, count = np.array([0.3, 0.6, 1.0, 2.0]), 4000, 600
    common: dict[str, Any] = {"N": N, "d": 2, "lam": 0.7, "G": G}
    lengths = np.repeat([2, 1, 0], [N // 4, N // 2, N // 4])

    def from_arrays(age: float) -> Floats:
        return replicas(Cell(**common, initial=(lengths, np.where(lengths > 0, age, 0.0))), count, times)

    fresh = replicas(Cell(**common, initial="lengths(1: 0.5, 2: 0.25)"), count, times)

    def score(other: Floats) -> float:
        stderr = np.sqrt(other.var(axis=0, ddof=1) / count)
        return worst_score(fresh, other.mean(axis=0), stderr)

    assert score(from_arrays(0.0)) <= BOUND
    assert score(from_arrays(0.05)) > BOUND


def test_arrays_that_hold_an_invariant_state_stay_so() -> None:
    """Ages and lengths of a sample, handed over as arrays: the residual services are drawn anew."""
    N, lam, times = 4000, 0.8, np.array([0.5, 1.0, 4.0])
    limit = Limit(d=2, lam=lam, G="erlang(k=4)")
    state = solve_invariant(limit)
    rng = np.random.default_rng(9)
    found = []
    for replica in range(24):
        ages, lengths = state.draw(rng, N)
        cell = Cell(N=N, d=2, lam=lam, G=limit.G, initial=(lengths, ages))
        found.append(
            run_replica(cell, times=times, seed=1, replica=replica, levels=LEVELS, snapshots=NONE, ages=AGES)[
                "S"
            ]
        )
    S = state.S[:LEVELS]
    assert worst(np.array(found), S) <= BOUND
    assert worst(np.array(found), solve_invariant(Limit(d=2, lam=1.05 * lam, G=limit.G), LEVELS).S) > BOUND


ARRAYS = ([3, 2, 1, 1, 0, 0], [1.5, 0.0, 0.6, 0.2, 0.0, 0.0])
CELLS = [
    {"G": "weibull(shape=0.5)", "arrivals": "renewal(lomax(beta=2.5), age=1.5)", "initial": ARRAYS},
    {
        "G": "hyperexponential(scv=4)",
        "arrivals": "profile(0: 0.5, 1: 2, 1.5: 0, period=2)",
        "initial": ARRAYS,
    },
    {"G": "gamma(shape=2.5)", "arrivals": "renewal(uniform(width=1), age=1)", "initial": ARRAYS},
]


@pytest.mark.slow
@pytest.mark.parametrize("parameters", CELLS, ids=lambda parameters: parameters["G"])
def test_ages_at_first_and_profiles_agree_with_the_event_driven_reference(parameters: dict[str, Any]) -> None:
    """S, D, E and ages against plain rejection and thinning; a rate of arrivals 5 % higher there fails."""
    times, snapshots, count = np.array([0.3, 1.2, 3.0, 6.0]), np.array([0.0, 1.2]), 2500
    names = ("S", "D", "E", "nu_cdf")

    def row(arrays: Any) -> Floats:
        return np.concatenate([np.ravel(arrays[name]) for name in names])

    def reference(lam: float) -> Floats:
        cell = Cell(N=6, d=2, lam=lam, **parameters)
        runs = (Reference(cell, seed, LEVELS).record(times, snapshots, AGES) for seed in range(count))
        return np.array([row(arrays) for arrays in runs])

    cell = Cell(N=6, d=2, lam=0.9, **parameters)
    options: dict[str, Any] = {"times": times, "levels": LEVELS, "snapshots": snapshots, "ages": AGES}
    found = np.array([row(run_replica(cell, seed=7, replica=r, **options)) for r in range(count)])

    def score(other: Floats) -> float:
        error = np.sqrt((found.var(axis=0, ddof=1) + other.var(axis=0, ddof=1)) / count)
        difference = np.abs(found.mean(axis=0) - other.mean(axis=0))
        assert not difference[error == 0.0].any()
        return float((difference[error > 0.0] / error[error > 0.0]).max())

    assert score(reference(0.9)) <= BOUND
    assert score(reference(0.945)) > BOUND


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"initial": "invariant"}, "initial must be lengths with fresh ages or arrays for the reference"),
        (
            {"arrivals": "renewal(deterministic, age=stationary)"},
            "arrivals must have a given age for the ref",
        ),
    ],
)
def test_the_reference_refuses_what_it_does_not_simulate(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Reference(Cell(N=2, d=1, lam=0.5, G="exponential", **change), 1, 1)
