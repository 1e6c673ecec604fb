"""Critical networks against published simulations, against exact single queues, and against the limit."""

from __future__ import annotations

import functools
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from sweep.cell import Cell
from sweep.diffusion.exact import stationary
from sweep.diffusion.model import sigma2_of
from sweep.diffusion.prelimit import prelimit, prelimit_mean
from sweep.laws import parse_law
from sweep.network.simulate import run_path

REFERENCE = Path(__file__).parents[1] / "reference" / "heavy_traffic_exponential.csv"
BOUND = 4.0


def published() -> list[dict[str, float]]:
    lines = [line for line in REFERENCE.read_text().splitlines() if not line.startswith("#")]
    names = lines[0].split(",")
    return [dict(zip(names, map(float, line.split(",")), strict=True)) for line in lines[1:]]


def mean_queue(
    N: int,
    m: int,
    b1: float,
    b0: float,
    ell: int,
    *,
    warmup: float,
    length: float,
    replicas: int,
    step: float = 0.05,
    G: str = "exponential",
    arrivals: str = "exponential",
) -> tuple[float, float]:
    """Time average of the mean of Q/√m from `warmup` on, in scaled time, and its error over replicas."""
    lam, fraction = prelimit(m, b1, b0)
    cell = Cell(N=N, d=ell, lam=lam, G=G, arrivals=arrivals, fraction=fraction)
    times = m * np.arange(warmup, warmup + length, step)
    means = [
        np.mean(
            run_path(cell, times=times, seed=8, replica=r, levels=None, snapshots=np.empty(0)).arrays(
                np.array([math.inf])
            )["X"]
        )
        for r in range(replicas)
    ]
    scaled = np.array(means) / math.sqrt(m)
    return float(np.mean(scaled)), float(np.std(scaled, ddof=1)) / math.sqrt(replicas)


# ---- published simulations ----------------------------------------------------------------------------


@functools.cache
def simulated(N: int, m: int, b1: float, b0: float, ell: int) -> tuple[float, float]:
    # The slowest mode dies out like e^{−b1² t/4} at worst.
    scale = 4.0 / (b1 * b1)
    return mean_queue(N, m, b1, b0, ell, warmup=6.0 * scale, length=16.0 * scale, replicas=16)


@pytest.mark.slow
@pytest.mark.parametrize("row", published(), ids=lambda row: f"m={row['m']:g}")
def test_simulated_means_are_the_published_ones(row: dict[str, float]) -> None:
    b1, b0, ell, m, N = (row[name] for name in ("b1", "b0", "ell", "m", "n"))
    mean, error = simulated(int(N), int(m), b1, b0, int(ell))
    both = math.hypot(error, row["standard_error"])
    assert error <= row["standard_error"]
    assert abs(mean - row["mean_X_simulated"]) <= BOUND * both
    # N = 400 leaves a bias of order 1/N beside the noise.
    assert abs(mean - row["mean_X_n_infinite"]) <= BOUND * error + 2.0 / N
    # A uniform stream whose distance from criticality is 5 % off, which moves the mean by 5 to 7 %.
    twin = prelimit_mean(m, 1.05 * b1, b0, int(ell))
    assert abs(mean - twin) > BOUND * error + 2.0 / N


# ---- extrapolation from simulation --------------------------------------------------------------------

LAWS = ("exponential", "erlang(k=4)", "lognormal(sigma=1)", "uniform(width=1)")


@pytest.mark.slow
@pytest.mark.parametrize("G", LAWS)
def test_simulated_means_extrapolate_to_the_limit(G: str) -> None:
    # Two of Richardson's steps in m^{−1/2}: (f(25) − 6 f(100) + 8 f(400))/3. Replicas where they count most.
    value, variance, left = 0.0, 0.0, 0.0
    for m, weight, replicas in ((25, 1.0 / 3.0, 6), (100, -2.0, 16), (400, 8.0 / 3.0, 11)):
        mean, error = mean_queue(2000, m, -2.0, 1.0, 2, warmup=5.0, length=10.0, replicas=replicas, G=G)
        value, variance = value + weight * mean, variance + (weight * error) ** 2
        left += weight * prelimit_mean(m, -2, 1, 2, G)
    limit, stderr = stationary(b1=-2.0, b0=1.0, ell=2, sigma2=sigma2_of(G)).mean, math.sqrt(variance)
    assert stderr <= 0.01 * limit
    # What the steps leave for N = ∞ is known from the invariant state: .4 % for lognormal, less for others.
    assert abs(left - limit) <= 0.005 * limit
    assert abs(value - limit) <= BOUND * stderr
    # σ² 5 % greater.
    assert abs(value - 1.05 * limit) > BOUND * stderr


@pytest.mark.slow
@pytest.mark.parametrize("arrivals", ["erlang(k=4)", "hyperexponential(scv=10)"])
def test_renewal_arrivals_at_many_servers_are_as_good_as_poisson(arrivals: str) -> None:
    N, m, G = 2000, 100, "erlang(k=4)"
    mean, error = mean_queue(N, m, -2.0, 1.0, 2, warmup=5.0, length=10.0, replicas=16, G=G, arrivals=arrivals)
    poisson = prelimit_mean(m, -2, 1, 2, G)
    allowed = BOUND * error + 0.5 * abs(sigma2_of(G, arrivals, N) / sigma2_of(G) - 1.0)
    assert abs(mean - poisson) <= allowed
    assert abs(mean - 1.05 * poisson) > allowed


# ---- renewal arrivals ---------------------------------------------------------------------------------


def exact_mean(arrivals: str, lam: float, n: int) -> float:
    """Mean length of a queue with exponential service that gets one n-th of a renewal stream: GI/M/1.

    Its gaps are geometric sums of the stream's; with A their transform, the root of z = A(1 − z) makes the
    mean λ/(1 − z). L. Kleinrock, Queueing Systems 1 (1975), 6.
    """
    law = parse_law(arrivals)

    def excess(z: float) -> float:
        one = float(law.transform((1.0 - z) / (lam * n)))
        return one / n / (1.0 - (1.0 - 1.0 / n) * one) - z

    return lam / (1.0 - brentq(excess, 0.0, 1.0 - 1e-9, xtol=1e-15))


@pytest.mark.parametrize("arrivals", ["erlang(k=4)", "hyperexponential(scv=10)"])
@pytest.mark.parametrize("n", [1, 4, 64, 4096])
def test_a_share_of_a_renewal_stream_has_the_variance_claimed(arrivals: str, n: int) -> None:
    # Exact means at m = 4^k 10³, three steps in m^{−1/2}.
    means = [exact_mean(arrivals, 1.0 - 4.0**-k / 32.0, n) * 4.0**-k / 32.0 for k in range(4)]
    for power in (4.0, 16.0, 64.0):
        means = [(power * late - early) / (power - 1.0) for early, late in pairwise(means)]
    # Reflected Brownian motion with b1 = −1: σ²/2.
    assert means[0] == pytest.approx(sigma2_of("exponential", arrivals, n) / 2.0, rel=1e-5)
    if n == 4096:
        assert 2.0 * means[0] == pytest.approx(2.0, rel=0.003)


@pytest.mark.slow
@pytest.mark.parametrize("arrivals", ["erlang(k=4)", "hyperexponential(scv=10)"])
def test_simulated_shares_of_a_renewal_stream_are_exact_single_queues(arrivals: str) -> None:
    m, n = 25, 4
    mean, error = mean_queue(
        n, m, -1.0, 0.0, 2, warmup=40.0, length=4000.0, replicas=24, step=0.5, arrivals=arrivals
    )
    exact = exact_mean(arrivals, 0.8, n) / math.sqrt(m)
    assert abs(mean - exact) <= BOUND * error
    assert abs(mean - exact_mean(arrivals, 0.82, n) / math.sqrt(m)) > BOUND * error
    assert abs(mean - exact_mean("exponential", 0.8, n) / math.sqrt(m)) > BOUND * error
