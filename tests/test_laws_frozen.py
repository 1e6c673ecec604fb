"""Frozen scipy.stats distributions as laws."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from sweep.laws import Law, as_law
from sweep.laws.frozen import from_scipy


def refusal(message: str) -> str:
    return "^" + re.escape(message) + "$"


@pytest.mark.parametrize(
    ("frozen", "text"),
    [
        (stats.expon(), "exponential"),
        (stats.gamma(0.5, scale=2.0), "gamma(shape=0.5)"),
        (stats.gamma(a=2, scale=0.5), "gamma(shape=2)"),
        (stats.erlang(4, 0, 0.25), "erlang(k=4)"),
        (stats.lomax(1.5, scale=0.5), "lomax(beta=1.5)"),
        (stats.pareto(3.0, scale=2 / 3), "pareto(beta=3)"),
        (stats.weibull_min(0.5, scale=0.5), "weibull(shape=0.5)"),
        (stats.lognorm(s=1.5, scale=math.exp(-1.125)), "lognormal(sigma=1.5)"),
        (stats.uniform(0.5, 1.0), "uniform(width=1)"),
    ],
)
def test_frozen_laws_of_scipy_are_the_laws_of_the_same_survival(frozen: object, text: str) -> None:
    law = as_law(frozen)  # type: ignore[arg-type]
    assert str(law) == text
    assert isinstance(law, Law)
    ages = np.array([0.1, 0.7, 1.2, 4.0])
    assert_allclose(law.survival(ages), frozen.sf(ages), rtol=1e-12)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        (stats.gamma(2), "G must have mean 1, got scipy.stats.gamma of mean 2: use scale=0.5"),
        (stats.uniform(0, 1), "G must have mean 1, got scipy.stats.uniform of mean 0.5: centre it on 1"),
        (stats.expon(0.5, 0.5), "G must have loc 0, got scipy.stats.expon with loc 0.5"),
        (stats.lomax(0.9), "G must have mean 1, got scipy.stats.lomax of mean inf: use scale=0"),
        (
            stats.uniform(-1, 4),
            "G must be a possible law, got scipy.stats.uniform: "
            "width must be a number from 1e-06 to 2, got 4",
        ),
        (
            stats.fisk(3),
            "G must be one of scipy.stats expon, gamma, erlang, lomax, pareto, weibull_min, lognorm, "
            "uniform, got fisk: write other laws as phase_type(alpha=, T=) or as trace(path) of a file of "
            "samples",
        ),
    ],
)
def test_frozen_laws_that_are_none_here_are_refused(frozen: object, message: str) -> None:
    with pytest.raises(ValueError, match=refusal(message)):
        from_scipy(frozen)  # type: ignore[arg-type]
