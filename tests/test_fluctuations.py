"""Central limit constants: exact estimators, independent queues of known law, what is absent, the command."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.image import imread
from numpy.typing import NDArray

import analysis
from analysis.constants import Network, exact_constants, measured_constants, network_of
from analysis.fluctuation_figures import constants_figure
from analysis.fluctuations import ConstantFit, clt_constants, constant_table, main
from analysis.moments import controlled_mean, stationary_variance

LAM, LEVELS = 0.5, 3
SIZES = (20, 40, 80)
AXES = ("N", "d", "lam", "G", "replica", "batch")


def queues(
    N: tuple[int, ...] = SIZES, replicas: int = 24, batches: int = 60, seed: int = 1, lam: float = LAM
) -> xr.DataTree:
    """Equilibrium of N independent M/M/1 queues: batches and ends are fresh geometric draws."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, list[NDArray[np.float64]]] = {
        name: [] for name in ("X_batch", "S_batch", "X_end", "S_end")
    }
    for size, kind in itertools.product(N, ("batch", "end")):
        lengths = rng.geometric(1 - lam, (replicas, batches, size)) - 1
        arrays[f"X_{kind}"].append(lengths.mean(axis=-1))
        tails = [(lengths >= level).mean(axis=-1) for level in range(1, LEVELS + 1)]
        arrays[f"S_{kind}"].append(np.stack(tails, axis=-1))
    row = {"d": [1], "lam": [lam], "G": ["exponential"]}
    level = np.arange(1, LEVELS + 1)
    variables = {
        name: ((*AXES, "level") if name[0] == "S" else AXES, np.stack(values)[:, None, None, None])
        for name, values in arrays.items()
    }
    coordinates = {"N": list(N), **row, "replica": range(replicas), "batch": range(batches), "level": level}
    invariant = {
        "S": (("d", "lam", "G", "level"), np.array([lam**i for i in level])[None, None, None]),
        "mean_queue": (("d", "lam", "G"), np.full((1, 1, 1), lam / (1 - lam))),
    }
    tree = xr.DataTree.from_dict(
        {
            "equilibrium": xr.Dataset(variables, coordinates),
            "invariant": xr.Dataset(invariant, {**row, "level": level}),
        }
    )
    tree.attrs["spec"] = "[run]\nreplacement = true\n"
    return tree


def changed(tree: xr.DataTree, group: str, data: xr.Dataset) -> xr.DataTree:
    """Another group in place of one."""
    groups = {name: node.to_dataset() for name, node in tree.children.items()} | {group: data}
    changed = xr.DataTree.from_dict(groups)
    changed.attrs = dict(tree.attrs)
    return changed


def test_independent_queues_have_the_constants_of_the_geometric_law() -> None:
    # N Var = λ/(1−λ)² = 2, N Var S_ℓ = λ^ℓ(1−λ^ℓ), no bias.
    fits = clt_constants(queues()).isel(d=0, lam=0, G=0)
    exact = {f"sd_S{level}": math.sqrt(LAM**level * (1 - LAM**level)) for level in (1, 2, 3)}
    exact |= {"variance_X": 2.0, "bias_X": 0.0, "bias_S2": 0.0, "bias_S3": 0.0}
    assert set(fits.constant.values.tolist()) == set(exact)
    for name, value in exact.items():
        row = fits.sel(constant=name)
        assert row.exact.item() == pytest.approx(value, abs=1e-12)
        assert row.z.item() == pytest.approx((row.value.item() - value) / row.value_stderr.item(), abs=1e-9)
        assert abs(row.z.item()) <= 4
        assert row.value_lo < row.value < row.value_hi
        assert row.n.item() == 24 * 3
    # Twin: λ/(1−λ)² at a λ 5 % too large is 2.33.
    row = fits.sel(constant="variance_X")
    assert abs(row.value - 0.525 / 0.475**2) > 4 * row.value_stderr


def test_control_variate_takes_the_variance_it_explains() -> None:
    tree = queues()
    cell = tree["equilibrium"].to_dataset().isel(N=0, d=0, lam=0, G=0)
    found = measured_constants(cell, tree["invariant"].to_dataset().isel(d=0, lam=0, G=0))["bias_X"]
    plain = float(cell.X_batch.mean("batch").std("replica", ddof=1)) * SIZES[0] / math.sqrt(24)
    # Of geometric lengths X: Corr²(X, 1{X ≥ 1}) = λ²/(Var X · λ(1−λ)) = 1 − λ = ½.
    assert found.stderr / plain == pytest.approx(math.sqrt(0.5), rel=0.25)


def test_controlled_mean_is_the_intercept_of_a_line() -> None:
    # Points (−1, 1), (0, 3), (1, 2), (2, 4): slope .8, intercept 2.1, residual sum of squares 1.8.
    control, values = np.array([-1.0, 0.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0, 4.0])
    found = controlled_mean(values, control)
    assert found.value == pytest.approx(2.1)
    assert found.variance == pytest.approx(1.8 / 2 * (1 / 4 + 0.25 / 5))
    assert (found.freedom, found.n) == (2.0, 4)


@pytest.mark.parametrize("value", [0.0, 0.1])  # the mean of three times .1 is not .1 to the last bit
def test_control_that_never_varies_leaves_the_plain_mean(value: float) -> None:
    found = controlled_mean(np.array([1.0, 2.0, 3.0]), np.full(3, value))
    assert found.value == 2.0
    assert found.variance == pytest.approx(2.0 / 3)  # one degree of freedom is still paid


def test_variance_of_correlated_batches_is_unbiased() -> None:
    # Three replicas of two equal batches ±1, all signs: squares are 1, products of two means 0 on average.
    estimates = [
        stationary_variance(np.array([[a, a], [b, b], [c, c]])).value
        for a, b, c in itertools.product((-1.0, 1.0), repeat=3)
    ]
    assert np.mean(estimates) == pytest.approx(1.0)
    # Twin: the variance of all numbers about their mean is biased to 2/3.
    naive = [np.var([a, a, b, b, c, c]) for a, b, c in itertools.product((-1.0, 1.0), repeat=3)]
    assert np.mean(naive) == pytest.approx(2 / 3)


def test_jackknife_of_a_variance_leaves_out_whole_replicas() -> None:
    values = np.random.default_rng(2).standard_normal((5, 3)).cumsum(axis=1)
    found = stationary_variance(values)
    left_out = [stationary_variance(np.delete(values, r, axis=0)).value for r in range(5)]
    assert found.variance == pytest.approx(np.var(left_out) * 4)
    deviation = 4 * (np.array(left_out) - np.mean(left_out)) / found.value
    assert found.fourth == pytest.approx(np.mean(deviation**4))
    assert stationary_variance(values + 100).value == pytest.approx(found.value)


def test_absent_cells_and_replicas_are_left_out() -> None:
    tree = queues()
    data = tree["equilibrium"].to_dataset()
    wider = data.reindex(N=[20, 40, 80, 160], lam=[0.3, LAM], replica=range(30))
    limits = tree["invariant"].to_dataset().reindex(lam=[0.3, LAM])
    both = changed(changed(tree, "equilibrium", wider), "invariant", limits)
    fits = clt_constants(both)
    xr.testing.assert_allclose(fits.sel(lam=[LAM], N=list(SIZES)), clt_constants(tree))
    assert (fits.n.sel(lam=0.3) == 0).all()
    assert np.isnan(fits.value.sel(lam=0.3)).all()
    assert fits.replicas.values.ravel().tolist() == [0, 24 * 3]
    empty = next(constant_table(fits))
    assert str(empty) == (
        "bias_X not fitted: too few N with 3 replicas that differ, or not two standard errors above 0"
    )
    assert len(list(constant_table(fits))) == 2 * 7


def test_exact_constants_are_given_only_where_they_hold() -> None:
    tree = queues()
    assert network_of(tree) == Network()
    tree.attrs["spec"] = '[run]\nreplacement = false\narrivals = "deterministic"\nfraction = 0.5\n'
    assert network_of(tree) == Network(replacement=False, arrivals="deterministic", fraction=0.5)
    assert np.isnan(clt_constants(tree).exact).all()
    del tree.attrs["spec"]
    assert network_of(tree) is None
    assert np.isnan(clt_constants(tree).z).all()
    assert np.isfinite(clt_constants(tree, Network()).z).all()


def test_one_choice_has_exact_constants_at_any_load_and_a_solution_out_of_reach_is_left_out() -> None:
    # λ = .96 takes more levels than the equations of d choices hold; M/M/1: λ/(1 − λ)² = 600.
    fits = clt_constants(queues(lam=0.96, replicas=4, batches=4))
    assert fits.exact.sel(constant=["bias_X", "variance_X"]).values.ravel() == pytest.approx([0.0, 600.0])
    assert fits.exact.sel(constant="sd_S2").item() == pytest.approx(math.sqrt(0.9216 * 0.0784))
    assert exact_constants(2, 0.99, "exponential", 1, Network(fraction=0.02)) == {}
    for G, known in (("erlang(k=2)", {"bias_S1", "bias_X"}), ("lomax(beta=1.5)", {"bias_S1"})):
        assert set(exact_constants(1, 0.96, G, 1, Network())) == known
        assert exact_constants(2, 0.96, G, 1, Network()) == {}
    assert exact_constants(1, 0.5, "exponential", 1, Network(routing="round-robin")) == {}


def test_every_variable_is_labelled() -> None:
    fits = clt_constants(queues())
    assert all(
        variable.attrs["units"] and variable.attrs["long_name"] for variable in fits.data_vars.values()
    )
    assert fits.scaled.dims == ("N", "d", "lam", "G", "constant")
    assert "control variate" in fits.attrs["method"]


@pytest.mark.parametrize(("group", "name"), [("equilibrium", "X_end"), ("invariant", "mean_queue")])
def test_absent_variables_are_named(group: str, name: str) -> None:
    tree = queues()
    without = changed(tree, group, tree[group].to_dataset().drop_vars(name))
    with pytest.raises(
        ValueError, match=f"tree must have the variable {name} in the group {group}, got [SX]"
    ):
        clt_constants(without)


def test_absent_groups_and_too_few_replicas_are_named() -> None:
    with pytest.raises(ValueError, match="tree must have the group equilibrium, got the groups invariant"):
        clt_constants(xr.DataTree.from_dict({"invariant": queues()["invariant"].to_dataset()}))
    text = "tree must hold 3 replicas or more at each of 2 or more N in equilibrium, got fewer: "
    with pytest.raises(ValueError, match=text + r"raise replicas in \[run\] to 3 or more"):
        clt_constants(queues(replicas=2))
    with pytest.raises(ValueError, match=text + "add larger N to the spec"):
        clt_constants(queues(N=(20,)))


def test_equal_replicas_are_said_to_tell_no_error() -> None:
    tree = queues(replicas=4)
    data = tree["equilibrium"].to_dataset()
    text = (
        "tree must hold replicas that differ at each of 2 or more N in equilibrium, got equal ones: "
        r"replicas that do not differ tell no error; were they run with different seeds\?"
    )
    with pytest.raises(ValueError, match=text):
        clt_constants(changed(tree, "equilibrium", data.isel(replica=[0, 0, 0])))


def stored(tmp_path: Path, name: str = "one.nc") -> Path:
    path = tmp_path / name
    queues(replicas=8).to_netcdf(path, engine="netcdf4")
    return path


def test_command_prints_a_table_for_each_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = stored(tmp_path), stored(tmp_path, "two.nc")
    picture = tmp_path / "clt.png"
    assert main([str(first), str(second), "--figure", str(picture)]) == 0
    out = capsys.readouterr().out
    assert out.count("sampling with replacement") == 2
    assert out.count("variance_X") == 2
    for stem in ("clt_one", "clt_two"):
        assert imread(tmp_path / f"{stem}.png").shape[1] == 1200


def test_command_leaves_out_places_without_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = queues(replicas=8)
    wider = changed(tree, "equilibrium", tree["equilibrium"].to_dataset().reindex(lam=[0.3, LAM]))
    wider = changed(wider, "invariant", tree["invariant"].to_dataset().reindex(lam=[0.3, LAM]))
    wider.to_netcdf(tmp_path / "cases.nc", engine="netcdf4")
    assert main([str(tmp_path / "cases.nc")]) == 0
    out = capsys.readouterr().out
    assert out.count("bias_X") == 1
    assert "no fit" not in out


def test_table_names_a_network_once_and_one_without_a_fit_in_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = queues(replicas=8)
    few, long = "hyperexponential(scv=10)", "lognormal(sigma=1.5)"
    made = {
        name: xr.concat([tree[name].to_dataset().assign_coords(G=[G]) for G in (few, long)], "G")
        for name in ("equilibrium", "invariant")
    }
    data = made["equilibrium"]
    made["equilibrium"] = data.where((long == data.G) | (data.replica < 2))
    xr.DataTree.from_dict(made).to_netcdf(tmp_path / "cases.nc", engine="netcdf4")
    assert main([str(tmp_path / "cases.nc")]) == 0
    _, _, body = capsys.readouterr().out.partition("──\n")
    assert max(map(len, body.splitlines())) <= 80
    rows = [line.split() for line in body.splitlines() if line.strip()]
    assert rows[0] == ["1", "0.5", "hyperexponential", "-", "no", "fit"]
    assert rows[1] == ["(scv=10)"]
    assert rows[2][:4] == ["1", "0.5", "lognormal", "bias_X"]
    assert rows[3] == ["(sigma=1.5)"]
    assert [row[0] for row in rows[4:]] == ["bias_S2", "bias_S3", "variance_X", "sd_S1", "sd_S2", "sd_S3"]


def test_module_runs_without_a_warning_of_its_own() -> None:
    command = [sys.executable, "-W", "error", "-m", "analysis.fluctuations", "nothing.nc"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("analysis.fluctuations: nothing.nc holds no results")


def test_names_that_the_package_lacks_are_told_from_those_it_has() -> None:
    with pytest.raises(
        AttributeError, match="module 'analysis' has no attribute 'fit'; it offers ConstantFit,"
    ):
        analysis.fit  # noqa: B018
    assert set(analysis.__all__) <= set(dir(analysis))
    assert all(callable(getattr(analysis, name)) for name in analysis.__all__)


def test_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nothing.nc")]) == 2
    assert "analysis.fluctuations: " in capsys.readouterr().err


ROW = ConstantFit(
    d=2, lam=0.9, G="lomax(beta=2.5)", constant="bias_X", value=4.0, value_stderr=0.1, value_lo=3.8,
    value_hi=4.2, second=1.0, p_value=math.nan, N_min=32.0, dropped=0, n=64, exact=math.nan, z=math.nan,
)  # fmt: skip


def test_row_without_exact_value_is_a_sentence() -> None:
    assert str(ROW) == "bias_X 4 ± 0.1 (95 % 3.8 … 4.2), 64 replicas at N ≥ 32"


def test_figure_has_a_panel_for_each_constant_and_the_exact_limit_at_the_axis() -> None:
    fits = clt_constants(queues())
    figure = constants_figure(fits, ("bias_X", "variance_X", "sd_S2"))
    panels = [axes for axes in figure.axes if axes.get_xlabel() == "$1/N$"]
    assert len(panels) == 3
    for axes, exact in zip(panels, (0.0, 2.0, 0.25 * 0.75), strict=True):
        crosses = [line for line in axes.lines if line.get_marker() == "x"]
        assert [float(line.get_ydata()[0]) for line in crosses] == pytest.approx([exact], abs=1e-9)
    with pytest.raises(ValueError, match=r"constants must be among bias_X, bias_S2, .*, got 'mean'"):
        constants_figure(fits, ["mean"])
    many = xr.concat([fits.assign_coords(d=[d]) for d in range(1, 9)], "d", join="outer")
    with pytest.raises(
        ValueError, match=r"fits must have at most 7 fitted \(d, lam, G\), got 8: select some"
    ):
        constants_figure(many)


def test_an_infinite_mean_queue_has_neither_bias_nor_variance_and_gives_no_warning() -> None:
    tree = queues(replicas=8, batches=4)
    endless = tree["invariant"].to_dataset()
    endless["mean_queue"] = endless.mean_queue * np.inf
    cell = tree["equilibrium"].to_dataset().isel(N=0, d=0, lam=0, G=0)
    found = measured_constants(cell, endless.isel(d=0, lam=0, G=0))
    assert not {"bias_X", "variance_X"} & set(found)
    assert {"bias_S2", "sd_S1"} <= set(found)


@pytest.mark.parametrize("reaching", [3, 4])
def test_the_bias_of_a_level_that_most_replicas_never_reach_is_left_out(reaching: int) -> None:
    tree = queues(replicas=8, batches=4)
    batches = tree["equilibrium"].to_dataset().copy(deep=True)
    batches["S_batch"] = batches.S_batch.where((batches.level < 3) | (batches.replica < reaching), 0.0)
    cell = batches.isel(N=0, d=0, lam=0, G=0)
    found = measured_constants(cell, tree["invariant"].to_dataset().isel(d=0, lam=0, G=0))
    assert "bias_S2" in found
    assert ("bias_S3" in found) == (reaching == 4)
