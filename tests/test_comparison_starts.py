"""Distances from limits that start with ages: the limit's measures reach to the old jobs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sweep.age_profile import AgeProfile
from sweep.cell import Cell, Limit
from sweep.comparison import compare, knots, limit_error, measures
from sweep.fluid.transient import solve
from sweep.network.simulate import run_path

SNAPSHOTS = np.array([0.0, 1.0])


def solved(limit: Limit) -> dict[str, np.ndarray]:
    ages = knots(limit, SNAPSHOTS)
    arrays = solve(limit, times=SNAPSHOTS, levels=2, snapshots=SNAPSHOTS, ages=ages, tolerance=1e-6)
    return {**arrays, "knot_age": ages, "knot_cdf": arrays["nu_cdf"]}


@pytest.mark.parametrize("initial", ["invariant", "lengths(1: 0.5, 2: 0.3, ages=equilibrium)"])
def test_the_limit_of_a_start_with_ages_has_them_at_its_knots(initial: str) -> None:
    """At time 0 the ages at queues of length ≥ 1 have the cdf S_1 (1 − e^{−a})."""
    limit = Limit(d=2, lam=0.8, G="exponential", initial=initial)
    arrays = solved(limit)
    age = arrays["knot_age"]
    exact = 0.8 * np.array([-math.expm1(-a) for a in age.tolist()])
    assert np.allclose(arrays["knot_cdf"][0, 0], exact, atol=1e-6)
    assert age[-2] > 13.0


@pytest.mark.parametrize("G", ["exponential", "lomax(beta=1.5)", "uniform(width=1)"])
def test_distances_of_aged_networks_lie_far_above_the_error_of_the_limit(G: str) -> None:
    """N = 10⁴: √N d_P is of order 1, more where ages have no mean."""
    cell = Cell(N=10_000, d=2, lam=0.8, G=G, initial="lengths(1: 0.5, 2: 0.3, ages=equilibrium)")
    limit = solved(cell.limit)
    path = run_path(cell, times=SNAPSHOTS, seed=1, replica=0, levels=2, snapshots=SNAPSHOTS)
    S = path.arrays(np.array([math.inf]))["S"]
    distances = compare(cell.G, path, S, limit, measures(limit))
    most = 0.1 if G.startswith("lomax") else 0.03
    assert (distances["d_P"] > 0.002).all()
    assert (distances["d_P"] < most).all()
    assert (limit_error(measures(limit), 1e-6) < distances["d_P"] / 10.0).all()


def test_ages_of_a_profile_are_within_the_knots() -> None:
    profile = AgeProfile(ages=(0.0, 40.0), cdf=((0.0, 0.5),), atoms=((50.0, (0.1,)),))
    assert knots(Limit(d=2, lam=0.5, G="exponential", initial=profile), SNAPSHOTS)[-2] >= 50.0
    fresh = Limit(d=2, lam=0.5, G="exponential", initial="lengths(1: 0.5)")
    assert knots(fresh, SNAPSHOTS)[-2] == 1.0
