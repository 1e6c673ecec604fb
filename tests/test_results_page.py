"""The page of results: every cell of a store in each table, with theory beside the tails."""

import numpy as np
import pytest
import xarray as xr

from analysis.results import main
from sweep.driver import run
from tests.test_run import spec


def test_the_page_has_a_row_for_every_place_in_each_table(tmp_path, capsys):
    run(spec(N=[10, 40], replicas=6, snapshots=[]), store=tmp_path / "store", engine="serial")
    assert main([str(tmp_path / "store")]) == 0
    parts = capsys.readouterr().out.split("\n## ")
    assert len(parts) == 4
    for part in parts[1:]:
        rows = [line for line in part.splitlines() if line.startswith(("| 1 |", "| 2 |"))]
        assert len(rows) == 6
        assert len({line.split("|")[1:4].__repr__() for line in rows}) == 6
    tails = parts[3]
    assert "| 1 | 0.7 | exponential | geometric | 0.700 | 0.700 … 0.700 | geometric, 0.700 |" in tails
    assert "| 2 | 0.7 | lomax(beta=1.5) | power |" in tails
    assert "| 2 | 0.7 | deterministic | double exponential | 2.000 |" in tails


def test_a_known_rate_is_the_one_that_is_shown(tmp_path, capsys):
    N, noise = (
        np.array([100, 400, 1600]),
        np.exp(0.1 * np.random.default_rng(1).normal(size=(3, 1, 1, 1, 40))),
    )
    axes = {"N": N, "d": [2], "lam": [0.7], "G": ["exponential"], "t": [0.0, 1.0]}
    S_sup = 2.0 / np.sqrt(N)[:, None, None, None, None] * noise
    X = 1.0 + S_sup[..., None] * np.sign(noise - 1.0)[..., None] + np.zeros(2)
    dims = ("N", "d", "lam", "G", "replica")
    network = xr.Dataset({"S_sup": (dims, S_sup), "X": ((*dims, "t"), X)}, coords=axes)
    limit = xr.Dataset(
        {"X": (("d", "lam", "G", "t"), np.ones((1, 1, 1, 2)))}, coords=network.drop_vars("N").coords
    )
    file = tmp_path / "results.nc"
    xr.DataTree.from_dict({"network": network, "fluid": limit}).to_netcdf(file)
    assert main([str(file)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| 2 |"))
    exponent = float(row.split("|")[4].split("±")[0].replace("−", "-"))
    assert exponent == pytest.approx(-0.5, abs=0.03)


def test_a_place_without_results_is_an_error(tmp_path, capsys):
    assert main([str(tmp_path / "nothing")]) == 2
    assert "holds no results" in capsys.readouterr().err
