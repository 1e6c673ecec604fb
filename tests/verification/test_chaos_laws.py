"""Dependence of queues in simulated networks: exact small chains, the limit of N times it, and its rate.

Every check takes independent replicas with a fixed seed and asks |z| ≤ 4 of each component; with at most 20
components an exact simulator fails by chance about once in 1000 seeds. Each is made again with a rate that is
wrong by at most 5 %, and must then fail.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
import xarray as xr
from chains import generator
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.sparse.linalg import expm_multiply

from analysis.chaos import ChaosFit, chaos_table, fit_chaos
from analysis.joint import Events, dependence
from analysis.tagged import measure_chaos
from sweep.cell import Cell
from sweep.network.simulate import run_replica

Floats = NDArray[np.float64]
BOUND = 4.0


@lru_cache
def shares(cell: Cell, n: int, time: float, levels: int) -> Floats:
    """S_ℓ/N at one time from empty, shape (replica, level)."""
    return np.array(
        [
            run_replica(
                cell, times=np.array([time]), seed=43, replica=r, levels=levels, snapshots=np.empty(0),
                ages=np.empty(0),
            )["S"][0]
            for r in range(n)
        ]
    )  # fmt: skip


def exact_joint(N: int, lam: float, time: float, events: Events, k: int, longest: int) -> Floats:
    """P(X¹ ≥ ℓ₁, …, X^k ≥ ℓ_k) of distinct queues of the exact chain from empty, shape (tuple,)."""
    states, rates = generator(N, 2, lam, True, longest)
    start = np.zeros(len(states))
    start[states.index((0,) * N)] = 1.0
    law = expm_multiply(rates.T * time, start)
    lengths = np.array(states)
    places = list(itertools.permutations(range(N), k))
    return np.array(
        [
            law @ np.mean([np.all(lengths[:, p] >= levels, axis=1) for p in map(list, places)], axis=0)
            for levels in np.array(events.levels)[events.tuples(k)]
        ]
    )


@pytest.mark.parametrize(("N", "k", "longest"), [(2, 2, 24), (3, 2, 14), (3, 3, 14)])
def test_tagged_queues_of_small_networks_follow_the_exact_chain(N: int, k: int, longest: int) -> None:
    """d = 2, λ = .7, t = 3; cutting the chain at `longest` changes these by less than 1e-7."""
    events, n = Events(levels=(1, 2, 3)), 16_000
    found = dependence(shares(Cell(N=N, d=2, lam=0.7, G="exponential"), n, 3.0, 3), N, events, k)
    single = np.array(
        [exact_joint(N, 0.7, 3.0, Events(levels=(level,)), 1, longest)[0] for level in (1, 2, 3)]
    )
    joint = exact_joint(N, 0.7, 3.0, events, k, longest)
    product = np.prod(single[found.tuples], axis=1)
    assert np.abs((found.difference - joint + product) / found.stderr).max() <= BOUND
    # P(all busy) is a mean of numbers in [0, 1], so that its variance is at most p(1−p)/n.
    error = math.sqrt(joint[0] * (1.0 - joint[0]) / n)
    wrong = exact_joint(N, 0.7 * 1.05, 3.0, events, k, longest)
    assert abs(found.joint[0] - joint[0]) <= BOUND * error
    assert abs(found.joint[0] - wrong[0]) > BOUND * error


def linear_noise(lam: float, d: int, time: float, levels: int) -> Floats:
    """lim N · (joint law − product) at a time from empty, exponential service, shape (level, level).

    With s the limit, level ℓ is gained at rate N λ (s_{ℓ−1}^d − s_ℓ^d) and lost at rate N (s_ℓ − s_{ℓ+1});
    the fluctuations √N (s^N − s) have covariance W, W' = A W + W Aᵀ + diag(gain + loss), A the Jacobian of
    the drift (Kurtz). Independent queues would have S_max − S_ℓ S_m.
    """
    top = levels + 8

    def drift(_: float, state: Floats) -> Floats:
        s, W = state[:top], state[top:].reshape(top, top)
        below, above = np.append(1.0, s[:-1]), np.append(s[1:], 0.0)
        gain, loss = lam * (below**d - s**d), s - above
        slope = lam * d * s ** (d - 1)
        A = np.diag(-slope - 1.0) + np.diag(slope[:-1], -1) + np.diag(np.ones(top - 1), 1)
        return np.concatenate([gain - loss, (A @ W + W @ A.T + np.diag(gain + loss)).ravel()])

    path = solve_ivp(drift, (0.0, time), np.zeros(top + top**2), rtol=1e-9, atol=1e-12)
    s, W = path.y[:top, -1], path.y[top:, -1].reshape(top, top)
    return np.asarray((W - np.minimum(s[:, None], s) + np.outer(s, s))[:levels, :levels])


@pytest.mark.parametrize("d", [2, 3])
def test_n_times_the_dependence_is_that_of_the_linear_noise_limit(d: int) -> None:
    """Exponential service, λ = .8, t = 3, N = 2000, where terms of order 1/N are a tenth of an error."""
    N, events = 2000, Events(levels=(1, 2, 3))
    found = dependence(shares(Cell(N=N, d=d, lam=0.8, G="exponential"), 12_000, 3.0, 3), N, events)
    limit = linear_noise(0.8, d, 3.0, 3)[found.tuples[:, 0], found.tuples[:, 1]]
    assert np.abs((N * found.difference - limit) / (N * found.stderr)).max() <= BOUND
    wrong = linear_noise(0.8 * 1.05, d, 3.0, 3)[found.tuples[:, 0], found.tuples[:, 1]]
    assert np.abs((N * found.difference - wrong) / (N * found.stderr)).max() > BOUND


def fitted(G: str, d: int, servers: tuple[int, ...], n: int = 10_000) -> ChaosFit:
    """Rate of the dependence at t = 3 from empty, λ = .8, Poisson arrivals."""
    S = np.array([shares(Cell(N=N, d=d, lam=0.8, G=G), n, 3.0, 6) for N in servers])
    coords = {"N": list(servers), "d": [d], "lam": [0.8], "G": [G], "t": [3.0], "level": range(1, 7)}
    dims = ("N", "d", "lam", "G", "replica", "t", "level")
    data = xr.Dataset({"S": (dims, S[:, None, None, None, :, None])}, coords=coords)
    return next(chaos_table(fit_chaos(measure_chaos(data))))


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("G", ["exponential", "lomax(beta=2.5)"])
def test_dependence_falls_like_1_over_n(G: str, d: int) -> None:
    """The 95 % interval contains −1, is at most ± .15, and excludes rates of −.85 and −1.15."""
    row = fitted(G, d, (30, 90, 270, 810))
    assert row.exponent_lo <= -1.0 <= row.exponent_hi
    assert (row.exponent_hi - row.exponent_lo) / 2 <= 0.15
    assert row.exponent_lo > -1.15
    assert row.exponent_hi < -0.85
    assert row.p_value > 1e-3


@pytest.mark.parametrize("G", ["exponential", "lomax(beta=2.5)"])
def test_queues_with_poisson_arrivals_and_one_choice_are_independent(G: str) -> None:
    """A Poisson stream split at random: p-value above 1e-3; that of d = 2 is below 1e-9."""
    assert fitted(G, 1, (30, 90), 6000).p_zero > 1e-3
    assert fitted(G, 2, (30, 90)).p_zero < 1e-9
