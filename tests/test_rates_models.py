"""Fits beyond one power at all N: two terms, left-out small N, and distances from the stored limit."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

from analysis import fit_rate
from analysis.least_squares import fit_linear, fit_relative
from analysis.quantities import deviation_of
from analysis.rate_models import fit_row
from analysis.rates import rate_table
from analysis.regression import fit_sum_of_powers, summarise

GRID = (100, 1000, 10_000, 100_000)
ROW = {"d": [2], "lam": [0.9], "G": ["exponential"]}


def stored(values: NDArray[np.float64], N: tuple[int, ...] = GRID, **more: list[float]) -> xr.Dataset:
    """Label `values` of S_sup over (N, further axes, replica)."""
    coordinates = {"N": list(N), **ROW, **more}
    shaped = values.reshape((len(N), 1, 1, 1, *values.shape[1:]))
    labelled = xr.DataArray(shaped, coords=coordinates, dims=(*coordinates, "replica"))
    return xr.Dataset({"S_sup": labelled})


def test_weighted_line_is_the_textbooks_when_variances_are_known_in_ratio() -> None:
    # y = 1 + 2x through x = 0, 1, 3 with y₃ off by 1.4; weights 1: slope 2 + 1.4 · (3 − 4/3)/(14/3) = 2.5.
    x = np.array([0.0, 1.0, 3.0])
    y = 1 + 2 * x + [0.0, 0.0, 1.4]
    fit = fit_linear(np.column_stack([np.ones(3), x]), y, np.full(3, 0.5), [3, 3, 3], pooled=True)
    assert fit.estimate[1] == pytest.approx(2.5, rel=1e-13)
    assert fit.stderr[1] == pytest.approx(math.sqrt(0.5 / (14 / 3)), rel=1e-13)
    assert list(fit.freedom) == [9.0, 9.0]
    # Residual sum of squares 1.96 (1 − 1/3 − (5/3)²/(14/3)) = .14; F(1, 9) of .28 leaves P = .6095 (t table).
    assert fit.p_value == pytest.approx(0.6095, abs=5e-4)


def test_intervals_of_a_linear_fit_are_t_intervals() -> None:
    fit = fit_linear(np.ones((2, 1)), np.array([1.0, 3.0]), np.array([1.0, 1.0]), [1, 1], pooled=True)
    low, high = fit.interval(0.95)
    # Mean 2, standard error √½, two degrees of freedom: t = 4.302653 (any table).
    assert (low[0], high[0]) == pytest.approx((2 - 4.30265273 / math.sqrt(2), 2 + 4.30265273 / math.sqrt(2)))


def test_more_coefficients_than_points_are_refused() -> None:
    with pytest.raises(ValueError, match="points must be at least the coefficients, 2, got 1"):
        fit_linear(np.ones((1, 2)), np.ones(1), np.ones(1), [1], pooled=True)


def test_errors_in_proportion_to_the_curve_solve_the_score_equation_of_the_gamma_law() -> None:
    # McCullagh & Nelder (1989), 9.2: Σ x (y − xβ)/(xβ)² = 0, of mean 0 at the true β.
    x = np.column_stack([np.ones(5), [1.0, 2.0, 3.0, 4.0, 5.0]])
    y = np.array([3.0, 9.0, 5.0, 14.0, 9.0])
    fit = fit_relative(x, y, np.full(5, 0.1), [7] * 5, pooled=True)
    curve = x @ fit.estimate
    assert x.T @ ((y - curve) / curve**2) == pytest.approx(0.0, abs=1e-5)
    # Twin: weights by the values seen.
    seen = x @ fit_linear(x, y, 0.1 * y**2, [7] * 5, pooled=True).estimate
    assert np.sum((y - seen) / seen**2) > 0.01


@pytest.mark.parametrize("statistic", ["mean", "rms"])
@pytest.mark.parametrize("unequal", [False, True])
def test_two_terms_are_found_exactly_without_noise_in_the_statistic(statistic: str, unequal: bool) -> None:
    noise = np.array([0.98, 1.0, 1.02, 0.99, 1.01, 1.0])
    points = []
    for i, N in enumerate(GRID):
        wide = 1 + (noise - 1) * (4.0**i if unequal else 1.0) / 64
        scale = math.sqrt(np.mean(wide**2)) if statistic == "rms" else 1.0
        points.append(summarise(N, wide / scale * (1.3 * N**-0.5 + 20.0 / N), statistic))
    estimate = fit_sum_of_powers(points, statistic).estimate
    assert estimate == pytest.approx([1.3, 20.0], rel=2e-3)


def test_two_terms_carry_their_joint_covariance() -> None:
    rng = np.random.default_rng(5)
    values = (
        np.exp(0.1 * rng.standard_normal((4, 32))) * np.array([1.3 * N**-0.5 + 20 / N for N in GRID])[:, None]
    )
    fits = fit_rate(stored(values), model="two-term").isel(d=0, lam=0, G=0)
    assert list(fits.data_vars) == [
        "coefficient", "coefficient_stderr", "coefficient_lo", "coefficient_hi", "covariance",
        "p_value", "n", "N_min", "dropped", "p_value_all", "replicas",
    ]  # fmt: skip
    assert list(fits.term.values) == list(fits.other_term.values) == [-0.5, -1.0]
    assert np.sqrt(np.diagonal(fits.covariance)) == pytest.approx(fits.coefficient_stderr.values)
    # At the smallest N both terms count: more of one is less of the other.
    assert fits.covariance.sel(term=-0.5, other_term=-1.0) < 0
    assert fits.covariance.values == pytest.approx(fits.covariance.values.T)
    assert (fits.coefficient_lo < fits.coefficient).all()
    assert all(
        variable.attrs["units"] and variable.attrs["long_name"] for variable in fits.data_vars.values()
    )
    assert fits.attrs["model"] == "two-term"


def test_other_exponents_of_the_two_terms_may_be_asked_for() -> None:
    rng = np.random.default_rng(6)
    values = (
        np.exp(0.01 * rng.standard_normal((4, 32))) * np.array([2 / N + 30 / N**1.5 for N in GRID])[:, None]
    )
    fits = fit_rate(stored(values), model="two-term", terms=(-1.0, -1.5))
    assert fits.coefficient.sel(term=-1.0).item() == pytest.approx(2.0, rel=0.01)


def bent(factor: float, replicas: int = 32) -> NDArray[np.float64]:
    """N^−½ with lognormal noise of cv .05 and a factor at the smallest N."""
    rng = np.random.default_rng(17)
    values = np.exp(0.05 * rng.standard_normal((4, replicas))) * np.array([N**-0.5 for N in GRID])[:, None]
    values[0] *= factor
    return values


def test_smallest_sizes_are_left_out_only_when_asked_and_needed() -> None:
    everything = fit_rate(stored(bent(1.5)))
    (row,) = rate_table(fit_rate(stored(bent(1.5)), sizes="asymptotic"))
    assert (everything.dropped.item(), everything.N_min.item(), everything.n.item()) == (0, 100, 128)
    assert (row.dropped, row.N_min, row.n) == (1, 1000, 96)
    assert row.exponent == pytest.approx(-0.5, abs=0.01)
    assert abs(everything.exponent.item() + 0.5) > 0.02
    assert str(row).endswith("96 replicas, N ≥ 1000 (1 smaller left out)")
    straight = fit_rate(stored(bent(1.0)), sizes="asymptotic")
    xr.testing.assert_equal(straight, fit_rate(stored(bent(1.0))))


def test_left_out_sizes_do_not_hide_the_test_of_all() -> None:
    fits = fit_rate(stored(bent(1.5)), sizes="asymptotic")
    assert fits.p_value.item() > 0.05
    assert fits.p_value_all.item() == fit_rate(stored(bent(1.5))).p_value.item() < 1e-6


def test_three_sizes_always_remain() -> None:
    values = bent(1.0) * np.array([1.0, 2.0, 1.0, 2.0])[:, None]
    fits = fit_rate(stored(values), sizes="asymptotic")
    assert fits.dropped.item() == 1
    assert fits.p_value.item() < 0.05


def test_rest_without_spread_is_no_reason_to_fail() -> None:
    points = [summarise(N, N**-0.5 * np.array([1.0, 1.1, 0.9]), "mean") for N in GRID[:1]]
    points += [summarise(N, 3.0 * N**-0.5 * np.ones(3), "mean") for N in GRID[1:]]
    assert fit_row(points, "mean", "power", "asymptotic", ())["dropped"] == 0


def study(levels: int = 2) -> xr.DataTree:
    """Times 0, 1, 2: S, X, E, D of the network scatter around the limit like N^−½, twice so at level 2."""
    rng = np.random.default_rng(8)
    N = np.array([100.0, 1000.0, 10_000.0])
    t, level = [0.0, 1.0, 2.0], list(range(1, levels + 1))
    scale = N[:, None, None, None, None, None, None] ** -0.5 * np.array([0.0, 1.0, 1.0])[:, None] * level
    noise = scale * rng.standard_normal((3, 1, 1, 1, 40, 3, levels))
    limit = np.full((1, 1, 1, 3, levels), 0.5)
    grid = {"N": N.astype(int), **ROW}
    axes = ("N", *ROW, "replica", "t")
    variables = dict.fromkeys(("S", "D"), ((*axes, "level"), 0.5 + noise))
    variables |= dict.fromkeys(("X", "E"), (axes, 0.5 + noise[..., 0]))
    network = xr.Dataset(variables, {**grid, "replica": range(40), "t": t, "level": level})
    limits = dict.fromkeys(("S", "D"), ((*ROW, "t", "level"), limit))
    limits |= dict.fromkeys(("X", "E"), ((*ROW, "t"), limit[..., 0]))
    fluid = xr.Dataset(limits, {**ROW, "t": t, "level": level})
    return xr.DataTree.from_dict({"network": network, "fluid": fluid})


def test_distance_from_the_limit_is_fitted_at_every_time_and_level() -> None:
    fits = fit_rate(study(), "S").isel(d=0, lam=0, G=0)
    assert fits.exponent.dims == ("t", "level")
    assert fits.exponent.sel(t=[1.0, 2.0]).values == pytest.approx(-0.5, abs=0.1)
    # Mean of |noise| is √(2/π) at level 1, twice as much at level 2.
    expected = math.sqrt(2 / math.pi) * np.array([[1, 2], [1, 2]])
    error = fits.constant_stderr.sel(t=[1.0, 2.0])
    assert (abs(fits.constant.sel(t=[1.0, 2.0]) - expected) < 4 * error).all()
    # At t = 0 all replicas are at the limit, and no power of N is zero.
    assert (fits.n.sel(t=0.0) == 0).all()
    assert np.isnan(fits.exponent.sel(t=0.0)).all()


@pytest.mark.parametrize(
    ("quantity", "dims"), [("S_sup_t", ("level",)), ("D_sup_t", ("level",)), ("X_sup_t", ()), ("E", ("t",))]
)
def test_largest_distance_over_time_has_no_time(quantity: str, dims: tuple[str, ...]) -> None:
    fits = fit_rate(study(), quantity, "rms")
    assert fits.exponent.dims == ("d", "lam", "G", *dims)
    values = fits.exponent if "t" not in dims else fits.exponent.sel(t=[1.0, 2.0])
    assert values.values == pytest.approx(-0.5, abs=0.1)
    assert fits.attrs["quantity"] == quantity


def test_absent_replicas_stay_absent_in_the_largest_distance() -> None:
    tree = study()
    network = tree["network"].to_dataset().copy(deep=True)
    network["S"][0, 0, 0, 0, 3:] = math.nan
    network["S"][1] = math.nan
    partial = xr.DataTree.from_dict({"network": network, "fluid": tree["fluid"].to_dataset()})
    assert (fit_rate(partial, "S_sup_t").n == 3 + 40).all()


def test_signed_deviation_is_network_less_limit() -> None:
    deviation = deviation_of(study(), "X")
    assert deviation.dims == ("N", "d", "lam", "G", "t", "replica")
    assert abs(deviation.sel(t=0.0)).max() == 0.0


def test_limits_that_are_absent_are_named() -> None:
    tree = study()
    network = tree["network"].to_dataset()
    with pytest.raises(ValueError, match="tree must have the group fluid, got the network alone: give all"):
        fit_rate(network, "S")
    with pytest.raises(ValueError, match="tree must have the group fluid, got the groups network"):
        fit_rate(xr.DataTree.from_dict({"network": network}), "S")
    bare = xr.DataTree.from_dict({"network": network, "fluid": tree["fluid"].to_dataset().drop_vars("X")})
    with pytest.raises(ValueError, match="tree must have the variable X in the group fluid, got S, D, E"):
        fit_rate(bare, "X")
    with pytest.raises(ValueError, match="quantity must be one of S, D, X, E to have a limit, got 'V'"):
        deviation_of(tree, "V")


def test_one_place_without_spread_does_not_stop_the_others() -> None:
    values = np.stack([bent(1.0), np.ones((4, 32))], axis=1)
    fits = fit_rate(stored(values, level=[1.0, 2.0]))
    assert list(fits.n.values.ravel()) == [128, 0]
    with pytest.raises(ValueError, match="replicas must differ to tell an error, got equal ones at N = 100"):
        fit_rate(stored(np.ones((4, 32))))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"model": "cubic"}, "model must be one of power, two-term, got 'cubic'"),
        ({"sizes": "most"}, "sizes must be one of all, asymptotic, got 'most'"),
        ({"terms": (-0.5, -0.5)}, r"terms must be two different exponents of N, got \(-0.5, -0.5\)"),
        ({"terms": (-0.5,)}, r"terms must be two different exponents of N, got \(-0.5,\)"),
    ],
)
def test_unknown_choices_are_named(arguments: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        fit_rate(stored(bent(1.0)), **arguments)  # type: ignore[arg-type]
