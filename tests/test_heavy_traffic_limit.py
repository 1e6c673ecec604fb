"""One queue in the limit of heavy traffic, and networks at finite m."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr

from sweep.diffusion import prelimit as prelimit_module
from sweep.diffusion import tagged
from sweep.diffusion.density import solve_diffusion
from sweep.diffusion.exact import stationary
from sweep.diffusion.model import sigma2_of
from sweep.diffusion.particles import simulate_particles
from sweep.diffusion.prelimit import extrapolated_mean, prelimit, prelimit_mean, prelimit_tails
from sweep.diffusion.tagged import joint_tail, tagged_tail
from sweep.errors import AccuracyError

REFERENCE = Path(__file__).parent / "reference" / "heavy_traffic_exponential.csv"
SIMPLE: dict[str, Any] = {"b1": -2.0, "b0": 1.0, "ell": 2, "sigma2": 2.0}


def published() -> list[dict[str, float]]:
    lines = [line for line in REFERENCE.read_text().splitlines() if not line.startswith("#")]
    names = lines[0].split(",")
    return [dict(zip(names, map(float, line.split(",")), strict=True)) for line in lines[1:]]


def reflected(x: np.ndarray, start: float, t: float, drift: float, sigma2: float) -> np.ndarray:
    """P(X_t > x | X_0 = start) of reflected Brownian motion; Harrison (1985)."""
    spread = math.sqrt(sigma2 * t)
    image = np.exp(2.0 * drift * x / sigma2) * ndtr((-x - start - drift * t) / spread)
    return np.asarray(1.0 - ndtr((x - start - drift * t) / spread) + image)


@pytest.mark.parametrize("position", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("drift", [-1.0, 0.5])
def test_without_second_stream_a_queue_is_reflected_brownian_motion(position: float, drift: float) -> None:
    x, times = np.linspace(0.0, 4.0, 9), [0.0, 0.2, 1.5]
    row = tagged_tail(
        b1=drift, b0=0.0, ell=2, sigma2=1.7, times=times, position=position, x=x, tolerance=1e-5
    )
    assert row.v[0].tolist() == [float(y < position) for y in x]
    for v, t in zip(row.v[1:], times[1:], strict=True):
        assert np.abs(v - reflected(x, position, t, drift, 1.7)).max() <= max(row.error, 1e-6)
    alone = tagged_tail(b1=drift, b0=0.0, ell=2, sigma2=1.7, times=[0.0], position=position, x=x)
    assert np.array_equal(alone.v, row.v[:1])


def test_queues_from_every_point_of_the_start_make_up_the_population() -> None:
    start, x = "points(0.0: 0.3, 1.5: 0.7)", np.linspace(0.0, 4.0, 9)
    parameters: dict[str, Any] = {**SIMPLE, "ell": 3, "times": [0.3, 1.0], "x": x, "initial": start}
    v = solve_diffusion(**parameters).v.values
    parts = [tagged_tail(**parameters, position=p, tolerance=1e-5).v for p in (0.0, 1.5)]
    assert np.abs(0.3 * parts[0] + 0.7 * parts[1] - v).max() <= 2e-5
    # A queue among queues with a second stream 5 % weaker is not one of this population.
    weak = [tagged_tail(**{**parameters, "b0": 0.95}, position=p, tolerance=1e-5).v for p in (0.0, 1.5)]
    assert np.abs(0.3 * weak[0] + 0.7 * weak[1] - v).max() > 1e-3


def test_two_times_of_reflected_brownian_motion() -> None:
    s, t, x, y = 0.5, 1.2, 0.6, np.array([0.2, 0.9, 2.0])
    row = joint_tail(b1=-1.0, b0=0.0, ell=2, sigma2=2.0, times=[s, t], x=x, y=y, tolerance=1e-5)

    def density(z: float) -> float:
        step = 1e-5
        ends = reflected(np.array([z - step, z + step]), 0.0, s, -1.0, 2.0)
        return float(ends[0] - ends[1]) / (2.0 * step)

    for at, value in zip(y, row.v[0], strict=True):
        # Chapman–Kolmogorov with the exact transition law.
        exact = quad(
            lambda z, at=at: density(z) * float(reflected(np.array([at]), z, t - s, -1.0, 2.0)[0]), x, 9.0
        )[0]
        assert value == pytest.approx(exact, abs=3e-5)


def test_two_times_keep_their_margins() -> None:
    y = np.array([0.1, 0.8, 2.0])
    v = solve_diffusion(**SIMPLE, times=[0.4, 1.0], x=y).v.values
    at_zero = joint_tail(**SIMPLE, times=[0.4, 1.0], x=0.0, y=y)
    assert at_zero.v[0] == pytest.approx(v[1], abs=1e-4)
    late = joint_tail(**SIMPLE, times=[0.4, 1.0], x=0.8, y=[0.0])
    assert late.v[0, 0] == pytest.approx(v[0, 1], abs=1e-4)


def test_two_times_agree_with_particles_that_interact() -> None:
    x, y = 0.5, 0.8
    exact = float(joint_tail(**SIMPLE, times=[0.5, 1.0], x=x, y=[y]).v[0, 0])
    runs = [
        simulate_particles(
            **SIMPLE, times=[0.5, 1.0], particles=2000, seed=9, replica=k, step=0.005, positions=True
        ).X.values
        for k in range(24)
    ]
    both = np.array([np.mean((X[0] > x) & (X[1] > y)) for X in runs])
    error = both.std(ddof=1) / math.sqrt(len(runs))
    assert abs(both.mean() - exact) <= 4.0 * error
    # Independence at the two times, as if a queue forgot where it was, is far off.
    apart = np.array([np.mean(X[0] > x) * np.mean(X[1] > y) for X in runs])
    assert abs(apart.mean() - exact) > 8.0 * error


def test_one_queue_refuses_bad_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    good: dict[str, Any] = {**SIMPLE, "times": [0.5, 1.0]}
    with pytest.raises(ValueError, match=r"position must be at least 0, got -1\.0"):
        tagged_tail(**good, position=-1.0, x=[0.0])
    with pytest.raises(ValueError, match=r"times must be two positive ones, got \[0\.0, 1\.0\]"):
        joint_tail(**{**good, "times": [0.0, 1.0]}, x=0.0, y=[0.0])
    monkeypatch.setattr(tagged, "_MOST_RESOLUTIONS", 3)
    with pytest.raises(AccuracyError, match=r"tolerance must be at least .*, got 1e-10"):
        tagged_tail(**good, position=1.0, x=[0.0, 0.5], tolerance=1e-10)


@given(m=st.floats(1.0, 1e6), b1=st.floats(-0.9, 3.0), b0=st.floats(0.0, 3.0), choices=st.integers(2, 6))
def test_streams_of_a_network_are_those_of_the_paper(m: float, b1: float, b0: float, choices: int) -> None:
    lam, fraction = prelimit(m, b1, b0)
    assert lam * (1.0 - fraction) == pytest.approx(1.0 + b1 / math.sqrt(m), abs=1e-10)
    assert lam * fraction == pytest.approx(b0 / math.sqrt(m), abs=1e-10)
    if b1 + b0 < -0.01 and m < 1e4:
        tails = prelimit_tails(m, b1, b0, choices)
        assert tails[1] == pytest.approx(lam)
        assert np.all(np.diff(tails) < 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (100, -2, -1),
            "b0 must be at least 0 for a network, got -1: a stream of arrivals has no negative rate",
        ),
        ((1, -2, 0), "m must be at least b1² = 4 for a network, got 1: the uniform stream has rate"),
        ((4, -2, 0), "m must be above b1² = 4 for jobs to arrive, got 4"),
        ((0.5, 0, 1), r"m must be at least 1, got 0\.5"),
        ((math.inf, 0, 1), "m must be finite, got inf"),
        ((100, math.nan, 1), "b1 must be finite, got nan"),
    ],
)
def test_rates_that_no_network_has_are_refused(arguments: tuple[float, float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prelimit(*arguments)


def test_equilibria_at_finite_m_refuse_what_has_none() -> None:
    with pytest.raises(
        ValueError, match=r"b1 \+ b0 must be negative for an invariant state, got b1 = -1 and b0 = 1"
    ):
        prelimit_tails(100, -1, 1, 2)
    with pytest.raises(AccuracyError, match="m must be smaller for b1 = -1e-06 and b0 = 0, got 100"):
        prelimit_mean(100, -1e-6, 0, 2)
    with pytest.raises(ValueError, match="ell must be at least 2, got 1"):
        prelimit_mean(100, -2, 1, 1)
    with pytest.raises(
        ValueError, match=r"G must have finite variance in heavy traffic, got lomax\(beta=1\.5\)"
    ):
        prelimit_mean(100, -2, 1, 2, "lomax(beta=1.5)")
    with pytest.raises(
        ValueError, match=r"m must be three or more scales that grow fourfold, got \[100, 200, 400\]"
    ):
        extrapolated_mean(-2, 1, 2, m=[100, 200, 400])


def test_queues_too_long_for_their_mean_are_an_error() -> None:
    # 1600 levels end at x = 1600/√m = .16, below the mean itself: the limit is .433, and .374 was returned.
    text = r"m must be smaller for b1 = -2, b0 = 1 and erlang\(k=4\), got 1e\+08: queues are so long that"
    with pytest.raises(AccuracyError, match=text) as caught:
        prelimit_mean(1e8, -2, 1, 2, "erlang(k=4)")
    assert caught.value.reached > 0.06
    with pytest.raises(AccuracyError, match=r"m must be smaller for b1 = -0\.2, .* an error of "):
        extrapolated_mean(-0.2, 0.19, 2, "hyperexponential(scv=4)", m=[1600, 6400, 25600])


def test_errors_of_means_are_carried_into_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # Means 1 + h + h², h = m^{−1/2}, as far off as they say, each in the worse direction.
    error = 1e-3
    signs = {100.0: 1.0, 400.0: -1.0, 1600.0: 1.0}

    def mean(m: float, *_: object) -> prelimit_module._Mean:
        return prelimit_module._Mean(1.0 + m**-0.5 + 1.0 / m + error * signs[m], error)

    monkeypatch.setattr(prelimit_module, "_mean", mean)
    found = extrapolated_mean(-2, 1, 2, "erlang(k=4)", m=[100, 400, 1600])
    assert found.value == pytest.approx(1.0 + 5.0 * error)
    assert found.error >= 5.0 * error
    signs.update(dict.fromkeys(signs, 0.0))
    plain = extrapolated_mean(-2, 1, 2, "erlang(k=4)", m=[100, 400, 1600])
    assert plain.error >= 5.0 * error
    assert plain.value == pytest.approx(1.0)


@pytest.mark.parametrize("row", published())
def test_recursion_gives_the_published_means(row: dict[str, float]) -> None:
    mean = prelimit_mean(row["m"], row["b1"], row["b0"], int(row["ell"]))
    assert round(mean, 4) == row["mean_X_n_infinite"]
    assert round(extrapolated_mean(row["b1"], row["b0"], int(row["ell"])).value, 4) == row["mean_X_limit"]


@pytest.mark.parametrize("m", [100, 400])
def test_recursion_is_the_invariant_state_of_exponential_service(m: int) -> None:
    # gamma(shape=1) is exponential, but solved as any law is.
    assert prelimit_mean(m, -2, 1, 2, "gamma(shape=1)") == pytest.approx(prelimit_mean(m, -2, 1, 2), rel=1e-9)


@pytest.mark.parametrize(
    ("G", "within", "wrong"),
    [
        ("exponential", 2e-5, 0.001),
        ("erlang(k=4)", 4e-5, 0.001),
        ("uniform(width=1)", 4e-5, 0.001),
        ("lognormal(sigma=1)", 1.3e-3, 0.01),
    ],
)
@pytest.mark.parametrize(("b1", "b0", "ell"), [(-2.0, 1.0, 2), (-2.0, 1.0, 4), (-1.0, 0.0, 2)])
def test_invariant_states_extrapolate_to_the_stationary_law(
    G: str, within: float, wrong: float, b1: float, b0: float, ell: int
) -> None:
    found = extrapolated_mean(b1, b0, ell, G)
    mean = stationary(b1=b1, b0=b0, ell=ell, sigma2=sigma2_of(G)).mean
    assert abs(found.value - mean) <= min(within, 2.0 * found.error + 1e-12)
    # The bias at m = 6400 itself is far larger: m^{−1/2} is slow.
    other = stationary(b1=b1, b0=b0, ell=ell, sigma2=(1.0 + wrong) * sigma2_of(G)).mean
    assert abs(found.value - other) > max(within, 2e-4)
