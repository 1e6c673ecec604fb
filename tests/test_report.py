"""The report: the form of the page for every study, whole or partial."""

from __future__ import annotations

import html
import itertools
import os
import re
import shutil
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.image import imread

import sweep
from analysis.report import TOPICS, report
from analysis.report_page import (
    STANDINGS,
)
from analysis.report_pictures import images_of
from analysis.report_store import Contents, contents_of, spec_grid
from analysis.report_text import marked_up, with_error
from sweep.errors import MismatchError
from sweep.spec import parse_spec
from tests.report_samples import synthetic

STYLE = Path(__file__).parents[1] / "analysis" / "templates" / "style.css.html"
ONE = {"lam": 0.8, "G": "exponential"}
PLAIN = {"lam": [0.8], "G": ["exponential"]}
SPECS: dict[str, dict[str, Any]] = {
    "transient": {
        "grid": {"N": [30, 60, 120], "d": [1, 2], **PLAIN},
        "run": {"horizon": 1.0, "times": 3, "levels": 3, "replicas": 6, "snapshots": [1.0]},
    },
    "equilibrium": {
        "grid": {"N": [30, 60, 120], "d": [2], **PLAIN},
        "run": {"horizon": 9.0, "warmup": 5.0, "batches": 2, "levels": 6, "replicas": 6},
    },
    "heavy-traffic": {
        "grid": {"N": [20, 40], "m": [4, 9], "b1": [-2.0], "b0": [1.0], "ell": [2], "G": ["exponential"]},
        "run": {"horizon": 0.5, "times": 3, "levels": 30, "replicas": 4},
    },
}
#: Elements without an end tag.
VOID = {"meta", "link", "img", "br", "wbr"}


class Page(HTMLParser):
    """Elements of a page with their attributes, in order, and those that are open around each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], tuple[str, ...]]] = []
        self.open: list[str] = []
        self.misplaced: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}, tuple(self.open)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.misplaced.append(tag)

    def all(self, *tags: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes, _ in self.elements if tag in tags]

    def values(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes, _ in self.elements if name in attributes]


@pytest.fixture(scope="module", params=list(SPECS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """Study, store and figures of a tiny sweep with its report."""
    folder = tmp_path_factory.mktemp(request.param)
    spec = {"name": f"Tiny {request.param} <&>", "study": request.param, "seed": 5, **SPECS[request.param]}
    sweep.run(spec, store=folder / "store", engine="serial")
    report(folder / "store", figures=folder / "figures")
    return request.param, folder / "store", folder / "figures"


def text_of(store: Path) -> str:
    return (store / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_page_is_well_formed_and_accessible(made: tuple[str, Path, Path]) -> None:
    _, store, _ = made
    page = Page(text_of(store))
    assert not page.misplaced
    assert not page.open
    assert [attributes["lang"] for attributes in page.all("html")] == ["en"]
    assert len(page.all("main")) == len(page.all("h1")) == len(page.all("title")) == 1
    levels = [int(tag[1]) for tag, _, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    assert page.all("img")
    assert all(attributes["alt"].strip() for attributes in page.all("img"))
    assert all(attributes["scope"] in ("row", "col") for attributes in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table")) > 2
    ids = page.values("id")
    assert len(set(ids)) == len(ids)
    assert set(page.values("aria-labelledby")) <= set(ids)
    assert {link[1:] for link in page.values("href") if link.startswith("#")} <= set(ids)


@pytest.mark.slow
def test_a_page_needs_nothing_but_itself(made: tuple[str, Path, Path]) -> None:
    _, store, _ = made
    page = Page(text_of(store))
    assert not page.all("script")
    for address in (*page.values("src"), *page.values("href")):
        assert address.startswith(("data:", "#"))
    assert "url(" not in STYLE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_question_of_the_study_is_answered(made: tuple[str, Path, Path]) -> None:
    study, store, _ = made
    text = html.unescape(text_of(store))
    for topic in TOPICS[study]:
        assert text.count(f">{topic.question}</h2>") == 1
        answers = text.split(f'<a href="#{topic.name}">')[1].split("</ul>")[0]
        assert re.search(r'class="standing (agrees|differs|measured|inconclusive)"', answers)
    assert "nan" not in re.sub(r'"data:[^"]*"', "", text).lower().split()


@pytest.mark.slow
def test_figures_are_written_as_files_too(made: tuple[str, Path, Path]) -> None:
    _, store, figures = made
    count = len(re.findall("<figure>", text_of(store)))
    assert count > 0
    assert len(list(figures.glob("*.svg"))) == len(list(figures.glob("*.png"))) == count
    assert {imread(path).shape[1] for path in figures.glob("*.png")} == {1200}


@pytest.mark.slow
def test_the_spec_on_the_page_runs_again(made: tuple[str, Path, Path]) -> None:
    study, store, _ = made
    block = re.search(r'aria-label="Spec"><code>(.*?)</code>', text_of(store), re.DOTALL)
    assert block is not None
    spec = parse_spec(tomllib.loads(html.unescape(block[1])))
    assert spec.study == study
    assert spec.name == f"Tiny {study} <&>"


@pytest.mark.slow
def test_a_store_without_results_yet_is_reported_from_its_shards(
    made: tuple[str, Path, Path], tmp_path: Path
) -> None:
    _, store, _ = made
    copy = shutil.copytree(store, tmp_path / "store")
    (copy / "results.nc").unlink()
    assert contents_of(copy).state == contents_of(store).state


def test_a_file_is_reported_with_what_failed_what_is_pending_and_what_it_cannot_tell(tmp_path: Path) -> None:
    synthetic(-0.5).to_netcdf(tmp_path / "mine.nc")
    page = report(tmp_path / "mine.nc")
    assert page == tmp_path / "mine.html"
    text = page.read_text(encoding="utf-8")
    assert "1 of 3 cells done, 12 replicas stored; 1 pending, 1 failed." in text
    assert "&lt;b&gt;MemoryError&lt;/b&gt;" in text
    assert "answers may change" in text
    assert "ages of jobs in service approach theirs? To ask it, give snapshots in [run], and route" in text
    assert "These results carry no spec." in text
    again = report(tmp_path / "mine.nc", tmp_path / "again.html")
    assert again.read_bytes() == page.read_bytes()


def test_bad_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MismatchError, match="holds no results"):
        report(tmp_path / "nothing", tmp_path / "page.html")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"figures must be a directory, got the file .*file: name another"):
        report(tmp_path / "mine.nc", figures=tmp_path / "file")
    with pytest.raises(ValueError, match=r"output must be a file, got the directory .*: name a page in it"):
        report(tmp_path / "mine.nc", tmp_path)
    other = synthetic(-0.5)
    other.attrs["study"] = "weather"
    other.to_netcdf(tmp_path / "other.nc")
    with pytest.raises(ValueError, match="study must be one of transient, equilibrium, heavy-traffic, got"):
        report(tmp_path / "other.nc")


def test_a_page_that_cannot_be_written_is_refused_before_any_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic(-0.5).to_netcdf(tmp_path / "mine.nc")
    monkeypatch.setattr("analysis.report.answered", None)
    text = r"output must be a file that can be written, got .*mine\.nc/page\.html \(.*\): .*--output FILE"
    with pytest.raises(ValueError, match=text):
        report(tmp_path / "mine.nc", tmp_path / "mine.nc" / "page.html")
    # No user may be root here, whom permissions do not stop.
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(ValueError, match=r"got .*mine\.html \(not writable\): give another place, --output"):
        report(tmp_path / "mine.nc")
    assert not (tmp_path / "mine.html").exists()


@pytest.mark.parametrize(
    ("spec", "files"),
    [
        ("[run]\narrivals = \"trace('gaps (old).txt')\"", ()),  # no such name is accepted
        ("[grid]\nG = ['exponential', 'trace(a-1.txt)', 'trace(\"b.npy\")']", ("a-1.txt", "b.npy")),
        (
            "name = 'trace(title)'\n[[cases]]\nG = 'trace( c.txt )'\n[run]\narrivals = 'trace(c.txt)'",
            ("c.txt",),
        ),
        ("[grid]\nG = ['exponential']", ()),
    ],
)
def test_files_of_numbers_are_named_where_the_sweep_is_run_again(
    tmp_path: Path, spec: str, files: tuple[str, ...]
) -> None:
    tree = synthetic(-0.5)
    tree.attrs["spec"] = spec
    contents = Contents(tree=tree, name="", counts={}, replicas=0, failures=(), remarks=())
    assert contents.traces == files
    tree.attrs["spec"] = f"seed = 1\n{spec}" + ("" if "[run]" in spec else "\n[run]")
    tree.to_netcdf(tmp_path / "mine.nc")
    again = report(tmp_path / "mine.nc").read_text(encoding="utf-8").split('id="again"')[1]
    named = ", ".join(f"<code>{file}</code>" for file in files)
    assert (f"Its laws read the numbers of {named},\nwhich are not on this page" in again) == bool(files)


def test_what_was_asked_for_has_every_case_and_laws_as_tables_name_them(tmp_path: Path) -> None:
    tree = synthetic(-0.5)
    law, gone = "phase_type(alpha=[1.0, 0], T=[[-2.0, 2.0], [0.0, -2.0]])", "trace(gone.txt)"
    case = f'[[cases]]\nN = 100\nG = "{law}"\nreplicas = 16\n'
    tree.attrs["spec"] = f'seed = 1\n{case * 22}[grid]\nG = ["{law}", "{gone}"]\nlam = [0.9]\n[run]\nt = 2'
    contents = Contents(tree=tree, name="", counts={}, replicas=0, failures=(), remarks=())
    grid = spec_grid(contents)
    assert grid is not None
    shown = "phase_type(alpha=[1, 0], T=[[-2, 2], [0, -2]])"
    assert list(grid.rows) == [
        ("G", f"{shown}, {gone}"),
        ("lam", "0.9"),
        *[("single case", f"N = 100, G = {shown}, replicas = 16")] * 20,
        ("more single cases", "2"),
        ("t", "2"),
        ("seed", "1"),
    ]
    tree.to_netcdf(tmp_path / "mine.nc")
    text = report(tmp_path / "mine.nc").read_text(encoding="utf-8")
    assert "phase_type(<wbr>alpha=[1, 0], T=" in text
    assert (
        "Not asked of this sweep. Asking it needs a new store: in an existing one only the values of the "
        "axes, the replicas,\nthe name and the precision targets may change."
    ) in text


@pytest.mark.slow
def test_what_a_sweep_does_not_store_is_not_asked(tmp_path: Path) -> None:
    run = {"horizon": 2.0, "warmup": 1.0, "batches": 1, "levels": 3, "replicas": 2, "routing": "shortest"}
    cases = [{"N": 4, "d": 1, **ONE}]
    spec = {"name": "No limit", "study": "equilibrium", "seed": 1, "cases": cases, "run": run}
    sweep.run(spec, store=tmp_path / "store", engine="serial")
    report(tmp_path / "store")
    text = html.unescape(text_of(tmp_path / "store"))
    assert text.count("To ask it, route by a rule that has a limit.") == 3
    assert "How long do jobs stay?</h2>" in text


def test_a_figure_of_one_part_has_no_panels_and_one_of_more_has_its_legend_as_well() -> None:
    single = Figure(layout="constrained")
    single.subplots()
    assert images_of(single).panels == ()
    double = Figure(layout="constrained")
    for axes in double.subplots(1, 2):
        axes.plot([0, 1], [0, 1], label="line")
    double.legend(ncols=2)
    double.suptitle("λ = 0.85")
    double.axes[0].set_ylabel("share")
    visible = [part.get_visible() for part in (*double.axes, *double.texts)]
    assert len(images_of(double).panels) == 3
    assert [part.get_visible() for part in (*double.axes, *double.texts)] == visible
    assert [axes.get_ylabel() for axes in double.axes] == ["share", ""]


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e5))
def test_a_number_with_its_error_reads_back(value: float, error: float) -> None:
    text = with_error(value, error).replace("−", "-")
    power = re.search(r"10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    scale = 10.0 ** int(power[1].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))) if power else 1.0
    read, spread = (
        scale * float(part) for part in re.findall(r"-?[\d.]+(?= ±|\)|$)", text.split(")")[0])[:2]
    )
    digit = max(0.06 * error, 0.6e-6 * scale)
    assert abs(read - value) <= digit or error > 10
    assert abs(spread - error) <= digit or error > 10


@given(st.text())
def test_text_of_others_cannot_become_markup(text: str) -> None:
    bare = re.sub("</?su[bp]>", "", marked_up(text))
    assert "<" not in bare
    assert ">" not in bare


def test_colours_have_a_contrast_of_four_and_a_half() -> None:
    style = STYLE.read_text(encoding="utf-8")
    named = dict(re.findall(r"--(\w+): (#\w{6})", style))
    pairs = [(named[name], "#ffffff") for name in ("ink", "soft", "link")] + [(named["ink"], named["wash"])]
    badges = [
        re.search(rf"\.{name} {{ color: (#\w{{6}}); background: (#\w{{6}})", style) for name in STANDINGS
    ]
    pairs += [(found[1], found[2]) for found in badges if found is not None]
    assert len(pairs) == 4 + len(STANDINGS)
    assert min(contrast(*pair) for pair in pairs) >= 4.5


def contrast(one: str, other: str) -> float:
    """Ratio of relative luminances, WCAG 2.2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
