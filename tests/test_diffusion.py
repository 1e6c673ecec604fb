"""The heavy-traffic limit: parameters, starts, cells, and the PDE against closed forms."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.diffusion import density, kernels
from sweep.diffusion.cells import Cells, advanced
from sweep.diffusion.cole_hopf import cole_hopf, cole_hopf_from
from sweep.diffusion.density import solve_diffusion
from sweep.diffusion.exact import stationary
from sweep.diffusion.labels import DIFFUSION
from sweep.diffusion.model import Diffusion, sigma2_of
from sweep.diffusion.start import as_start
from sweep.errors import AccuracyError
from sweep.laws import LAWS, parse_law
from tests.processors import UNCOMPILED, WITHOUT_AVX512, printed

SIMPLE: dict[str, Any] = {"b1": -2.0, "b0": 1.0, "ell": 2, "sigma2": 2.0}
#: Both signs of b1 and b0, and all degenerate cases of Cole–Hopf, exactly and nearly.
DRIFTS = [
    (-2.0, 1.0),
    (-1.0, -3.0),
    (1.0, 2.0),
    (1.0, -2.0),
    (-1.0, 0.0),
    (-1.0, 1e-9),
    (0.0, 1.0),
    (0.0, -1.0),
    (-1e-7, 1.0),
    (-1.0, 1.0),
    (1.0, -1.0),
    (-1.0, 1.0 - 1e-8),
    (0.0, 0.0),
    (1e-9, -1e-9),
]
EXAMPLES = {
    "exponential": "exponential",
    "erlang": "erlang(k=4)",
    "gamma": "gamma(shape=0.5)",
    "hyperexponential": "hyperexponential(scv=10)",
    "lomax": "lomax(beta=2.5)",
    "pareto": "pareto(beta=2.5)",
    "weibull": "weibull(shape=0.5)",
    "lognormal": "lognormal(sigma=1)",
    "uniform": "uniform(width=1)",
    "deterministic": "deterministic",
}
SMOOTH_STARTS = ["law(exponential, mean=0.7)", "law(erlang(k=3), mean=1.5)"]
OTHER_STARTS = ["point(x=1.37)", "points(0.0: 0.3, 1.2345: 0.7)", "law(uniform(width=1), mean=0.7)"]


# ---- parameters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"b1": math.nan}, ValueError, "b1 must be finite, got nan"),
        ({"b0": "1"}, TypeError, "b0 must be a number, got '1'"),
        ({"ell": 1}, ValueError, "ell must be at least 2, got 1"),
        ({"ell": 2.5}, TypeError, r"ell must be a whole number, got 2\.5"),
        ({"ell": 1001}, ValueError, "ell must be at most 1000, got 1001"),
        ({"sigma2": 0}, ValueError, "sigma2 must be positive, got 0"),
        ({"sigma2": math.nan}, ValueError, "sigma2 must be positive, got nan"),
        ({"sigma2": math.inf}, ValueError, r"sigma2 must be finite, got inf: .* such as lomax\(beta=2\.5\)"),
        ({"times": []}, ValueError, "times must not be empty"),
        ({"x": [[0.0]]}, ValueError, r"x must be an increasing sequence, got shape \(1, 1\)"),
        ({"x": [1.0, 0.5]}, ValueError, r"x must be finite, not negative and increase, got \[1\.0, 0\.5\]"),
        ({"probabilities": [1.0]}, ValueError, r"probabilities must increase in \(0, 1\), got \[1\.0\]"),
        ({"tolerance": 1e-12}, ValueError, r"tolerance must lie in \[1e-11, 1\), got 1e-12"),
        ({"tolerance": True}, TypeError, "tolerance must be a number, got True"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        solve_diffusion(**{**SIMPLE, "times": [1.0], **change})


def test_variance_of_laws() -> None:
    for text in EXAMPLES.values():
        law = parse_law(text)
        if law.variance < math.inf:
            assert sigma2_of(law) == 1.0 + law.variance
            assert sigma2_of(law, "erlang(k=4)", n=3) == pytest.approx(0.75 + law.variance, rel=1e-15)
    assert sigma2_of("exponential", "lomax(beta=1.5)") == 2.0


def test_infinite_variance_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"G must have finite variance in heavy traffic, got lomax\(beta=1\.5\)"
    ):
        sigma2_of("lomax(beta=1.5)")
    with pytest.raises(ValueError, match=r"arrivals must have finite variance for a finite n, got lomax"):
        sigma2_of("exponential", "lomax(beta=1.5)", n=10)


# ---- starts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" empty ", "empty"),
        ("point(x=0)", "empty"),
        ("point( x = 1.50 )", "point(x=1.5)"),
        ("points(2: 0.8, 0.5: .2)", "points(0.5: 0.2, 2.0: 0.8)"),
        ("points(2: 0.75)", "points(0.0: 0.25, 2.0: 0.75)"),
        ("law(lomax( beta=3), mean = 2)", "law(lomax(beta=3), mean=2.0)"),
    ],
)
def test_starts_parse_back_to_themselves(text: str, canonical: str) -> None:
    start = as_start(text)
    assert start.text == canonical
    assert as_start(canonical).text == canonical
    assert as_start(start) is start


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("full", r'initial must be a law of X_0, got \'full\': write "empty"'),
        ("point(x=-1)", "initial must have x a number ≥ 0, got '-1'"),
        ("points(1)", "initial must list position: share, got '1'"),
        ("points(1: 0.5, 1.0: 0.5)", "initial must name each position once, got 1 twice"),
        ("points(1: 0.8, 2: 0.3)", "initial must have shares that sum to at most 1"),
        ("law(exponential, mean=0)", "initial must have a positive mean"),
        ("law(normal, mean=1)", "initial must name a law"),
        ([1.0, -1.0], r"initial must have finite positions ≥ 0, got -1\.0"),
        ([[1.0]], r"initial must be a row of positions, got shape \(1, 1\)"),
        ([None, "a"], "initial must be text or numbers"),
    ],
)
def test_bad_starts_are_explained(value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        as_start(value)


@given(
    positions=st.lists(st.floats(0.0, 9.0), min_size=1, max_size=6),
    h=st.floats(0.01, 0.3),
)
def test_cells_keep_mass_and_mean_of_points_and_spread_them_alike(positions: list[float], h: float) -> None:
    cells = math.ceil(10.0 / h) + 2
    u = as_start(positions).masses(cells, h)
    centers = (np.arange(cells) + 0.5) * h
    assert u.min() >= 0.0
    assert u.sum() == pytest.approx(1.0, abs=1e-14)
    # About 0 the law and its cells stand for their even extensions, of which second moments count.
    second = np.mean(np.square(positions)) + 0.25 * h * h
    assert u @ (centers * centers) == pytest.approx(second, abs=1e-11)
    if min(positions) > 2.0 * h:
        assert u @ centers == pytest.approx(np.mean(positions), abs=1e-12)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in ("pareto", "lomax")])
def test_cells_keep_mass_and_mean_of_every_law(name: str) -> None:
    start = as_start(f"law({EXAMPLES[name]}, mean=2)")
    h, cells = 0.05, 8000
    u = start.masses(cells, h)
    mean = u @ ((np.arange(cells) + 0.5) * h) + start.beyond(cells * h)
    # Mass within h/2 of 0 is moved to the centre of the first cell.
    low = 0.25 * h * float(1.0 - start.survival(0.5 * h))
    assert u.min() >= 0.0
    assert u.sum() == pytest.approx(1.0, abs=1e-12)
    assert start.mean - 1e-9 <= mean <= start.mean + 2.0 * low + 2e-4


@pytest.mark.parametrize("text", [*SMOOTH_STARTS, *OTHER_STARTS, "empty"])
def test_quantiles_and_draws_of_starts_follow_their_law(text: str) -> None:
    start = as_start(text)
    for p in (0.2, 0.5, 0.9):
        q = start.quantile(p)
        assert start.survival(q) <= 1.0 - p + 1e-12
        assert q == 0.0 or start.survival(q * (1.0 - 1e-9)) >= 1.0 - p - 1e-7
    draws = start.draw(np.random.default_rng(3), 20_000)
    for x in (0.3, 1.0, 1.3):
        share = float(start.survival(x))
        assert abs(np.mean(draws > x) - share) <= 4.0 * math.sqrt(share * (1.0 - share) / draws.size) + 1e-12


# ---- cells --------------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32),
    b1=st.floats(-50.0, 50.0),
    b0=st.floats(-50.0, 50.0),
    ell=st.integers(2, 9),
    h=st.floats(1e-3, 10.0),
    dt=st.floats(1e-6, 1e6),
)
def test_steps_of_any_size_conserve_mass_and_keep_it_positive(
    seed: int, b1: float, b0: float, ell: int, h: float, dt: float
) -> None:
    u = np.random.default_rng(seed).exponential(size=64) ** 3
    u /= u.sum()
    after = advanced(Diffusion(b1=b1, b0=b0, ell=ell, sigma2=1.0), Cells(u, h), np.full(5, dt))
    assert after.u.min() >= 0.0
    assert after.u.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.all(np.diff(after.v) <= 0.0)


@given(above=st.floats(0.0, 1.0), below=st.floats(0.0, 1.0), ell=st.integers(2, 40))
def test_drift_of_a_cell_is_the_mean_over_its_ranks(above: float, below: float, ell: int) -> None:
    model = Diffusion(b1=-1.0, b0=2.0, ell=ell, sigma2=1.0)
    terms = math.fsum(above**i * below ** (ell - 1 - i) for i in range(ell))
    mean = kernels.mean_drift(kernels.Model(-1.0, 2.0, ell, 0.5), above, below)
    assert mean == pytest.approx(-1.0 + 2.0 * terms, rel=1e-12, abs=1e-12)
    assert (above - below) * mean == pytest.approx(model.flux(above) - model.flux(below), abs=1e-12)


def test_doubling_the_domain_keeps_v_at_its_nodes() -> None:
    cells = Cells(np.random.default_rng(1).dirichlet(np.ones(64)), 0.1)
    doubled = cells.doubled()
    assert doubled.h == 0.2
    assert np.allclose(doubled.v[:33], cells.v[::2], rtol=0, atol=1e-15)
    assert not doubled.v[33:].any()


# ---- the PDE ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("b1", "b0"), [drift for drift in DRIFTS if abs(drift[1]) > 1e-3])
def test_pde_agrees_with_cole_hopf_within_its_own_estimate(b1: float, b0: float) -> None:
    data = solve_diffusion(b1=b1, b0=b0, ell=2, sigma2=2.0, times=[0.01, 0.5, 3.0], tolerance=1e-6)
    check_against_cole_hopf(data, "empty", b1=b1, b0=b0)


@pytest.mark.parametrize("initial", [*SMOOTH_STARTS, *OTHER_STARTS, "law(deterministic, mean=0.5)"])
def test_pde_agrees_with_cole_hopf_from_any_start(initial: str) -> None:
    data = solve_diffusion(**SIMPLE, times=[0.1, 1.0], initial=initial, tolerance=1e-5)
    check_against_cole_hopf(data, initial, b1=-2.0, b0=1.0)


def test_pde_takes_a_sample_and_a_heavy_tail() -> None:
    sample = np.random.default_rng(5).exponential(size=50)
    data = solve_diffusion(**SIMPLE, times=[0.1, 1.0], initial=sample, tolerance=1e-5)
    check_against_cole_hopf(data, as_start(sample), b1=-2.0, b0=1.0)
    heavy = "law(lomax(beta=1.5), mean=0.7)"
    data = solve_diffusion(**SIMPLE, times=[1.0], initial=heavy, x=[0.0, 1.0, 5.0, 50.0], tolerance=1e-3)
    check_against_cole_hopf(data, heavy, b1=-2.0, b0=1.0)
    assert float(data.mean_error[0]) >= 0.01  # what lies beyond the domain is counted


def check_against_cole_hopf(data: Any, initial: Any, b1: float, b0: float) -> None:
    every = max(1, data.sizes["x"] // 12)
    for t in data.t.values.tolist():
        at = data.isel(x=slice(None, None, every)).sel(t=t)
        values: dict[str, Any] = {"b1": b1, "b0": b0, "sigma2": 2.0, "t": t, "x": at.x.values}
        exact = cole_hopf(**values) if initial == "empty" else cole_hopf_from(initial, **values)
        assert np.all(np.abs(at.v.values - exact) <= at.v_error.values + 1e-12), t
    assert float(data.v_error.max()) <= data.attrs["tolerance"]
    assert np.all(np.abs(data.mass.values - 1.0) <= 1e-12)
    assert np.all(data.v.diff("x").values <= 0.0)
    assert np.all(data.u.values >= 0.0)


@pytest.mark.parametrize("ell", [3, 1000])
def test_pde_without_second_stream_does_not_depend_on_ell(ell: int) -> None:
    x = np.linspace(0.0, 5.0, 21)
    data = solve_diffusion(b1=-1.0, b0=0.0, ell=ell, sigma2=2.0, times=[0.7], x=x)
    assert data.v.values[0] == pytest.approx(cole_hopf(b1=-1.0, b0=0.0, sigma2=2.0, t=0.7, x=x), abs=1e-6)


def test_mean_grows_by_drift_and_local_time() -> None:
    # d/dt E X = b1 + b0 + D u(0, t), for any ell
    step = 1e-3
    data = solve_diffusion(
        b1=-1.0, b0=0.5, ell=4, sigma2=1.5, times=[1.0 - step, 1.0, 1.0 + step], x=[0.0, 1.0], tolerance=1e-8
    )
    mean = data["mean"].values
    slope = (mean[2] - mean[0]) / (2.0 * step)
    assert slope == pytest.approx(-0.5 + 0.75 * float(data.u[1, 0]), abs=1e-5)


def test_quantiles_and_density_in_equilibrium() -> None:
    law = stationary(b1=-1.0, b0=0.6, ell=3, sigma2=2.0)
    probabilities = [0.1, 0.5, 0.99]
    data = solve_diffusion(
        b1=-1.0, b0=0.6, ell=3, sigma2=2.0, times=[150.0], probabilities=probabilities, tolerance=1e-8
    )
    assert data["quantile"].values[0] == pytest.approx(law.quantile(probabilities), abs=1e-6)
    assert data.u.values[0] == pytest.approx(law.u(data.x.values), abs=1e-6)
    assert np.all(data.quantile_error.values <= 1e-5)


def test_mass_that_escapes_spreads_into_a_fan() -> None:
    # b1 > 0 > b1 + b0: far out diffusion is negligible and x/t = F'(v), here 1 − 6 v²
    t, speeds = 900.0, np.array([0.1, 0.4, 0.7])
    data = solve_diffusion(b1=1.0, b0=-2.0, ell=3, sigma2=2.0, times=[t], x=speeds * t, tolerance=1e-4)
    assert data.v.values[0] == pytest.approx(np.sqrt((1.0 - speeds) / 6.0), abs=0.01)


def test_time_zero_is_the_law_of_the_start() -> None:
    data = solve_diffusion(
        **SIMPLE, times=[0.0, 1.0], initial="law(exponential, mean=2)", x=[0.0, 2.0], probabilities=[0.5]
    )
    assert data.v.values[0] == pytest.approx([1.0, math.exp(-1.0)])
    assert data.u.values[0] == pytest.approx([0.5, 0.5 * math.exp(-1.0)])
    assert float(data["mean"][0]) == 2.0
    assert float(data["quantile"][0, 0]) == pytest.approx(2.0 * math.log(2.0))
    alone = solve_diffusion(**SIMPLE, times=[0.0], initial="point(x=1.5)")
    assert np.array_equal(alone.v.values[0], alone.x.values < 1.5)
    far = solve_diffusion(**SIMPLE, times=[0.0], initial="point(x=1e308)")
    assert np.array_equal(far.v.values[0], far.x.values < 1e308)
    assert float(far.x[-1]) == 1e308
    assert as_start("points(1e-31: 0.4, 1e-30: 0.6)").quantile(0.5) == 1e-30


def test_lengths_whose_squares_underflow_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"sigma2 must be such that squares of lengths do not underflow, got 1e-300"
    ):
        solve_diffusion(**{**SIMPLE, "sigma2": 1e-300}, times=[1e-20])


def test_every_variable_is_labelled() -> None:
    data = solve_diffusion(**SIMPLE, times=[0.5], probabilities=[0.5], tolerance=1e-3)
    assert set(data.data_vars) == set(DIFFUSION)
    for variable in data.variables.values():
        assert variable.attrs["units"]
        assert variable.attrs["long_name"]
    assert data.sizes == {"t": 1, "x": 257, "probability": 1}


def test_tolerance_out_of_reach_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density, "_WORK", 1e6)
    with pytest.raises(AccuracyError, match=r"tolerance must be at least .* from empty, got 1e-10") as caught:
        solve_diffusion(**SIMPLE, times=[1.0], tolerance=1e-10)
    assert 1e-10 < caught.value.reached < 1e-2


_PROGRAM = """
import hashlib
import numpy as np
from sweep.diffusion.cells import pilot
from sweep.diffusion.model import Diffusion
from sweep.diffusion.particles import simulate_particles
from sweep.diffusion.readout import read
from sweep.diffusion.start import as_start
parameters = dict(b1=-2.0, b0=1.0, ell=3, sigma2=2.0)
digest = hashlib.sha256()
for text in ("empty", "law(lognormal(sigma=0.5), mean=0.7)"):
    start, model = as_start(text), Diffusion(**parameters)
    _, found = pilot(model, start, [0.5, 1.0], 1e-3)
    for cells in found:
        digest.update(read(cells, np.linspace(0.0, 4.0, 65), np.array([0.5])).smooth.tobytes())
    data = simulate_particles(
        **parameters, times=[0.5, 1.0], initial=text, particles=300, seed=1, step=0.1, positions=True
    )
    for name in sorted(data.data_vars):
        digest.update(data[name].values.tobytes())
print(digest.hexdigest())
"""


def test_bits_depend_on_neither_vector_units_nor_compilation() -> None:
    native = printed(_PROGRAM)
    assert len(native.strip()) == 2 * hashlib.sha256().digest_size
    assert printed(_PROGRAM, environment=WITHOUT_AVX512) == native
    assert printed(_PROGRAM, environment=UNCOMPILED) == native


def test_every_law_can_be_a_start() -> None:
    assert {*EXAMPLES, "trace", "phase_type"} >= set(LAWS), "each law needs an example here"
    for text in EXAMPLES.values():
        assert as_start(f"law({text}, mean=0.5)").mean == pytest.approx(0.5)


@pytest.mark.parametrize("drift", [{"b1": 1e300, "b0": 1.0}, {"b1": -2.0, "b0": 1e300}])
def test_a_drift_beyond_what_numbers_hold_is_no_silent_answer(drift):
    with pytest.raises(AccuracyError, match="b1, b0 and sigma2 must be such that numbers do not overflow"):
        solve_diffusion(**drift, ell=2, sigma2=2.0, times=[1.0])
