"""Progress is shown where someone looks: a line in a notebook, nothing in a script."""

from dataclasses import replace

import pytest

from sweep import progress
from sweep.progress import STARTING, Progress

STATE = Progress(
    replicas_done=3,
    replicas_total=8,
    limits_done=1,
    limits_total=1,
    cost_done=1.0,
    cost_total=4.0,
    busy=10.0,
    workers=2,
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
    assert progress.sentence(STATE) == "3/8 replicas  0.5/s  15 s left  1 failed"
    solving = replace(STATE, limits_total=2, replicas_done=0, failed=0)
    assert progress.sentence(solving) == "1/2 limits, 0/8 replicas"
    starting = replace(solving, limits_done=0, last=STARTING)
    assert progress.sentence(starting) == "starting workers, compiling"


def test_the_time_left_is_that_of_the_work_left_at_the_pace_of_the_tasks_done():
    assert STATE.seconds_left == 15.0  # 3 estimated seconds of 4 are left; those done took ten times as long
    assert replace(STATE, elapsed=600.0).seconds_left == 15.0
    assert replace(STATE, workers=1).seconds_left == 30.0
    assert replace(STATE, replicas_done=0).seconds_left is None
    assert replace(STATE, cost_done=4.0 + 1e-12).seconds_left == 0.0
