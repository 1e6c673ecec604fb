"""`python -m analysis` fits the quantity that is asked for."""

import re

import numpy as np
import pytest
import xarray as xr

from analysis.__main__ import main
from tests.report_samples import with_a_case_beside_the_grid


def stored_at_snapshots(tmp_path):
    """A netCDF file with a quantity over snapshots, exponents −1/2 at the first and −1 at the second."""
    N, rng = np.array([100, 1000, 10000]), np.random.default_rng(3)
    noise = rng.lognormal(0.0, 0.1, (3, 1, 1, 1, 8, 2))
    values = noise * np.stack([N**-0.5, N**-1.0], axis=-1)[:, None, None, None, None, :]
    data = xr.Dataset(
        {"d_S": (("N", "d", "lam", "G", "replica", "snapshot"), values, {"units": "1", "long_name": "d_S"})},
        {"N": N, "d": [2], "lam": [0.9], "G": ["exponential"], "snapshot": [2.0, 10.0]},
    )
    path = tmp_path / "results.nc"
    xr.DataTree.from_dict({"network": data}).to_netcdf(path)
    return path


@pytest.mark.parametrize(("snapshot", "exponent"), [(2, -0.5), (10, -1.0)])
def test_the_command_fits_at_the_snapshot_asked_for(tmp_path, capsys, snapshot, exponent):
    path = stored_at_snapshots(tmp_path)
    assert main([str(path), "--quantity", "d_S", "--snapshot", str(snapshot)]) == 0
    fitted = float(re.search(r"exponential\s+(\S+)", capsys.readouterr().out)[1])
    assert fitted == pytest.approx(exponent, abs=0.05)


def test_the_command_names_the_snapshots_there_are(tmp_path, capsys):
    path = stored_at_snapshots(tmp_path)
    assert main([str(path), "--quantity", "d_S"]) == 2
    assert "snapshot must be given for d_S: add --snapshot with one of [2.0, 10.0]" in capsys.readouterr().err
    assert main([str(path), "--quantity", "d_S", "--snapshot", "3"]) == 2
    assert "snapshot must be one of [2.0, 10.0], got 3" in capsys.readouterr().err


def test_a_snapshot_at_0_where_nothing_differs_yet_leaves_the_others(tmp_path, capsys):
    with xr.open_datatree(stored_at_snapshots(tmp_path)) as tree:
        data = tree["network"].to_dataset().load()
    first = data.sel(snapshot=[2.0]).assign_coords(snapshot=[0.0]) * 0.0
    path = tmp_path / "from_0.nc"
    xr.DataTree.from_dict({"network": xr.concat([first, data], "snapshot")}).to_netcdf(path)
    assert main([str(path), "--quantity", "d_S", "--snapshot", "2"]) == 0
    fitted = float(re.search(r"exponential\s+(\S+)", capsys.readouterr().out)[1])
    assert fitted == pytest.approx(-0.5, abs=0.05)
    assert main([str(path), "--quantity", "d_S", "--snapshot", "0"]) == 2
    assert "d_S must be above 0 at each of 2 or more N to follow a power of N" in capsys.readouterr().err


@pytest.mark.parametrize("axis", ["t", "level"])
def test_an_axis_that_the_quantity_has_not_is_refused(tmp_path, capsys, axis):
    path = stored_at_snapshots(tmp_path)
    assert main([str(path), "--quantity", "d_S", "--snapshot", "2", f"--{axis}", "5"]) == 2
    assert f"{axis} must be left out for d_S, which has none, got 5" in capsys.readouterr().err


def test_the_command_fits_two_terms_and_leaves_out_small_sizes(tmp_path, capsys):
    path = stored_at_snapshots(tmp_path)
    arguments = [str(path), "--quantity", "d_S", "--snapshot", "10"]
    assert main([*arguments, "--model", "two-term"]) == 0
    rows = re.findall(r"exponential\s+(-0.5|-1)\s+(\S+)\s+(\S+)", capsys.readouterr().out)
    assert [term for term, _, _ in rows] == ["-0.5", "-1"]
    # The second snapshot falls like 1/N exactly: no first term, and a second one of 1.
    assert abs(float(rows[0][1])) < 4 * float(rows[0][2])
    assert abs(float(rows[1][1]) - 1) < 4 * float(rows[1][2])
    assert main([*arguments, "--sizes", "asymptotic", "--figure", str(tmp_path / "a.png")]) == 0


def test_a_figure_of_single_powers_is_not_drawn_under_two_terms(tmp_path, capsys):
    assert main([str(tmp_path / "no.nc"), "--model", "two-term", "--figure", "a.png"]) == 2
    text = (
        "figure must be left out with the model two-term, as it draws single powers, got a.png: leave out "
        "--figure or --model"
    )
    assert text in capsys.readouterr().err


def test_a_level_is_fitted_where_higher_ones_are_reached_by_nobody(tmp_path, capsys):
    path = stored_at_snapshots(tmp_path)
    with xr.open_datatree(path) as tree:
        levels = (
            tree["network"].to_dataset().rename(d_S="V", snapshot="level").assign_coords(level=[1, 7]).load()
        )
    levels["V"].attrs["long_name"] = "V"
    levels.V.loc[{"level": 7, "N": 100}] = 0.0
    levels.V.loc[{"level": 7, "N": 1000, "replica": 0}] = 0.0
    path = tmp_path / "levels.nc"
    xr.DataTree.from_dict({"network": levels}).to_netcdf(path)
    assert main([str(path), "--quantity", "V", "--level", "1"]) == 0
    assert float(re.search(r"exponential\s+(\S+)", capsys.readouterr().out)[1]) == pytest.approx(
        -0.5, abs=0.05
    )
    assert main([str(path), "--quantity", "V", "--level", "7"]) == 0  # at N = 100 there is nothing to fit
    assert re.search(r"exponential.* 16$", capsys.readouterr().out, re.M)


def test_a_row_without_a_fit_shows_what_is_stored(tmp_path, capsys):
    path = tmp_path / "results.nc"
    with_a_case_beside_the_grid().to_netcdf(path)
    assert main([str(path)]) == 0
    fitted, single = capsys.readouterr().out.splitlines()[-2:]
    assert fitted.split()[-1] == "36"
    assert single.split()[-6:] == ["-", "no", "fit", "-", "-", "12"]
