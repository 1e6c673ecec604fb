"""Tails: published regimes and exponents, every depth, noise, twins, refusals."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import sweep
from analysis.tail_data import Tail, tail_at
from analysis.tail_theory import TailPrediction, predict_tail
from analysis.tails import classify_tail, judge, main, tail_table
from tests.tail_samples import LAM, STATES, exponential_tail, fit_of, log_tail, over, replicas_of

REFERENCE = Path(__file__).parent / "reference" / "tail_exponents_lomax.csv"
#: Too close to a boundary between regimes, or with none, to be told at these depths.
UNTOLD = {
    (2, "lomax(beta=1.95)", 1.0),
    (2, "lognormal(sigma=1.5)", 0.5),
    (2, "weibull(shape=0.5)", 0.5),
}
NAMES = [f"{law}-d{d}-p{p:g}" for d, law, p, *_ in STATES]
each_state = pytest.mark.parametrize("state", STATES, ids=NAMES)


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
    "state",
    [
        (
            2,
            "lomax(beta=1.1)",
            1.0,
            200,
            0.3,
        ),  # .1126 at levels 40 … 200; the limit is .1111
        (2, "lomax(beta=1.1)", 0.9, 200, 0.3),  # .1073, nearly that of p = 1; the limit is .1
        (2, "lomax(beta=1.15)", 0.9, 200, 0.7),
        (3, "lomax(beta=1.1)", 1.0, 200, 0.5),
        (5, "pareto(beta=1.2)", 0.9, 70, 0.3),  # terms in S, though those in S⁴ are nothing
        (5, "lomax(beta=3)", 0.5, 130, 0.7),
        (2, "lomax(beta=2.05)", 1.0, 40, 0.3),
        (2, "pareto(beta=2.05)", 1.0, 12, 0.1),
        (2, "lomax(beta=3)", 1.0, 8, 0.3),  # 1.578, 1.552, 1.555 on 5 levels, with log corrections
        (3, "pareto(beta=2.05)", 1.0, 8, 0.5),
        (4, "lognormal(sigma=0.5)", 0.7, 80, 0.4),  # local exponents with a minimum on 70 levels
        (
            3,
            "lomax(beta=1.5)",
            1.0,
            140,
            0.5,
        ),  # constant to rounding: an infinite power
        (3, "gamma(shape=0.5)", 0.5, 150, 0.9),
        (5, "lomax(beta=3)", 0.5, 180, 0.7),  # 2.100, 1.9999, 1.9978, 1.9991: the limit 2 is beyond the turn
        (4, "pareto(beta=2.2)", 0.4, 90, 0.45),
    ],
    ids=str,
)
def test_no_interval_on_shallow_levels_misses_theory(state: tuple[int, str, float, int, float]) -> None:
    d, law, fraction, levels, lam = state
    tail = log_tail(d, law, fraction, levels, lam)
    prediction = predict_tail(d=d, lam=lam, G=law, fraction=fraction)
    for depth in range(5, levels + 1):
        row = judge(Tail(log_S=tail[:depth], left_out=np.empty((0, depth))), prediction, fraction, d)
        assert row["agreement"] in ("agrees", "undecided"), (depth, row["verdict"])


@pytest.mark.parametrize(
    ("law", "lam", "gamma", "first"),
    [
        ("lomax(beta=1.5)", 0.5, 1.0, 40),
        ("lomax(beta=1.5)", 0.7, 1.0, 60),
        ("lomax(beta=1.5)", 0.9, 1.0, 105),
        ("lomax(beta=1.75)", 0.7, 3.0, 75),
        ("lomax(beta=1.75)", 0.9, 3.0, 80),
    ],
)
def test_power_laws_are_told_early_and_from_then_on(law: str, lam: float, gamma: float, first: int) -> None:
    log_S, prediction = log_tail(2, law, 1.0, 300, lam), predict_tail(d=2, lam=lam, G=law)
    for depth in range(first, 301):
        row = judge(Tail(log_S=log_S[:depth], left_out=np.empty((0, depth))), prediction)
        assert (row["regime"], row["agreement"]) == ("power", "agrees"), (depth, row["verdict"])
        assert row["rate"] == pytest.approx(gamma, rel=0.015)


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


def test_steps_that_explode_are_extrapolated_to_nothing() -> None:
    log_S = np.append(-1e-6 * np.arange(1.0, 101.0), -1.0)
    assert "0 if its steps go on growing as the last" in fit_of(log_S).verdict


def test_a_single_level_says_only_how_many_are_needed() -> None:
    assert fit_of(np.array([-0.3])).verdict == "inconclusive on 1 level: look as deep as level 5"


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


@pytest.mark.parametrize("law", ["exponential", "lomax(beta=3)", "deterministic"])
@pytest.mark.parametrize("share", [0.1, 1e-2, 1e-3, 1e-5])
def test_levels_that_still_fall_as_without_a_uniform_stream_are_no_verdict(law: str, share: float) -> None:
    log_S = log_tail(2, law, 1.0 - share, 40)
    for depth in range(4, 41):
        (fit,) = tail_table(classify_tail(log_S[:depth], d=2, lam=LAM, G=law, fraction=1.0 - share))
        assert fit.regime in ("inconclusive", fit.predicted_regime), depth
    first = classify_tail(log_S[:6], d=2, lam=LAM, G=law, fraction=1.0 - 1e-5)
    assert "double exponential" not in next(tail_table(first)).verdict


def test_the_mixture_is_that_of_the_spec() -> None:
    tail = xr.Dataset({"log_S": (("level",), exponential_tail(8))}, {"level": np.arange(1, 9)})
    tree = xr.DataTree.from_dict(
        {"/": xr.Dataset(attrs={"spec": "[run]\nfraction = 0.5"}), "invariant": tail}
    )
    parameters: dict[str, Any] = {"d": 2, "lam": LAM, "G": "exponential"}
    (fit,) = tail_table(classify_tail(tree, **parameters))
    assert (fit.predicted_regime, fit.regime) == ("geometric", "inconclusive")
    assert "which still fall as if every arrival used d choices" in fit.verdict
    (fit,) = tail_table(classify_tail(tree, fraction=1.0, **parameters))
    assert (fit.predicted_regime, fit.agreement) == ("double_exponential", "agrees")


def test_a_store_is_read_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = xr.Dataset({"log_S": (("level",), exponential_tail(8))}, {"level": np.arange(1, 9)})
    monkeypatch.setattr(sweep, "load", lambda _: xr.DataTree.from_dict({"invariant": tail}), raising=False)
    (fit,) = tail_table(classify_tail(Path("store")))
    assert (fit.regime, fit.agreement, fit.G) == ("double_exponential", "no prediction", None)


def test_the_command_prints_a_verdict_for_each_state_and_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    S = np.exp(exponential_tail(8))
    grid = {"d": [2, 3], "lam": [LAM], "G": ["exponential"], "level": np.arange(1, 9)}
    state = xr.Dataset({"S": (tuple(grid), np.stack([S, np.full(8, np.nan)])[:, None, None])}, grid)
    rng = np.random.default_rng(1)
    shares = rng.binomial(10**6, S, (2, 1, 1, 6, 1, 8)) / 1e6
    shares[1] = np.nan  # no run fills d = 3
    networks = xr.Dataset(
        {"S_batch": (("d", "lam", "G", "replica", "batch", "level"), shares)}, grid
    ).expand_dims(N=[10**6])
    tree = xr.DataTree.from_dict({"invariant": state, "equilibrium": networks})
    tree.to_netcdf(tmp_path / "eq.nc")
    assert main([str(tmp_path / "eq.nc"), "--figure", str(tmp_path / "tail.png")]) == 0
    first, second, figure = capsys.readouterr().out.splitlines()
    assert first.startswith("invariant state, d = 2, λ = 0.7, exponential: double exponential with r = 2.000")
    assert second.startswith("N = 1000000, d = 2, λ = 0.7, exponential: double exponential with r = ")
    assert " of 6 replicas; " in second
    assert figure.startswith("figure: ")
    tree["equilibrium"] = xr.DataTree(networks.isel(replica=[0]))
    tree.to_netcdf(tmp_path / "one.nc")
    assert main([str(tmp_path / "one.nc")]) == 0
    text = (
        "N = 1000000, d = 2, λ = 0.7, exponential: inconclusive: one replica tells no error: finish the run, "
        "or raise replicas in [run] to 2 or more"
    )
    assert capsys.readouterr().out.splitlines()[1:] == [text]


def test_a_place_with_one_replica_leaves_the_others_their_verdicts() -> None:
    data = replicas_of(exponential_tail(6), 10**6, 24)
    both = xr.concat([data, data.where(data.replica == 0)], "d").assign_coords(d=[2, 3])
    first, single = tail_table(classify_tail(both, lam=LAM, G="exponential"))
    (alone,) = tail_table(classify_tail(data, d=2, lam=LAM, G="exponential"))
    assert (first.verdict, first.regime) == (alone.verdict, "double_exponential")
    assert (single.regime, single.depth, single.n) == ("inconclusive", 0, 1)
    assert single.verdict.startswith("inconclusive on 0 levels")


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
