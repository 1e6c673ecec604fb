"""Closed forms of the heavy-traffic limit: the stationary law and Cole–Hopf, against independent forms."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erfc

from sweep.diffusion.cole_hopf import cole_hopf, cole_hopf_from
from sweep.diffusion.exact import stationary
from tests.test_diffusion import DRIFTS, SIMPLE

REFERENCE = Path(__file__).parent / "reference" / "heavy_traffic_exponential.csv"


def published() -> list[dict[str, float]]:
    lines = [line for line in REFERENCE.read_text().splitlines() if not line.startswith("#")]
    names = lines[0].split(",")
    return [dict(zip(names, map(float, line.split(",")), strict=True)) for line in lines[1:]]


@pytest.mark.parametrize("row", published())
def test_stationary_means_are_the_published_ones(row: dict[str, float]) -> None:
    law = stationary(b1=row["b1"], b0=row["b0"], ell=int(row["ell"]), sigma2=2.0)
    assert round(law.mean, 4) == row["mean_X_limit"]


@pytest.mark.parametrize("ell", [2, 3, 5, 50])
@pytest.mark.parametrize("r", [-30.0, -1.0, 0.0, 0.5, 0.95])
def test_stationary_law_is_consistent(ell: int, r: float) -> None:
    sigma2 = 1.7
    law = stationary(b1=-2.0, b0=2.0 * r, ell=ell, sigma2=sigma2)
    theta = 4.0 / sigma2
    assert law.tail_rate == theta
    x = np.array([0.0, 0.01, 0.3, 1.0, 4.0])
    # v = [r + (1 − r) e^{θ(ell−1)x}]^{−1/(ell−1)}
    closed = (r + (1.0 - r) * np.exp(theta * (ell - 1) * x)) ** (-1.0 / (ell - 1))
    assert law.v(x) == pytest.approx(closed, rel=1e-12)
    assert law.u(x) == pytest.approx((2.0 * closed - 2.0 * r * closed**ell) / (sigma2 / 2.0), rel=1e-11)
    assert law.quantile(1.0 - closed[:4]) == pytest.approx(x[:4], rel=1e-9, abs=1e-13)
    # The same mean by another substitution, ∫_0^1 (1 − r + r y^{ell−1})^{−1/(ell−1)} dy / θ.
    mean, _ = quad(lambda y: (1.0 - r + r * y ** (ell - 1)) ** (-1.0 / (ell - 1)), 0.0, 1.0, epsabs=1e-12)
    assert law.mean == pytest.approx(mean / theta, rel=1e-9)
    far = 2000.0 / theta
    assert law.v(0.2 * far) == pytest.approx(math.exp(-0.2 * theta * far) * (1.0 - r) ** (-1.0 / (ell - 1)))
    assert law.v(far) == 0.0


@pytest.mark.parametrize(("b1", "r"), [(-1e-13, 0.0), (-1.0, -1e10), (-2.0, 0.5), (-2.0, 0.99999)])
def test_many_choices_overflow_nowhere(b1: float, r: float) -> None:
    # [r + (1 − r) e^{θ(ell−1)x}]^{−1/(ell−1)} with the exponential taken out of the brackets.
    ell, theta = 1000, -b1
    x = np.array([0.3, 0.69, 0.6997, 0.705, 0.72, 2.0, 30.0]) / theta
    law = stationary(b1=b1, b0=-b1 * r, ell=ell, sigma2=2.0)
    far = np.log1p(-r + r * np.exp(-theta * (ell - 1) * x))
    exact = np.exp(-theta * x - far / (ell - 1))
    assert law.v(x) == pytest.approx(exact, rel=1e-13)
    assert law.quantile(1.0 - exact) == pytest.approx(x, rel=1e-10, abs=1e-3 / theta)


@pytest.mark.parametrize("r", [-1e4, -2.7e9, -2.336822864030e12, -1e15])
def test_mean_for_two_choices_is_a_logarithm(r: float) -> None:
    # ∫_0^1 dy/(1 − r y) = log(1 − r)/(−r), and 1/θ = 1/2
    law = stationary(b1=-2.0, b0=2.0 * r, ell=2, sigma2=2.0)
    assert law.mean == pytest.approx(0.5 * math.log1p(-r) / -r, rel=1e-12, abs=0.0)


def test_stationary_law_without_uniform_stream_has_a_power_tail() -> None:
    law = stationary(b1=0.0, b0=-1.0, ell=3, sigma2=2.0)
    assert law.v([0.0, 4.0]) == pytest.approx([1.0, 1.0 / 3.0])  # (1 + 2x)^{−1/2}
    assert law.quantile(2.0 / 3.0) == pytest.approx(4.0)
    assert (law.mean, law.tail_rate) == (math.inf, 0.0)
    wide = stationary(b1=0.0, b0=-1.0, ell=1000, sigma2=2.0)  # (1 + 999 x)^{−1/999}
    assert wide.quantile([0.5, 0.6]) == pytest.approx([2.0**999 / 999.0, math.inf])


@pytest.mark.parametrize(("b1", "b0"), [(-1.0, 1.0), (1.0, -3.0), (0.0, 0.0), (-1.0, 2.0)])
def test_no_stationary_law_is_an_error(b1: float, b0: float) -> None:
    with pytest.raises(
        ValueError, match="b1 must be at most 0 and b1 \\+ b0 negative for a stationary law, got"
    ):
        stationary(b1=b1, b0=b0, ell=2, sigma2=2.0)


def test_closed_forms_refuse_what_they_do_not_cover() -> None:
    law = stationary(**SIMPLE)
    with pytest.raises(ValueError, match=r"x must be at least 0, got -1\.0"):
        law.v(-1.0)
    with pytest.raises(ValueError, match=r"probability must lie in \[0, 1\), got 1\.0"):
        law.quantile(1.0)
    values: dict[str, Any] = {"b1": -2.0, "b0": 1.0, "sigma2": 2.0}
    with pytest.raises(ValueError, match="t must be positive and finite, got 0"):
        cole_hopf(**values, t=0, x=1.0)
    with pytest.raises(ValueError, match=r"x must be at least 0, got -1\.0"):
        cole_hopf(**values, t=1.0, x=-1.0)
    with pytest.raises(ValueError, match=r"x must be at least 0, got -1\.0"):
        cole_hopf_from("empty", **values, t=1.0, x=-1.0)


@pytest.mark.parametrize(("b1", "b0"), DRIFTS)
@pytest.mark.parametrize("t", [0.01, 2.0])
def test_cole_hopf_is_its_own_robin_kernel_integrated(b1: float, b0: float, t: float) -> None:
    x = [0.0, 0.1, 0.5, 2.0, 5.0]
    values: dict[str, Any] = {"b1": b1, "b0": b0, "sigma2": 1.7, "t": t, "x": x}
    assert cole_hopf(**values) == pytest.approx(cole_hopf_from("empty", **values), abs=1e-12)


@pytest.mark.parametrize("b1", [-1.5, 0.0, 0.8])
def test_cole_hopf_without_second_stream_is_reflected_brownian_motion(b1: float) -> None:
    sigma2, t, x = 1.7, 0.9, np.array([0.0, 0.2, 1.0, 3.0])
    spread = math.sqrt(2.0 * sigma2 * t)
    # J. M. Harrison, Brownian motion and stochastic flow systems (1985)
    exact = 0.5 * erfc((x - b1 * t) / spread) + 0.5 * np.exp(2.0 * b1 * x / sigma2) * erfc(
        (x + b1 * t) / spread
    )
    assert cole_hopf(b1=b1, b0=0.0, sigma2=sigma2, t=t, x=x) == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize(("b1", "b0"), [(-2.0, 1.0), (-1.0, -3.0), (-2.0, 0.0)])
def test_cole_hopf_tends_to_the_stationary_law(b1: float, b0: float) -> None:
    x = np.linspace(0.0, 4.0, 9)
    late = cole_hopf(b1=b1, b0=b0, sigma2=2.0, t=150.0, x=x)
    assert late == pytest.approx(stationary(b1=b1, b0=b0, ell=2, sigma2=2.0).v(x), abs=1e-12)
