"""Distances of a path from its limit are those of the distance functions, and the limit's share is small."""

import math

import numpy as np
import pytest

from sweep.cell import Cell
from sweep.comparison import compare, knots, limit_error, measures
from sweep.distances import Atoms, prohorov_between, residual_norm
from sweep.fluid.transient import solve
from sweep.network.simulate import run_path
from sweep.work import solve_limit

LEVELS = 4
SNAPSHOTS = np.array([0.75, 4.0])
GRIDS = {"times": np.array([0.0, 0.75, 2.0, 4.0]), "levels": LEVELS, "snapshots": SNAPSHOTS}


def solved(cell):
    grids = {**GRIDS, "ages": np.array([0.0, 1.0, math.inf])}
    arrays = solve_limit({"limit": cell.limit, "grids": {**grids, "tolerance": 1e-8}}, {})
    return {name: values[0] for name, values in arrays.items()}


def compared(cell):
    limit = solved(cell)
    path = run_path(cell, seed=5, replica=0, **GRIDS)
    nu = measures(limit)
    S = path.arrays(np.array([math.inf]))["S"]
    return path, S, limit, nu, compare(cell.G, path, S, limit, nu)


@pytest.mark.parametrize("G", ["exponential", "deterministic", "gamma(shape=0.5)"])
def test_distances_are_those_of_the_empirical_measures(G):
    cell = Cell(N=300, d=2, lam=0.9, G=G)
    path, S, limit, nu, distances = compared(cell)
    assert distances["S_sup"] == np.max(np.abs(S - limit["S"]))
    for k in range(SNAPSHOTS.size):
        for level in range(1, LEVELS + 1):
            atoms = Atoms(path.ages[k][path.lengths[k] >= level], 1.0 / cell.N)
            assert distances["d_P"][k, level - 1] == prohorov_between(atoms, nu[k][level - 1])
            assert distances["V"][k, level - 1] == residual_norm(cell.G, atoms, nu[k][level - 1]).value
    assert np.array_equal(distances["d_S"], np.max(distances["d_P"] / np.arange(1, LEVELS + 1), axis=1))


def test_the_measures_of_the_limit_have_its_masses():
    cell = Cell(N=1, d=2, lam=0.9, G="lomax(beta=1.5)")
    limit = solved(cell)
    at = np.searchsorted(GRIDS["times"], SNAPSHOTS)
    masses = [[measure.mass for measure in levels] for levels in measures(limit)]
    assert np.allclose(masses, limit["S"][at], rtol=0, atol=1e-15)
    assert np.array_equal(limit["nu_cdf"][:, :, -1], np.array(masses))


@pytest.mark.parametrize("G", ["exponential", "lomax(beta=1.5)", "gamma(shape=0.5)", "uniform(width=1)"])
def test_the_share_of_the_limit_is_below_a_tenth_of_the_distances(G):
    cell = Cell(N=100_000, d=2, lam=0.9, G=G)
    _, _, limit, nu, distances = compared(cell)
    error = limit_error(nu, float(limit["S_error"].max()))
    assert np.array_equal(error, limit["d_P_error"])
    seen = limit["S"][np.searchsorted(GRIDS["times"], SNAPSHOTS)] > 1e-3
    assert np.all(error[seen] < 0.1 * distances["d_P"][seen])


def test_an_atom_of_ages_is_not_smeared_over_a_cell():
    # All servers start with one fresh job of exactly one unit: at time 0.75 most ages are exactly 0.75.
    cell = Cell(N=100_000, d=2, lam=0.5, G="deterministic", initial="lengths(1: 1)")
    path, _, _, _, distances = compared(cell)
    assert np.mean(path.ages[0] == 0.75) > 0.9
    assert distances["d_P"][0, 0] < 1e-6
    late = path.ages[1][path.lengths[1] >= 1]
    assert late.size > 0
    assert distances["d_P"][1, 0] < 0.02


def test_knots_hold_the_places_where_a_density_may_jump():
    limit = Cell(N=1, d=2, lam=0.9, G="uniform(width=1)").limit
    ages = knots(limit, SNAPSHOTS)
    assert ages[0] == 0.0
    assert ages[-1] == math.inf
    assert np.all(np.diff(ages) > 0)
    for age in (0.5, 1.5, 4.0 - 0.5, 4.0 - 1.5, 0.75 - 0.5, 0.75, 4.0):
        assert np.min(np.abs(ages - age)) == 0.0, age


def test_a_snapshot_may_come_after_the_last_stored_time():
    cell = Cell(N=40, d=2, lam=0.9, G="exponential")
    ages, late = np.array([0.0, 1.0, math.inf]), np.array([1.5])
    short, long = np.array([0.5, 1.0]), np.array([0.5, 1.0, 1.5])
    paths = [
        run_path(cell, times=times, seed=1, replica=0, levels=3, snapshots=late).arrays(ages)
        for times in (short, long)
    ]
    assert np.array_equal(paths[0]["nu_cdf"], paths[1]["nu_cdf"])
    assert np.array_equal(paths[0]["nu_cdf"][0, :, -1], paths[1]["S"][-1])
    limits = [
        solve(cell.limit, times=times, levels=3, snapshots=late, ages=ages, tolerance=1e-8)
        for times in (short, long)
    ]
    assert np.allclose(limits[0]["nu_cdf"], limits[1]["nu_cdf"], rtol=0, atol=1e-7)
    assert np.allclose(limits[0]["nu_cdf"][0, :, -1], limits[1]["S"][-1], rtol=0, atol=1e-7)


def test_without_snapshots_only_queue_lengths_are_compared():
    cell = Cell(N=50, d=1, lam=0.5, G="exponential")
    grids = {**GRIDS, "snapshots": np.empty(0)}
    path = run_path(cell, seed=1, replica=0, **grids)
    S = path.arrays(np.array([math.inf]))["S"]
    assert set(compare(cell.G, path, S, {"S": np.zeros_like(S)}, [])) == {"S_sup"}
