"""Stationary starts of heavy traffic: the limit, its particles and its closed forms stay at them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from sweep.diffusion.cole_hopf import cole_hopf_from
from sweep.diffusion.density import solve_diffusion
from sweep.diffusion.exact import stationary
from sweep.diffusion.model import Diffusion
from sweep.diffusion.particles import simulate_particles
from sweep.diffusion.start import as_start, was_infinite

SIMPLE: dict[str, Any] = {"b1": -2.0, "b0": 1.0, "ell": 2, "sigma2": 2.0}
OTHER: dict[str, Any] = {"b1": -1.0, "b0": -3.0, "ell": 3, "sigma2": 1.25}
TEXT = "stationary(b1=-2.0, b0=1.0, ell=2, sigma2=2.0)"


@pytest.mark.parametrize("parameters", [SIMPLE, OTHER, {**SIMPLE, "ell": 5}])
def test_the_pde_stays_at_its_stationary_law(parameters: dict[str, Any]) -> None:
    data = solve_diffusion(**parameters, times=[0.3, 4.0], initial="stationary", tolerance=1e-6)
    law = stationary(**parameters)
    assert np.abs(data.v.values - law.v(data.x.values)).max() <= 1e-6
    assert data["mean"].values == pytest.approx([law.mean] * 2, abs=1e-6)


def test_cole_hopf_stays_at_the_stationary_law() -> None:
    x = np.array([0.0, 0.3, 1.0, 2.5])
    later = cole_hopf_from(as_start(TEXT), b1=-2.0, b0=1.0, sigma2=2.0, t=0.7, x=x)
    assert later == pytest.approx(stationary(**SIMPLE).v(x), abs=1e-9)


def test_particles_stay_at_their_stationary_law() -> None:
    # Interaction makes particles of one replica dependent: standard errors are those of 16 replicas.
    runs = [
        simulate_particles(
            **SIMPLE,
            times=[0.0, 1.0],
            particles=2000,
            seed=5,
            replica=k,
            step=0.02,
            initial="stationary",
            x=[0.2, 1.0],
        )
        for k in range(16)
    ]
    v = np.array([run.v.values for run in runs])
    error = v.std(axis=0, ddof=1) / 4.0

    def scores(sigma2: float) -> np.ndarray:
        return np.asarray(
            np.abs(v.mean(axis=0) - stationary(**{**SIMPLE, "sigma2": sigma2}).v([0.2, 1.0])) / error
        )

    assert scores(2.0).max() <= 4.0
    assert scores(2.1).max() > 4.0


def test_a_stationary_start_is_its_law() -> None:
    start, law = as_start("stationary", model=Diffusion(**SIMPLE)), stationary(**SIMPLE)
    assert start.text == TEXT
    assert as_start(f" {TEXT}").text == TEXT
    assert as_start("stationary(b1 = -2, b0=-1.5, ell=4, sigma2=1.25)").text == (
        "stationary(b1=-2.0, b0=-1.5, ell=4, sigma2=1.25)"
    )
    assert start.mean == law.mean
    x = np.array([0.0, 0.2, 1.0, 3.0])
    assert start.survival(x) == pytest.approx(law.v(x), rel=1e-13)
    assert start.density(x) == pytest.approx(law.u(x), rel=1e-12)
    assert start.quantile(0.7) == pytest.approx(float(law.quantile(0.7)), rel=1e-12)
    assert start.reach(1e-6) >= float(law.quantile(1.0 - 1e-6))
    draws = start.draw(np.random.default_rng(3), 20_000)
    for at, share in zip(x[1:], law.v(x[1:]), strict=True):
        assert abs(np.mean(draws > at) - share) <= 4.0 * math.sqrt(share * (1.0 - share) / draws.size)


def test_draws_of_many_choices_are_finite() -> None:
    # (1 − U)^{−49} overflows for one in two million draws, (1 − U)^{−999} for half of them.
    for ell in (50, 1000):
        parameters = {**SIMPLE, "ell": ell}
        start, law = as_start("stationary", model=Diffusion(**parameters)), stationary(**parameters)
        U = np.array([0.2, 0.7, -math.expm1(-709.5 / 49.0), -math.expm1(-720.0 / 49.0), 1.0 - 2.0**-53])
        rng = SimpleNamespace(random=lambda size, U=U: U[:size])
        draws = start.draw(rng, U.size)  # type: ignore[arg-type]
        assert law.v(draws) == pytest.approx(1.0 - U, rel=1e-9)
        assert was_infinite(start.text)
    assert not any(map(was_infinite, (TEXT, "empty", "law(exponential, mean=2.0)", "points(1.0: 0.5)")))


@pytest.mark.parametrize("parameters", [SIMPLE, OTHER, {**SIMPLE, "ell": 5}, {**SIMPLE, "b0": 0.0}])
def test_stationary_partial_means_are_integrals_of_v(parameters: dict[str, Any]) -> None:
    law = stationary(**parameters)
    for x in (0.0, 0.4, 3.0):
        integral = quad(lambda y: float(law.v(y)), x, 40.0, epsabs=1e-13, limit=200)[0]
        assert float(law.beyond(x)) == pytest.approx(integral, abs=1e-11)
    assert float(stationary(b1=0.0, b0=-1.0, ell=3, sigma2=2.0).beyond(1.0)) == math.inf


@pytest.mark.parametrize(
    ("text", "model", "message"),
    [
        (
            "stationary",
            None,
            "initial must say of which parameters it is stationary, got 'stationary': write",
        ),
        (
            "stationary",
            {**SIMPLE, "b0": 2.0},
            "b1 must be at most 0 and b1 . b0 negative for a stationary law",
        ),
        (
            "stationary",
            {**SIMPLE, "b1": 0.0, "b0": -1.0},
            "initial must have a finite mean, got the stationary",
        ),
        ("stationary(b1=-2, b0=1, ell=2)", None, "initial must be a law of X_0, got 'stationary"),
        ("stationary(b1=-x, b0=1, ell=2, sigma2=2)", None, "initial must have b1 a number ≥ 0, got 'x'"),
        ("stationary(b1=-2, b0=1, ell=1, sigma2=2)", None, "ell must be at least 2, got 1"),
        ("stationary(b1=-2, b0=1, ell=2.5, sigma2=2)", None, r"ell must be a whole number, got 2\.5"),
    ],
)
def test_bad_stationary_starts_are_explained(text: str, model: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        as_start(text, model=Diffusion(**model) if model else None)
