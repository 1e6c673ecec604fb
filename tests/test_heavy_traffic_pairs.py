"""Covariances of pairs of queues in heavy traffic, and the cells that they leave out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import xarray as xr

from analysis.heavy_traffic import main, pair_covariances, queue_laws
from analysis.heavy_traffic_chaos import pairs_left_out
from analysis.report_heavy_traffic import covariances
from analysis.report_page import Draft
from tests.heavy_traffic_samples import DIMS, ROW, SIZES, make_tree


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    return make_tree()


def chaos_tree(shared: float, levels: int = 60) -> xr.DataTree:
    """N = 200 queues of m = 1: Poisson of mean 2, or of a mean that a replica's queues share at random."""
    rng = np.random.default_rng(8)
    N, replicas = 200, 400
    mean = 2.0 + shared * rng.standard_normal((replicas, 1))
    Q = rng.poisson(np.broadcast_to(mean, (replicas, N)))
    S = np.array([[np.mean(row >= level) for level in range(1, levels + 1)] for row in Q])
    shape = (1, 1, 1, 1, 1, 1, replicas, 1)
    grid = {"N": [N], "m": [1], "b1": [-1.0], "b0": [0.0], "ell": [2], "G": ["exponential"], "t": [1.0]}
    network = xr.Dataset(
        {"X": (DIMS, Q.mean(axis=1).reshape(shape)), "S": ((*DIMS, "level"), S.reshape(*shape, levels))},
        coords={**grid, "level": np.arange(1, levels + 1)},
    )
    diffusion = xr.Dataset(
        {"mean": ((*ROW, "t"), np.full((1, 1, 1, 1, 1), 2.0))}, coords={k: grid[k] for k in (*ROW, "t")}
    )
    return xr.DataTree.from_dict({"network": network, "diffusion": diffusion})


def test_covariance_of_pairs_is_that_of_the_shared_mean() -> None:
    (free,) = pair_covariances(chaos_tree(0.0))
    assert abs(free.covariance) <= 4.0 * free.stderr
    assert (free.n, free.freedom) == (400, 399.0)
    (bound,) = pair_covariances(chaos_tree(0.2))
    assert bound.covariance == pytest.approx(0.04, abs=4.0 * bound.stderr)
    assert bound.covariance > 4.0 * bound.stderr
    assert bound.scaled == 200 * bound.covariance
    # Variance of one queue: the mean of Poisson's, and that of the mean.
    assert bound.correlation == pytest.approx(bound.covariance / 2.04, rel=0.05)


def test_queues_that_are_all_alike_have_no_correlation() -> None:
    alike = chaos_tree(0.0)
    alike["network/S"][:], alike["network/X"][:] = 0.0, 0.0
    (row,) = pair_covariances(alike)
    assert (row.covariance, row.stderr) == (0.0, 0.0)
    assert math.isnan(row.correlation)


def test_chaos_needs_nearly_all_levels() -> None:
    with pytest.raises(
        ValueError, match=r"levels must hold nearly all queues .*, got 3: store about 8√m levels, 8 for m = 1"
    ):
        pair_covariances(chaos_tree(0.0, levels=3))
    tree = chaos_tree(0.0)
    with pytest.raises(ValueError, match=r"tree must hold 8 replicas or more for the covariance .*, got 7"):
        pair_covariances(tree.isel(replica=slice(7)))
    with pytest.raises(ValueError, match="tree must hold S for the covariance of pairs, got none"):
        pair_covariances(
            xr.DataTree.from_dict(
                {
                    "network": tree["network"].to_dataset().drop_vars("S"),
                    "diffusion": tree["diffusion"].to_dataset(),
                }
            )
        )
    with pytest.raises(ValueError, match="tree must hold tagged queues, got none"):
        queue_laws(tree)


def with_shares(tree: xr.DataTree, levels: int = 20) -> xr.DataTree:
    """Add geometric S, of ratio .5 and at m = 400 of .9, where 20 levels leave much of Q² out."""
    network = tree["network"].to_dataset()
    ratio = xr.where(network.m == 400, 0.9, 0.5)
    level = xr.DataArray(np.arange(1, levels + 1), dims="level", name="level")
    S = ratio ** level.assign_coords(level=level) * xr.ones_like(network.W1)
    network["S"] = S.transpose(*DIMS, "level")
    return xr.DataTree.from_dict({"network": network, "diffusion": tree["diffusion"].to_dataset()})


def test_pairs_that_are_left_out_are_counted_with_the_cure(
    tree: xr.DataTree, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = with_shares(tree)
    text = "3 of 9 cells are left out: store about 8√m levels, 160 for m = 400"
    assert len(pair_covariances(shares)) == 6
    assert pairs_left_out(shares) == text
    shares.to_netcdf(tmp_path / "shares.nc")
    assert main([str(tmp_path / "shares.nc")]) == 0
    assert text in " ".join(capsys.readouterr().out.split())
    draft = Draft()
    covariances(shares, draft)
    assert draft.notes == [f"{text}."]
    # With all levels of note, nothing is said.
    assert pairs_left_out(shares.isel(m=[0, 1])) == ""
    few = shares.copy(deep=True)
    few["network/S"][{"N": 0, "m": 0, "replica": slice(7, None)}] = math.nan
    assert pairs_left_out(few) == text.replace("3", "4", 1) + "; give each 8 replicas or more"
    alone = shares.isel(m=[0, 1]).map_over_datasets(
        lambda group: group.assign_coords(N=[1, *SIZES[1:]]) if "N" in group.dims else group
    )
    assert pairs_left_out(alone) == "2 of 6 cells are left out: a pair takes N of 2 or more"
    slow = chaos_tree(0.0, levels=9)
    slow["network/S"][..., -1] = 0.5
    assert pairs_left_out(slow) == "1 of 1 cells is left out: store more than 8√m levels, about 18 for m = 1"
