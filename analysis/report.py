"""One page of HTML about a store: the questions asked, answers with errors, figures, what is undecided."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import report_equilibrium, report_heavy_traffic, report_transient
from analysis.report_page import STANDINGS, Section, Topic, answered, undecided
from analysis.report_pictures import images_of, write_files
from analysis.report_store import (
    STUDIES,
    Contents,
    contents_of,
    failures_grid,
    provenance_grid,
    spec_grid,
)
from analysis.report_text import breakable, marked_up
from analysis.stores import cure_of, missing, run_of

if TYPE_CHECKING:
    from analysis.report_page import Picture

#: Questions of each study.
TOPICS: dict[str, Sequence[Topic]] = {
    "transient": report_transient.TOPICS,
    "equilibrium": report_equilibrium.TOPICS,
    "heavy-traffic": report_heavy_traffic.TOPICS,
}


def report(
    store: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    figures: str | os.PathLike[str] | None = None,
) -> Path:
    """Write a page of HTML about a store, complete or not, and return its path.

    The page holds its style and figures itself: it opens without a network and can be sent by mail.

    Parameters
    ----------
    store
        A store's directory, during a run too, or a file made by `sweep export`.
    output
        Page to write; by default `report.html` in the store, or beside the file with the suffix .html.
    figures
        Directory for the same figures as files, .svg and .png.

    Raises
    ------
    StoreError
        No store or results there, or results that cannot be read.
    ValueError
        An output that is a directory or cannot be written, a file in place of the figures' directory, or
        results of an unknown study.

    Examples
    --------
    >>> report("nowhere")
    Traceback (most recent call last):
    ...
    sweep.errors.MismatchError: nowhere holds no results: give a store directory or an exported .nc file
    """
    source = Path(store)
    target = Path(output) if output is not None else _beside(source)
    if target.is_dir():
        raise ValueError(f"output must be a file, got the directory {target}: name a page in it")
    if figures is not None and Path(figures).exists() and not Path(figures).is_dir():
        raise ValueError(f"figures must be a directory, got the file {figures}: name another place")
    contents = contents_of(source)
    if contents.study not in TOPICS:
        raise ValueError(f"study must be one of {', '.join(TOPICS)}, got {contents.study!r} in {source}")
    _check_writable(target)
    topics = TOPICS[contents.study]
    lacking = {topic.name: missing(contents.tree, topic.needs) for topic in topics}
    sections = [answered(topic, contents.tree) for topic in topics if not lacking[topic.name]]
    run = run_of(contents.tree)
    left = {topic.question: cure_of(lacking[topic.name], run) for topic in topics if lacking[topic.name]}
    target.write_text(page(contents, sections, left), encoding="utf-8")
    if figures is not None:
        for number, picture in enumerate(_pictures(sections), start=1):
            write_files(picture, number, figures)
    return target


def page(contents: Contents, sections: Sequence[Section], left: Mapping[str, str]) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    contents
        What `analysis.report_store.contents_of` returns.
    sections
        Questions with their answers, in order.
    left
        Questions that the sweep does not ask, with what would make it ask them.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("analysis"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["maths"] = lambda text: Markup(marked_up(text))
    environment.filters["breakable"] = lambda text: Markup(breakable(str(text)))
    values: dict[str, Any] = {
        "contents": contents,
        "study": STUDIES[contents.study],
        "sections": sections,
        "left": left,
        "standings": STANDINGS,
        "undecided": undecided(sections),
        "failures": failures_grid(contents),
        "asked": spec_grid(contents),
        "provenance": provenance_grid(contents),
        "images": images_of,
        "figure_numbers": count(1),
        "table_numbers": count(1),
    }
    return environment.get_template("report.html").render(values)


def _beside(source: Path) -> Path:
    return source / "report.html" if source.is_dir() else source.with_suffix(".html")


def _check_writable(target: Path) -> None:
    """Raise ValueError unless a page can be written there, making its folder if needed."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        writable, reason = os.access(target if target.exists() else target.parent, os.W_OK), "not writable"
    except OSError as error:
        writable, reason = False, error.strerror or type(error).__name__
    if not writable:
        raise ValueError(
            f"output must be a file that can be written, got {target} ({reason}): give another place, "
            "--output FILE"
        )


def _pictures(sections: Sequence[Section]) -> list[Picture]:
    return [picture for section in sections for picture in section.pictures]
