"""Joint laws of tagged queues out of stores: absent cells, ages, errors, the command, the picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from analysis.chaos import FITTED, ChaosFit, chaos_table, fit_chaos, main
from analysis.expansion import fisher
from analysis.joint import Events, dependence
from analysis.norms import norm_of, p_of_zero
from analysis.tagged import measure_chaos
from tests.urns import GRID, SERVERS, few, inverse, tree, urn, urns

# ---- data as stored ---------------------------------------------------------------------------------------


def test_absent_cells_and_too_few_servers_are_nan() -> None:
    rng = np.random.default_rng(3)
    samples = [urn(N, inverse(max(N, 2)), 50, rng) for N in (1, 30, 60)]
    samples[2][:] = math.nan
    measured = measure_chaos(tree(samples, (1, 30, 60)))
    assert measured.n.values.ravel().tolist() == [0, 50, 0]
    assert np.isnan(measured.norm_value.values[[0, 2]]).all()
    assert np.isfinite(measured.norm_value.values[1]).all()
    row = next(chaos_table(fit_chaos(measured, least_N=1)))
    assert row.n == 0
    large = "nothing to fit: fewer than two N that are large enough have replicas: "
    assert row.verdict == large + "add larger N to the spec, or finish its run if cells are pending"
    scarce = measure_chaos(tree([samples[1], samples[1][:3]], (30, 60)))
    row = next(chaos_table(fit_chaos(scarce)))
    few = "nothing to fit: 3 replicas at an N are too few: raise replicas in [run] to 5 or more"
    assert (row.n, row.verdict) == (0, few)


def test_unresolved_rows_say_what_is_missing() -> None:
    # The dependence is strong enough to be certain, and too weak for its norm to reach four standard errors.
    noisy = next(chaos_table(fit_chaos(measure_chaos(urns(lambda N: 0.2 / N, 600)))))
    assert noisy.p_zero < 0.01
    assert noisy.verdict == "dependent, but too noisy at some N for an exponent: add replicas"
    two = next(chaos_table(fit_chaos(measure_chaos(urns(inverse, 5000, servers=(30, 60))))))
    assert two.verdict == "dependent, but two N tell no exponent with its correction: add values of N"
    assert not math.isnan(two.power)
    few = next(chaos_table(fit_chaos(measure_chaos(urns(inverse, 120)))))
    assert few.verdict == "perhaps dependent: with fewer than 500 replicas at an N its p cannot be trusted"


@pytest.mark.parametrize(
    ("low", "high", "p_value", "verdict"),
    [
        (-1.10, -0.95, 0.5, "like 1/N: −1.100 … −0.950 contains −1"),
        (-1.05, -0.56, 0.5, "like 1/N: −1.050 … −0.560 contains −1"),  # as wide as excludes −1/2 for sure
        (
            -1.05,
            -0.52,
            0.5,
            "dependent, but too wide to tell 1/N: −1.050 … −0.520 contains −1 and more: add ",
        ),
        (-4.00, 0.00, 0.5, "dependent, but too wide to tell 1/N: −4.000 … 0.000 contains −1 and more: add "),
        (-1.10, -0.95, 1e-4, "no rate to be told: −1.100 … −0.950 contains −1, but a/N + b/N² does not fit"),
        (-0.90, -0.80, 1e-4, "not like 1/N: −0.900 … −0.800 excludes −1; a/N + b/N² does not fit"),
        (-0.98, -0.80, 0.5, "perhaps not like 1/N: −0.980 … −0.800 excludes −1, as one row in twenty does"),
    ],
)
def test_a_verdict_says_what_its_interval_can_tell(
    low: float, high: float, p_value: float, verdict: str
) -> None:
    values: dict[str, Any] = dict.fromkeys(FITTED, 0.0) | {
        "exponent": (low + high) / 2, "exponent_stderr": (high - low) / 2 / 1.96, "exponent_lo": low,
        "exponent_hi": high, "p_value": p_value,
    }  # fmt: skip
    fit = ChaosFit(d=2, lam=0.9, G="exponential", p_zero=0.0, signal=9.0, n=100, least_n=20, **values)
    assert fit.verdict.startswith(verdict)


def aged_tree() -> xr.DataTree:
    """Forty replicas of independent queues with lengths ≤ 5 and ages uniform on [0, 4]."""
    rng = np.random.default_rng(4)
    ages = np.array([1.0, 2.0, 3.0, math.inf])
    nu = np.empty((2, 1, 1, 1, 40, 1, 5, 4))
    for i, N in enumerate((30, 60)):
        for r in range(40):
            length, age = rng.integers(0, 6, size=N), rng.uniform(0, 4, size=N)
            nu[i, 0, 0, 0, r, 0] = [[np.mean((length >= m) & (age <= a)) for a in ages] for m in range(1, 6)]
    coords = {
        "N": [30, 60], "d": [1], "lam": [0.9], "G": ["exponential"], "snapshot": [2.0], "level": range(1, 6),
        "age": ages,
    }  # fmt: skip
    data = xr.Dataset({"nu_cdf": ((*GRID, "replica", "snapshot", "level", "age"), nu)}, coords=coords)
    return xr.DataTree.from_dict({"network": data})


@pytest.mark.parametrize("k", [2, 3])
def test_lengths_with_ages_have_axes_for_every_queue(k: int) -> None:
    measured = measure_chaos(aged_tree(), k, snapshot=2.0)
    inner = [dim for i in ("", "_2", "_3")[:k] for dim in ("level" + i, "age" + i)]
    assert measured.difference.dims == (*GRID, *inner)
    assert measured.level.values.tolist() == [1, 2, 3]
    assert measured.age.values.tolist() == [1.0, 2.0, 3.0, math.inf]
    joint = measured.joint.isel(N=1, d=0, lam=0, G=0)
    exact = (5 / 6 * 0.25) * (3 / 6 * 0.5) ** (k - 1)
    at = {"level": 1, "age": 1.0, "level_2": 3, "age_2": 2.0} | (
        {"level_3": 3, "age_3": 2.0} if k == 3 else {}
    )
    assert float(joint.sel(at)) == pytest.approx(exact, rel=0.1)
    assert (measured.p_zero > 1e-3).all()
    assert "queue_covariance" not in measured


def test_levels_time_and_ages_can_be_chosen() -> None:
    data = urns(inverse, 50)
    assert measure_chaos(data, levels=[2, 3], time=2.0).level.values.tolist() == [2, 3]
    # With a gap the sum over the levels is no covariance of lengths.
    for levels in ([1], [1, 2], [2, 3], [1, 3]):
        assert ("queue_covariance" in measure_chaos(data, levels=levels)) == (levels in ([1], [1, 2]))
    assert measure_chaos(data["network"].to_dataset()).attrs["source"] == "S at t = 2"
    chosen = measure_chaos(aged_tree(), ages=[2.0, math.inf], levels=[1])
    assert chosen.age_2.values.tolist() == [2.0, math.inf]


ONE = Events(levels=(1,))
NO_AXES = xr.Dataset({"S_end": ("N", [1.0])})


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: measure_chaos(few(), 4), "k must be one of 2, 3, got 4"),
        (lambda: dependence(np.ones((9, 1)), 9, ONE, 1), "k must be one of 2, 3, got 1"),
        (
            lambda: dependence(np.ones((3, 1)), 9, ONE),
            "replicas must number at least 4 to tag two queues, got 3",
        ),
        (lambda: dependence(np.ones((9, 1)), 2, ONE, 3), "N must be at least 3 to tag three queues, got 2"),
        (lambda: norm_of(dependence(np.ones((9, 1)), 2, ONE), "l2"), "norm must be one of frobenius, sup, "),
        (lambda: measure_chaos(few(), time=1.0), "time must be one of 2, got 1"),
        (lambda: measure_chaos(few(), snapshot=1.0), "must hold S_end or nu_cdf, got S: run with snapshots"),
        (lambda: measure_chaos(aged_tree(), snapshot=1.0), "snapshot must be one of 2, got 1"),
        (
            lambda: measure_chaos(aged_tree(), ages=[7.0]),
            r"ages must increase and be among 1, 2, 3, inf, got ",
        ),
        (lambda: measure_chaos(aged_tree()), "tree must hold S_end or S, got nu_cdf"),
        (
            lambda: measure_chaos(aged_tree(), time=1.0, snapshot=2.0),
            "time must be left out where a snapshot",
        ),
        (
            lambda: measure_chaos(few(), levels=[2, 1]),
            r"levels must increase and be among 1, 2, 3, got \[2, 1\]",
        ),
        (lambda: measure_chaos(NO_AXES, time=1.0), "time must be left out with an equilibrium store, got 1"),
        (lambda: measure_chaos(NO_AXES), "S_end must have the axis d, got N"),
        (
            lambda: fit_chaos(measure_chaos(few()), "l2"),
            "norm must be one of frobenius, sup, total_variation",
        ),
        (
            lambda: fit_chaos(measure_chaos(few()), least_N=960),
            r"N must have two values of 960 or more, got 30, .*, 960: add larger N to the spec, or lower "
            r"least_N \(--least-N of python -m analysis.chaos\)",
        ),
    ],
)
def test_errors_name_the_argument_the_rule_and_the_value(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_fisher_combines_and_passes_over_what_is_missing() -> None:
    # Two p-values: p₁p₂ (1 − log p₁p₂), the law of a product of two uniform variables.
    assert fisher([0.2, math.nan, 0.1]) == pytest.approx(0.02 * (1 - math.log(0.02)), rel=1e-12)
    assert fisher([0.0, 0.5]) == 0.0
    assert math.isnan(fisher([math.nan]))
    assert p_of_zero(np.zeros(1), np.zeros((1, 1))) == 1.0


# ---- command and picture --------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["--k", "3", "--norm", "total_variation"], ["--time", "2"]])
def test_command_prints_a_table_of_80_columns_and_draws(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, figure = tmp_path / "urns.nc", tmp_path / "urns.png"
    urns(inverse, 1000).to_netcdf(store)
    assert main([str(store), *arguments, "--figure", str(figure)]) == 0
    printed = capsys.readouterr().out
    table, _, rest = printed.partition("\nd = 2")
    assert max(map(len, table.splitlines())) <= 80
    assert "like 1/N: " in rest
    assert figure.stat().st_size > 10_000
    assert main([str(store), "--levels", "9"]) == 2
    text = f"analysis.chaos: {store}: levels must increase and be among 1, 2, 3, got [9]"
    assert text in capsys.readouterr().err


def test_a_row_without_a_fit_shows_what_is_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = urns(inverse, 1000)["network"].to_dataset()
    wide = one.reindex(d=[2, 3])
    wide["S"].loc[{"N": 60, "d": 3}] = one.S.sel(N=60, d=2).values
    xr.DataTree.from_dict({"network": wide}).to_netcdf(tmp_path / "case.nc")
    assert main([str(tmp_path / "case.nc")]) == 0
    fitted, single = (line for line in capsys.readouterr().out.splitlines() if line[:2] in ("2 ", "3 "))
    assert fitted.split()[-1] == f"{1000 * len(SERVERS)}"
    # A test of independence at one N alone is none of the rate.
    assert single.split()[3:] == ["-", "-", "-", "-", "-", "1000"]


def test_picture_shows_every_row_with_its_rate() -> None:
    from analysis.chaos_figures import chaos_figure

    parts = [urns(law, 1000)["network"].to_dataset() for law in (lambda _: 1e-9, inverse)]
    both = xr.concat([part.assign_coords(d=[d]) for d, part in enumerate(parts, 1)], "d")
    measured = measure_chaos(both)
    fits = fit_chaos(measured)
    left, right, legend = chaos_figure(measured, fits).axes
    assert left.get_xlabel() == right.get_xlabel() == "number of servers $N$"
    assert left.get_ylabel() == "Frobenius norm of joint law − product, k = 2"
    assert right.get_ylabel().startswith("$N")
    names = [text.get_text() for text in legend.get_legend().get_texts()]
    assert names[0] == "d = 1: independent within error"
    assert names[1].startswith("d = 2: −")
    # The norm of the second row alone is drawn, and the covariances of both.
    drawn = [line for line in right.lines if len(line.get_xdata()) == len(SERVERS)]
    assert len(drawn) >= 2
    with pytest.raises(ValueError, match="fits must have a row with replicas, got none"):
        chaos_figure(measured, fits.assign(replicas=0 * fits.replicas))
    many = measure_chaos(xr.concat([both.assign_coords(lam=[0.1 * i]) for i in range(1, 5)], "lam"))
    fits = fit_chaos(many)
    with pytest.raises(ValueError, match="fits must have at most 7 rows to be drawn, got 8: select some"):
        chaos_figure(many, fits)


def test_fitted_curves_run_through_the_fitted_sizes_alone() -> None:
    from analysis.chaos_figures import chaos_figure

    measured = measure_chaos(urns(inverse, 1000))
    for axes in chaos_figure(measured, fit_chaos(measured, least_N=120)).axes[:2]:
        (curve,) = [np.asarray(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 60]
        assert (curve[0], curve[-1]) == pytest.approx((120, 960))
