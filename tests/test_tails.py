"""Tails: published regimes and exponents, every depth, exact sequences, noise, twins, refusals, figures."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from numpy.typing import NDArray

import sweep
from analysis.tail_data import Tail, tail_at
from analysis.tail_figures import tail_figure
from analysis.tail_sequences import LEAST_LEVELS, Sequences, aitken, candidates
from analysis.tail_theory import TailPrediction, predict_tail
from analysis.tails import TailFit, classify_tail, judge, tail_table
from sweep.cell import Limit
from sweep.fluid.invariant import solve_invariant
from sweep.laws import as_law

REFERENCE = Path(__file__).parent / "reference" / "tail_exponents_lomax.csv"
LAM = 0.7
Floats = NDArray[np.float64]

#: (d, law, fraction, levels, regime by theory).
STATES = (
    (2, "lomax(beta=1.5)", 1.0, 400, "power"),
    (2, "lomax(beta=1.75)", 1.0, 400, "power"),
    (2, "lomax(beta=1.95)", 1.0, 200, "power"),
    (2, "lomax(beta=2.0)", 1.0, 60, "geometric"),
    (2, "pareto(beta=2.0)", 1.0, 40, "geometric"),
    (2, "lomax(beta=2.05)", 1.0, 60, "double_exponential"),
    (2, "lomax(beta=2.5)", 1.0, 18, "double_exponential"),
    (2, "lomax(beta=3.5)", 1.0, 11, "double_exponential"),
    (2, "exponential", 1.0, 12, "double_exponential"),
    (2, "deterministic", 1.0, 12, "double_exponential"),
    (2, "weibull(shape=0.5)", 1.0, 16, "double_exponential"),
    (2, "lognormal(sigma=1.5)", 1.0, 22, "double_exponential"),
    (2, "exponential", 0.5, 40, "geometric"),
    (2, "deterministic", 0.5, 30, "geometric"),
    (2, "lomax(beta=1.5)", 0.5, 400, "power"),
    (2, "lomax(beta=2.5)", 0.5, 400, "power"),
    (2, "lognormal(sigma=1.5)", 0.5, 100, "between"),
    (2, "weibull(shape=0.5)", 0.5, 100, "between"),
    (1, "exponential", 1.0, 40, "geometric"),
    (3, "lomax(beta=1.25)", 1.0, 400, "power"),
    (3, "lomax(beta=1.5)", 1.0, 40, "geometric"),
    (3, "lomax(beta=1.75)", 1.0, 11, "double_exponential"),
    (3, "exponential", 1.0, 10, "double_exponential"),
)
#: Too close to a boundary between regimes, or with none, to be told at these depths.
UNTOLD = {
    (2, "lomax(beta=1.95)", 1.0),
    (2, "lognormal(sigma=1.5)", 0.5),
    (2, "weibull(shape=0.5)", 0.5),
}
NAMES = [f"{law}-d{d}-p{p:g}" for d, law, p, *_ in STATES]
each_state = pytest.mark.parametrize("state", STATES, ids=NAMES)


_solved: dict[tuple[int, str, float, int], Floats] = {}


def log_tail(d: int, law: str, fraction: float, levels: int) -> Floats:
    """log S_ℓ of an invariant state at λ = 0.7, solved once."""
    key = d, law, fraction, levels
    if key not in _solved:
        limit = Limit(d=d, lam=LAM, G=as_law(law), fraction=fraction)
        _solved[key] = solve_invariant(limit, levels).log_S
    return _solved[key]


def fit_of(log_S: Floats, **parameters: object) -> TailFit:
    """Classify one tail."""
    (fit,) = tail_table(classify_tail(log_S, **parameters))  # type: ignore[arg-type]
    return fit


def exponential_tail(levels: int) -> Floats:
    """log S_ℓ = (2^ℓ − 1) log λ, exact for exponential service and d = 2."""
    return np.asarray(math.log(LAM) * (2.0 ** np.arange(1, levels + 1) - 1.0), dtype=np.float64)


def replicas_of(log_S: Floats, N: int, count: int, seed: int = 20130614) -> xr.Dataset:
    """Tails of `count` samples of N independent queues each."""
    S = np.array([1.0, *np.exp(log_S), 0.0])
    lengths = np.random.default_rng(seed).multinomial(N, -np.diff(S) / S[0], size=count)
    tails = np.cumsum(lengths[:, ::-1], axis=1)[:, ::-1][:, 1:] / N
    return xr.Dataset({"S": (("replica", "level"), tails)}, {"level": np.arange(1, log_S.size + 1)})


# ---- invariant states -----------------------------------------------------------------------------------


def published() -> Iterator[dict[str, str]]:
    """Rows of the published table."""
    with REFERENCE.open() as lines:
        yield from csv.DictReader(line for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("row", list(published()), ids=lambda row: f"beta={row['beta']}")
def test_published_regimes_and_exponents_are_found(row: dict[str, str]) -> None:
    law = f"lomax(beta={row['beta']})"
    levels = next(n for d, name, p, n, _ in STATES if (d, name, p) == (2, law, 1.0))
    fit = fit_of(log_tail(2, law, 1.0, levels), d=2, lam=LAM, G=law)
    assert fit.regime == row["regime"]
    assert fit.rate == pytest.approx(float(row["limit"] or row["measured_lam_0.7"]), rel=0.02)
    assert fit.agreement == "agrees"


@each_state
def test_the_deepest_look_names_the_regime_with_its_rate(state: tuple[int, str, float, int, str]) -> None:
    d, law, fraction, levels, regime = state
    fit = fit_of(log_tail(d, law, fraction, levels), d=d, lam=LAM, G=law, fraction=fraction)
    assert fit.predicted_regime == regime
    if (d, law, fraction) in UNTOLD:
        assert (fit.regime, fit.agreement, fit.depth_needed) == ("inconclusive", "undecided", 2 * levels)
    else:
        assert (fit.regime, fit.agreement) == (regime, "agrees")
        assert fit.rate == pytest.approx(fit.predicted_rate, rel=0.02)


@each_state
def test_no_depth_gives_a_wrong_verdict(state: tuple[int, str, float, int, str]) -> None:
    d, law, fraction, levels, regime = state
    tail = log_tail(d, law, fraction, levels)
    prediction = predict_tail(d=d, lam=LAM, G=law, fraction=fraction)
    for depth in range(1, levels + 1):
        row = judge(Tail(log_S=tail[:depth], left_out=np.empty((0, depth))), prediction)
        assert row["regime"] == "inconclusive" or (row["regime"] == regime and row["agreement"] == "agrees")
        assert depth > 4 or row["regime"] == "inconclusive"


@pytest.mark.parametrize(
    ("state", "regime"),
    [
        ((2, "lomax(beta=1.75)", 1.0, 400), "power"),
        ((2, "lomax(beta=2.0)", 1.0, 60), "geometric"),
        ((2, "lomax(beta=2.5)", 1.0, 18), "double_exponential"),
    ],
)
@pytest.mark.parametrize("off", [0.95, 1.05])
def test_a_rate_off_by_5_per_cent_is_rejected(
    state: tuple[int, str, float, int], regime: str, off: float
) -> None:
    tail = Tail(log_S=log_tail(*state), left_out=np.empty((0, state[3])))
    rate = predict_tail(d=2, lam=LAM, G=state[1]).rate
    assert judge(tail, TailPrediction(regime=regime, rate=rate))["agreement"] == "agrees"
    assert judge(tail, TailPrediction(regime=regime, rate=off * rate))["agreement"] == "disagrees"


def test_another_regime_with_the_same_rate_is_rejected() -> None:
    tail = Tail(log_S=exponential_tail(10), left_out=np.empty((0, 10)))
    assert judge(tail, TailPrediction(regime="power", rate=2.0))["agreement"] == "disagrees"


def test_invariant_states_merge_over_parameters() -> None:
    states = [
        sweep.invariant_state(d=2, lam=lam, G=G, levels=8).expand_dims(d=[2], lam=[lam], G=[G])
        for lam in (0.5, 0.7)
        for G in ("exponential", "deterministic")
    ]
    fits = classify_tail(xr.combine_by_coords(states, join="outer"))
    assert dict(fits.sizes) == {"d": 1, "lam": 2, "G": 2}
    assert (fits["agreement"] == "agrees").all()
    assert (fits["n"] == 0).all()
    assert fits["rate"].attrs["units"] == "1"
    assert [(row.d, row.lam) for row in tail_table(fits)] == [(2, 0.5), (2, 0.5), (2, 0.7), (2, 0.7)]


def test_a_shallow_state_says_how_deep_to_look() -> None:
    state = sweep.invariant_state(d=2, lam=LAM, G="exponential", levels=4)
    (fit,) = tail_table(classify_tail(state, d=2, lam=LAM, G="exponential"))
    assert (fit.regime, fit.depth, fit.depth_needed) == ("inconclusive", 4, 8)
    assert math.isnan(fit.rate)
    assert str(fit).startswith("inconclusive on 4 levels (S = 0.0047): look as deep as")
    # log S_8 = 255 log λ: the steps double, which the sentence extrapolates.
    assert f"{LAM**255:.2g} if its steps go on growing" in fit.verdict


def test_a_single_level_says_only_how_many_are_needed() -> None:
    assert fit_of(np.array([-0.3])).verdict == "inconclusive on 1 levels: look as deep as level 5"


# ---- sequences ------------------------------------------------------------------------------------------


@given(st.floats(0.2, 8.0), st.floats(-0.4, 4.0))
@settings(max_examples=30)
def test_shifted_power_laws_give_their_exponent(gamma: float, shift: float) -> None:
    steps = gamma / (np.arange(1.0, 400.0) + shift)
    fit = fit_of(-np.cumsum(np.append(0.1, steps)))
    assert fit.regime == "power"
    assert fit.rate == pytest.approx(gamma, rel=1e-6)


@given(st.floats(0.02, 0.98), st.integers(9, 50))
@settings(max_examples=30)
def test_exact_geometric_tails_give_their_ratio(rho: float, levels: int) -> None:
    fit = fit_of(math.log(rho) * np.arange(1.0, levels + 1) - 0.1)
    assert fit.regime == "geometric"
    assert fit.rate == pytest.approx(rho, rel=1e-9)


@given(st.floats(1.1, 6.0), st.floats(-0.5, 0.5))
@settings(max_examples=30)
def test_exact_double_exponentials_give_their_base(r: float, offset: float) -> None:
    levels = np.arange(1.0, 9.0)
    fit = fit_of(-(3.0 / (r - 1.0)) * r**levels - offset)
    assert fit.regime == "double_exponential"
    assert fit.rate == pytest.approx(r, rel=1e-9)
    assert fit.rate_lo <= r <= fit.rate_hi


def test_local_exponents_are_those_of_their_definitions() -> None:
    found = Sequences.of(np.log([0.5, 0.25, 0.0625]))
    assert found.ratio == pytest.approx([0.5, 0.25])
    assert found.growth == pytest.approx([2.0])
    assert found.power == pytest.approx([-2.0 * math.log(2.0)])
    assert found.index == pytest.approx([math.log(2.0) / math.log(2.5 / 1.5)])


def test_aitken_is_exact_for_geometric_errors_and_says_when_steps_do_not_shrink() -> None:
    assert aitken(2.0 + 0.8, 2.0 + 0.4, 2.0 + 0.2) == pytest.approx((2.0, 0.2))
    assert aitken(2.0 + 0.8, 2.0 - 0.4, 2.0 + 0.2) == pytest.approx((2.0, 0.6))
    assert aitken(2.0, 2.0, 2.0) == (2.0, 0.0)
    limit, error = aitken(1.0, 2.0, 3.0)
    assert abs(limit - 3.0) < error


def test_too_few_levels_have_no_candidates() -> None:
    assert candidates(exponential_tail(4)) == ()
    assert [one.regime for one in candidates(exponential_tail(9))] == ["double_exponential", "geometric"]
    assert len(candidates(exponential_tail(LEAST_LEVELS["power"]))) == 3


# ---- replicas -------------------------------------------------------------------------------------------


@each_state
def test_samples_of_a_million_queues_never_give_a_wrong_verdict(
    state: tuple[int, str, float, int, str],
) -> None:
    d, law, fraction, levels, regime = state
    data = replicas_of(log_tail(d, law, fraction, levels), 10**6, 16)
    (fit,) = tail_table(classify_tail(data, d=d, lam=LAM, G=law, fraction=fraction))
    assert fit.regime == "inconclusive" or (fit.regime == regime and fit.agreement == "agrees")


@pytest.mark.parametrize(("law", "r"), [("exponential", 2.0), ("lomax(beta=3.5)", 1.7399)])
def test_samples_of_a_million_queues_show_a_double_exponential(law: str, r: float) -> None:
    data = replicas_of(log_tail(2, law, 1.0, 11 if law != "exponential" else 12), 10**6, 64)
    (fit,) = tail_table(classify_tail(data, d=2, lam=LAM, G=law))
    assert fit.regime == "double_exponential"
    assert fit.n == 64
    assert 1.0 < fit.rate_lo < r < fit.rate_hi
    assert 0.0 < fit.rate_stderr < 0.1
    tail = tail_at(data["S"], 0.0)
    assert judge(tail, TailPrediction(regime="double_exponential", rate=1.5 * r))["agreement"] == "disagrees"


def test_standard_errors_of_log_S_are_binomial() -> None:
    log_S = exponential_tail(4)
    tail = tail_at(replicas_of(log_S, 10**6, 400)["S"], 0.0)
    S = np.exp(log_S)
    # An s.e. from 400 replicas is itself known to 1/√800 = 3.5 %; 4 of those.
    assert tail.log_stderr() == pytest.approx(np.sqrt((1 - S) / S / 4e8), rel=0.15)
    assert np.array_equal(Tail(log_S=log_S, left_out=np.empty((0, 4))).log_stderr(), np.zeros(4))


def test_depth_ends_where_noise_or_the_floor_begins() -> None:
    data = replicas_of(exponential_tail(8), 10**6, 16)
    fits = classify_tail(data, d=2, lam=LAM, G="exponential")
    # 16 · 10⁶ S_5 = 254 queues are seen to 6 %; S_6 = 1.7e-10 is not.
    assert int(fits["depth"].item()) == 5
    assert float(fits["log_S_depth"].item()) == pytest.approx(-11.06, abs=0.3)
    assert int(classify_tail(data, floor=1e-3)["depth"].item()) == 4
    assert fit_of(exponential_tail(8), floor=1e-3).depth == 4


def test_batches_are_averaged_first_and_absent_replicas_left_out() -> None:
    data = replicas_of(exponential_tail(6), 10**5, 24)
    batches = data["S"].values.reshape(12, 2, 6)
    grid = {"d": [2], "lam": [LAM, 0.9], "G": ["exponential"]}
    filled = np.full((1, 2, 1, 13, 2, 6), math.nan)
    filled[0, 0, 0, :12] = batches
    dims = ("d", "lam", "G", "replica", "batch", "level")
    equilibrium = xr.Dataset({"S_batch": (dims, filled)}, {**grid, "level": np.arange(1, 7)})
    first, absent = tail_table(classify_tail(xr.DataTree.from_dict({"equilibrium": equilibrium})))
    plain = data["S"].values.reshape(12, 2, 6).mean(axis=1)
    again = xr.Dataset({"S": (("replica", "level"), plain)}, {"level": np.arange(1, 7)})
    (fit,) = tail_table(classify_tail(again, d=2, lam=LAM, G="exponential"))
    assert (first.verdict, first.depth, first.n) == (fit.verdict, fit.depth, 12)
    assert (absent.regime, absent.depth, absent.n) == ("inconclusive", 0, 0)


def test_levels_that_underflow_or_are_absent_are_not_seen() -> None:
    log_S = exponential_tail(14)
    data = xr.Dataset({"S": (("level",), np.exp(log_S))}, {"level": np.arange(1, 15)})
    assert next(tail_table(classify_tail(data))).depth == 11  # λ^(2^12 − 1) = 1e-634
    log_S[6:] = math.nan
    assert fit_of(log_S).depth == 6


def test_a_store_is_read_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = xr.Dataset({"log_S": (("level",), exponential_tail(8))}, {"level": np.arange(1, 9)})
    monkeypatch.setattr(sweep, "load", lambda _: xr.DataTree.from_dict({"invariant": tail}), raising=False)
    (fit,) = tail_table(classify_tail(Path("store")))
    assert (fit.regime, fit.agreement, fit.G) == ("double_exponential", "no prediction", None)


# ---- refusals -------------------------------------------------------------------------------------------


def over(*dims: str, name: str = "S", value: float = 0.5, **labels: list[object]) -> xr.Dataset:
    """Data of two entries on each axis."""
    return xr.Dataset({name: (dims, np.full((2,) * len(dims), value))}, labels)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (over("replica", "t", "level", level=[1, 2]), "S must have no axis t: select one time"),
        (over("replica"), r"S must have the axis level, counting 1, 2, …, got \[\] …"),
        (over("replica", "level", level=[2, 3]), r"counting 1, 2, …, got \[2, 3\] …"),
        (over("level", name="log_S", level=[1, 2]), "log_S must be at most 0, got 0.5: was S given instead"),
        (over("level", name="X", level=[1, 2]), "source must hold one of log_S, S_batch, S, got X"),
        (
            over("level", level=[1, 2]).drop_vars("S"),
            "source must hold one of log_S, S_batch, S, got nothing",
        ),
        (over("replica", "level", level=[1, 2]).isel(replica=[0]), "S must have 2 replicas or more .* got 1"),
        (
            xr.DataTree.from_dict({"network": over("t")}),
            "one of the groups invariant, equilibrium, got network",
        ),
        (xr.DataTree(), "one of the groups invariant, equilibrium, got none"),
    ],
)
def test_data_without_a_tail_are_refused(data: xr.Dataset | xr.DataTree, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        classify_tail(data)


def test_parameters_that_contradict_the_source_are_refused() -> None:
    data = over("lam", "level", value=0.5, lam=[0.5, 0.7], level=[1, 2])
    with pytest.raises(ValueError, match=r"lam must be left out where the source has that axis, got 0\.7"):
        classify_tail(data, lam=LAM)
    with pytest.raises(ValueError, match=r"floor must lie in \[0, 1\), got -1.0"):
        classify_tail(exponential_tail(8), floor=-1.0)


@pytest.mark.parametrize("source", [np.zeros((2, 2)), ["a"], 3.0])
def test_a_source_of_another_type_is_refused(source: object) -> None:
    with pytest.raises(TypeError, match="source must be a tree, a Dataset, a path or log S over level, got"):
        classify_tail(source)  # type: ignore[arg-type]


def test_rows_need_one_value_of_every_other_axis_and_do_not_change() -> None:
    data = over("N", "replica", "level", N=[10, 100], level=[1, 2])
    fits = classify_tail(data)
    assert fits["depth"].dims == ("N",)
    with pytest.raises(ValueError, match="fits must have no axes but d, lam, G, got N: select one value"):
        next(tail_table(fits))
    with pytest.raises(FrozenInstanceError):
        fit_of(exponential_tail(8)).rate = 3.0  # type: ignore[misc]


# ---- figures --------------------------------------------------------------------------------------------


def legend_of(axes: Axes) -> list[str]:
    """Texts of a legend."""
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_theory_lies_on_the_data_in_the_panel_of_its_regime() -> None:
    figure = tail_figure(exponential_tail(10), d=2, lam=LAM, G="exponential")
    power, geometric, double, legend = figure.axes
    assert [len(axes.lines) for axes in (power, geometric, double)] == [2, 2, 3]
    line = next(line for line in double.lines if line.get_linewidth() > 4.0)
    levels, drawn = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    # log 1/S_10 = 1023 log 1/λ at the last level, and slope log10 2.
    deepest = math.log10(-1023 * math.log(LAM))
    assert drawn == pytest.approx(deepest + (levels - 10) * math.log10(2), rel=1e-12)
    assert legend_of(legend) == ["double exponential, r = 2.0000 ± 2e-09 (theory 2)", "slope by theory"]
    assert figure.get_suptitle() == "d = 2, λ = 0.7, exponential"


def test_noise_has_bars_and_shallow_tails_are_called_inconclusive() -> None:
    figure = tail_figure(replicas_of(exponential_tail(4), 10**5, 8))
    assert all(axes.containers for axes in figure.axes[:3])
    assert legend_of(figure.axes[3]) == ["inconclusive on 4 levels"]


def test_more_tails_than_styles_are_refused() -> None:
    data = over("lam", "level", value=0.5, level=[1, 2], lam=[0.5, 0.7]).isel(lam=[0] * 8)
    with pytest.raises(ValueError, match="source must hold 1 to 7 tails to draw, got 8: select some"):
        tail_figure(data.assign_coords(lam=np.arange(8) / 10))
