"""Convergence in heavy traffic: known powers, extrapolation, laws of queues, command, figure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import xarray as xr

from analysis.heavy_traffic import (
    extrapolate_mean,
    fit_distance,
    main,
    pair_covariances,
    queue_laws,
    two_times,
)
from analysis.heavy_traffic_data import Cell, Starts, load_tree, starts_of
from analysis.heavy_traffic_figures import heavy_traffic_figure
from analysis.heavy_traffic_scales import fit_joint
from tests.heavy_traffic_samples import (
    REPLICAS,
    SCALES,
    SIZES,
    SPEC,
    make_tree,
)


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    return make_tree()


# ---- distances ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", ["W1", "KS", "d_P"])
def test_parts_of_a_distance_are_told_apart(tree: xr.DataTree, quantity: str) -> None:
    (fit,) = fit_distance(tree, quantity)
    (squares,) = (one for one in fit.joint if one.rule == "squares")
    (other,) = (one for one in fit.joint if one.rule == "sum")
    assert squares.a == pytest.approx(2.0, abs=4.0 * squares.a_stderr)
    assert squares.b == pytest.approx(3.0, abs=4.0 * squares.b_stderr)
    assert squares.a_stderr <= 0.02
    # A distance that adds up in squares is not a sum.
    assert squares.misfit <= 0.02
    assert other.misfit > 0.04
    assert (fit.largest_N, fit.largest_m, squares.points) == (10_000, 400, 9)


def test_exponents_are_those_of_the_sections(tree: xr.DataTree) -> None:
    (fit,) = fit_distance(tree)
    for power, curve in (
        (fit.in_m, (4.0 / np.array(SCALES) + 9e-4)),
        (fit.in_N, 0.01 + 9.0 / np.array(SIZES)),
    ):
        axis = SCALES if power is fit.in_m else SIZES
        slope = np.polyfit(np.log(axis), 0.5 * np.log(curve), 1)[0]
        assert power.exponent == pytest.approx(slope, abs=4.0 * power.stderr)
        assert power.points == 3


def test_cells_that_are_missing_are_left_out(tree: xr.DataTree) -> None:
    network = tree["network"].to_dataset().copy(deep=True)
    for name in network.data_vars:
        network[name][0] = math.nan  # N = 100 not begun
        network[name][1, :, ..., 20:, :] = (
            math.nan if network[name].dims[-1] == "t" else network[name][1, :, ..., 20:, :]
        )
    part = xr.DataTree.from_dict({"network": network, "diffusion": tree["diffusion"].to_dataset()})
    (fit,) = fit_distance(part)
    assert fit.joint[1].points == 6
    means = extrapolate_mean(part)
    assert [(one.N, one.freedom) for one in means] == [(1000, 19.0), (10_000, REPLICAS - 1.0)]
    one = part.isel(N=[2], m=[2])
    (alone,) = fit_distance(one)
    assert (alone.in_m.points, alone.in_N.points, alone.joint) == (1, 1, ())
    with pytest.raises(ValueError, match="X must have 2 replicas at each of 2 scales m for some N, got none"):
        extrapolate_mean(one)


def test_other_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="rule must be one of sum, squares, got 'max'"):
        fit_joint([], "max")


# ---- means --------------------------------------------------------------------------------------------


def test_means_are_extrapolated_to_the_limit(tree: xr.DataTree) -> None:
    fits = extrapolate_mean(tree)
    assert [fit.N for fit in fits] == list(SIZES)
    for fit in fits:
        assert abs(fit.z) <= 4.0
        assert fit.slope == pytest.approx(-0.8, abs=0.2)
        assert fit.scales == SCALES
        assert fit.stationary == pytest.approx(1.0)
        # Without extrapolation the mean at the largest scale is far off.
        assert 0.8 / math.sqrt(400) > 4.0 * fit.stderr
    early = extrapolate_mean(tree, t=0.5)
    assert early[0].limit == pytest.approx(float(tree["diffusion"]["mean"].values.ravel()[1]))


# ---- single queues ------------------------------------------------------------------------------------


def test_queues_of_the_limit_have_its_law(tree: xr.DataTree) -> None:
    for law in queue_laws(tree, t=1.0):
        assert math.isnan(law.position)
        assert law.n == 3 * REPLICAS
        # Kolmogorov: P(√n distance > 1.95) = .001 each, of nine.
        assert law.distance <= 1.95 / math.sqrt(law.n)
    wrong = make_tree(starts=1.0)
    assert max(law.distance for law in queue_laws(wrong, t=0.5)) > 1.95 / math.sqrt(3 * REPLICAS)


def test_queues_from_given_starts_follow_the_equation_of_one_queue() -> None:
    starts = np.array([2.0, 0.5, 1.5])
    tree = make_tree("points(0: 0.5, 1: 0.5)", starts, SPEC.format("false", "[2.0, 0.5]"))
    laws = queue_laws(tree.isel(N=[2], m=[2]), t=0.5)
    # The third queue of 10 000 is not fixed: it started at a low quantile, 0, and here does not.
    assert [law.position for law in laws] == [2.0, 0.5, 0.0]
    assert [law.n for law in laws] == [REPLICAS] * 3
    for law in laws[:2]:
        assert law.distance <= 1.95 / math.sqrt(law.n)
    assert laws[2].distance > 1.95 / math.sqrt(REPLICAS)
    drawn = make_tree("points(0: 0.5, 1: 0.5)", starts, SPEC.format("true", "[2.0, 0.5]"))
    assert [law.position for law in queue_laws(drawn.isel(N=[2], m=[2]))][:2] == [2.0, 0.5]
    assert math.isnan(queue_laws(drawn.isel(N=[2], m=[2]))[2].position)
    for function in (two_times, pair_covariances):
        with pytest.raises(
            ValueError, match=r"tree must have exchangeable starts for the .*, got given ones"
        ):
            function(drawn)


def test_two_times_of_the_limit_agree_and_forgetful_ones_do_not() -> None:
    tree = make_tree(replicas=200)
    rows = two_times(tree, s=0.75, t=1.0)
    z = np.array([row.z for row in rows])
    assert np.abs(z).max() <= 4.0
    assert (rows[0].s, rows[0].t, rows[0].n, rows[0].freedom) == (0.75, 1.0, 600, 199.0)
    pooled = (
        np.mean([row.share for row in rows]),
        math.sqrt(np.mean([row.stderr**2 for row in rows]) / len(rows)),
    )
    assert abs(pooled[0] - rows[0].limit) <= 4.0 * pooled[1]
    assert abs(np.mean([row.forgetful for row in rows]) - rows[0].limit) > 4.0 * pooled[1]
    assert two_times(tree)[0].s == 1.0  # nearest to ¾ of the last time, and before it
    with pytest.raises(ValueError, match="s and t must increase from above 0, got 0 and 2"):
        two_times(tree, s=0.0)


# ---- what is read -------------------------------------------------------------------------------------


def test_starts_are_read_from_the_spec(tree: xr.DataTree) -> None:
    assert starts_of(tree) == Starts()
    assert starts_of(tree).symmetric
    spec = make_tree("points(0: 0.5, 1: 0.5)", 0.0, SPEC.format("false", "[2, 0.5]"))
    assert starts_of(spec) == Starts(initial="points(0: 0.5, 1: 0.5)", exchangeable=False, fixed=(2.0, 0.5))
    assert not starts_of(spec).symmetric


def test_other_results_are_refused(tree: xr.DataTree) -> None:
    with pytest.raises(TypeError, match="tree must be a DataTree or the path of a store, got Dataset"):
        load_tree(tree["network"].to_dataset())
    with pytest.raises(
        ValueError, match='tree must be of the study "heavy-traffic", with the group network over m'
    ):
        load_tree(xr.DataTree.from_dict({"fluid": xr.Dataset()}))
    with pytest.raises(ValueError, match=r"quantity must be one of W1, KS, d_P, X, got 'S_sup'"):
        fit_distance(tree, "S_sup")
    with pytest.raises(ValueError, match=r"t must be one of the stored times \[0\.0, .*\], got 0\.3"):
        fit_distance(tree, t=0.3)
    with pytest.raises(ValueError, match="W1 must have a cell with 2 replicas that differ, got none"):
        fit_distance(tree.isel(replica=[0]))
    with pytest.raises(
        ValueError, match=r"row must be one of \[\(-1\.0, 0\.0, 2, 'exponential'\)\], got \(0, 0, 2, 'x'\)"
    ):
        heavy_traffic_figure(tree, row=(0, 0, 2, "x"))


def test_command_prints_tables_and_draws(
    tree: xr.DataTree, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = tmp_path / "results.nc", tmp_path / "heavy.png"
    tree.to_netcdf(path)
    assert main([str(path), "--figure", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "W1: power of m (largest N), of N (largest m)" in out
    for words in ("extrapolated in 1/√m", "law of one queue", "at two times", "figure: "):
        assert words in out
    assert "left out (covariance of two queues): tree must hold S for the covariance of pairs" in out
    assert picture.read_bytes()[1:4] == b"PNG"
    assert main([str(path), "--time", "0.3"]) == 2
    text = f"analysis.heavy_traffic: {path}: t must be one of the stored times"
    assert text in capsys.readouterr().err


def test_command_says_once_why_tables_are_left_out_and_shows_no_number_that_is_none(
    tree: xr.DataTree, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without tagged queues two tables have one reason; with equal shares there is no error to divide by."""
    bare = xr.DataTree.from_dict(
        {
            "network": tree["network"].to_dataset().drop_vars("tagged"),
            "diffusion": tree["diffusion"].to_dataset(),
        }
    )
    bare.to_netcdf(tmp_path / "bare.nc")
    assert main([str(tmp_path / "bare.nc")]) == 0
    out = capsys.readouterr().out
    assert out.count("tree must hold tagged queues") == 1
    assert "left out (law of one queue, one queue at two times): tree must hold tagged queues" in out
    given = make_tree("points(0: 0.5, 1: 0.5)", 0.0, SPEC.format("false", "[2, 0.5]"))
    given.to_netcdf(tmp_path / "given.nc")
    assert main([str(tmp_path / "given.nc")]) == 0
    out = capsys.readouterr().out
    for name in ("one queue at two times", "covariance of two queues"):
        assert f"left out ({name}): tree must have exchangeable starts" in out
    far = tree.copy(deep=True)
    far["network/tagged"][:] = 100.0
    far.to_netcdf(tmp_path / "far.nc")
    assert main([str(tmp_path / "far.nc")]) == 0
    assert "nan" not in capsys.readouterr().out


def test_figure_has_four_panels(tree: xr.DataTree) -> None:
    figure = heavy_traffic_figure(tree, "KS", t=1.0)
    assert [axes.get_xlabel() for axes in figure.axes] == ["$m$", "$N$", "$m^{-1/2}$", "$x$"]
    assert figure.axes[0].get_ylabel() == "Kolmogorov distance"
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert sorted(labels) == ["N = 100", "N = 1000", "N = 10000", "slope −1/2"]


def test_limits_of_queues_are_asked_for_once_a_row(
    tree: xr.DataTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sweep.diffusion.tagged as tagged

    calls = []
    original = tagged.joint_tail
    monkeypatch.setattr(tagged, "joint_tail", lambda **values: calls.append(values) or original(**values))
    two_times(tree)
    assert len(calls) == 1


def test_cells_know_where_they_are() -> None:
    cell = Cell(b1=-1.0, b0=0.0, ell=2, G="exponential", m=25, N=100, values=np.ones(2))
    assert cell.labels == {"b1": -1.0, "b0": 0.0, "ell": 2, "G": "exponential", "m": 25, "N": 100}
    assert cell.row == (-1.0, 0.0, 2, "exponential")
