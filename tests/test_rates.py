"""Fitted powers of N: exact small cases, published biases, coverage of intervals, uniform p-values."""

from __future__ import annotations

import csv
import math
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from analysis import RateFit, fit_rate
from analysis.rates import rate_table
from analysis.regression import HOMOGENEITY_LEVEL, STATISTICS, fit_power_law, spreads_agree, summarise
from sweep import schema

AXES = ("N", "d", "lam", "G", "replica")
GRID = (100, 1000, 10_000, 100_000)
DRAWS = 500
# A 95 % interval covers in 95 ± 3 % of 500 draws: three standard deviations of a binomial count are 2.9 %.
COVERAGE = (0.92, 0.98)


def tree(values: NDArray[np.float64], N: tuple[int, ...] = GRID, **axes: list[object]) -> xr.DataTree:
    """Label `values` over (N, d, lam, G, replica) as the network group of a store."""
    coordinates = {"N": list(N), "d": [2], "lam": [0.9], "G": ["exponential"], **axes}
    coordinates["replica"] = list(range(values.shape[-1]))
    return xr.DataTree.from_dict({"network": schema.dataset("network", {"S_sup": values}, coordinates, AXES)})


def one_row(replicas: list[list[float]], N: tuple[int, ...]) -> xr.DataTree:
    """Label the replicas of one (d, lam, G), N by N; shorter lists are filled up with NaN."""
    longest = max(map(len, replicas))
    filled = np.array([row + [math.nan] * (longest - len(row)) for row in replicas])
    return tree(filled[:, None, None, None, :], N)


def draws(
    exponent: float,
    statistic: str,
    replicas: tuple[int, ...],
    cv: tuple[float, ...] = (0.2, 0.2, 0.2, 0.2),
    factor: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0),
    seed: int = 20190614,
) -> xr.DataTree:
    """Draw 500 studies along lam, of statistic 1.3 · N^exponent · factor, with lognormal replicas."""
    rng = np.random.default_rng(seed)
    values = np.full((len(GRID), 1, DRAWS, 1, max(replicas)), math.nan)
    k = STATISTICS[statistic]
    for i, (N, n) in enumerate(zip(GRID, replicas, strict=True)):
        sigma = math.sqrt(math.log1p(cv[i] ** 2))
        noise = np.exp(sigma * rng.standard_normal((DRAWS, n)) - k * sigma**2 / 2)
        values[i, 0, :, 0, :n] = 1.3 * N**exponent * factor[i] * noise
    return tree(values, lam=[float(i) for i in range(1, DRAWS + 1)])


def covered(fits: xr.Dataset, exponent: float) -> float:
    inside = (fits.exponent_lo <= exponent) & (exponent <= fits.exponent_hi)
    return float(inside.mean())


def test_two_sizes_give_the_hand_computed_line() -> None:
    # Means .1 and .01 with s²/x̄² = .02 from two replicas each: pooled variance of a log mean .01, hence
    # s.e. √.02 / ln 100; two degrees of freedom, t = 4.302653 (any table).
    fit = fit_rate(one_row([[0.09, 0.11], [0.009, 0.011]], (100, 10_000)))
    assert fit.exponent.item() == pytest.approx(-0.5, abs=1e-14)
    assert fit.exponent_stderr.item() == pytest.approx(math.sqrt(0.02) / math.log(100), rel=1e-12)
    half = 4.302652730 * math.sqrt(0.02) / math.log(100)
    assert fit.exponent_lo.item() == pytest.approx(-0.5 - half, rel=1e-9)
    assert fit.exponent_hi.item() == pytest.approx(-0.5 + half, rel=1e-9)
    # The logarithm of a mean lies s²/(2 n x̄²) = .005 low.
    assert fit.constant.item() == pytest.approx(math.exp(0.005), rel=1e-12)
    assert math.isnan(fit.p_value.item())
    assert fit.n.item() == 4


def test_equal_numbers_give_ordinary_least_squares_and_its_lack_of_fit() -> None:
    replicas = [[0.8, 1.2, 1.1], [0.33, 0.25, 0.31], [0.12, 0.09, 0.1], [0.03, 0.028, 0.025]]
    fit = fit_rate(one_row(replicas, GRID))
    log_N = np.log(np.array(GRID, dtype=float))
    means = np.array([np.mean(row) for row in replicas])
    line = stats.linregress(log_N, np.log(means))
    assert fit.exponent.item() == pytest.approx(line.slope, rel=1e-12)
    pooled = np.mean([np.var(row, ddof=1) / np.mean(row) ** 2 for row in replicas])
    deviation = np.sum((log_N - log_N.mean()) ** 2)
    assert fit.exponent_stderr.item() == pytest.approx(math.sqrt(pooled / 3 / deviation), rel=1e-12)
    residual = np.log(means) - line.intercept - line.slope * log_N
    expected = stats.f.sf(np.sum(residual**2) * 3 / 2 / pooled, 2, 8)
    assert fit.p_value.item() == pytest.approx(expected, rel=1e-10)


def published_bias(mean_field: float) -> xr.DataTree:
    """64 replicas with exactly the published mean bias and standard error for N ≥ 50, λ = .9."""
    path = Path(__file__).parent / "reference" / "finite_n_d2_exponential.csv"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    rows = [row for row in csv.DictReader(lines) if row["lam"] == "0.90" and int(row["N"]) >= 50]
    signs = np.tile([1.0, -1.0], 32)
    values = [
        float(row["mean_queue_length"]) - mean_field + float(row["ci_2sigma"]) / 2 * math.sqrt(63) * signs
        for row in rows
    ]
    return one_row([list(row) for row in values], tuple(int(row["N"]) for row in rows))


def test_published_bias_of_the_mean_queue_falls_like_one_over_n() -> None:
    # Mean field 2.35265 and lim N · bias = 3.986 (Gast 2017); N · bias at N = 50 is still 2.5 % above.
    fit = fit_rate(published_bias(2.35265))
    assert fit.exponent.item() == pytest.approx(-1, abs=0.01)
    assert fit.constant.item() == pytest.approx(4.1, abs=0.2)
    assert fit.exponent_stderr.item() < 0.005
    assert fit.p_value.item() > 1e-3


def test_published_bias_against_a_wrong_limit_is_no_such_power() -> None:
    fit = fit_rate(published_bias(2.35265 * 0.9995))
    assert fit.p_value.item() < 1e-3
    assert abs(fit.exponent.item() + 1) > 0.01


SIZES = [(32, 32, 32, 32), (2, 2, 2, 2), (4, 4, 4, 4), (8, 8, 8, 8), (2, 4, 8, 32), (64, 32, 8, 2)]


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("exponent", [-1 / 2, -1 / 3, -1])
def test_interval_covers_and_p_value_is_uniform_with_32_replicas(exponent: float, statistic: str) -> None:
    fits = fit_rate(draws(exponent, statistic, (32,) * 4), statistic=statistic)
    assert COVERAGE[0] <= covered(fits, exponent) <= COVERAGE[1]
    assert stats.kstest(fits.p_value.values.ravel(), "uniform").pvalue > 1e-3
    # Twin: an exponent wrong by .05 is seven standard errors away.
    assert covered(fits, exponent + 0.05) < 0.02
    assert covered(fits, exponent - 0.05) < 0.02


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("replicas", SIZES[1:])
def test_interval_covers_with_few_or_unequal_numbers(replicas: tuple[int, ...], statistic: str) -> None:
    fits = fit_rate(draws(-0.5, statistic, replicas), statistic=statistic)
    assert COVERAGE[0] <= covered(fits, -0.5) <= COVERAGE[1]
    # 500 draws reject at 5 % in 5 ± 3 %: three standard deviations, rounded up.
    assert 0.02 <= float((fits.p_value < 0.05).mean()) <= 0.08
    assert covered(fits, -0.55) < COVERAGE[0]


def test_constant_is_right_on_average_and_by_its_standard_error() -> None:
    fits = fit_rate(draws(-0.5, "mean", (32,) * 4))
    z = np.log(fits.constant / 1.3) / (fits.constant_stderr / fits.constant)
    assert abs(float(z.mean())) * math.sqrt(DRAWS) <= 4
    assert 0.92 <= float((abs(z) <= stats.t.ppf(0.975, 124)).mean()) <= 0.98


def test_interval_covers_when_spreads_differ_between_sizes() -> None:
    unequal = draws(-0.5, "mean", (32,) * 4, cv=(0.1, 0.2, 0.3, 0.4))
    fits = fit_rate(unequal)
    assert COVERAGE[0] <= covered(fits, -0.5) <= COVERAGE[1]
    assert 0.02 <= float((fits.p_value < 0.05).mean()) <= 0.08
    assert covered(fits, -0.55) < 0.02


def test_p_value_sees_one_size_that_is_five_percent_off() -> None:
    bent = fit_rate(draws(-0.5, "mean", (32,) * 4, factor=(1.0, 1.05, 1.0, 1.0)))
    assert float((bent.p_value < 0.05).mean()) > 0.08
    assert stats.kstest(bent.p_value.values.ravel(), "uniform").pvalue < 1e-3


def test_smallest_numbers_do_not_bias_the_exponent() -> None:
    # Without its correction the logarithm of a mean of two replicas of cv .4 lies .04 low, of 64 only .001.
    fits = fit_rate(draws(-0.5, "mean", (64, 32, 8, 2), cv=(0.4,) * 4))
    spread = float(fits.exponent.std()) / math.sqrt(DRAWS)
    assert abs(float(fits.exponent.mean()) + 0.5) <= 4 * spread


def test_equal_spreads_are_rarely_taken_for_unequal_and_unequal_ones_seldom_for_equal() -> None:
    rng = np.random.default_rng(3)

    def rejected(cv: tuple[float, ...]) -> int:
        count = 0
        for _ in range(DRAWS):
            noise = [np.exp(rng.standard_normal(32) * math.sqrt(math.log1p(c * c))) for c in cv]
            points = [summarise(10.0**i, row, "mean") for i, row in enumerate(noise)]
            count += spreads_agree(points) < HOMOGENEITY_LEVEL
        return count

    # Poisson(5) exceeds 14 with probability 2e-4.
    assert rejected((0.2, 0.2, 0.2, 0.2)) <= 14
    assert rejected((0.1, 0.2, 0.3, 0.4)) >= 0.85 * DRAWS


REPLICAS = st.lists(
    st.lists(st.floats(0.5, 2.0), min_size=3, max_size=5, unique=True), min_size=3, max_size=5
)


@settings(max_examples=50, deadline=None)
@given(REPLICAS, st.floats(0.1, 10), st.floats(-2, 2), st.sampled_from(sorted(STATISTICS)))
def test_fit_follows_a_change_of_scale_and_of_power(
    replicas: list[list[float]], scale: float, power: float, statistic: str
) -> None:
    N = [10.0 ** (i + 1) for i in range(len(replicas))]

    def fit(factor: list[float]) -> tuple[float, ...]:
        points = [summarise(N[i], np.array(row) * factor[i], statistic) for i, row in enumerate(replicas)]
        law = fit_power_law(points, statistic)
        return law.exponent, law.log_constant, law.exponent_stderr, law.p_value

    plain = fit([1.0] * len(N))
    moved = fit([scale * size**power for size in N])
    expected = (plain[0] + power, plain[1] + math.log(scale), plain[2], plain[3])
    assert moved == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_order_of_sizes_and_replicas_does_not_matter() -> None:
    replicas = [[0.8, 1.2, 1.1], [0.33, 0.25, 0.31], [0.12, 0.09, 0.1]]
    forward = fit_rate(one_row(replicas, (10, 100, 1000)))
    backward = fit_rate(one_row([row[::-1] for row in replicas[::-1]], (1000, 100, 10)))
    xr.testing.assert_allclose(forward, backward, rtol=1e-12)


def test_absent_replicas_and_sizes_with_one_replica_are_left_out() -> None:
    full = [[0.8, 1.2, 1.1], [0.33, 0.25], [0.12, 0.09, 0.1, 0.11]]
    expected = fit_rate(one_row(full, (10, 100, 1000)))
    actual = fit_rate(one_row([*full, [0.5], []], (10, 100, 1000, 10_000, 100_000)))
    xr.testing.assert_allclose(expected.drop_vars("replicas"), actual.drop_vars("replicas"), rtol=1e-12)
    assert (actual.n.item(), actual.replicas.item()) == (9, 10)


def test_row_that_cannot_be_fitted_is_nan_and_says_so() -> None:
    values = np.exp(0.1 * np.random.default_rng(1).standard_normal((4, 1, 2, 1, 3)))
    values[1:, 0, 1] = math.nan
    fits = fit_rate(tree(values, lam=[0.5, 0.9]))
    good, empty = rate_table(fits)
    assert (good.n, empty.n) == (12, 0)
    assert math.isnan(empty.exponent)
    assert math.isnan(empty.constant_stderr)
    assert str(empty) == "no fit: fewer than two N with two replicas each"


def test_further_axes_of_a_quantity_are_kept() -> None:
    network = draws(-0.5, "mean", (8,) * 4)["network"].to_dataset()
    snapshots = network.isel(lam=slice(0, 3)).rename(lam="snapshot").expand_dims(lam=[0.9])
    fits = fit_rate(snapshots)
    assert fits.exponent.dims == ("d", "lam", "G", "snapshot")
    expected = fit_rate(network.isel(lam=slice(0, 3))).exponent.values.ravel()
    assert fits.exponent.values.ravel() == pytest.approx(expected, rel=1e-14)
    with pytest.raises(ValueError, match="fits must have no axes but d, lam, G, got snapshot: select"):
        list(rate_table(fits))


def test_every_variable_is_labelled() -> None:
    fits = fit_rate(one_row([[1.0, 1.1], [0.3, 0.33], [0.1, 0.12]], (100, 1000, 10_000)), statistic="rms")
    assert list(fits.data_vars) == [
        "exponent", "exponent_stderr", "exponent_lo", "exponent_hi",
        "constant", "constant_stderr", "p_value", "n", "N_min", "dropped", "p_value_all", "replicas",
    ]  # fmt: skip
    assert all(
        variable.attrs["units"] and variable.attrs["long_name"] for variable in fits.data_vars.values()
    )
    assert fits.exponent.dims == ("d", "lam", "G")
    assert fits.attrs["quantity"] == "S_sup"
    assert fits.attrs["statistic"] == "rms"
    assert fits.attrs["confidence"] == 0.95
    assert "weighted least squares" in fits.attrs["method"]


ROW = RateFit(
    d=2, lam=0.9, G="exponential", exponent=-0.498, exponent_stderr=0.008, exponent_lo=-0.514,
    exponent_hi=-0.482, constant=1.2, constant_stderr=0.1, p_value=0.0004, n=128,
)  # fmt: skip


def test_row_is_one_frozen_honest_sentence() -> None:
    assert str(ROW) == "exponent −0.498 ± 0.008 (95 % −0.514 … −0.482), lack of fit p < 0.001, 128 replicas"
    with pytest.raises(FrozenInstanceError):
        ROW.n = 3  # type: ignore[misc]


GOOD = [[1.0, 1.1], [0.3, 0.33]]
SIZES_TWO = (100, 1000)


def test_unknown_quantity_lists_what_the_store_has() -> None:
    with pytest.raises(ValueError, match="quantity must be one of S_sup, got 'S_sub'"):
        fit_rate(one_row(GOOD, SIZES_TWO), "S_sub")


def test_unknown_statistic_lists_the_choices() -> None:
    with pytest.raises(ValueError, match="statistic must be one of mean, rms, got 'median'"):
        fit_rate(one_row(GOOD, SIZES_TWO), statistic="median")


@pytest.mark.parametrize("bad", [0.0, -0.1, math.inf])
def test_values_that_no_power_follows_are_named_with_their_place(bad: float) -> None:
    text = (
        f"S_sup must be positive and finite to follow a power of N, got {bad} at N = 1000, d = 2, lam = 0.9"
    )
    with pytest.raises(ValueError, match=text):
        fit_rate(one_row([[1.0, 1.1], [0.3, bad]], SIZES_TWO))


@pytest.mark.parametrize("axis", ["N", "replica", "d", "lam", "G"])
def test_missing_axis_is_named(axis: str) -> None:
    network = one_row(GOOD, SIZES_TWO)["network"].to_dataset().isel({axis: 0}, drop=True)
    with pytest.raises(ValueError, match=rf"S_sup must have the axis {axis}, got \("):
        fit_rate(network)


def test_too_little_to_fit_says_what_is_missing() -> None:
    text = (
        r"S_sup must have 2 replicas or more at each of 2 or more N, got 1 such N at best "
        r"\(N = 100, 1000; at most 3 replicas\): raise replicas in \[run\] to 2 or more"
    )
    with pytest.raises(ValueError, match=text):
        fit_rate(one_row([[1.0, 1.1, 0.9], [0.3]], SIZES_TWO))
    with pytest.raises(
        ValueError, match=r"at most 2 replicas\): add larger N to the spec, or finish its run"
    ):
        fit_rate(one_row([[1.0, 1.1]], (100,)))


def test_distances_that_are_all_zero_ask_for_later_times() -> None:
    start = one_row([[0.0] * 3] * 2, SIZES_TWO)["network"].to_dataset().rename(S_sup="X")
    limit = xr.Dataset({"X": (("d", "lam", "G"), np.zeros((1, 1, 1)))}, start.drop_vars(["X", "N"]).coords)
    text = (
        "X must be above 0 at each of 2 or more N to follow a power of N, got 0 in every replica of an N, as "
        "at t = 0: take later times"
    )
    with pytest.raises(ValueError, match=text):
        fit_rate(xr.DataTree.from_dict({"network": start, "fluid": limit}), "X")


def test_equal_replicas_give_no_error_to_tell() -> None:
    with pytest.raises(ValueError, match=r"replicas must differ to tell an error, got equal ones at N = 100"):
        fit_rate(one_row([[0.1] * 3, [0.3] * 3], SIZES_TWO))


def test_one_size_with_equal_replicas_does_not_get_all_the_weight() -> None:
    fit = fit_rate(one_row([[1.0, 1.0], [0.3, 0.33], [0.1, 0.11]], (100, 1000, 10_000)))
    assert fit.exponent_stderr.item() > 0.005


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="tree must be a DataTree, a Dataset or the path of a store, got int"):
        fit_rate(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tree must have the group network, got the groups fluid"):
        fit_rate(xr.DataTree.from_dict({"fluid": xr.Dataset()}))


def test_path_of_results_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "results.nc"
    study = one_row(GOOD, SIZES_TWO)
    study.to_netcdf(path, engine="netcdf4")
    xr.testing.assert_equal(fit_rate(path), fit_rate(study))
