"""The page of results: every cell of a store in each table, with theory beside the tails."""

import numpy as np
import pytest
import xarray as xr

from analysis.results import main, page
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
    assert "| 2 | 0.7 | lomax(beta=1.5) | power law |" in tails
    assert "| 2 | 0.7 | deterministic | double exponential | 2.000 |" in tails


def known(lam=0.7, absent=None, spec=""):
    """S_sup like 2 N^(−1/2), and X of mean 1 that varies as much, its limit; cells at one N may be absent."""
    N, noise = (
        np.array([100, 400, 1600]),
        np.exp(0.1 * np.random.default_rng(1).normal(size=(3, 1, 1, 1, 40))),
    )
    axes = {"N": N, "d": [2], "lam": [lam], "G": ["exponential"], "t": [0.0, 1.0]}
    S_sup = 2.0 / np.sqrt(N)[:, None, None, None, None] * noise
    X = 1.0 + S_sup[..., None] * np.sign(noise - 1.0)[..., None] + np.zeros(2)
    if absent is not None:
        S_sup[absent], X[absent] = np.nan, np.nan
    dims = ("N", "d", "lam", "G", "replica")
    network = xr.Dataset({"S_sup": (dims, S_sup), "X": ((*dims, "t"), X)}, coords=axes)
    limit = xr.Dataset(
        {"X": (("d", "lam", "G", "t"), np.ones((1, 1, 1, 2)))}, coords=network.drop_vars("N").coords
    )
    tree = xr.DataTree.from_dict({"network": network, "fluid": limit})
    tree.attrs |= {"title": "Known", "spec": spec}
    return tree


def rows_of(tree):
    return [line.split(" | ") for line in page(tree) if line.startswith("| 2 |")]


def test_a_known_rate_is_the_one_that_is_shown(tmp_path, capsys):
    file = tmp_path / "results.nc"
    known().to_netcdf(file)
    assert main([str(file)]) == 0
    out = capsys.readouterr().out
    assert "from a store of the sweep “Known”" in out
    assert "at the last stored time, t = 1:" in out
    row = next(line for line in out.splitlines() if line.startswith("| 2 |"))
    exponent = float(row.split("|")[4].split("±")[0].replace("−", "-"))
    assert exponent == pytest.approx(-0.5, abs=0.03)


def test_numbers_of_absent_cells_are_dashes_and_the_sizes_left_are_used():
    rates, errors, _ = rows_of(known(absent=-1))
    assert rates[6:8] == ["–", "– |"]  # none at the largest N, and two N tell no lack of fit
    assert float(errors[5].split(" ± ")[0].replace("−", "-")) == pytest.approx(-0.5, abs=0.1)
    assert not any("nan" in cell for row in rows_of(known(absent=0)) for cell in row)


def test_tails_are_those_of_the_network_that_was_run():
    assert rows_of(known(lam=1.2))[2][3:] == ["no invariant state", "–", "–", "– |"]
    # Half of the arrivals join uniformly: a geometric tail of ratio λ(1 − p).
    mixed = rows_of(known(spec="[run]\nfraction = 0.5"))[2]
    assert mixed[3:] == ["geometric", "0.350", "0.350 … 0.350", "geometric, 0.350 |"]
    started = next(iter(page(known(spec='[run]\ninitial = "lengths(2: 0.2)"'))))
    assert "from the start\n`lengths(2: 0.2)`" in started


def test_a_place_without_results_is_an_error(tmp_path, capsys):
    assert main([str(tmp_path / "nothing")]) == 2
    assert "holds no results" in capsys.readouterr().err
