"""Bias and fluctuation taken apart: the identity of squares, signed powers, errors that are honest."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

from analysis.bias import deviation_points, separate_errors
from analysis.bias_figures import errors_figure
from analysis.least_squares import welch_lack_of_fit
from analysis.moments import Estimate
from analysis.signed_power import LEAST, MOST, fit_signed_power, p_of_zero

GRID = {"d": [2], "lam": [0.9], "G": ["exponential"]}
N = np.array([50, 100, 200, 400, 800])


def study(deviations: NDArray[np.float64], sizes: NDArray[np.int64] = N) -> xr.DataTree:
    """Network X = 2 + deviations (N, replica) beside the limit 2."""
    values = 2.0 + deviations[:, None, None, None, :]
    network = xr.DataArray(values, {"N": sizes, **GRID}, ("N", *GRID, "replica"))
    limit = xr.DataArray(np.full((1, 1, 1), 2.0), GRID, tuple(GRID))
    return xr.DataTree.from_dict({"network": xr.Dataset({"X": network}), "fluid": xr.Dataset({"X": limit})})


def biased(c: float, sd: float, replicas: int = 400, seed: int = 1) -> xr.DataTree:
    """Bias c/N and Gaussian fluctuation sd/√N."""
    noise = np.random.default_rng(seed).standard_normal((N.size, replicas))
    return study(c / N[:, None] + sd / np.sqrt(N)[:, None] * noise)


def test_mean_square_is_squared_bias_plus_variance_and_both_are_unbiased() -> None:
    # Replicas 1 and 3: mean 2, variance 2, so mean² − variance/2 = 3; mean square 3 + 2 = (1 + 9)/2.
    found = separate_errors(study(np.array([[1.0, 3.0, math.nan], [1.0, 3.0, 2.0], [0.5, 1.5, 1.0]]), N[:3]))
    at_N = found.isel(d=0, lam=0, G=0, N=0)
    assert (at_N.bias.item(), at_N.variance.item(), at_N.bias2.item(), at_N.rms2.item()) == (2, 2, 3, 5)
    assert at_N.bias_stderr.item() == 1.0
    assert at_N.sd.item() == math.sqrt(2)
    assert found.rms2.values == pytest.approx(found.bias2.values + found.variance.values, rel=1e-14)
    assert found.n.item() == 6


def test_mean_of_squared_bias_is_right_where_there_is_none() -> None:
    rng = np.random.default_rng(2)
    squares = [
        separate_errors(study(rng.standard_normal((2, 4)), N[:2])).bias2.values.ravel() for _ in range(100)
    ]
    mean, stderr = np.mean(squares), np.std(squares) / math.sqrt(200)
    assert abs(mean) < 4 * stderr
    # Twin: the square of the mean itself is 1/4.
    assert 4 * stderr < 0.25


@pytest.mark.parametrize("c", [3.0, -3.0])
def test_bias_and_fluctuation_have_their_own_exponents(c: float) -> None:
    found = separate_errors(biased(c, 0.2)).isel(d=0, lam=0, G=0)
    assert found.bias_exponent_lo < -1 < found.bias_exponent_hi
    assert abs(found.bias_exponent + 1) < 4 * found.bias_exponent_stderr < 0.4
    assert abs(found.bias_constant - c) < 4 * found.bias_constant_stderr
    assert found.sd_exponent_lo < -0.5 < found.sd_exponent_hi
    assert abs(found.sd_constant - 0.2) < 4 * found.sd_constant_stderr
    assert found.bias_p_zero < 1e-10
    # Twins: exponents off by .05.
    assert not found.sd_exponent_lo < -0.55 < found.sd_exponent_hi
    sharp = separate_errors(biased(c, 0.05)).isel(d=0, lam=0, G=0)
    assert sharp.bias_exponent_lo < -1 < sharp.bias_exponent_hi
    assert not sharp.bias_exponent_lo < -1.05 < sharp.bias_exponent_hi


def test_bias_that_is_not_seen_has_no_exponent() -> None:
    found = separate_errors(biased(0.0, 1.0)).isel(d=0, lam=0, G=0)
    assert found.bias_p_zero > 0.05
    assert np.isnan(found.bias_exponent)
    assert np.isnan(found.bias_constant)
    assert abs(found.sd_exponent + 0.5) < 4 * found.sd_exponent_stderr


def test_bias_hardly_seen_leaves_its_exponent_open() -> None:
    estimates = [
        Estimate(value=1.0, variance=0.16, freedom=31.0, n=32),
        Estimate(value=0.1, variance=1.0, freedom=31.0, n=32),
    ]
    fit = fit_signed_power([100.0, 200.0], estimates, 0.95)
    assert fit.exponent_lo == LEAST
    assert fit.exponent_lo < fit.exponent < fit.exponent_hi <= MOST
    assert math.isnan(fit.p_value)


@pytest.mark.parametrize("n", [3, 4, 5, 6, 8, 16])
def test_zero_at_every_size_is_rejected_five_times_in_a_hundred(n: int) -> None:
    """5 ± 2 % of 2000 draws, four standard deviations, of unequal variances; a bias of 1.2 s.e. is seen."""
    rng = np.random.default_rng(n)

    def draws(shift: float) -> list[list[Estimate]]:
        rows = np.array([1.0, 0.5, 3.0, 1.0])[:, None] * (shift + rng.standard_normal((2000, 4, n)))
        mean, variance = rows.mean(axis=-1), rows.var(axis=-1, ddof=1) / n
        return [
            [Estimate(value=m, variance=v, freedom=n - 1.0, n=n) for m, v in zip(*pair, strict=True)]
            for pair in zip(mean.tolist(), variance.tolist(), strict=True)
        ]

    def rejected(p_values: list[float]) -> float:
        return float(np.mean(np.array(p_values) < 0.05))

    none = draws(0.0)
    assert rejected([p_of_zero(one) for one in none]) == pytest.approx(0.05, abs=0.02)
    assert rejected([p_of_zero(one) for one in draws(1.2 / math.sqrt(n))]) > 0.2
    if n <= 4:  # Twin: a sum of squares in standard errors, held against its approximate F law.
        squares = [sum((each.value / each.stderr) ** 2 for each in one) for one in none]
        freedom = np.full(4, n - 1.0)
        assert rejected([welch_lack_of_fit(one, 4, np.zeros(4), freedom) for one in squares]) > 0.07


def test_spread_of_a_standard_deviation_is_that_of_its_kurtosis() -> None:
    # Two-point replicas have the least kurtosis, 1, and a standard deviation that hardly varies.
    two_points = np.tile([-1.0, 1.0], 16)
    (point,) = deviation_points([(100.0, two_points)])
    assert point.spread == pytest.approx((64 / 31 - 1.2) / 4)
    gaussian = np.random.default_rng(5).standard_normal(100_000)
    (point,) = deviation_points([(100.0, gaussian)])
    assert point.spread == pytest.approx(0.5, abs=0.02)


def test_times_and_levels_are_kept_and_places_without_spread_are_nan() -> None:
    rng = np.random.default_rng(6)
    values = 0.5 + rng.standard_normal((3, 1, 1, 1, 8, 2)) / np.sqrt(N[:3])[:, None, None, None, None, None]
    values[..., 0] = 0.5
    network = xr.DataArray(values, {"N": N[:3], **GRID, "t": [0.0, 1.0]}, ("N", *GRID, "replica", "t"))
    limit = xr.DataArray(np.full((1, 1, 1, 2), 0.5), {**GRID, "t": [0.0, 1.0]}, (*GRID, "t"))
    tree = xr.DataTree.from_dict({"network": xr.Dataset({"E": network}), "fluid": xr.Dataset({"E": limit})})
    found = separate_errors(tree, "E")
    assert found.sd_exponent.dims == ("d", "lam", "G", "t")
    assert list(found.n.values.ravel()) == [0, 24]
    assert np.isnan(found.sd_exponent.sel(t=0.0)).all()
    assert (found.bias.sel(t=0.0) == 0).all()
    assert all(
        variable.attrs["units"] and variable.attrs["long_name"] for variable in found.data_vars.values()
    )


def test_too_few_replicas_say_what_is_missing() -> None:
    values = np.random.default_rng(7).standard_normal((2, 3))
    rule = "X must have 3 replicas or more that differ at each of 2 or more N, got "
    for held, got in (
        (values[:, :2], r"at most 2 at 2 N: raise replicas in \[run\] to 3 or more"),
        (values[:1], "at most 3 at 1 N: add larger N to the spec, or finish its run"),
        (np.ones((2, 3)), r"equal ones: were they run with different seeds\?"),
        (np.zeros((2, 3)), "0 in all of them, as at t = 0: take later times"),
    ):
        with pytest.raises(ValueError, match=rule + got):
            separate_errors(study(held, N[: len(held)]))


def test_zeros_have_no_exponent() -> None:
    zeros = [Estimate(value=0.0, variance=1e-4, freedom=2.0, n=3)] * 2
    text = "estimates must not all be 0 to have an exponent, got 0 at every N: ask p_of_zero before fitting"
    with pytest.raises(ValueError, match=text):
        fit_signed_power([10, 100], zeros, 0.95)


def test_figure_shows_both_powers_and_says_what_is_not_seen() -> None:
    seen = errors_figure(separate_errors(biased(3.0, 0.2)))
    (label,) = (text.get_text() for text in seen.axes[-1].get_legend().get_texts())
    assert label.startswith("d = 2, λ = 0.9, exponential: −0.9")
    assert [axes.get_ylabel() for axes in seen.axes[:2]] == ["|bias| of X", "standard deviation of X"]
    assert [len([line for line in axes.lines if len(line.get_xdata()) == 2]) for axes in seen.axes[:2]] == [
        1,
        1,
    ]
    unseen = errors_figure(separate_errors(biased(0.0, 1.0)))
    (label,) = (text.get_text() for text in unseen.axes[-1].get_legend().get_texts())
    assert ": not seen; −0." in label


def test_figure_refuses_what_it_cannot_show() -> None:
    found = separate_errors(biased(3.0, 0.2))
    with pytest.raises(ValueError, match="found must have no axes but N, d, lam, G, got t: select one value"):
        errors_figure(found.expand_dims(t=[1.0]))
    many = xr.concat([found.assign_coords(d=[d]) for d in range(1, 9)], "d", join="outer")
    with pytest.raises(
        ValueError, match=r"found must have at most 7 fitted \(d, lam, G\), got 8: select some"
    ):
        errors_figure(many)
