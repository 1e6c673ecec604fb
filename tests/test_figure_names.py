"""Names of laws longer than a figure is wide: every picture keeps its axes, and all its words on the page."""

from __future__ import annotations

import base64
import html
import re
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from analysis.bias import separate_errors
from analysis.bias_figures import errors_figure
from analysis.chaos import fit_chaos
from analysis.chaos_figures import chaos_figure
from analysis.drawing import HANDLE, legend_labels, short_names, text_width
from analysis.equilibrium import compare_equilibrium
from analysis.equilibrium_bias import fit_bias
from analysis.equilibrium_figures import equilibrium_figure
from analysis.figures import rate_figure
from analysis.fluctuation_figures import constants_figure
from analysis.heavy_traffic_figures import heavy_traffic_figure
from analysis.report_pictures import _lines, images_of
from analysis.tagged import measure_chaos
from analysis.tail_figures import tail_figure
from tests.tail_samples import exponential_tail
from tests.test_bias import biased
from tests.test_equilibrium_analysis import drawn, store
from tests.test_figures import is_within, tree, words
from tests.test_heavy_traffic import make_tree
from tests.urns import inverse, urns

_PHASES = (
    "phase_type(alpha=[0.25, 0.25, 0.25, 0.25], T=[[-0.5, 0, 0, 0], "
    "[0, -{}, 0, 0], [0, 0, -{}, 0], [0, 0, 0, -2]])"
)
LONG = (
    _PHASES.format(1, 2),
    _PHASES.format(2, 1),
    f"erlang(k={'0' * 90}2)",
    "trace(measurements/2024/$cluster-a/service-times-of-all-jobs-in-milliseconds$.csv)",
)
SHORT = ("exponential", "deterministic", "erlang(k=2)", "lomax(beta=3)")


def of_laws(one: xr.Dataset, laws: Sequence[str]) -> xr.Dataset:
    """The same data under the names of several laws."""
    return xr.concat([one.assign_coords(G=[G]) for G in laws], "G")


def rates(laws: Sequence[str]) -> Figure:
    return rate_figure(tree(G=tuple(laws)))


def rates_by_law(laws: Sequence[str]) -> Figure:
    return rate_figure(tree(d=(1, 2), lam=(0.5, 0.9), G=tuple(laws)))


def chaos(laws: Sequence[str]) -> Figure:
    measured = of_laws(measure_chaos(urns(inverse, 500)), laws)
    return chaos_figure(measured, fit_chaos(measured))


def covariances(laws: Sequence[str]) -> Figure:
    measured = of_laws(measure_chaos(urns(lambda _: 1e-9, 500)), laws)
    return chaos_figure(measured, fit_chaos(measured))


def tails(laws: Sequence[str]) -> Figure:
    one = xr.Dataset({"log_S": (("d", "lam", "G", "level"), exponential_tail(8)[None, None, None])},
                     {"d": [2], "lam": [0.7], "G": ["exponential"], "level": range(1, 9)})  # fmt: skip
    return tail_figure(of_laws(one, laws[:3]))  # the fourth law would have to be read


def heavy_traffic(laws: Sequence[str]) -> Figure:
    study = make_tree(replicas=4)
    for name in ("network", "diffusion"):
        study[name] = xr.DataTree(study[name].to_dataset().assign_coords(G=[laws[0]]))
    return heavy_traffic_figure(study)


def errors(laws: Sequence[str]) -> Figure:
    return errors_figure(of_laws(separate_errors(biased(3.0, 0.2)), laws))


def equilibrium(laws: Sequence[str]) -> Figure:
    compared = compare_equilibrium(store(drawn(), "exponential", spec="[run]"))
    return equilibrium_figure(of_laws(compared, laws), of_laws(fit_bias(compared), laws))


def constants(laws: Sequence[str]) -> Figure:
    one = {"value": 3.0, "value_stderr": 0.1, "second": 5.0, "N_min": 10.0, "n": 96, "exact": 3.0}
    axes = ("d", "lam", "G", "constant")
    names = ["bias_X", "variance_X"]
    fits = xr.Dataset({name: (axes, np.full((1, 1, 1, 2), value)) for name, value in one.items()},
                      {"d": [2], "lam": [0.9], "G": ["x"], "constant": names, "N": [10, 20, 40]})  # fmt: skip
    fits["scaled"] = (3.0 + 5.0 / fits.N) * xr.ones_like(fits.value)
    fits["scaled_stderr"] = 0.1 + 0.0 * fits.scaled
    return constants_figure(of_laws(fits, laws))


FIGURES = (
    rates, rates_by_law, chaos, covariances, tails, heavy_traffic, errors, equilibrium, constants
)  # fmt: skip


def sizes(figure: Figure) -> list[tuple[float, float]]:
    """Width and height of every plot, inches."""
    return [axes.get_window_extent().size / figure.dpi for axes in figure.axes if axes.axison]


@pytest.mark.parametrize("make", FIGURES)
def test_long_names_leave_axes_their_size_and_all_words_on_the_page(
    make: Callable[[Sequence[str]], Figure],
) -> None:
    usual, long = make(SHORT), make(LONG)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usual.draw_without_rendering()
        long.draw_without_rendering()
    assert not [text.get_text() for text in words(long) if not is_within(long, text)]
    for size, before in zip(sizes(long), sizes(usual), strict=True):
        assert (np.divide(size, before) >= 0.6).all()


@pytest.mark.parametrize("make", [make for make in FIGURES if make is not heavy_traffic])
def test_legends_show_whole_dash_patterns(make: Callable[[Sequence[str]], Figure]) -> None:
    figure = make(SHORT)
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    assert {legend.handlelength for legend in legends if legend} == {HANDLE}


@pytest.mark.parametrize("make", [chaos, covariances, errors, constants])
def test_points_of_laws_that_agree_stand_beside_one_another(make: Callable[[Sequence[str]], Figure]) -> None:
    """Of one style to the next .8 to 2 % of the width, and all within 5 % of where they belong."""
    figure = make(SHORT)
    figure.draw_without_rendering()
    for axes in (axes for axes in figure.axes if axes.axison):
        drawn = [line for line in axes.lines if line.get_marker() in "os^D" and len(line.get_xdata())]
        if make is constants:  # points at 1/N stay there, where others are close; limits are moved
            drawn = [line for line in drawn if len(line.get_xdata()) == 1]
        first = np.array([line.get_xydata()[0] for line in drawn])
        places = axes.transAxes.inverted().transform(axes.transData.transform(first))[:, 0]
        assert len(places) == len(SHORT)
        gaps = np.abs(np.diff(places))
        assert ((gaps > 0.008) & (gaps < 0.02)).all()
        assert np.ptp(places) < 0.05


@pytest.mark.parametrize("make", [make for make in FIGURES if make is not heavy_traffic])
def test_parts_for_narrow_screens_are_narrow(make: Callable[[Sequence[str]], Figure]) -> None:
    for panel in images_of(make(LONG)).panels:
        picture = base64.b64decode(panel.partition(",")[2]).decode()
        width = float(re.search(r'width="([\d.]+)pt"', picture)[1]) / 72.0  # type: ignore[index]
        assert width <= 6.0


@pytest.mark.parametrize("laws", [SHORT, LONG])
@pytest.mark.parametrize("make", FIGURES)
def test_parts_for_narrow_screens_have_the_title_of_the_figure(
    make: Callable[[Sequence[str]], Figure], laws: Sequence[str]
) -> None:
    """Every plot has the whole title above it, in lines none of which is cut at an edge, and two labels."""
    figure = make(laws)
    title = figure.get_suptitle().split()
    plots = [axes for axes in figure.axes if axes.axison]
    for panel in images_of(figure).panels[: len(plots)]:
        picture = base64.b64decode(panel.partition(",")[2]).decode()
        found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)
        assert found is not None
        width, height = map(float, found.groups())
        drawn = re.findall(r"<!-- (.*?) -->\s*<g [^>]*?transform=\"translate\(([-\d.]+) ([-\d.]+)\)", picture)
        text = " ".join(words for words, _, _ in drawn)
        assert "".join(title) in html.unescape(text).replace(" ", "")
        assert all(0 <= float(x) <= width and 0 <= float(y) <= height for _, x, y in drawn)
    assert [axes.get_ylabel() for axes in figure.axes] == [axes.get_ylabel() for axes in make(laws).axes]


@pytest.mark.parametrize("make", FIGURES)
def test_parts_for_narrow_screens_have_labels_on_both_axes(make: Callable[[Sequence[str]], Figure]) -> None:
    figure = make(SHORT)
    plots = [axes for axes in figure.axes if axes.axison]
    ordinates = {axes.get_ylabel() for axes in plots} - {""}
    for axes, panel in zip(plots, images_of(figure).panels, strict=False):
        picture = base64.b64decode(panel.partition(",")[2]).decode()
        drawn = re.findall("<!-- (.*?) -->", html.unescape(picture))
        assert axes.get_xlabel() in drawn
        assert ordinates & set(drawn)


@pytest.mark.parametrize("width", [0.7, 1.0, 2.0, 9.0])
def test_lines_of_a_title_are_no_wider_than_its_panel(width: float) -> None:
    for title in (*LONG, "d = 2, λ = 0.85, hyperexponential(scv=10), S at t = 5"):
        plain = title.replace("$", r"\$")
        lines = _lines(plain, width, 9.0)
        assert all(text_width(line, 9.0) <= width for line in lines)
        assert "".join(lines).replace(" ", "") == plain.replace(" ", "")
        assert not [line for line in lines if line.endswith((" =", "\\"))]


@pytest.mark.parametrize("room", [0.001, 0.05, 0.1, 0.15, 0.2])
def test_names_that_just_fit_are_not_cut(room: float) -> None:
    for name in (*SHORT, *LONG):
        whole = name.replace("$", r"\$")
        assert short_names([name], text_width(whole, 9.0) + room, 9.0) == {name: whole}


def test_short_names_fit_and_stay_apart() -> None:
    short = short_names([*LONG, *SHORT], 2.5, 10.0)
    assert list(short) == [*LONG, *SHORT]
    assert len(set(short.values())) == len(short)
    assert all(text_width(text, 10.0) <= 2.5 for text in short.values())
    assert [short[name] for name in SHORT] == list(SHORT)
    assert short_names(LONG, 99.0, 10.0) == {name: name.replace("$", r"\$") for name in LONG}


@pytest.mark.parametrize("width", [1.5, 2.0, 2.5, 3.0, 4.0])
def test_words_and_numbers_of_a_name_are_kept_whole(width: float) -> None:
    name = "phase_type(alpha=[0.125, 0.375, 0.5], T=[[-1.5, 0.5, 0], [0, -0.75, 0], [0, 0, -0.825]])"
    (text,) = short_names([name], width, 9.0).values()
    assert text_width(text, 9.0) <= width
    whole = re.compile(r"-?[\d.]+|\w+")
    head, tail = text.split(" … ")
    words = whole.findall(name)
    assert whole.findall(head) == words[: len(whole.findall(head))]
    assert whole.findall(tail) == words[len(words) - len(whole.findall(tail)) :]
    assert name.startswith(head)
    assert name.endswith(tail)


def test_names_that_no_cut_tells_apart_are_numbered() -> None:
    alike = [f"{'a' * 40}{middle}{'b' * 40}" for middle in "xyz"]
    short = list(short_names(["other", *alike], 1.5, 10.0).values())
    assert [text[-4:] for text in short[1:]] == [" (2)", " (3)", " (4)"]
    assert short[0] == "other"
    assert all(text_width(text, 10.0) <= 1.5 for text in short)


def test_a_label_is_a_name_with_its_result_and_either_may_be_missing() -> None:
    series = [("one", "−0.5"), ("", "−1.0"), ("two", "")]
    assert legend_labels(series, 6.0, 9.0) == ["one: −0.5", "−1.0", "two"]
    (label,) = legend_labels([(LONG[0], "−0.500 ± 0.010")], 4.0, 9.0)
    assert label.startswith("phase_type(")
    assert label.endswith(": −0.500 ± 0.010")
    # A line of the legend is its handle, a gap and the label.
    assert text_width(label, 9.0) <= 4.0 - 4.0 * 9.0 / 72.0
