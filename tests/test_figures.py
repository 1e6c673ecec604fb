"""Pictures of fitted rates and the command that prints and draws them."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text
from rich.console import Console

from analysis import fit_rate
from analysis.__main__ import main, table
from analysis.drawing import label_every_size
from analysis.figures import PIXELS, STYLES, rate_figure, save
from analysis.rates import rate_table
from analysis.report_text import with_error
from sweep import schema

AXES = ("N", "d", "lam", "G", "replica")
LAWS = ("exponential", "lomax(beta=1.5)", "hyperexponential(scv=10)", "lognormal(sigma=1.5)")
N = (100, 1000, 10_000)


def tree(
    d: tuple[int, ...] = (2,), lam: tuple[float, ...] = (0.9,), G: tuple[str, ...] = ("exponential",)
) -> xr.DataTree:
    """Eight replicas of N^−½ with lognormal noise of cv .2 at every point of a grid."""
    rng = np.random.default_rng(1)
    shape = (len(N), len(d), len(lam), len(G), 8)
    power = np.array([n**-0.5 for n in N])[:, None, None, None, None]
    values = 1.3 * power * np.exp(0.2 * rng.standard_normal(shape))
    coordinates = {"N": N, "d": d, "lam": lam, "G": list(G), "replica": range(8)}
    return xr.DataTree.from_dict({"network": schema.dataset("network", {"S_sup": values}, coordinates, AXES)})


GRIDS = {
    "one": tree(),
    "demo": tree(d=(1, 2), G=LAWS[:2]),
    "one for each style": tree(lam=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
    "panels by law": tree(d=(1, 2, 3), lam=(0.5, 0.9), G=LAWS),
    "panels by d": tree(d=(1, 2), lam=(0.5, 0.7, 0.9, 0.99)),
    "panels by two": tree(d=(1, 2, 3), lam=(0.5, 0.7, 0.9), G=LAWS[:2]),
    "long names": tree(lam=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99), G=LAWS[2:]),
}


def legends(figure: Figure) -> list[str]:
    return [
        text.get_text()
        for axes in figure.axes
        if (legend := axes.get_legend()) is not None
        for text in legend.get_texts()
    ]


@pytest.mark.parametrize("name", GRIDS)
def test_legends_hold_every_fit_once_and_no_panel_repeats_a_style(name: str) -> None:
    figure = rate_figure(GRIDS[name])
    rows = list(rate_table(fit_rate(GRIDS[name])))
    found = sorted(text.rpartition(": ")[2] for text in legends(figure))
    assert found == sorted(with_error(row.exponent, row.exponent_stderr) for row in rows)
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        assert len(labels) <= len(STYLES)
        assert len({handle.get_color() for handle in handles}) == len(handles)


@pytest.mark.parametrize(
    ("laws", "columns"),
    [(("W" * 20, "w" * 20), 1), (("i" * 30, "l" * 30), 2)],
)
def test_panels_stand_side_by_side_where_names_fit_half_the_width(
    laws: tuple[str, str], columns: int
) -> None:
    figure = rate_figure(tree(lam=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99), G=laws))
    assert {axes.get_subplotspec().get_gridspec().ncols for axes in figure.axes} == {columns}
    assert {text.partition(":")[0] for text in legends(figure)} == set(laws)


def words(figure: Figure) -> list[Text]:
    """Return all text that is drawn: titles, labels, ticks inside the limits, legends."""
    found = list(figure.texts)
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)]:
        found += [] if legend is None else [*legend.get_texts(), legend.get_title()]
    for axes in figure.axes:
        if not axes.axison:
            continue
        found += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            found += [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
    return [text for text in found if text.get_text()]


def is_within(figure: Figure, text: Text) -> bool:
    """Whether text that is drawn lies on the page, to a pixel."""
    box, page = text.get_window_extent(), figure.bbox
    return bool(min(box.x0 - page.x0, page.x1 - box.x1, box.y0 - page.y0, page.y1 - box.y1) >= -1)


@pytest.mark.parametrize("name", GRIDS)
def test_nothing_is_clipped_and_no_text_lies_on_another(name: str) -> None:
    figure = rate_figure(GRIDS[name])
    figure.draw_without_rendering()
    assert not [text.get_text() for text in words(figure) if not is_within(figure, text)]
    boxes = [(text.get_text(), text.get_window_extent()) for text in words(figure)]
    for i, (text, box) in enumerate(boxes):
        for below, other in boxes[i + 1 :]:
            wide = min(box.x1, other.x1) - max(box.x0, other.x0)
            high = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert min(wide, high) <= 1, (text, below)


def test_lines_are_the_fit_and_a_slope_of_minus_one_half() -> None:
    figure = rate_figure(GRIDS["one"])
    (row,) = rate_table(fit_rate(GRIDS["one"]))
    lines = [line.get_xydata() for line in figure.axes[0].get_lines()]
    fitted = [[n, row.constant * n**row.exponent] for n in N]
    assert any(np.shape(line) == (3, 2) and np.allclose(line, fitted, rtol=1e-12) for line in lines)
    (reference,) = [np.array(line) for line in lines if np.shape(line) == (2, 2)]
    slope = math.log(reference[1, 1] / reference[0, 1]) / math.log(reference[1, 0] / reference[0, 0])
    assert slope == pytest.approx(-0.5, abs=1e-12)
    assert "slope −1/2" in [text.get_text() for text in figure.axes[0].texts]


def test_axes_are_logarithmic_and_named() -> None:
    axes = rate_figure(GRIDS["one"], statistic="rms").axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "number of servers $N$"
    assert axes.get_ylabel().startswith(r"rms of $\sup_{t,\ell}\,|S^{(N)}_\ell")


def test_quantity_without_a_symbol_has_its_long_name_and_unit() -> None:
    network = GRIDS["one"]["network"].to_dataset().rename(S_sup="W")
    network["W"].attrs.update(long_name="mean wait", units="mean service time")
    assert rate_figure(network, "W").axes[0].get_ylabel() == "mean of mean wait (mean service time)"


def test_series_without_a_fit_keeps_its_points() -> None:
    study = tree(G=LAWS[:2])
    study["network"]["S_sup"][1:, :, :, 1, :] = math.nan
    assert legends(rate_figure(study))[1] == "lomax(beta=1.5): no fit"


def test_further_axes_are_refused() -> None:
    network = GRIDS["one"]["network"].to_dataset().expand_dims(snapshot=[1.0])
    with pytest.raises(ValueError, match="fits must have no axes but d, lam, G, got snapshot"):
        rate_figure(network)


def test_picture_is_saved_1200_pixels_wide_in_a_new_folder(tmp_path: Path) -> None:
    path = save(rate_figure(GRIDS["demo"]), tmp_path / "new" / "rates.png")
    assert imread(path).shape[1] == PIXELS


def test_other_formats_are_refused() -> None:
    with pytest.raises(ValueError, match=r"path must end in \.png, \.svg, \.pdf, got 'rates\.bmp'"):
        save(Figure(), "rates.bmp")


def test_drawing_leaves_the_global_state_of_pyplot_alone() -> None:
    code = (
        "import sys, analysis.figures, analysis.rates\n"
        "assert 'matplotlib' not in sys.modules and 'xarray' not in sys.modules\n"
        "from matplotlib.figure import Figure\n"
        "import tempfile\n"
        "analysis.figures.save(Figure(), tempfile.mkdtemp() + '/a.png')\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def printed(study: xr.DataTree) -> list[str]:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(table(list(rate_table(fit_rate(study))), "S_sup", "mean"))
    return capture.get().splitlines()


def test_table_fits_eighty_columns_with_the_longest_names() -> None:
    laws = (*LAWS, "weibull(shape=0.5)", "phase_type(0.5, 0.5; -1.5, 0.5, 0, -0.7)")
    lines = printed(tree(d=(1, 10), lam=(0.5, 0.999), G=laws))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "…" not in text
    for name in ("exponential", "lomax(beta=1.5)", "lognormal(sigma=1.5)", "weibull(shape=0.5)"):
        assert sum(name in line for line in lines) >= 4
    assert text.count("hyperexponential ") == text.count("(scv=10)") == 4


def test_table_has_one_line_of_numbers_a_row() -> None:
    lines = printed(tree(d=(1, 2), G=LAWS[:2]))
    rows = list(rate_table(fit_rate(tree(d=(1, 2), G=LAWS[:2]))))
    for row, line in zip(rows, lines[3:], strict=True):
        cells = line.split()
        assert cells[:3] == [str(row.d), f"{row.lam:g}", row.G]
        assert cells[3:7] == [
            f"{row.exponent:.3f}", f"{row.exponent_stderr:.4f}",
            f"{row.exponent_lo:.3f}", f"{row.exponent_hi:.3f}",
        ]  # fmt: skip
        assert cells[-2:] == [f"{row.p_value:.3f}", "24"]


def test_command_prints_the_table_and_saves_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "results.nc"
    GRIDS["demo"].to_netcdf(store, engine="netcdf4")
    picture = tmp_path / "rates.png"
    assert main([str(store), "--figure", str(picture), "--statistic", "rms"]) == 0
    output = capsys.readouterr().out
    assert "rms of S_sup = constant · N^exponent" in output
    assert output.count("lomax(beta=1.5)") == 2
    assert f"figure: {picture}" in output
    assert picture.stat().st_size > 10_000


def test_command_answers_bad_input_with_one_line_and_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "results.nc"
    GRIDS["one"].to_netcdf(store, engine="netcdf4")
    for arguments, text in (
        ([str(tmp_path / "nowhere")], "nowhere holds no results"),
        ([str(store), "--quantity", "d_S"], "quantity must be one of S_sup, got 'd_S'"),
        ([str(store), "--figure", str(tmp_path / "a.bmp")], "path must end in .png, .svg, .pdf"),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert text in error
        assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "sizes", [[100, 120, 1000], [10, 12, 14, 16, 18, 20, 30, 60], [10**k for k in range(1, 9)]]
)
@pytest.mark.parametrize("width", [1.5, 3.0, 6.0])
def test_labels_of_sizes_never_touch(sizes: list[int], width: float) -> None:
    figure = Figure(figsize=(width, 2.0), layout="constrained")
    axes = figure.subplots()
    axes.loglog(sizes, sizes)
    label_every_size(axes, sizes)
    figure.canvas.draw()
    labels = axes.get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert all(before.x1 < after.x0 for before, after in pairwise(boxes))
    assert labels[-1].get_text() == f"{sizes[-1]:.7g}"
    if width == 6.0:
        assert len(labels) >= len(sizes) - 1
