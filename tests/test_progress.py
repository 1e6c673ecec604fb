"""Progress is shown where someone looks: a line in a notebook, nothing in a script."""

import pytest

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


class Line:
    """What is shown below a cell, as `IPython.display.display` returns it."""

    def __init__(self):
        self.shown = []

    def display(self, data, **options):
        assert options == {"raw": True, "display_id": True}
        self.shown.append(data)
        return self

    def update(self, data, raw):
        assert raw
        self.shown.append(data)


def test_a_notebook_is_shown_one_line_that_changes(monkeypatch):
    line = Line()
    monkeypatch.setattr("IPython.display.display", line.display)
    monkeypatch.setattr("rich.console.Console.is_jupyter", True, raising=False)
    monkeypatch.setattr(progress.Console, "__init__", lambda console: None)
    with progress.shown_by(None) as show:
        show(STATE)
    assert line.shown == [{"text/plain": ""}, {"text/plain": progress.sentence(STATE)}]


@pytest.mark.parametrize(
    ("seconds", "words"), [(4.26, "4.3 s"), (59.4, "59 s"), (61.0, "1 min 01 s"), (7300.0, "2 h 01 min")]
)
def test_durations_are_told_in_words(seconds, words):
    assert progress.duration(seconds) == words


def test_a_line_says_how_far_a_run_is_and_what_failed():
    assert progress.sentence(STATE) == "3/8 replicas  0.5/s  18 s left  1 failed"
