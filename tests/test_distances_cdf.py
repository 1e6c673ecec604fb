"""Measures and what they refuse; Kolmogorov, Wasserstein-1 and sup distances."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sweep.distances import Atoms, PiecewiseLinear, kolmogorov, prohorov, sup_distance, wasserstein

INF = math.inf
UNIFORM = PiecewiseLinear([0.0, 1.0, INF], [0.0, 1.0, 1.0])
SAMPLES = st.lists(st.floats(-5.0, 5.0), min_size=2, max_size=30)


@given(SAMPLES, SAMPLES)
def test_distances_of_samples_agree_with_scipy(x: list[float], y: list[float]) -> None:
    mu, nu = Atoms(x, 1.0 / len(x)), Atoms(y, 1.0 / len(y))
    assert kolmogorov(mu, nu) == pytest.approx(stats.ks_2samp(x, y, method="asymp").statistic, abs=1e-13)
    assert wasserstein(mu, nu) == pytest.approx(stats.wasserstein_distance(x, y), abs=1e-12)


@given(SAMPLES)
def test_kolmogorov_distance_from_a_uniform_law_agrees_with_scipy(x: list[float]) -> None:
    expected = stats.kstest(x, "uniform", method="asymp").statistic
    assert kolmogorov(Atoms(x, 1.0 / len(x)), UNIFORM) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("a", [-0.5, 0.0, 0.2, 0.5, 1.0, 1.75])
def test_wasserstein_of_an_atom_from_a_uniform_law(a: float) -> None:
    inside = min(max(a, 0.0), 1.0)
    # ∫_0^1 |x − a| dx
    expected = inside * inside / 2.0 + (1.0 - inside) ** 2 / 2.0 + abs(a - inside)
    assert wasserstein(Atoms([a], 1.0), UNIFORM) == pytest.approx(expected, abs=1e-15)
    assert wasserstein(UNIFORM, Atoms([a], 1.0)) == pytest.approx(expected, abs=1e-15)


def test_unequal_masses() -> None:
    mu, nu = Atoms([0.0], 1.0), Atoms([0.0, 2.0], [0.5, 0.25])
    assert kolmogorov(mu, nu) == 0.5
    assert wasserstein(mu, nu) == 1.0  # ½ over [0, 2]
    assert wasserstein(mu, nu, until=4.0) == 1.5  # and ¼ over [2, 4]
    assert wasserstein(mu, nu, until=-1.0) == 0.0
    assert wasserstein(Atoms([], []), Atoms([], [])) == 0.0
    assert wasserstein(Atoms([], []), UNIFORM, until=3.0) == 2.5
    assert kolmogorov(Atoms([], []), PiecewiseLinear([0.0, INF], [0.0, 0.75])) == 0.75


def test_masses_and_mass_at_infinity() -> None:
    assert Atoms([3.0, 1.0], [0.25, 0.5]).mass == 0.75
    assert Atoms([], 0.1).mass == 0.0
    nu = PiecewiseLinear([0.0, 1.0, INF], [0.125, 0.5, 0.75])
    assert (nu.mass, nu.mass_at_infinity) == (0.75, 0.25)
    assert PiecewiseLinear([], []).mass == 0.0


def test_a_million_small_weights_add_up_to_the_last_place() -> None:
    weights = np.full(10**6, 0.1)
    assert abs(Atoms(np.zeros(10**6), weights).mass - 1e5) <= 2e-11


def test_sup_distance() -> None:
    S_N, S = np.array([[0.9, 0.5], [0.8, 0.25]]), np.array([[0.9, 0.25], [0.75, 0.25]])
    assert sup_distance(S_N, S) == 0.25
    assert sup_distance(np.zeros((0, 3)), np.zeros((0, 3))) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: prohorov([0.0, 1.0], [1.0, -0.5], [0.0], [1.0]),
            "weights of x must not be negative, got -0.5 at index 1",
        ),
        (
            lambda: prohorov([0.0], [1.0], [math.nan], [1.0]),
            "positions of y must be finite, got nan at index 0",
        ),
        (lambda: prohorov([0.0], [1.0], [INF], [1.0]), "positions of y must be finite, got inf at index 0"),
        (
            lambda: prohorov([0.0], [math.nan], [1.0], [1.0]),
            "weights of x must be finite, got nan at index 0",
        ),
        (
            lambda: prohorov([0.0], -1.0, [1.0], [1.0]),
            "weights of x must be finite and not negative, got -1 at index 0",
        ),
        (
            lambda: prohorov([0.0], math.nan, [1.0], 1.0),
            "weights of x must be finite and not negative, got nan",
        ),
        (
            lambda: prohorov([0.0, 1.0], [1.0], [1.0], [1.0]),
            "weights of x must be one number or as many as positions (2), got 1",
        ),
        (lambda: Atoms([[0.0]], [1.0]), "positions of atoms must be one-dimensional, got shape (1, 1)"),
        (lambda: Atoms(0.0, 1.0), "positions of atoms must be one-dimensional, got shape ()"),
        (
            lambda: PiecewiseLinear([0.0, 1.0], [0.5, 0.25]),
            "cdf must not decrease, got 0.25 after 0.5 at age 1",
        ),
        (lambda: PiecewiseLinear([0.0, 1.0], [-0.5, 0.25]), "cdf must not be negative, got -0.5 at index 0"),
        (lambda: PiecewiseLinear([0.0, 1.0], [0.0, math.nan]), "cdf must be finite, got nan at index 1"),
        (lambda: PiecewiseLinear([0.0, 1.0], [0.0]), "cdf must have as many values as ages (2), got 1"),
        (lambda: PiecewiseLinear([1.0, 0.5], [0.0, 0.1]), "ages must not decrease, got 0.5 after 1"),
        (lambda: PiecewiseLinear([-INF, 0.5], [0.0, 0.1]), "ages must be finite, got -inf at index 0"),
        (lambda: PiecewiseLinear([INF, INF], [0.0, 0.1]), "ages must be finite, got inf at index 0"),
        (lambda: wasserstein(UNIFORM, UNIFORM, until=INF), "until must be finite, got inf"),
        (lambda: sup_distance([[1.0]], [[1.0, 2.0]]), "S_N must have the shape of S (1, 2), got (1, 1)"),
        (lambda: sup_distance([[math.nan]], [[1.0]]), "S_N must be finite, got nan"),
        (lambda: sup_distance([[1.0]], [[INF]]), "S must be finite, got inf"),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
