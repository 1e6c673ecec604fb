"""Tests of the invariant state: closed forms, identities of every law, invariants, drawing, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import legendre
from scipy import integrate, special

from sweep import errors
from sweep.cell import Limit
from sweep.fluid import invariant, ladder
from sweep.fluid.invariant import invariant_state, solve_invariant
from sweep.fluid.mean_length import extrapolate
from sweep.fluid.state import InvariantState
from sweep.routing import chord_slope, phi
from tests.laws_table import LAW_OF, TEXTS

CASES = [(2, 1.0), (3, 1.0), (2, 0.4), (3, 0.7)]


def solved(levels: int | None = None, **parameters: Any) -> InvariantState:
    return solve_invariant(Limit(**parameters), levels)


# ---- closed forms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("d", [2, 3, 5])
def test_exponential_levels_are_double_exponential(d: int, lam: float) -> None:
    # S_ℓ = λ^{(d^ℓ − 1)/(d − 1)}, Vvedenskaya, Dobrushin & Karpelevich, 1996.
    exact = np.array([(d**level - 1) // (d - 1) for level in range(1, 9)]) * math.log(lam)
    np.testing.assert_allclose(solved(8, d=d, lam=lam, G="exponential").log_S, exact, rtol=1e-12)


def test_ten_choices_reach_a_level_below_the_range_of_doubles() -> None:
    state = invariant_state(d=10, lam=0.9, G="exponential", levels=5)
    assert float(state.S[4]) == 0.0
    assert float(state.log_S[4]) / math.log(10.0) == pytest.approx(
        11111 * math.log10(0.9), rel=1e-13
    )  # 1e-508


@pytest.mark.parametrize("fraction", [0.0, 0.02, 0.5, 0.98])
def test_exponential_mixture_follows_its_recursion(fraction: float) -> None:
    # ⟨h, ν_{ℓ+1}⟩ = λφ(S_ℓ), and h ≡ 1: S_{ℓ+1} = λφ(S_ℓ).
    exact = [0.9]
    while len(exact) < 400:
        exact.append(0.9 * phi(exact[-1], 2, fraction))
    state = solved(40, d=2, lam=0.9, G="exponential", fraction=fraction)
    np.testing.assert_allclose(state.S, exact[:40], rtol=1e-11)
    assert state.length.value == pytest.approx(math.fsum(exact), rel=1e-10)
    assert abs(state.length.value - math.fsum(exact)) <= state.length.error + 1e-13


@pytest.mark.parametrize(("d", "fraction"), CASES)
@pytest.mark.parametrize("text", TEXTS)
def test_second_and_third_level_satisfy_laplace_identities(text: str, d: int, fraction: float) -> None:
    # f_2 = λ − D e^{−c_2 a}, f_3 = λ + A e^{−c_2 a} + B e^{−c_3 a}; ∫ e^{−ca} Ḡ da = (1 − ĝ(c))/c. At level 2
    # this is ĝ(c_2) = (1 − φ(λ))/(1 − φ(S_2)).
    lam = 0.8
    S = solved(3, d=d, lam=lam, G=text, fraction=fraction).S.tolist()
    c2, c3 = (lam * chord_slope(S[i], S[i + 1], d, fraction) for i in (0, 1))
    g2, g3 = (float(LAW_OF[text].transform(c)) for c in (c2, c3))
    assert g2 == pytest.approx((1.0 - phi(lam, d, fraction)) / (1.0 - phi(S[1], d, fraction)), rel=1e-8)
    A = -lam * (1.0 - phi(S[1], d, fraction)) * c3 / (c3 - c2)
    B = lam * phi(S[2], d, fraction) - lam - A
    third = lam + A * (1.0 - g2) / c2 + B * (1.0 - g3) / c3
    assert third == pytest.approx(S[2], abs=1e-10 * (abs(A) + lam) / min(1.0, c3))


def test_age_law_of_the_second_level_matches_its_closed_form() -> None:
    state = solved(2, d=2, lam=0.9, G="uniform(width=1)")
    S2, ages = float(state.S[1]), [0.2, 0.5, 0.75, 1.2, 1.5]
    c = 0.9 * (0.9 + S2)

    def mass(age: float) -> float:
        return (
            0.9
            * (1.0 - (1.0 - S2 * S2) * math.exp(-c * age))
            * float(LAW_OF["uniform(width=1)"].survival(age))
        )

    exact = [integrate.quad(mass, 0.0, age, points=[0.5], epsabs=1e-13)[0] / S2 for age in ages]
    np.testing.assert_allclose(state.age_cdf(2, ages), exact, atol=1e-12)
    assert state.panels.end == 1.5


# ---- one choice: M/G/1 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [text for text in TEXTS if LAW_OF[text].variance < math.inf])
def test_one_choice_has_the_mean_of_pollaczek_and_khinchine(text: str) -> None:
    state = solved(25, d=1, lam=0.7, G=text)
    exact = 0.7 + 0.49 * (1.0 + LAW_OF[text].variance) / 0.6
    assert state.length.value == pytest.approx(exact, rel=1e-10)


def arrivals_in_a_service(text: str, lam: float, count: int) -> np.ndarray:
    """P(k Poisson arrivals during a service), k < count."""
    k = np.arange(count)
    if text == "deterministic":
        return np.exp(-lam + k * math.log(lam) - special.gammaln(k + 1))
    if text == "erlang(k=4)":
        return special.binom(k + 3, k) * (lam / (4 + lam)) ** k * (4 / (4 + lam)) ** 4
    root = math.sqrt(1.0 - 2.0 / 5.0)
    rates = 1.0 + root, 1.0 - root  # hyperexponential(scv=4): shares rate/2
    return sum(r / 2 * r / (r + lam) * (lam / (r + lam)) ** k for r in rates)


@pytest.mark.parametrize("text", ["deterministic", "erlang(k=4)", "hyperexponential(scv=4)"])
def test_one_choice_has_the_queue_length_law_of_the_embedded_chain(text: str) -> None:
    # Crossings of a level, at departures: a_0 π_{n+1} = π_0 Ā_n + Σ_{1≤j≤n} π_j Ā_{n−j+1}, Ā_n = P(> n).
    lam, count = 0.8, 40
    arrivals = arrivals_in_a_service(text, lam, count + 2)
    more = 1.0 - np.cumsum(arrivals)
    pi = [1.0 - lam]
    for n in range(count):
        crossing = pi[0] * more[n] + sum(pi[j] * more[n - j + 1] for j in range(1, n + 1))
        pi.append(crossing / arrivals[0])
    state = solved(count, d=1, lam=lam, G=text)
    np.testing.assert_allclose(state.S, 1.0 - np.cumsum(pi[:count]), atol=1e-11)
    assert math.fsum(solved(400, d=1, lam=0.5, G=text).S) == pytest.approx(
        0.5 + 0.25 * (1.0 + LAW_OF[text].variance), rel=1e-9
    )


# ---- means ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "beta", "fraction", "finite"),
    [
        (1, 2.0, 1.0, False),
        (1, 2.5, 1.0, True),
        (2, 1.5, 1.0, False),
        (2, 1.6, 1.0, True),
        (3, 4 / 3, 1.0, False),
        (3, 1.4, 1.0, True),
        (2, 1.9, 0.5, False),
        (2, 2.5, 0.5, True),
        (3, 1.2, 0.0, False),
    ],
)
def test_means_are_infinite_exactly_where_the_tail_says_so(
    d: int, beta: float, fraction: float, finite: bool
) -> None:
    # p = 1: infinite iff β ≤ 1 + 1/d; with a uniform stream iff β ≤ 2.
    state = solved(3, d=d, lam=0.6, G=f"lomax(beta={beta!r})", fraction=fraction)
    means = [state.length.value, state.mean_time_in_system, state.mean_virtual_waiting_time]
    assert [math.isfinite(mean) for mean in means] == [finite] * 3


@pytest.mark.parametrize("power", [1.2, 1.5, 2.0, 3.0])
def test_extrapolation_sums_zeta_series_within_its_error(power: float) -> None:
    terms = [n**-power * (1.0 + math.log(n) / n) for n in range(1, 401)]
    exact = float(special.zeta(power))
    slope = (special.zeta(power + 1.0 + 1e-5) - special.zeta(power + 1.0 - 1e-5)) / 2e-5  # −Σ log n / n^{γ+1}
    estimate = extrapolate(np.cumsum(terms).tolist(), power - 1.0)
    assert abs(estimate.value - (exact - slope)) <= estimate.error + 1e-9
    assert estimate.error <= 1e-5 * exact


def test_mean_from_few_levels_agrees_with_many_within_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for parameters in ({"d": 2, "G": "lomax(beta=1.75)"}, {"d": 2, "G": "pareto(beta=2.5)", "fraction": 0.5}):
        monkeypatch.setattr(invariant, "MOST_LEVELS", 100)
        few = solved(lam=0.7, **parameters).length
        monkeypatch.setattr(invariant, "MOST_LEVELS", 400)
        many = solved(lam=0.7, **parameters).length
        assert abs(few.value - many.value) <= few.error + many.error
        assert many.error <= 1e-9 * many.value < few.error * 1e9


@pytest.mark.parametrize(("d", "fraction"), CASES)
@pytest.mark.parametrize("text", ["exponential", "gamma(shape=0.5)", "uniform(width=1)", "deterministic"])
def test_waiting_time_is_the_functional_of_residual_lives(text: str, d: int, fraction: float) -> None:
    # E wait = Σ_{k≥2} φ(S_k) + Σ_{k≥1} P(S_k, S_{k+1}) (R_k − R_{k+1}), R_k = ∫ f_k(a) ∫_a^∞ Ḡ da.
    state, law = solved(d=d, lam=0.8, G=text, fraction=fraction), LAW_OF[text]
    edges, (nodes, weights) = state.panels.edges, legendre.leggauss(24)
    cuts = np.unique(np.concatenate([edges, edges[1] * 0.5 ** np.arange(1, 40), list(law.breakpoints)]))
    ages = ((cuts[1:] + cuts[:-1])[:, None] + np.diff(cuts)[:, None] * nodes).ravel() / 2.0
    mass = (np.diff(cuts)[:, None] / 2.0 * weights).ravel() * law.integrated_tail(ages)
    R = [S * (state.scaled(k + 1, ages) * mass).sum() for k, S in enumerate(state.S.tolist())]
    S = state.S.tolist()
    wait = sum(phi(s, d, fraction) for s in S[1:])
    wait += sum(chord_slope(S[k], S[k + 1], d, fraction) * (R[k] - R[k + 1]) for k in range(len(S) - 1))
    assert wait == pytest.approx(state.mean_virtual_waiting_time, abs=2e-8)


# ---- invariants -------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    text=st.sampled_from(TEXTS),
    d=st.integers(1, 6),
    lam=st.floats(0.01, 0.98),
    fraction=st.floats(0.0, 1.0),
)
def test_levels_and_ages_are_ordered(text: str, d: int, lam: float, fraction: float) -> None:
    state = solved(4, d=d, lam=lam, G=text, fraction=fraction)
    assert state.log_S[0] == pytest.approx(math.log(state.limit.lam), abs=1e-14)
    assert (np.diff(state.log_S) < 0.0).all()
    ages = np.minimum(np.geomspace(1e-3, 1e4, 60), state.panels.end)
    f = np.array([state.scaled(level, ages) * state.S[level - 1] for level in range(1, 5)])
    tiny = 1e-12 * lam
    assert (np.diff(f, axis=1) >= -tiny).all()  # f_ℓ increases in age
    assert (np.diff(f, axis=0) <= tiny).all()  # and decreases in ℓ
    assert (f <= lam + tiny).all()
    births = [state.scaled(level, 0.0) for level in range(2, 5)]
    expected = [state.limit.lam * phi(s, d, state.limit.fraction) / s for s in state.S[1:] if s > 0.0]
    np.testing.assert_allclose(births[: len(expected)], expected, rtol=1e-9, atol=1e-12)
    cdfs = state.age_cdfs(np.append(ages, math.inf))
    assert (np.diff(cdfs, axis=1) >= -1e-14).all()
    np.testing.assert_allclose(cdfs[:, -1], 1.0, atol=1e-12)
    np.testing.assert_allclose(cdfs[0, :-1], state.limit.G.integral(ages), atol=1e-13)


@pytest.mark.parametrize(
    "text", ["gamma(shape=0.05)", "pareto(beta=1.5)", "lomax(beta=2.5)", "uniform(width=2)"]
)
def test_quantiles_invert_the_age_law(text: str) -> None:
    state = solved(4, d=2, lam=0.8, G=text)
    shares = np.concatenate([[0.0, 1e-9], np.linspace(0.001, 0.999, 101), [1.0 - 1e-9]])
    for level in (1, 2, 4):
        ages = state.quantile(level, shares)
        assert (np.diff(ages) >= 0.0).all()
        np.testing.assert_allclose(state.age_cdf(level, ages), shares, atol=1e-6)


def test_more_choices_shorten_queues_and_exponents_of_age_follow_the_hazard() -> None:
    for text in ("exponential", "lomax(beta=2.5)", "deterministic"):
        tails = [solved(3, d=d, lam=0.9, G=text).log_S[1:] for d in (1, 2, 3)]
        assert (tails[0] > tails[1]).all()
        assert (tails[1] > tails[2]).all()


# ---- reach ------------------------------------------------------------------------------------------------


def test_a_grid_of_ages_too_short_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Limit(d=2, lam=0.7, G="lomax(beta=2.5)")
    full = solve_invariant(limit, 12).log_S
    with monkeypatch.context() as patch:  # no ages beyond Ḡ = e^−12 may be used
        patch.setattr(ladder, "_DEEPEST", -12.0)
        with pytest.raises(errors.AccuracyError, match="must be within reach") as refused:
            solve_invariant(limit, 12)
        assert refused.value.reached > ladder._DOUBT
    with monkeypatch.context() as patch:  # undetected, the cut grid turns base 1.366 into base 2
        patch.setattr(ladder, "_DOUBT", math.inf)
        cut = solve_invariant(limit, 12).log_S
    growth = [(S[11] - S[10]) / (S[10] - S[9]) for S in (full, cut)]
    assert growth[0] < 1.40
    assert growth[1] > 1.9


def test_levels_out_of_reach_are_refused_with_the_last_one_that_is_not() -> None:
    text = (
        r"level 21 must be within reach for lomax\(beta=2.5\), d = 2, lam = 0.7, got ages beyond .*, "
        r"of which doubles cannot hold the probability: ask for at most 20 levels"
    )
    with pytest.raises(errors.AccuracyError, match=text):
        invariant_state(d=2, lam=0.7, G="lomax(beta=2.5)", levels=60)
    assert np.isfinite(solved(20, d=2, lam=0.7, G="lomax(beta=2.5)").log_S).all()
    with pytest.raises(errors.AccuracyError, match=r"got log S below -1e\+12, of which doubles cannot hold"):
        invariant_state(d=2, lam=0.9, G="exponential", levels=60)


def test_panels_too_coarse_are_refined_and_refused_when_no_finer_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = Limit(d=1, lam=0.9, G="lomax(beta=1.5)")
    assert solve_invariant(limit, 400).panels.growth < 0.5
    monkeypatch.setattr(invariant, "_GROWTHS", (0.5,))
    text = r"levels must be resolved by panels of relative width 0.5, got level \d+ of lomax\(beta=1.5\)"
    with pytest.raises(errors.AccuracyError, match=text):
        solve_invariant(limit, 400)


@pytest.mark.parametrize("lam", [1.0, 1.2])
def test_an_unstable_rate_is_refused(lam: float) -> None:
    with pytest.raises(ValueError, match=f"lam must be below 1 for an invariant state to exist, got {lam:g}"):
        invariant_state(d=2, lam=lam, G="exponential")


def test_levels_ages_and_shares_out_of_range_are_refused() -> None:
    state = solved(3, d=2, lam=0.5, G="exponential")
    with pytest.raises(ValueError, match="level must lie between 1 and the 3 held, got 4"):
        state.scaled(4, 1.0)
    with pytest.raises(ValueError, match=r"ages must lie in \[0, inf\], got -1.0"):
        state.age_cdf(1, [0.0, -1.0])
    with pytest.raises(ValueError, match=r"shares must lie in \[0, 1\], got 1.5"):
        state.quantile(1, 1.5)


# ---- drawing ----------------------------------------------------------------------------------------------


def worst_deviation(state: InvariantState, truth: InvariantState, size: int) -> float:
    """Largest |z| of the shares {length ≥ ℓ} and {length ≥ ℓ, age ≤ a} among servers drawn."""
    ages, lengths = state.draw(np.random.default_rng(5), size)
    worst = 0.0
    for level in range(1, 4):
        for age in (0.25, 1.0, 4.0, math.inf):
            p = float(truth.S[level - 1] * truth.age_cdf(level, age))
            share = float(((lengths >= level) & (ages <= age)).mean())
            worst = max(worst, abs(share - p) / math.sqrt(p * (1.0 - p) / size))
    return worst


@pytest.mark.parametrize("text", ["gamma(shape=0.5)", "lomax(beta=1.5)", "uniform(width=1)"])
def test_servers_drawn_have_the_law_of_the_state(text: str) -> None:
    # 12 normal deviates: P(max |z| > 4) < 8e-4. λ wrong by 3 % moves S_1 by 40 standard errors.
    truth = solved(6, d=2, lam=0.8, G=text)
    assert worst_deviation(truth, truth, 200_000) <= 4.0
    assert worst_deviation(solved(6, d=2, lam=0.8 * 0.97, G=text), truth, 200_000) > 4.0
