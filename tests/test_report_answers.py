"""Answers of the report: what an interval, a fit or a remainder may conclude, and no more."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.chaos import FEWEST, FITTED, ChaosFit
from analysis.evidence import SIGNIFICANT
from analysis.report import TOPICS
from analysis.report_chaos import _judged, _split_at_random
from analysis.report_page import (
    MOST_ANSWERS,
    Answer,
    Draft,
    Standing,
    Topic,
    answered,
    undecided,
)
from analysis.report_text import scaled_place
from analysis.stores import cure_of
from tests.report_samples import synthetic, with_a_case_beside_the_grid
from tests.tail_samples import LAM, exponential_tail
from tests.test_bias import biased
from tests.test_equilibrium_analysis import biased as biased_equilibrium
from tests.test_equilibrium_analysis import drawn, store
from tests.test_fluctuations import queues
from tests.urns import inverse, urns


def rate_of(tree: xr.DataTree) -> Answer:
    (answer,) = answered(TOPICS["transient"][0], tree).answers
    return answer


@pytest.mark.parametrize(
    ("tree", "standing", "words"),
    [
        (synthetic(-0.5), Standing.AGREES, "which holds −1/2"),
        (synthetic(-0.4), Standing.DIFFERS, "which excludes −1/2, "),  # the twin: a rate off by a fifth
        (synthetic(-0.48), Standing.INCONCLUSIVE, "one row in twenty does so by chance"),
        (synthetic(-0.45, (100, 200), 0.8), Standing.INCONCLUSIVE, "too wide to tell −1/2 from −1/3"),
        (synthetic(-0.6, (100, 1000), 0.3), Standing.INCONCLUSIVE, "too wide to tell −1/2 from −2/3."),
    ],
)
def test_a_rate_is_judged_as_its_interval_allows(tree: xr.DataTree, standing: str, words: str) -> None:
    answer = rate_of(tree)
    assert answer.standing == standing
    assert words in answer.text


def test_a_power_that_does_not_fit_is_inconclusive() -> None:
    bent = synthetic(-0.5, spread=0.02)
    bent["network/S_sup"] = bent["network/S_sup"] + 0.05  # levels off
    answer = rate_of(bent)
    assert answer.standing == Standing.INCONCLUSIVE
    assert answer.text.startswith("no single power of N fits (p < 0.001)")


def chaos(**given: Any) -> ChaosFit:
    values = {**dict.fromkeys(FITTED, math.nan), "p_zero": 1e-9, "signal": 9.0, "n": 5000, "least_n": 1000}
    return ChaosFit(d=2, lam=0.8, G="exponential", **(values | given))


@pytest.mark.parametrize(
    ("fit", "standing"),
    [
        (chaos(exponent=-1.02, exponent_stderr=0.04, exponent_lo=-1.1, exponent_hi=-0.94), Standing.AGREES),
        # A half-width of .4 around −1 holds −2/3 and −4/3 as well.
        (
            chaos(exponent=-1.0, exponent_stderr=0.2, exponent_lo=-1.4, exponent_hi=-0.6),
            Standing.INCONCLUSIVE,
        ),
        (chaos(exponent=-0.7, exponent_stderr=0.05, exponent_lo=-0.8, exponent_hi=-0.6), Standing.DIFFERS),
        (
            chaos(exponent=-2.0, exponent_lo=-4.0, exponent_hi=0.0),
            Standing.INCONCLUSIVE,
        ),  # holds −1, and says nothing
        (chaos(exponent=-1.0, exponent_lo=-1.1, exponent_hi=-0.9, p_value=1e-4), Standing.MEASURED),
        (chaos(p_zero=0.4), Standing.INCONCLUSIVE),  # dependence is to be expected, only not seen
    ],
)
def test_an_interval_that_holds_everything_proves_nothing(fit: ChaosFit, standing: str) -> None:
    assert _judged(fit, independent=False).standing == standing


@pytest.mark.parametrize(
    ("exponent", "words", "standing"),
    [(-0.8, "perhaps not like 1/N: ", Standing.INCONCLUSIVE), (-0.2, "not like 1/N: ", Standing.DIFFERS)],
)
def test_what_is_said_of_an_exponent_far_from_its_value_is_how_it_stands(
    exponent: float, words: str, standing: Standing
) -> None:
    # The .975 quantile of Student's t with 4 degrees of freedom is 2.776; 17.4 is as rare as four normal.
    half = 2.776 * 0.04
    fit = chaos(
        exponent=exponent, exponent_stderr=0.04, exponent_lo=exponent - half, exponent_hi=exponent + half
    )
    answer = _judged(fit, independent=False)
    assert answer.text.startswith(words)
    assert answer.standing == standing


def test_queues_that_start_dependent_are_not_expected_to_be_independent() -> None:
    def expected(run: str) -> bool:
        tree = xr.DataTree()
        tree.attrs["spec"] = f"[run]\n{run}"
        return _split_at_random(tree)

    assert expected("")
    assert expected('initial = "invariant"')
    assert not expected('initial = "lengths(2: 0.2)"')
    assert not expected('arrivals = "erlang(k=2)"')
    assert not expected('routing = "idle"')


@pytest.mark.parametrize(
    ("noise", "left", "standing", "words"),
    [
        (0.002, 0.0, Standing.AGREES, "at any level"),
        (0.002, 0.01, Standing.DIFFERS, "a level is off its limit at N = ∞, by 0.0"),
        (0.5, 0.0, Standing.INCONCLUSIVE, "one of 10 % of S_2 is not ruled"),
    ],
)
def test_what_is_left_in_equilibrium_must_be_small_to_be_nothing(
    noise: float, left: float, standing: Standing, words: str
) -> None:
    limit = next(topic for topic in TOPICS["equilibrium"] if topic.name == "limit")
    values = drawn(lambda N: biased_equilibrium(N) + np.array([0.0, 0.0, left, left]), noise=noise)
    (answer,) = answered(limit, store(values)).answers
    assert answer.standing == standing
    assert words in answer.text


def test_independence_agrees_only_where_it_is_expected() -> None:
    assert _judged(chaos(p_zero=0.4), independent=True).standing == Standing.AGREES
    expected, open_ = (_judged(chaos(p_zero=0.4), independent=known).text for known in (True, False))
    assert expected == "independent within error at every N (p = 0.4)."
    assert open_ == "independent within error at every N (p = 0.4); more replicas may show a dependence."
    assert _judged(chaos(p_zero=1e-4), independent=True).standing == Standing.INCONCLUSIVE


def test_many_answers_become_counts_with_what_differs_by_name() -> None:
    draft = Draft()
    for k in range(MOST_ANSWERS + 1):
        draft.say(f"row {k}", Standing.DIFFERS if k == 4 else Standing.AGREES)
    draft.shorten("{agree} of {rows} rows, {decided} decided")
    assert [(one.text, one.standing) for one in draft.answers] == [
        ("8 of 9 rows, 9 decided", Standing.AGREES),
        ("row 4", Standing.DIFFERS),
    ]


def test_empty_corners_of_a_grid_are_no_networks() -> None:
    plain = answered(TOPICS["transient"][0], synthetic(-0.5))
    section = answered(TOPICS["transient"][0], with_a_case_beside_the_grid())
    assert [one.part for one in section.answers] == [
        "d = 2, λ = 0.9, exponential", "d = 3, λ = 0.5, exponential"
    ]  # fmt: skip
    assert section.answers[0] == plain.answers[0]
    (picture,) = section.pictures
    assert "in each of 1 series" in picture.alternative
    assert picture.alternative.count("exponential") == 1
    labels = [text.get_text() for axes in picture.figure.axes for text in legend_texts(axes)]
    assert [label.partition(":")[0] for label in labels] == ["d = 2, λ = 0.9", "d = 3, λ = 0.5"]
    assert labels[1].endswith(": no fit")
    (grid,) = section.grids
    assert [row[0] for row in grid.rows] == [one.part for one in section.answers]
    assert grid.rows[1][1:] == ("–", "–", "–", "–", "12")
    assert picture.alternative.endswith("; without a fit: 1.")


def test_a_single_case_is_in_the_answers_the_table_and_the_figure_of_chaos() -> None:
    one = urns(inverse, 1000)["network"].to_dataset()
    wide = one.reindex(d=[2, 3])
    wide["S"].loc[{"N": 60, "d": 3}] = one.S.sel(N=60, d=2).values
    section = answered(TOPICS["transient"][3], xr.DataTree.from_dict({"network": wide}))
    fitted, single = section.answers
    assert single.part.startswith("d = 3")
    assert single.standing == Standing.INCONCLUSIVE
    assert single.text.startswith("nothing to fit: fewer than two N that are large enough have replicas")
    (grid,), (picture,) = section.grids, section.pictures
    assert [row[0] for row in grid.rows] == [fitted.part, single.part]
    assert grid.rows[1][1:] == ("–", "–", "–", "–", "–", "1000")
    for answer in (fitted, single):
        assert f"{answer.part}: {answer.text}" in picture.alternative
    labels = [text.get_text() for axes in picture.figure.axes for text in legend_texts(axes)]
    assert [label.partition(":")[0] for label in labels] == ["d = 2", "d = 3"]
    assert labels[1] == "d = 3: no fit"
    assert "with fits a/N + b/N² and a line of slope −1" in picture.caption
    assert "with fits a + b/N" in picture.caption
    # Parts lie beside one another on wide screens alone.
    assert not {"left", "right"} & set(re.findall(r"\w+", picture.caption))


@pytest.mark.parametrize("law", [inverse, lambda _: 1e-9])
def test_the_figure_of_chaos_explains_the_label_of_its_axis(law: Callable[[int], float]) -> None:
    section = answered(TOPICS["transient"][3], urns(law, 1000))
    (picture,) = section.pictures
    labels = [axes.get_ylabel() for axes in picture.figure.axes]
    assert r"$N\ \mathrm{Cov}(X^1\wedge 3,\ X^2\wedge 3)$" in labels
    assert "X¹ and X², the lengths of two tagged queues, each cut at 3 (X ∧ 3 is the sm" in picture.caption


def test_the_threshold_of_independence_is_stated_where_it_is_used() -> None:
    section = answered(TOPICS["transient"][3], urns(inverse, 1000))
    words = f"“Independent within error” means that the p-value of independence exceeds {SIGNIFICANT:g}"
    assert words in section.method
    page = (Path(__file__).parents[1] / "docs" / "chaos.md").read_text(encoding="utf-8")
    assert f"“Independent within error” means p(0) > {SIGNIFICANT:g}" in page
    assert f"with fewer than {FEWEST} replicas at an N" in page
    assert _judged(chaos(p_zero=1.1 * SIGNIFICANT), independent=True).text.startswith("independent within")
    assert _judged(chaos(p_zero=0.9 * SIGNIFICANT), independent=True).text.startswith("dependent")


def test_a_single_case_is_in_the_answers_the_table_and_the_figure_of_the_errors() -> None:
    tree = biased(3.0, 0.2)
    groups = {name: data.to_dataset().expand_dims(t=[1.0]).copy() for name, data in tree.children.items()}
    wide = {name: data.reindex(d=[2, 3]) for name, data in groups.items()}
    size = wide["network"].N.values[-1]
    wide["network"]["X"].loc[{"N": size, "d": 3}] = wide["network"].X.sel(N=size, d=2).values
    wide["fluid"]["X"].loc[{"d": 3}] = wide["fluid"].X.sel(d=2).values
    section = answered(TOPICS["transient"][2], xr.DataTree.from_dict(wide))
    _, single = section.answers
    assert single.standing == Standing.INCONCLUSIVE
    assert single.text == "too few N with 3 replicas or more that differ for a fit."
    (grid,), (picture,) = section.grids, section.pictures
    assert grid.rows[1][0] == single.part
    assert grid.rows[1][1:6] == ("–", "–", "–", "–", "–")
    assert single.text in picture.alternative
    labels = [text.get_text() for axes in picture.figure.axes for text in legend_texts(axes)]
    assert labels[1] == f"{single.part}: no fit"


def test_an_exponent_has_the_same_digits_in_the_answer_the_table_and_the_legend() -> None:
    rate = answered(TOPICS["transient"][0], synthetic(-0.5, spread=0.02))
    groups = {name: data.to_dataset() for name, data in biased(3.0, 0.2).children.items()}
    timed = {name: data.expand_dims(t=[1.0]) for name, data in groups.items()}
    bias = answered(TOPICS["transient"][2], xr.DataTree.from_dict(timed))
    for section, columns in ((rate, (1,)), (bias, (1, 3))):
        (answer,), (picture,), (row,) = section.answers, section.pictures, section.grids[0].rows
        (label,) = [text.get_text() for axes in picture.figure.axes for text in legend_texts(axes)]
        for number in (row[column] for column in columns):
            assert " ± 0.0" in number
            assert f"N^({number})" in answer.text
            assert number in label


def test_the_rate_of_a_tail_has_the_same_digits_in_the_answer_the_table_and_the_legend() -> None:
    log_S = exponential_tail(10)[None, None, None]
    coordinates = {"d": [2], "lam": [LAM], "G": ["exponential"], "level": range(1, 11)}
    state = xr.Dataset({"log_S": (("d", "lam", "G", "level"), log_S)}, coordinates)
    topic = next(topic for topic in TOPICS["equilibrium"] if topic.name == "tails")
    draft = Draft()
    topic.answer(xr.DataTree.from_dict({"invariant": state}), draft)
    (answer,), (picture,), (grid,) = draft.answers, draft.pictures, draft.grids
    ((_, _, rate, interval, theory, _),) = grid.rows
    assert (rate, interval) == ("2.000000000", "1.999999998 … 2.000000002")
    assert theory == "double exponential 2"
    assert f"r = {rate} ({interval})" in answer.text
    labels = [text.get_text() for axes in picture.figure.axes for text in legend_texts(axes)]
    assert f"r = {rate} ({interval}; theory 2)" in labels[0]


def legend_texts(axes: Axes) -> list[Text]:
    legend = axes.get_legend()
    return [] if legend is None else legend.get_texts()


def test_without_a_norm_chaos_has_one_plot_and_says_so() -> None:
    topic = TOPICS["transient"][3]
    without, with_norm = (answered(topic, urns(law, 1000)).pictures[0] for law in (lambda _: 1e-9, inverse))
    assert [axes.get_ylabel()[:2] for axes in without.figure.axes if axes.axison] == ["$N"]
    assert [axes.get_ylabel()[:2] for axes in with_norm.figure.axes if axes.axison] == ["Fr", "$N"]
    assert "norm" not in without.caption
    assert "first the norm of joint law minus product" in with_norm.caption
    assert without.alternative.startswith("A plot against N: N times a covariance. d = 2, ")


def test_constants_are_named_by_their_network_where_a_figure_is_told_in_words() -> None:
    (picture,) = answered(TOPICS["equilibrium"][1], queues(replicas=8, batches=6)).pictures
    assert "d = 1, λ = 0.5, exponential, N · bias of X → " in picture.alternative


def test_a_limit_without_bias_is_told_without_relative_errors_and_a_lost_trace_leaves_the_others() -> None:
    tree = queues(replicas=8, batches=6)
    laws = ["exponential", "erlang(k=2)", "trace(gone.txt)"]
    wide = tree.map_over_datasets(
        lambda group: xr.concat([group.assign_coords(G=[G]) for G in laws], "G") if group.dims else group
    )
    wide.attrs = tree.attrs
    known, unbiased = answered(TOPICS["equilibrium"][1], wide).answers
    assert known.text.startswith("of 7 exact limits the farthest, ")
    assert unbiased.part == "d = 1, λ = 0.5, erlang(k=2)"
    assert unbiased.text.startswith("of 3 exact limits the farthest, N · bias of ")
    assert unbiased.text.endswith(" standard errors off.")


def test_a_hyphen_in_the_name_of_a_file_is_no_minus() -> None:
    row = SimpleNamespace(b1=-1.0, b0=-0.5, ell=2, G="trace(a-b.txt)")
    assert scaled_place(row) == "b1 = −1, b0 = −0.5, ℓ = 2, trace(a-b.txt)"


@pytest.mark.parametrize(
    ("lacking", "run", "cure"),
    [
        (
            ["network/d_S"],
            {"routing": "shortest"},
            "give snapshots in [run], and route by a rule that has a limit",
        ),
        (["network/d_S"], {}, "give snapshots in [run]"),
        (["network/d_S"], {"routing": "round-robin", "snapshots": [1.0]}, "route by a rule that has a limit"),
        (["network/X", "fluid/X"], {"keep": "errors"}, 'leave out keep = "errors"'),
        (["network/nu_cdf"], {"keep": "errors", "snapshots": [1.0]}, 'leave out keep = "errors"'),
        (["fluid/X"], {}, "route by a rule that has a limit"),  # lost, not left out: nothing better is known
        (["fluid/X"], None, "route by a rule that has a limit"),
    ],
)
def test_a_cure_asks_for_nothing_that_the_sweep_has(
    lacking: list[str], run: dict[str, Any] | None, cure: str
) -> None:
    assert cure_of(lacking, run) == cure


def test_more_series_than_styles_are_left_out_with_their_number() -> None:
    draft = Draft()
    draft.draw("name", Figure, "caption", "words", series=7)
    draft.draw("name", Figure, "caption", "words", series=8)
    assert len(draft.pictures) == 1
    assert draft.notes == ["The figure would hold 8 series, more than can be told apart."]


def test_what_cannot_be_drawn_or_told_is_said() -> None:
    def fail() -> Any:
        raise ValueError("too many series")

    def answer(tree: xr.DataTree, draft: Draft) -> None:
        draft.draw("name", fail, "caption", "words")
        draft.try_to("A part", fail)
        raise ValueError(f"{len(tree.children)} groups are too few")

    section = answered(Topic(name="x", question="Why?", answer=answer), xr.DataTree())
    assert list(section.notes) == ["Figure left out: too many series.", "A part left out: too many series."]
    assert [one.text for _, one in undecided([section])] == [
        "Not to be told from these results: 0 groups are too few."
    ]
