"""Progress is shown where someone looks: a bar in a notebook, nothing in a script."""

import io

import pytest
from rich.console import Console

from sweep import progress
from sweep.driver import Progress

STATE = Progress(
    replicas_done=3,
    replicas_total=8,
    limits_done=1,
    limits_total=1,
    cost_done=1.0,
    cost_total=4.0,
    failed=1,
    elapsed=6.0,
    last="replicas",
)


def test_a_script_is_shown_nothing_and_a_given_function_is_used(capsys):
    with progress.shown_by(None) as show:
        show(STATE)
    assert capsys.readouterr().out == ""
    seen = []
    with progress.shown_by(seen.append) as show:
        show(STATE)
    assert seen == [STATE]


def test_a_notebook_is_shown_a_bar(monkeypatch):
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80)
    console.is_jupyter = True
    monkeypatch.setattr(progress, "Console", lambda **options: console)
    monkeypatch.setattr("rich.live.Live.refresh", lambda live: console.file.write(str(live.get_renderable())))
    with progress.shown_by(None) as show:
        show(STATE)
    assert written.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"), [(4.26, "4.3 s"), (59.4, "59 s"), (61.0, "1 min 01 s"), (7300.0, "2 h 01 min")]
)
def test_durations_are_told_in_words(seconds, words):
    assert progress.duration(seconds) == words


def test_a_line_says_how_far_a_run_is_and_what_failed():
    assert progress.sentence(STATE) == "3/8 replicas  0.5/s  18 s left  1 failed"
