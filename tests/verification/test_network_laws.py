"""The simulator against exact and published laws.

Every check takes means over independent replicas with a fixed seed and asks |z| ≤ 4 of each component; with
at most 40 components an exact simulator fails by chance less than 3 times in 1000 seeds. Each is made again
with a rate that is wrong by at most 5 %, and must then fail.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chains import gi_m_1_root, transient_tails, worst_score
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.laws import parse_law
from sweep.network.reference import Reference
from sweep.network.simulate import run_path, run_replica

Floats = NDArray[np.float64]
REFERENCE = Path(__file__).parent.parent / "reference"
BOUND = 4.0
NO_SNAPSHOTS, NO_AGES = np.empty(0), np.array([math.inf])


def rows(name: str) -> list[dict[str, str]]:
    lines = [line for line in (REFERENCE / name).read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def replicas(
    cell: Cell,
    count: int,
    times: Floats,
    levels: int = 1,
    snapshots: Floats = NO_SNAPSHOTS,
    ages: Floats = NO_AGES,
    pick: Callable[[dict[str, Floats]], Floats] = lambda arrays: arrays["S"],
) -> Floats:
    """What `pick` takes of each replica, replicas along the first axis."""
    return np.array(
        [
            pick(
                run_replica(
                    cell, times=times, seed=2019, replica=r, levels=levels, snapshots=snapshots, ages=ages
                )
            )
            for r in range(count)
        ]
    )


def long_averages(cell: Cell, count: int, warmup: float, end: float, levels: int, seed: int = 2019) -> Floats:
    """Exact averages over [warmup, end] of S_1, …, S_levels, then of X and of the rate of arrivals."""

    def one(replica: int) -> Floats:
        arrays = run_path(
            cell, times=np.array([warmup, end]), seed=seed, replica=replica, levels=levels,
            snapshots=NO_SNAPSHOTS, averages=True,
        ).arrays(NO_AGES)  # fmt: skip
        rate = np.diff(arrays["E"]) / (end - warmup)
        return np.concatenate([arrays["S_average"][1], arrays["X_average"][1:], rate])

    return np.array([one(replica) for replica in range(count)])


def mean_over_time(arrays: dict[str, Floats]) -> Floats:
    """Time averages of X and of S_1, S_2, …"""
    return np.append(arrays["X"].mean(), arrays["S"].mean(axis=0))


def test_m_m_1_queue_lengths_are_geometric() -> None:
    """d = 1 with Poisson arrivals: independent M/M/1 queues, P(X ≥ ℓ) = λ^ℓ."""
    cell = Cell(N=1000, d=1, lam=0.5, G="exponential")
    samples = replicas(cell, 16, np.arange(200.0, 300.0), levels=6, pick=mean_over_time)[:, 1:]

    def tails(lam: float) -> Floats:
        return lam ** np.arange(1, 7)

    assert worst_score(samples, tails(0.5)) <= BOUND
    assert worst_score(samples, tails(0.5 * 1.03)) > BOUND


LAWS = [
    "deterministic",
    "uniform(width=1)",
    "erlang(k=4)",
    "gamma(shape=0.5)",
    "hyperexponential(scv=4)",
    "weibull(shape=0.7)",
    "lognormal(sigma=0.8)",
    "lomax(beta=4.5)",
    "pareto(beta=4.5)",
]


@pytest.mark.parametrize("G", LAWS)
def test_m_g_1_has_the_pollaczek_khinchine_mean_and_the_stationary_ages(G: str) -> None:
    """E X = λ + λ²(1 + Var S) / (2(1 − λ)); a server is busy and of age ≤ a with probability λ ∫_0^a Ḡ."""
    law = parse_law(G)
    ages = np.array([0.25, 0.75, 1.5, math.inf])

    def exact(lam: float) -> Floats:
        mean = lam + lam**2 * (1.0 + law.variance) / (2.0 * (1.0 - lam))
        return np.concatenate([[mean, lam], lam * law.integral(ages)])

    def pick(arrays: dict[str, Floats]) -> Floats:
        return np.concatenate([mean_over_time(arrays), arrays["nu_cdf"][0, 0]])

    cell = Cell(N=1000, d=1, lam=0.5, G=G)
    samples = replicas(cell, 16, np.arange(200.0, 300.0), snapshots=np.array([250.0]), ages=ages, pick=pick)
    assert worst_score(samples, exact(0.5)) <= BOUND
    assert worst_score(samples, exact(0.5 * 1.03)) > BOUND


TRANSFORMS: dict[str, Callable[[float], float]] = {
    "deterministic": lambda s: math.exp(-s),
    "erlang(k=3)": lambda s: (1.0 + s / 3.0) ** -3,
    "gamma(shape=0.5)": lambda s: (1.0 + 2.0 * s) ** -0.5,
    "uniform(width=2)": lambda s: -math.expm1(-2.0 * s) / (2.0 * s),
}


@pytest.mark.parametrize("arrivals", TRANSFORMS)
def test_gi_m_1_queue_lengths_are_geometric(arrivals: str) -> None:
    """N = 1 with renewal arrivals: P(X ≥ ℓ) = λ σ^(ℓ−1) at a uniform time, here over all of [200, 5200].

    Averages are exact: a grid would see some phases of deterministic gaps and not others.
    """
    cell = Cell(N=1, d=1, lam=0.7, G="exponential", arrivals=arrivals)
    samples = long_averages(cell, 128, 200.0, 5200.0, levels=4)[:, :4]

    def tails(lam: float) -> Floats:
        return lam * gi_m_1_root(TRANSFORMS[arrivals], lam) ** np.arange(4)

    assert worst_score(samples, tails(0.7)) <= BOUND
    assert worst_score(samples, tails(0.7 * 1.05)) > BOUND


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
    samples = replicas(cell, 10_000, times, levels=3)
    for lam, agrees in ((0.7, True), (0.7 * 1.05, False)):
        exact = tails(lam)
        # Multiples of 1/N with mean m have variance m (1/N − m) at least. At t = .5, 10⁴ replicas see a third
        # job 2.7 times in the mean, and not at all once in 15 seeds.
        least = np.maximum(exact * (1.0 / N - exact), 0.0)
        assert (worst_score(samples, exact, least_variance=least) <= BOUND) is agrees


CELLS = [
    {"N": 8, "d": 2, "lam": 0.9, "G": "gamma(shape=0.5)"},
    {"N": 8, "d": 3, "lam": 1.2, "G": "deterministic", "arrivals": "uniform(width=1)", "replacement": False},
    {"N": 8, "d": 2, "lam": 0.8, "G": "lomax(beta=1.5)", "arrivals": "gamma(shape=0.5)", "fraction": 0.6},
    {"N": 8, "d": 7, "lam": 0.9, "G": "uniform(width=1)", "replacement": False, "fraction": 0.5},
    {"N": 8, "d": 2, "lam": 0.7, "G": "erlang(k=3)", "initial": "lengths(1: 0.25, 3: 0.5)", "fraction": 0.0},
    {"N": 8, "d": 8, "lam": 0.9, "G": "hyperexponential(scv=4)", "replacement": False},
]


@pytest.mark.parametrize("parameters", CELLS, ids=lambda parameters: parameters["G"])
def test_the_network_agrees_with_the_event_driven_reference(parameters: dict[str, Any]) -> None:
    """S, D, X, E and ages at fixed times, general service and arrivals, every way of sampling."""
    times, snapshots, ages = np.array([0.5, 1.7, 4.0]), np.array([1.0, 4.0]), np.array([0.3, 1.0, math.inf])

    def pick(arrays: dict[str, Floats]) -> Floats:
        return np.concatenate([arrays[name].ravel() for name in ("S", "D", "X", "E", "nu_cdf")])

    def reference(lam_factor: float) -> Floats:
        cell = Cell(**{**parameters, "lam": parameters["lam"] * lam_factor})
        runs = (Reference(cell, seed, 3).record(times, snapshots, ages) for seed in range(1500))
        return np.array([pick(arrays) for arrays in runs])

    samples = replicas(
        Cell(**parameters),
        1500,
        times,
        levels=3,
        snapshots=snapshots,
        ages=ages,
        pick=pick,
    )
    for factor, agrees in ((1.0, True), (1.05, False)):
        expected = reference(factor)
        stderr = np.sqrt(expected.var(axis=0, ddof=1) / len(expected))
        assert (worst_score(samples, expected.mean(axis=0), stderr) <= BOUND) is agrees


FINITE_N = [row for row in rows("finite_n_d2_exponential.csv") if int(row["N"]) <= 50]


@pytest.mark.parametrize("row", FINITE_N, ids=lambda row: f"lam={row['lam']}-N={row['N']}")
def test_mean_queue_length_at_finite_N_is_the_published_one(row: dict[str, str]) -> None:
    """Stationary mean queue length of SQ(2), with replacement."""
    N, lam = int(row["N"]), float(row["lam"])
    times = 200.0 + np.arange(100_000 // N, dtype=np.float64)
    published, stderr = float(row["mean_queue_length"]), float(row["ci_2sigma"]) / 2.0

    def score(factor: float) -> float:
        cell = Cell(N=N, d=2, lam=lam * factor, G="exponential")
        samples = replicas(cell, 24, times, pick=lambda arrays: arrays["X"].mean(keepdims=True))
        return worst_score(samples, np.array([published]), stderr)

    assert score(1.0) <= BOUND
    assert score(1.02) > BOUND


TAILS = [
    row
    for row in rows("finite_n_tails_exponential.csv")
    if int(row["N"]) <= 30 and (row["d"], float(row["rho"])) in {("2", 0.9), ("3", 0.7), ("3", 0.9)}
]


def controlled(values: Floats, controls: Floats) -> tuple[Floats, Floats]:
    """Means (column,) and standard errors of replicas after regression on controls of mean 0."""
    design = np.column_stack([np.ones(len(values)), controls])
    solution = np.linalg.lstsq(design, values, rcond=None)[0]
    residuals = values - design @ solution
    variance = (residuals**2).sum(axis=0) / (len(values) - design.shape[1])
    return solution[0], np.sqrt(variance * np.linalg.inv(design.T @ design)[0, 0])


@pytest.mark.parametrize("row", TAILS, ids=lambda row: f"d={row['d']}-lam={row['rho']}-N={row['N']}")
def test_mean_and_tails_at_finite_N_are_the_published_ones(row: dict[str, str]) -> None:
    """X and S_2 … S_6; S_1 and the rate of arrivals, whose means are λ, are control variates.

    Published errors are those of the mean, which no share exceeds.
    """
    names = ("mean_queue_length", "S2", "S3", "S4", "S5", "S6")
    published = np.array([float(row[name]) for name in names])

    def score(factor: float) -> float:
        lam = float(row["rho"]) * factor
        cell = Cell(N=int(row["N"]), d=int(row["d"]), lam=lam, G="exponential", initial="invariant")
        S1, *tails, X, rate = long_averages(cell, 32, 200.0, 8200.0, levels=6).T
        mean, stderr = controlled(np.array([X, *tails]).T, np.array([S1 - lam, rate - lam]).T)
        error = np.hypot(stderr, float(row["ci2sigma"]) / 2.0)
        return float((np.abs(mean - published) / error).max())

    assert score(1.0) <= BOUND
    assert score(0.995) > BOUND
    assert score(1.005) > BOUND


WITHOUT = rows("mean_time_in_system_n100_without_replacement.csv")


@pytest.mark.parametrize("row", WITHOUT, ids=lambda row: f"d={row['d']}-lam={row['lam']}")
def test_mean_time_in_system_without_replacement_is_the_published_one(row: dict[str, str]) -> None:
    """Little's law: E X / λ for N = 100; λ = .99 forgets its start in a few hundred services."""
    lam = float(row["lam"])
    times = np.arange(2000.0, 6000.0)
    published, stderr = float(row["mean_time_in_system"]), float(row["standard_error"])

    def score(factor: float) -> float:
        cell = Cell(N=100, d=int(row["d"]), lam=lam * factor, G="exponential", replacement=False)
        samples = replicas(cell, 16, times, pick=lambda arrays: arrays["X"].mean(keepdims=True) / cell.lam)
        return worst_score(samples, np.array([published]), stderr)

    assert score(1.0) <= BOUND
    assert score(0.97) > BOUND


def test_transient_means_from_a_loaded_start_are_the_published_ones() -> None:
    """Mean queue length from 20 % queues of 2 and 80 % of 3; published within an event, hence .005."""
    table = rows("transient_two_thirds.csv")
    times = np.array([float(row["t"]) for row in table])
    published = np.array([float(row["N10_mean_of_1e5_runs"]) for row in table])
    stderr = np.array([float(row["N10_standard_error"]) for row in table])

    def agrees(lam: float) -> bool:
        cell = Cell(N=10, d=2, lam=lam, G="exponential", initial="lengths(2: 0.2, 3: 0.8)")
        samples = replicas(cell, 6000, times, pick=lambda arrays: arrays["X"])
        own = samples.std(axis=0, ddof=1) / math.sqrt(len(samples))
        bound = np.maximum(BOUND * np.sqrt(own**2 + stderr**2), 0.005)
        return bool((np.abs(samples.mean(axis=0) - published) <= bound).all())

    assert agrees(0.9)
    assert not agrees(0.9 * 1.04)
