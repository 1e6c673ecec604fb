"""The lumped simulator against exact chains, and against the network simulated server by server.

Every check takes means over independent replicas with a fixed seed and asks |z| ≤ 4 of each component; with
at most 40 components an exact simulator fails by chance less than 3 times in 1000 seeds. Each is made again
with a rate that is wrong by at most 5 %, and must then fail. The two simulators get different seeds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from chains import generator, transient_tails, worst_score
from numpy.typing import NDArray
from scipy.sparse.linalg import expm_multiply, spsolve

from sweep.cell import Cell
from sweep.network.lumped import run_lumped
from sweep.network.simulate import run_replica

Floats = NDArray[np.float64]
BOUND = 4.0


def lumped(cell: Cell, count: int, times: Floats, levels: int) -> list[dict[str, Any]]:
    return [
        run_lumped(cell, times=times, seed=41, replica=r, levels=levels, averages=True).arrays()
        for r in range(count)
    ]


def stationary_tails(*, N: int, d: int, lam: float, replacement: bool, levels: int, longest: int) -> Floats:
    """E S_ℓ/N in equilibrium, shape (level,): π Q = 0 with one equation replaced by Σ π = 1."""
    states, rates = generator(N, d, lam, replacement, longest)
    system = rates.T.tolil()
    system[0, :] = 1.0
    pi = spsolve(system.tocsc(), np.eye(len(states))[0])
    lengths = np.array(states)
    return np.array([pi @ (lengths >= level).mean(axis=1) for level in range(1, levels + 1)])


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("N", "longest"), [(2, 24), (3, 15)])
def test_two_and_three_servers_follow_their_exact_chain(N: int, longest: int, replacement: bool) -> None:
    """E S_ℓ(t) from empty, λ = .7; cutting the chain at `longest` changes these by less than 1e-13."""
    times = np.array([0.5, 2.0, 8.0])

    def tails(lam: float) -> Floats:
        return transient_tails(
            N=N, d=2, lam=lam, replacement=replacement, times=times.tolist(), levels=3, longest=longest
        )

    cell = Cell(N=N, d=2, lam=0.7, G="exponential", replacement=replacement)
    samples = np.array([arrays["S"] for arrays in lumped(cell, 10_000, times, 3)])
    assert worst_score(samples, tails(0.7)) <= BOUND
    assert worst_score(samples, tails(0.7 * 1.05)) > BOUND


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("N", "longest"), [(2, 30), (3, 18)])
def test_two_and_three_servers_have_their_exact_equilibrium(N: int, longest: int, replacement: bool) -> None:
    """Exact time averages of S_ℓ, λ = .6, from time 60 on: the start is forgotten to 1e-6 by then."""

    def tails(lam: float) -> Floats:
        return stationary_tails(N=N, d=2, lam=lam, replacement=replacement, levels=4, longest=longest)

    cell = Cell(N=N, d=2, lam=0.6, G="exponential", replacement=replacement)
    samples = np.array([arrays["S_average"][1] for arrays in lumped(cell, 64, np.array([60.0, 5060.0]), 4)])
    assert worst_score(samples, tails(0.6)) <= BOUND
    assert worst_score(samples, tails(0.6 * 1.02)) > BOUND


CELLS: dict[str, dict[str, Any]] = {
    "with replacement": {"N": 10, "d": 2, "lam": 0.9},
    "without replacement": {"N": 10, "d": 2, "lam": 0.9, "replacement": False},
    "half of the servers": {"N": 10, "d": 5, "lam": 0.9, "replacement": False},
    "every server": {"N": 10, "d": 10, "lam": 0.9, "replacement": False},
    "mixture": {"N": 10, "d": 3, "lam": 0.8, "fraction": 0.5},
    "mixture without replacement": {"N": 100, "d": 3, "lam": 0.8, "fraction": 0.5, "replacement": False},
    "uniform": {"N": 100, "d": 2, "lam": 0.8, "fraction": 0.0},
    "bursts": {"N": 10, "d": 2, "lam": 0.9, "arrivals": "gamma(shape=0.5)"},
    "even arrivals": {"N": 10, "d": 2, "lam": 1.2, "arrivals": "deterministic", "replacement": False},
    "loaded start": {"N": 100, "d": 2, "lam": 0.9, "initial": "lengths(2: 0.2, 4: 0.5)"},
    "many servers": {"N": 5000, "d": 2, "lam": 0.9, "initial": "lengths(1: 0.5)"},
}


def seen(arrays: dict[str, Any]) -> Floats:
    """S, D, X and E in one row."""
    return np.concatenate([arrays[name].ravel() for name in ("S", "D", "X", "E")])


@pytest.mark.parametrize("name", CELLS)
def test_means_are_those_of_the_network_simulated_server_by_server(name: str) -> None:
    """E of S_ℓ, D_ℓ, X and E at fixed times: Poisson and renewal arrivals, all ways to sample and start."""
    parameters = CELLS[name]
    times, count = np.array([0.5, 1.7, 4.0]), math.ceil(30_000 / parameters["N"]) + 100

    def server_by_server(factor: float) -> Floats:
        cell = Cell(**{**parameters, "lam": parameters["lam"] * factor}, G="exponential")
        options: dict[str, Any] = {"snapshots": np.empty(0), "ages": np.array([math.inf])}
        return np.array(
            [
                seen(run_replica(cell, times=times, seed=42, replica=r, levels=3, **options))
                for r in range(count)
            ]
        )

    samples = np.array([seen(a) for a in lumped(Cell(**parameters, G="exponential"), count, times, 3)])
    for factor, agrees in ((1.0, True), (1.05, False)):
        expected = server_by_server(factor)
        stderr = np.sqrt(expected.var(axis=0, ddof=1) / count)
        assert (worst_score(samples, expected.mean(axis=0), stderr) <= BOUND) is agrees


@pytest.mark.parametrize("replacement", [True, False])
def test_three_servers_have_the_exact_joint_law_of_their_counts(replacement: bool) -> None:
    """E S_ℓ S_m at t = 2 from empty, ℓ ≤ m ≤ 3: a law with the right means alone has others."""
    levels = np.arange(1, 4)

    def products(tails: Floats) -> Floats:
        return np.stack([tails[..., i] * tails[..., j] for i in range(3) for j in range(i, 3)], axis=-1)

    def exact(lam: float) -> Floats:
        states, rates = generator(3, 2, lam, replacement, 15)
        start = np.zeros(len(states))
        start[states.index((0, 0, 0))] = 1.0
        tails = (np.array(states)[:, :, None] >= levels).mean(axis=1)
        return np.array(expm_multiply(2.0 * rates.T, start) @ products(tails))

    cell = Cell(N=3, d=2, lam=0.7, G="exponential", replacement=replacement)
    runs = lumped(cell, 10_000, np.array([2.0]), 3)
    samples = products(np.array([arrays["S"][0] for arrays in runs]))
    assert worst_score(samples, exact(0.7)) <= BOUND
    assert worst_score(samples, exact(0.7 * 1.05)) > BOUND
