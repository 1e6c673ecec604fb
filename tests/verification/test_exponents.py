"""Distances of simulated networks from the limit fall like N^(−1/2), as they are fitted from a sweep.

No rate is published for general service: that −1/2 is right is measured (docs/results.md), and what is
asserted is that the whole chain from paths to exponents goes on to show it. Three sizes, so many replicas
that a fit has a standard error of .006 to .009; |z| ≤ 4, of which a power off by 0.05 must be out of reach.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

from analysis.rates import fit_replicas
from sweep.cell import Cell
from sweep.comparison import knots
from sweep.distances import Atoms, PiecewiseLinear, residual_norm
from sweep.fluid.transient import solve
from sweep.network.path import Path
from sweep.network.simulate import run_path

Floats = NDArray[np.float64]
SIZES, REPLICAS, BOUND = (100, 400, 1600), 400, 4.0
TIMES, LEVELS, SNAPSHOT = np.linspace(0.0, 10.0, 101), 8, np.array([4.0])


@functools.cache
def paths(G: str, N: int) -> list[Path]:
    """Replicas from empty, d = 2, λ = .9."""
    cell = Cell(N=N, d=2, lam=0.9, G=G)
    return [
        run_path(cell, times=TIMES, seed=12, replica=r, levels=LEVELS, snapshots=SNAPSHOT)
        for r in range(REPLICAS)
    ]


def distances(G: str, quantity: str) -> xr.DataArray:
    """S_sup, or V of level 1 at the snapshot, of every replica, N first and replica last."""
    limit, law = Cell(N=1, d=2, lam=0.9, G=G).limit, Cell(N=1, d=2, lam=0.9, G=G).G
    ages = knots(limit, SNAPSHOT)
    exact = solve(limit, times=TIMES, levels=LEVELS, snapshots=SNAPSHOT, ages=ages, tolerance=1e-6)
    nu = PiecewiseLinear(ages, exact["nu_cdf"][0, 0])

    def distance(path: Path) -> float:
        if quantity == "S_sup":
            return float(np.abs(path.arrays(ages[-1:])["S"] - exact["S"]).max())
        age, length = path.ages[0], path.lengths[0]
        return residual_norm(law, Atoms(age[length >= 1], 1.0 / age.size), nu).value

    rows = [[[distance(path) for path in paths(G, N)]] for N in SIZES]
    return xr.DataArray(rows, dims=("N", "G", "replica"), coords={"N": list(SIZES), "G": [G]}, name=quantity)


def score(values: xr.DataArray) -> float:
    """|z| of the fitted exponent from −1/2."""
    fit = fit_replicas(values, "mean").isel(G=0)
    return abs(float(fit.exponent) + 0.5) / float(fit.exponent_stderr)


@pytest.mark.parametrize(
    ("G", "quantity"),
    [
        ("exponential", "S_sup"),
        ("lomax(beta=1.5)", "S_sup"),
        ("lognormal(sigma=1)", "S_sup"),
        ("deterministic", "S_sup"),
        ("deterministic", "V"),
    ],
)
def test_distances_fall_like_the_root_of_N(G: str, quantity: str) -> None:
    values = distances(G, quantity)
    # From N = 100 to 1600 corrections of order 1/N move exponents by .01 at most.
    assert score(values) <= BOUND
    for power in (0.05, -0.05):
        assert score(values * (values.N / 100.0) ** power) > BOUND
