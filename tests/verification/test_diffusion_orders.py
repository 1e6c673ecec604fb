"""Orders of the PDE solver and of the particles, against Cole–Hopf and the stationary closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sweep.diffusion.cells import Cells, pilot, trace
from sweep.diffusion.cole_hopf import cole_hopf
from sweep.diffusion.density import solve_diffusion
from sweep.diffusion.exact import stationary
from sweep.diffusion.model import Diffusion
from sweep.diffusion.particles import simulate_particles
from sweep.diffusion.start import as_start

Floats = NDArray[np.float64]
SIMPLE: dict[str, Any] = {"b1": -2.0, "b0": 1.0, "ell": 2, "sigma2": 2.0}
RESOLUTIONS = 5


def runs(times: list[float], **parameters: Any) -> list[list[Cells]]:
    """Cells at each time for resolutions that double, none of them extrapolated."""
    model, start = Diffusion(**parameters), as_start("empty")
    schedule, found = pilot(model, start, times, 1e-12)
    return [found, *(list(trace(model, start, schedule, k)) for k in range(1, RESOLUTIONS))]


def order(errors: list[float]) -> float:
    """Fitted exponent of errors at steps h, h/2, …"""
    slope, _ = np.polyfit(np.arange(len(errors)), np.log2(errors), 1)
    return -float(slope)


@pytest.mark.parametrize(
    ("b1", "b0", "t"),
    [(-2.0, 1.0, 1.0), (-2.0, 1.0, 0.01), (-1.0, -3.0, 0.5), (1.0, 0.5, 2.0), (0.0, 1.0, 1.0)],
)
def test_a_resolution_is_of_second_order_against_cole_hopf(b1: float, b0: float, t: float) -> None:
    errors = []
    for index, (cells,) in enumerate(runs([t], b1=b1, b0=b0, ell=2, sigma2=2.0)):
        # The nodes of the coarsest resolution are among those of all.
        every = 2 << index
        x = np.arange(0, cells.u.size, every) * cells.h
        exact = cole_hopf(b1=b1, b0=b0, sigma2=2.0, t=t, x=x)
        errors.append(float(np.abs(cells.v[:-1:every] - exact).max()))
    assert order(errors) == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize("ell", [2, 3, 5])
@pytest.mark.parametrize("b0", [1.0, -1.0])
def test_a_resolution_is_of_second_order_in_equilibrium(ell: int, b0: float) -> None:
    parameters: dict[str, Any] = {"b1": -2.0, "b0": b0, "ell": ell, "sigma2": 2.0}
    law = stationary(**parameters)
    errors = []
    for (cells,) in runs([60.0], **parameters):
        x = np.arange(cells.u.size + 1) * cells.h
        errors.append(float(np.abs(cells.v - law.v(x)).max()))
        assert cells.u.min() >= 0.0
        assert cells.u.sum() == pytest.approx(1.0, abs=1e-12)
    assert order(errors) == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize("ell", [2, 3, 5])
@pytest.mark.parametrize("b0", [1.0, -1.0])
def test_stationary_means_to_1e_8_with_extrapolation(ell: int, b0: float) -> None:
    parameters: dict[str, Any] = {"b1": -2.0, "b0": b0, "ell": ell, "sigma2": 2.0}
    data = solve_diffusion(**parameters, times=[60.0], x=[0.0, 0.5, 1.0], tolerance=1e-8)
    assert float(data["mean"][0]) == pytest.approx(stationary(**parameters).mean, abs=1e-8)
    assert float(data.mean_error[0]) <= 1e-7


def wasserstein(v: Floats, exact: Floats, x: Floats) -> float:
    """∫ |v − exact| dx on equally spaced x (trapezoids, whose error is far below those compared)."""
    return float(np.abs(v - exact).sum() * (x[1] - x[0]))


def test_particles_are_of_order_one_in_the_step_but_for_a_logarithm() -> None:
    # From X_0 = 0. Noise (800 000 particles) is .0007, a fifteenth of the least error.
    solution = solve_diffusion(**SIMPLE, times=[1.0], x=np.linspace(0.0, 6.0, 601), tolerance=1e-6)
    x, exact = solution.x.values, solution.v.values[0]
    errors = []
    for steps in (4, 8, 16, 32):
        parts = [
            simulate_particles(
                **SIMPLE, times=[1.0], particles=100_000, seed=11, replica=k, step=1.0 / steps, x=x
            ).v.values[0]
            for k in range(8)
        ]
        errors.append(wasserstein(np.mean(parts, axis=0), exact, x))
    assert 0.7 <= order(errors) <= 1.1


def test_particles_converge_like_the_root_of_their_number() -> None:
    solution = solve_diffusion(**SIMPLE, times=[0.5], x=np.linspace(0.0, 6.0, 601), tolerance=1e-6)
    x, exact = solution.x.values, solution.v.values[0]
    errors = []
    for M in (50, 200, 800, 3200):
        parts = [
            simulate_particles(**SIMPLE, times=[0.5], particles=M, seed=12, replica=k, step=1.0 / 256, x=x)
            for k in range(40)
        ]
        errors.append(float(np.mean([wasserstein(part.v.values[0], exact, x) for part in parts])))
    # W1 of 40 replicas has a relative standard error of about .07: .03 in the slope per factor 64.
    assert 0.5 * order(errors) == pytest.approx(0.5, abs=0.1)
    assert errors[-1] == pytest.approx(0.45 / math.sqrt(3200.0), rel=0.5)
