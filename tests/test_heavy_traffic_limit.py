"""What a sweep of heavy traffic computes: stationary starts, one queue in the limit, finite m, distances."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr

from sweep.diffusion import tagged
from sweep.diffusion.cole_hopf import cole_hopf_from
from sweep.diffusion.density import solve_diffusion
from sweep.diffusion.exact import stationary
from sweep.diffusion.model import Diffusion, sigma2_of
from sweep.diffusion.particles import simulate_particles
from sweep.diffusion.prelimit import extrapolated_mean, prelimit, prelimit_mean, prelimit_tails
from sweep.diffusion.start import as_start
from sweep.diffusion.study import default_x, empirical_distances, solve_heavy_limit
from sweep.diffusion.tagged import joint_tail, tagged_tail
from sweep.errors import AccuracyError

REFERENCE = Path(__file__).parent / "reference" / "heavy_traffic_exponential.csv"
SIMPLE: dict[str, Any] = {"b1": -2.0, "b0": 1.0, "ell": 2, "sigma2": 2.0}
OTHER: dict[str, Any] = {"b1": -1.0, "b0": -3.0, "ell": 3, "sigma2": 1.25}
TEXT = "stationary(b1=-2.0, b0=1.0, ell=2, sigma2=2.0)"


def published() -> list[dict[str, float]]:
    lines = [line for line in REFERENCE.read_text().splitlines() if not line.startswith("#")]
    names = lines[0].split(",")
    return [dict(zip(names, map(float, line.split(",")), strict=True)) for line in lines[1:]]


# ---- the stationary start -----------------------------------------------------------------------------


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


# ---- one queue in the limit ---------------------------------------------------------------------------


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


# ---- networks at finite m -----------------------------------------------------------------------------


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


# ---- the limit of a cell, and distances ---------------------------------------------------------------

_TIMES, _X = np.array([0.0, 0.5, 2.0]), np.linspace(0.0, 4.0, 9)


@pytest.mark.parametrize(
    "initial", ["empty", "points(0.5: 0.2, 2.0: 0.8)", "law(exponential, mean=0.7)", TEXT]
)
def test_the_limit_of_a_cell_is_the_solution_of_the_pde(initial: str) -> None:
    limit = solve_heavy_limit(**SIMPLE, times=_TIMES, x=_X, initial=initial)
    data = solve_diffusion(**SIMPLE, times=_TIMES, x=_X, initial=initial)
    for name in ("v", "u", "mean"):
        assert limit[name] == pytest.approx(data[name].values, abs=1e-5), name
    assert float(limit["error"]) <= 1e-6
    assert limit["v_stationary"] == pytest.approx(stationary(**SIMPLE).v(_X))
    fine, v = limit["fine_x"], limit["fine_v"]
    assert v.shape == (3, fine.size)
    assert np.all(np.diff(fine) >= 0.0)
    assert np.all(np.diff(v, axis=1) <= 0.0)
    assert v[:, -1].max() <= 1e-9
    means = np.sum(0.5 * (v[:, 1:] + v[:, :-1]) * np.diff(fine), axis=1)
    assert means == pytest.approx(limit["mean"], abs=2e-6)


def test_jumps_of_the_start_are_on_the_fine_grid() -> None:
    limit = solve_heavy_limit(**SIMPLE, times=[0.0], x=_X, initial="points(0.5: 0.2, 2.0: 0.8)")
    where = np.flatnonzero(limit["fine_x"] == 0.5)
    assert limit["fine_v"][0, where].tolist() == [1.0, 0.8]
    many = solve_heavy_limit(**SIMPLE, times=[0.0, 1.0], x=_X, initial=np.linspace(0.0, 2.0, 1000))
    assert np.all(np.diff(many["fine_x"]) > 0.0)


def test_no_stationary_law_is_nan() -> None:
    limit = solve_heavy_limit(b1=-1.0, b0=1.0, ell=2, sigma2=2.0, times=[1.0], x=_X)
    assert np.isnan(limit["mean_stationary"])
    assert np.isnan(limit["v_stationary"]).all()


def test_distances_of_given_queues() -> None:
    # At m = 100 lengths 5, 5, 5, 20 against X_0 = 0.5 or 2: only the shares differ.
    limit = solve_heavy_limit(**SIMPLE, times=[0.0], x=_X, initial="points(0.5: 0.5, 2.0: 0.5)")
    counts = np.array([[4] * 5 + [1] * 15])
    found = empirical_distances(counts, N=4, m=100, x=[0.0, 0.5, 1.9, 2.0], limit=limit)
    assert found["W1"] == pytest.approx([0.25 * 1.5], abs=1e-12)
    assert found["KS"] == pytest.approx([0.25], abs=1e-12)
    assert found["d_P"] == pytest.approx([0.25], abs=1e-12)
    assert found["v"].tolist() == [[1.0, 0.25, 0.25, 0.0]]
    assert found["X"] == pytest.approx([(0.5 * 3 + 2.0) / 4])


def test_distances_from_a_smooth_limit_are_those_of_the_lattice() -> None:
    # b0 = 0 in equilibrium: v = e^{−x}. Against queues of law P(Q ≥ k) = e^{−k/10}, m = 100, which moves
    # each X up by less than 1/10: W1 is the difference of means, KS the first step.
    limit = solve_heavy_limit(
        b1=-1.0, b0=0.0, ell=2, sigma2=2.0, times=[1.0], x=_X, initial="stationary", tolerance=1e-7
    )
    N = 10**9
    counts = np.array([[round(N * math.exp(-0.1 * k)) for k in range(1, 400)]])
    found = empirical_distances(counts, N=N, m=100, x=_X, limit=limit)
    mean = 0.1 / math.expm1(0.1)
    assert float(found["W1"][0]) == pytest.approx(1.0 - mean, abs=4e-6)
    assert float(found["KS"][0]) == pytest.approx(-math.expm1(-0.1), abs=1e-6)
    assert found["X"] == pytest.approx([mean], abs=1e-7)
    # d_P: the mass within ε of 0 that queues of length 0 cannot reach, 1 − e^{−0.1} − (1 − e^{−ε}) = ε.
    epsilon = float(found["d_P"][0])
    assert math.exp(-epsilon) - math.exp(-0.1) == pytest.approx(epsilon, abs=4e-6)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([4, 2], r"counts must have a row for each of the 1 times, got shape \(2,\)"),
        ([[4], [2]], r"counts must have a row for each of the 1 times, got shape \(2, 1\)"),
        ([[5, 2]], r"counts must fall with the level from at most N = 4, got \[5, 2, 0\]"),
        ([[2, 3]], r"counts must fall with the level from at most N = 4, got \[2, 3, 0\]"),
    ],
)
def test_counts_that_are_none_are_refused(counts: Any, message: str) -> None:
    limit = solve_heavy_limit(**SIMPLE, times=[0.0], x=[0.0])
    with pytest.raises(ValueError, match=message):
        empirical_distances(np.array(counts), N=4, m=100, x=[0.0], limit=limit)


def test_default_positions_cover_all_cells() -> None:
    cells = [(-2.0, 1.0, 2, 2.0), (1.0, 0.5, 3, 1.25)]
    x = default_x(cells, "law(exponential, mean=0.7)", 3.0)
    assert x.size == 61
    assert x[0] == 0.0
    for b1, b0, ell, sigma2 in cells:
        data = solve_diffusion(
            b1=b1, b0=b0, ell=ell, sigma2=sigma2, times=[3.0], initial="law(exponential, mean=0.7)", x=x[-1:]
        )
        assert float(data.v[0, 0]) <= 3e-4
    assert float(f"{x[-1]:.1e}") == x[-1]


_PROGRAM = """
import hashlib
import numpy as np
from sweep.diffusion.start import as_start
from sweep.diffusion.study import default_x, empirical_distances, solve_heavy_limit
parameters, digest = dict(b1=-2.0, b0=1.0, ell=3, sigma2=2.0), hashlib.sha256()
text = "stationary(b1=-2.0, b0=1.0, ell=3, sigma2=2.0)"
x = default_x([(-2.0, 1.0, 3, 2.0)], text, 1.0)
limit = solve_heavy_limit(**parameters, times=[0.0, 0.5], x=x, initial=text, tolerance=1e-4)
lengths = np.floor(20.0 * as_start(text).draw(np.random.default_rng(1), 300))
counts = np.array([[np.count_nonzero(lengths >= k) for k in range(1, 90)]] * 2)
for arrays in (limit, empirical_distances(counts, N=300, m=400, x=x, limit=limit)):
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
print(digest.hexdigest())
"""


def test_bits_of_limits_and_distances_do_not_depend_on_vector_units() -> None:
    def bits(**changes: str) -> str:
        run = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, **changes},
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout

    native = bits()
    assert len(native.strip()) == 64
    assert bits(NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR") == native
