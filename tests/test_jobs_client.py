"""Jobs as a head tells of them: found, asked, waited for and followed, whatever it answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweep.engines import job_main, jobs
from sweep.engines.checkup import compare_nodes
from sweep.engines.dashboard import Dashboard
from sweep.errors import EngineError
from tests.fake_head import STORE, FakeHead, job_entry


@pytest.fixture
def head() -> Iterator[FakeHead]:
    with FakeHead() as fake:
        yield fake


def test_the_latest_job_of_a_store_is_meant(head: FakeHead) -> None:
    head.answers["/api/jobs/"] = [job_entry("FAILED"), job_entry("RUNNING", "sweep-run-2", 2000)]
    head.answers["/api/jobs/"].append({**job_entry("RUNNING", "other", 3000), "metadata": None})
    dashboard = head.connect()
    assert jobs.require(dashboard, STORE).id == "sweep-run-2"
    assert jobs.require(dashboard, "sweep-run-1").status == "FAILED"
    with pytest.raises(EngineError, match="knows no job for /else: it knows sweep-run-2, sweep-run-1"):
        jobs.require(dashboard, "/else")
    with pytest.raises(EngineError, match="knows no job sweep-run-9: unknown"):
        jobs.state(dashboard, "sweep-run-9")


def test_a_job_that_ends_before_it_speaks_tells_its_last_words(head: FakeHead) -> None:
    head.answers["/api/jobs/j"] = {**job_entry("FAILED"), "message": "no such file"}
    head.answers["/api/jobs/j/logs"] = {"logs": "one\nsh: start.sh: not found\n"}
    with pytest.raises(EngineError, match=r"job j ended \(FAILED\): no such file one \| sh: start\.sh: not"):
        jobs.await_facts(head.connect(), "j", "published", 1.0)


def test_a_job_that_does_not_begin_is_waited_for_so_long(head: FakeHead) -> None:
    head.answers["/api/jobs/j"] = job_entry("PENDING")
    head.answers["/api/jobs/j/logs"] = {"logs": 'sweep-job: {"python": "3.11.7"}\nsweep-job: {"publ'}
    assert jobs.await_facts(head.connect(), "j", "published", 0.0) == {"python": "3.11.7"}
    with pytest.raises(EngineError, match="job j is still PENDING after 0 s"):
        jobs.wait(head.connect(), "j", 0.0)


def test_a_question_that_is_not_answered_leaves_no_job(
    head: FakeHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "start", lambda *_: "j")
    head.answers["/api/jobs/j"] = job_entry("PENDING")
    head.answers["/api/jobs/j/logs"] = {"logs": ""}

    def stop(dashboard: Dashboard, job: str) -> jobs.Job:
        head.answers["/api/jobs/j"] = job_entry("STOPPED")
        return jobs.state(dashboard, job)

    monkeypatch.setattr(jobs, "cancel", stop)
    with pytest.raises(EngineError, match="job j has not begun within 0 s: see `ray status` on the head"):
        jobs.ask(head.connect(), ["survey"], "nodes", 0.0)
    assert head.asked[-1][:2] == ("DELETE", "/api/jobs/j")


def test_a_log_is_followed_line_by_line(head: FakeHead, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = iter(["a\nb", "a\nbc\n", "a\nbc\nd"])
    states = iter(["RUNNING", "RUNNING", "SUCCEEDED"])
    monkeypatch.setattr(jobs, "logs", lambda *_: next(logs))
    head.answers["/api/jobs/j"] = None
    monkeypatch.setattr(jobs, "state", lambda *_: jobs._job(job_entry(next(states))))
    assert list(jobs.follow(head.connect(), "j", 0.0)) == ["a", "bc", "d"]


def test_nodes_that_differ_are_found() -> None:
    node = {"host": "a", "cpus": 4, "memory": 8e9, "versions": {"numpy": "2.4.0"}, "error": ""}
    found = dict(
        zip(
            "abc",
            compare_nodes([node, {**node, "versions": {"numpy": "2.5"}}, {**node, "error": "no"}]),
            strict=True,
        )
    )
    assert found["a"] == ("ok", "a: 4 CPUs, 8.0 GB for tasks")
    assert found["b"][0] == "fault"
    assert found["c"] == ("fault", "a cannot run tasks: no")


def test_the_log_of_a_long_run_of_many_cells_stays_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(job_main.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr("sweep.progress.sentence", lambda state: f"{state} of 20000 cells")
    show = job_main._teller(SimpleNamespace(refresh=lambda: None))
    for done in range(20_000):  # a minute each, two weeks together
        show(done)  # type: ignore[arg-type]
        clock[0] += 60.0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["0 of 20000 cells  after 0 s", "1 of 20000 cells  after 60 s"]
    assert 100 < len(lines) < 1000


def test_a_job_that_cannot_show_its_store_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "session_1" / "job"
    job.mkdir(parents=True)
    monkeypatch.chdir(job)

    def failed() -> str:
        assert job_main.run(str(tmp_path / "store"), 1) == job_main.TROUBLE
        last = capsys.readouterr().out.splitlines()[-1]
        text = json.loads(last.removeprefix(job_main.MARK))["failed"]
        assert text.startswith("the store cannot be shown to the dashboard: ")
        return str(text)

    assert "lies in no session of Ray" in failed()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "session_1" / "logs").mkdir()
    monkeypatch.setattr("sweep.engines.listing.write_file", refuse)
    assert "No space left on device" in failed()
