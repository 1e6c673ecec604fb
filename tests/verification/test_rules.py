"""Routing rules against exact chains, GI/M/1 queues, and each other on two different kernels.

Every check takes means over independent replicas with a fixed seed and asks |z| ≤ 4 of each component; with
at most 40 components an exact simulator fails by chance less than 3 times in 1000 seeds. Each is made again
with a rate that is wrong by at most 5 %, and must then fail. Two simulators get different seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from chains import generator, gi_m_1_root, sorted_states, worst_score
from numpy.typing import NDArray
from scipy.sparse import csc_array, lil_array
from scipy.sparse.linalg import expm_multiply

from sweep.cell import Cell
from sweep.network.eager import run_eager
from sweep.network.reference import Reference
from sweep.network.simulate import run_path

Floats = NDArray[np.float64]
Chain = tuple[list[tuple[int, ...]], csc_array]
#: Probability that an arrival joins each place of a state sorted by decreasing length.
Shares = Callable[[tuple[int, ...]], Sequence[float]]
BOUND = 4.0
NONE = np.empty(0)
TIMES = np.array([0.5, 2.0, 8.0])


def replicas(
    cell: Cell,
    rule: str,
    count: int,
    times: Floats,
    *,
    levels: int,
    snapshots: Floats = NONE,
    **options: bool,
) -> list[Any]:
    return [
        run_eager(cell, rule, times=times, seed=51, replica=r, levels=levels, snapshots=snapshots, **options)
        for r in range(count)
    ]


def chain(N: int, lam: float, longest: int, shares: Shares) -> Chain:
    """States and generator, Poisson(λN) arrivals, unit exponential service; above `longest` all is lost."""
    states = sorted_states(N, longest)
    index = {state: k for k, state in enumerate(states)}
    rates = lil_array((len(states), len(states)))
    for state in states:
        for place, share in enumerate(shares(state)):
            for change, rate in ((1, lam * N * share), (-1, 1.0)):
                moved = list(state)
                moved[place] += change
                target = tuple(sorted(moved, reverse=True))
                if target in index and rate > 0.0:
                    rates[index[state], index[target]] += rate
                    rates[index[state], index[state]] -= rate
    return states, csc_array(rates)


def transient(model: Chain, levels: int) -> Floats:
    """E S_ℓ(t)/N from empty at `TIMES`, shape (t, level)."""
    states, rates = model
    start = np.zeros(len(states))
    start[states.index((0,) * len(states[0]))] = 1.0
    lengths = np.array(states)
    tails = np.stack([(lengths >= level).mean(axis=1) for level in range(1, levels + 1)], axis=1)
    return np.array([expm_multiply(rates.T * t, start) @ tails for t in TIMES])


def idle_shares(d: int) -> Shares:
    """Join an idle queue if there is one; else the last of d places of the row, with replacement."""

    def shares(state: tuple[int, ...]) -> Sequence[float]:
        N, idle = len(state), state.count(0)
        if idle:
            return [1.0 / idle if length == 0 else 0.0 for length in state]
        return [((p + 1) ** d - p**d) / N**d for p in range(N)]

    return shares


CHAINS: dict[str, tuple[str, int, int, int, Callable[[float], Chain]]] = {
    "JSQ, N = 2": ("shortest", 2, 1, 24, lambda lam: generator(2, 2, lam, False, 24)),
    "JSQ, N = 3": ("shortest", 3, 1, 15, lambda lam: generator(3, 3, lam, False, 15)),
    "JIQ, N = 2, d = 1": ("idle", 2, 1, 24, lambda lam: chain(2, lam, 24, idle_shares(1))),
    "JIQ, N = 3, d = 1": ("idle", 3, 1, 15, lambda lam: chain(3, lam, 15, idle_shares(1))),
    "JIQ, N = 3, d = 2": ("idle", 3, 2, 15, lambda lam: chain(3, lam, 15, idle_shares(2))),
    "SQ(2), N = 3": ("sampled", 3, 2, 15, lambda lam: generator(3, 2, lam, True, 15)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_two_and_three_servers_follow_their_exact_chain(name: str) -> None:
    """E S_ℓ(t) from empty, λ = .7; cutting the chain where it is cut changes these by less than 1e-12."""
    rule, N, d, _, model = CHAINS[name]
    cell = Cell(N=N, d=d, lam=0.7, G="exponential")
    samples = np.array([run.arrays(NONE)["S"] for run in replicas(cell, rule, 10_000, TIMES, levels=3)])
    for factor, agrees in ((1.0, True), (1.05, False)):
        exact = transient(model(0.7 * factor), 3)
        # Multiples of 1/N with mean m have variance m (1/N − m) at least: a third job may not be seen at all.
        least = np.maximum(exact * (1.0 / N - exact), 0.0)
        assert (worst_score(samples, exact, least_variance=least) <= BOUND) is agrees


def test_queues_served_in_turn_have_erlang_gaps() -> None:
    """Poisson arrivals dealt to two queues in turn: each is E₂/M/1, P(X ≥ ℓ) = λ σ^(ℓ−1) at any time."""
    cell = Cell(N=2, d=1, lam=0.7, G="exponential")
    runs = replicas(cell, "round-robin", 64, np.array([200.0, 5200.0]), levels=4, averages=True)
    samples = np.array([run.arrays(NONE)["S_average"][1] for run in runs])

    def tails(lam: float) -> Floats:
        return lam * gi_m_1_root(lambda s: (1.0 + s / 2.0) ** -2, lam) ** np.arange(4)

    assert worst_score(samples, tails(0.7)) <= BOUND
    assert worst_score(samples, tails(0.7 * 1.03)) > BOUND


def test_mean_wait_of_queues_served_in_turn_is_that_of_e3_m_1() -> None:
    """Three queues, W = σ/(1 − σ) in GI/M/1: measured job by job, and by Little from exact time averages."""
    cell, times = Cell(N=3, d=1, lam=0.8, G="exponential"), np.array([200.0, 5200.0])
    runs = replicas(cell, "round-robin", 64, times, levels=1, averages=True, measure=True)
    arrays = [run.arrays(NONE) for run in runs]
    samples = np.array(
        [
            [
                a["waiting_time"][1],
                a["time_in_system"][1] - 1.0,
                (a["X_average"][1] - a["S_average"][1, 0]) / 0.8,
            ]
            for a in arrays
        ]
    )

    def waiting(lam: float) -> Floats:
        root = gi_m_1_root(lambda s: (1.0 + s / 3.0) ** -3, lam)
        return np.full(3, root / (1.0 - root))

    assert worst_score(samples, waiting(0.8)) <= BOUND
    assert worst_score(samples, waiting(0.8 * 1.02)) > BOUND


#: The rule on the eager kernel, its d, and the same rule as sampling on the lazy kernel.
PAIRS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("sampled", {"N": 8, "d": 2, "lam": 0.9, "G": "gamma(shape=0.5)"}, {}),
    (
        "sampled",
        {
            "N": 8,
            "d": 3,
            "lam": 0.8,
            "G": "lomax(beta=2.5)",
            "arrivals": "gamma(shape=0.5)",
            "fraction": 0.6,
            "replacement": False,
            "initial": "lengths(1: 0.25, 3: 0.5)",
        },
        {},
    ),
    ("sampled", {"N": 8, "d": 2, "lam": 1.2, "G": "deterministic", "arrivals": "uniform(width=1)"}, {}),
    ("shortest", {"N": 8, "d": 1, "lam": 0.9, "G": "gamma(shape=0.5)"}, {"d": 8, "replacement": False}),
    (
        "shortest",
        {"N": 8, "d": 1, "lam": 1.2, "G": "hyperexponential(scv=4)", "initial": "lengths(1: 0.25, 2: 0.25)"},
        {"d": 8, "replacement": False},
    ),
]


@pytest.mark.parametrize(("rule", "parameters", "change"), PAIRS)
def test_both_kernels_give_the_same_law(
    rule: str, parameters: dict[str, Any], change: dict[str, Any]
) -> None:
    """Means of S, D, X, E and ages at fixed times, general service; JSQ samples all N without replacement."""
    times, snapshots, ages = np.array([0.5, 1.7, 4.0]), np.array([1.0, 4.0]), np.array([0.3, 1.0, math.inf])
    count = 2500

    def seen(runs: list[Any]) -> Floats:
        names = ("S", "D", "X", "E", "nu_cdf")
        return np.array([np.concatenate([run.arrays(ages)[name].ravel() for name in names]) for run in runs])

    samples = seen(replicas(Cell(**parameters), rule, count, times, levels=3, snapshots=snapshots))
    for factor, agrees in ((1.0, True), (1.05, False)):
        cell = Cell(**{**parameters, **change, "lam": parameters["lam"] * factor})
        options: dict[str, Any] = {"times": times, "seed": 52, "levels": 3, "snapshots": snapshots}
        expected = seen([run_path(cell, replica=r, **options) for r in range(count)])
        stderr = np.sqrt(expected.var(axis=0, ddof=1) / count)
        assert (worst_score(samples, expected.mean(axis=0), stderr) <= BOUND) is agrees


class IdleFirst(Reference):
    """The event-driven reference under JIQ."""

    def _sample(self) -> list[int]:
        idle = [server for server, queue in enumerate(self.queues) if not queue.jobs]
        return idle or super()._sample()


class InTurn(Reference):
    """The event-driven reference under round robin."""

    def _sample(self) -> list[int]:
        return [(self.arrived - 1) % self.cell.N]


REFERENCES: list[tuple[str, type[Reference], dict[str, Any]]] = [
    ("idle", IdleFirst, {"N": 8, "d": 2, "lam": 0.9, "G": "lomax(beta=2.5)", "arrivals": "erlang(k=3)"}),
    (
        "idle",
        IdleFirst,
        {"N": 4, "d": 2, "lam": 1.1, "G": "erlang(k=3)", "fraction": 0.5, "replacement": False},
    ),
    (
        "round-robin",
        InTurn,
        {"N": 8, "d": 1, "lam": 0.9, "G": "gamma(shape=0.5)", "initial": "lengths(2: 0.5)"},
    ),
]


@pytest.mark.parametrize(("rule", "oracle", "parameters"), REFERENCES)
def test_rules_agree_with_the_event_driven_reference(
    rule: str, oracle: type[Reference], parameters: dict[str, Any]
) -> None:
    """S, D, X, E and ages at fixed times, general service and arrivals."""
    times, snapshots, ages = np.array([0.5, 1.7, 4.0]), np.array([1.0, 4.0]), np.array([0.3, 1.0, math.inf])

    def seen(arrays: dict[str, Floats]) -> Floats:
        return np.concatenate([arrays[name].ravel() for name in ("S", "D", "X", "E", "nu_cdf")])

    runs = replicas(Cell(**parameters), rule, 3000, times, levels=3, snapshots=snapshots)
    samples = np.array([seen(run.arrays(ages)) for run in runs])
    for factor, agrees in ((1.0, True), (1.05, False)):
        cell = Cell(**{**parameters, "lam": parameters["lam"] * factor})
        records = (
            oracle(cell, seed, 3).record(times.tolist(), snapshots.tolist(), ages.tolist())
            for seed in range(1500)
        )
        expected = np.array([seen(arrays) for arrays in records])
        stderr = np.sqrt(expected.var(axis=0, ddof=1) / len(expected))
        assert (worst_score(samples, expected.mean(axis=0), stderr) <= BOUND) is agrees


def test_idle_first_is_told_from_the_shortest_of_all() -> None:
    """JIQ with d = 1 sends jobs to queues that are not the shortest where none is idle."""
    _, N, d, _, _ = CHAINS["JIQ, N = 3, d = 1"]
    runs = replicas(Cell(N=N, d=d, lam=0.7, G="exponential"), "idle", 10_000, TIMES, levels=3)
    samples = np.array([run.arrays(NONE)["S"] for run in runs])
    assert worst_score(samples, transient(generator(3, 3, 0.7, False, 15), 3)) > BOUND
