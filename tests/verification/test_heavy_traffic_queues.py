"""Single queues of critical networks against both invariance principles, one time and two times."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from sweep.cell import Cell
from sweep.diffusion.prelimit import prelimit
from sweep.diffusion.study import solve_heavy_limit
from sweep.diffusion.tagged import joint_tail, tagged_tail
from sweep.initial import Scaled
from sweep.network.simulate import run_path

MODEL: dict[str, Any] = {"b1": -2.0, "b0": 1.5, "ell": 3, "sigma2": 2.0}
START, TIMES, X = "law(exponential, mean=1.5)", np.array([0.3, 0.8]), np.linspace(0.0, 5.0, 101)
FIXED = (0.0, 2.5)
N, REPLICAS = 150, 300
#: Scaled lengths are multiples of 1/√m and drifts are off by O(m^{−1/2}): shares are allowed this over √m.
LATTICE = 1.5


@functools.cache
def queues(m: int, exchangeable: bool) -> np.ndarray:
    """Scaled lengths of the first queues (two fixed ones, or all), shape (replica, t, queue)."""
    lam, fraction = prelimit(m, MODEL["b1"], MODEL["b0"])
    start = Scaled(start=START, m=m, exchangeable=exchangeable, fixed=() if exchangeable else FIXED)
    cell = Cell(N=N, d=MODEL["ell"], lam=lam, G="exponential", fraction=fraction, initial=start)
    rows = [
        run_path(cell, times=m * TIMES, seed=6, replica=r, levels=None, snapshots=m * TIMES).lengths
        for r in range(REPLICAS)
    ]
    return np.array(rows)[:, :, : N if exchangeable else len(FIXED)] / math.sqrt(m)


def distance(sample: np.ndarray, limit: np.ndarray) -> float:
    return float(np.max(np.abs(np.array([np.mean(sample > x) for x in X]) - limit)))


def allowed(m: int, independent: int) -> float:
    """Kolmogorov's bound of probability .001, and the share that finite m may make."""
    return 1.95 / math.sqrt(independent) + LATTICE / math.sqrt(m)


@pytest.mark.parametrize("m", [100, 400])
def test_exchangeable_queues_follow_the_mckean_vlasov_equation(m: int) -> None:
    found = queues(m, exchangeable=True)
    limit = solve_heavy_limit(**MODEL, times=TIMES, x=X, initial=START)["v"]
    for k in range(TIMES.size):
        # All queues of all replicas: the noise is that of N times as many draws, about.
        assert distance(found[:, k], limit[k]) <= allowed(m, N * REPLICAS)
    # Two times: covariance of X_s > x and X_t > y, of which finite m moves less than it does shares.
    at = [int(np.argmin(np.abs(row - 0.5))) for row in limit]
    x, y = (float(X[i]) for i in at)
    joint = float(joint_tail(**MODEL, times=TIMES, x=x, y=[y], initial=START).v[0, 0])
    exact = joint - float(limit[0, at[0]] * limit[1, at[1]])
    before, after = found[:, 0] > x, found[:, 1] > y
    seen = float(np.mean(before & after)) - float(np.mean(before)) * float(np.mean(after))
    # Queues of a replica depend on each other a little: errors are those of replicas.
    bound = 4.0 * float(np.std(np.mean(before & after, axis=1), ddof=1)) / math.sqrt(REPLICAS)
    bound += 0.2 * LATTICE / math.sqrt(m)
    assert abs(seen - exact) <= bound
    # A queue that forgets where it was has none.
    assert exact > bound


@pytest.mark.parametrize("m", [100, 400])
def test_queues_from_given_places_follow_the_equation_of_one_queue(m: int) -> None:
    found = queues(m, exchangeable=False)
    limit = solve_heavy_limit(**MODEL, times=TIMES, x=X, initial=START)["v"]
    for place, position in enumerate(FIXED):
        row = tagged_tail(**MODEL, times=TIMES, position=position, x=X, initial=START)
        for k in range(TIMES.size):
            assert distance(found[:, k, place], row.v[k]) <= allowed(m, REPLICAS)
        # Early on the law of the population is that of neither.
        assert distance(found[:, 0, place], limit[0]) > allowed(m, REPLICAS)


def test_single_queues_come_closer_as_the_scale_grows() -> None:
    limit = solve_heavy_limit(**MODEL, times=TIMES, x=X, initial=START)["v"][-1]
    near, far = (distance(queues(m, exchangeable=True)[:, -1], limit) for m in (400, 100))
    # m^{−1/2}: about half, with a noise of a twentieth.
    assert 0.35 <= near / far <= 0.7


@pytest.mark.parametrize("m", [100])
def test_two_queues_become_independent(m: int) -> None:
    # N times the covariance of two queues is of the order of one, far below N times a variance.
    found = queues(m, exchangeable=True)[:, -1]
    centred = found - np.mean(found)
    of_pairs = (np.sum(centred, axis=1) ** 2 - np.sum(centred**2, axis=1)) / (N * (N - 1))
    error = float(np.std(of_pairs, ddof=1)) / math.sqrt(REPLICAS)
    assert abs(float(np.mean(of_pairs))) <= 4.0 * error + 2.0 / N
    assert float(np.var(found)) > 20.0 * (4.0 * error + 2.0 / N)
