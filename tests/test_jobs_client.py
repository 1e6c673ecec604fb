"""Jobs as a head tells of them: found, asked, waited for and followed, whatever it answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import sweep
from sweep.disk import write_file
from sweep.doctor import FAULT, OK, Finding
from sweep.engines import ask as asking
from sweep.engines import job_main, jobs, listing
from sweep.engines.checkup import check_cluster, compare_nodes
from sweep.engines.dashboard import Dashboard, UnreachableError
from sweep.engines.listing import Listing
from sweep.engines.serial import SerialEngine
from sweep.errors import EngineError, LockError, MismatchError, SpecError, StoreError
from sweep.spec import parse_spec
from sweep.status import store_status
from tests.fake_head import STORE, FakeHead, job_entry
from tests.job_head import commands

SPEC: dict[str, Any] = {
    "name": "small",
    "study": "transient",
    "seed": 1,
    "grid": {"N": [5, 10], "d": 2, "lam": 0.5, "G": "exponential"},
    "run": {"horizon": 1.0, "times": 3, "levels": 2, "replicas": 3},
}


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


def test_a_job_that_goes_on_is_not_hidden_by_a_later_one_that_failed(head: FakeHead) -> None:
    head.answers["/api/jobs/"] = [job_entry("RUNNING"), job_entry("FAILED", "sweep-run-2", 2000)]
    found = jobs.find(head.connect(), STORE)
    assert found is not None
    assert (found.id, found.status) == ("sweep-run-1", "RUNNING")


@pytest.mark.parametrize(("place", "expected"), [("/home/u/x", "sweep-run-1"), ("/home/u/y", None)])
def test_a_store_is_known_by_its_path_without_links(head: FakeHead, place: str, expected: str | None) -> None:
    head.answers["/api/jobs/"] = [job_entry("RUNNING")]
    head.answers["/api/jobs/sweep-run-1/logs"] = {"logs": 'sweep-job: {"store": "/home/u/x"}\n'}
    found = jobs.find(head.connect(), place)
    assert (None if found is None else found.id) == expected
    past = {**job_entry("SUCCEEDED", "sweep-run-0", 0), "metadata": {"sweep": "run", "store": "~/it"}}
    head.answers["/api/jobs/"].append(past)
    head.answers["/api/jobs/sweep-run-0/logs"] = {"logs": f'sweep-job: {{"store": "{place}"}}\n'}
    found = jobs.find(head.connect(), "~/it")
    assert found is not None
    assert found.id == (expected or "sweep-run-0")


def test_a_job_that_has_ended_is_known_by_its_store_without_links(head: FakeHead) -> None:
    """By any spelling the latest is meant, and of another store none."""
    known = [job_entry("FAILED", f"run-{time}", time) for time in (1, 2, 3)]
    for job, given, place in zip(
        known, ("~/x", "/long/x", "/y"), ("/home/u/x", "/home/u/x", "/y"), strict=True
    ):
        job["metadata"] = {"sweep": "run", "store": given}
        log = {"logs": f'sweep-job: {{"store": "{place}"}}\n'}
        head.answers[f"/api/jobs/{job['submission_id']}/logs"] = log
    head.answers["/api/jobs/"] = known
    found = [jobs.find(head.connect(), name) for name in ("/home/u/x", "~/x", "/home/u/z")]
    assert [job and job.id for job in found] == ["run-2", "run-2", None]


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, ""),
        (UnreachableError("the head h is unreachable"), 1, "; the head h is unreachable"),  # 3 by `main`
    ],
)
def test_whoever_does_not_wait_for_a_job_is_told_its_name(
    head: FakeHead,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: BaseException,
    code: int,
    text: str,
) -> None:
    def stop(*_: object) -> None:
        raise error

    spec = tmp_path / "spec.toml"
    spec.write_text(parse_spec(SPEC).to_toml())
    monkeypatch.setattr(jobs, "start", lambda *_: "j")
    monkeypatch.setattr(jobs, "state", stop)
    head.answers["/api/version"] = {"ray_version": "2.60.0"}
    head.answers["/api/jobs/"] = []
    left = f"job j was submitted and may go on: `sweep cancel j --address {head.address}`{text}"
    with pytest.raises(type(error), match=f"^{re.escape(left)}$"):
        jobs.submit(head.connect(), spec, store=STORE)
    place = ["--store", STORE, "--address", head.address]
    done = CliRunner().invoke(commands(), ["submit", str(spec), *place])
    assert done.exit_code == code
    assert left in (done.stderr if code == 130 else str(done.exception))


@pytest.mark.parametrize(
    ("told", "kind", "text"),
    [
        ('{"failed": "of seed 1", "bad_input": true}', ValueError, "job j failed: of seed 1"),
        ('{"failed": "is being written"}', EngineError, "job j failed: is being written"),
    ],
)
def test_a_job_that_fails_at_once_is_not_said_to_have_begun(
    head: FakeHead, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str, kind: type, text: str
) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(parse_spec(SPEC).to_toml())
    monkeypatch.setattr(jobs, "start", lambda *_: "j")
    head.answers["/api/version"] = {"ray_version": "2.60.0"}
    head.answers["/api/jobs/"] = []
    states = iter(["RUNNING", "RUNNING", "FAILED"])
    head.answers["/api/jobs/j"] = lambda _: job_entry(next(states))
    begun = 'sweep-job: {"python": "3.11.7"}\nsweep-job: {"published": "w"}\n'
    words = iter([begun, *[f"{begun}sweep-job: {told}\n"] * 2])
    head.answers["/api/jobs/j/logs"] = lambda _: {"logs": next(words)}
    with pytest.raises(kind, match=text):
        jobs.submit(head.connect(), spec, store=STORE)
    assert next(states, None) is None  # whoever asks next sees that it has failed
    head.answers["/api/jobs/j"] = job_entry("RUNNING")
    head.answers["/api/jobs/j/logs"] = {"logs": begun}
    waits = jobs.submit(head.connect(), spec, store=STORE, patience=0.0)
    assert waits.python == "3.11.7"
    assert waits.notes == ("it has not opened its store within 0 s: see `sweep logs`",)
    head.answers["/api/jobs/j/logs"] = {"logs": f'{begun}sweep-job: {{"begun": true}}\n'}
    assert jobs.submit(head.connect(), spec, store=STORE, patience=0.0).notes == ()


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
    monkeypatch.setattr(asking, "_SETTLE", 0.0)
    head.answers["/api/jobs/"] = []
    head.answers["/api/jobs/j"] = job_entry("PENDING")
    head.answers["/api/jobs/j/logs"] = {"logs": ""}

    def stop(dashboard: Dashboard, job: str) -> jobs.Job:
        head.answers["/api/jobs/j"] = job_entry("STOPPED", "j")
        return jobs.state(dashboard, job)

    monkeypatch.setattr(jobs, "cancel", stop)
    with pytest.raises(EngineError, match="job j has not begun within 0 s: see `ray status` on the head"):
        asking.ask(head.connect(), ["survey"], "nodes", 0.0)
    assert head.asked[-1][:2] == ("DELETE", "/api/jobs/j")


def test_an_answered_question_is_forgotten_with_those_that_were_left(
    head: FakeHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "start", lambda *_: "sweep-ask-j")
    monkeypatch.setattr(asking, "_SETTLE", 0.0)
    refusals = iter([(500, b"RuntimeError: it is in a non-terminal state RUNNING.")])
    ended = {**job_entry("SUCCEEDED", "sweep-ask-j"), "end_time": 100_000}

    def answer(method: str) -> object:
        return next(refusals, {}) if method == "DELETE" else ended

    def left(name: str, end: int) -> dict[str, object]:  # as Ray brings it back
        return {"submission_id": name, "status": "FAILED", "metadata": None, "end_time": end}

    head.answers["/api/jobs/sweep-ask-j"] = answer
    head.answers["/api/jobs/sweep-ask-j/logs"] = {"logs": 'sweep-job: {"nodes": []}\n'}
    head.answers["/api/jobs/"] = [ended, left("sweep-ask-old", 1000), left("sweep-ask-new", 99_000)]
    head.answers["/api/jobs/"] += [left("sweep-run-old", 1000), left(None, 1000)]  # type: ignore[arg-type]
    assert asking.ask(head.connect(), ["survey"], "nodes")["nodes"] == []
    deleted = [path.rpartition("/")[2] for method, path, _ in head.asked if method == "DELETE"]
    assert deleted == ["sweep-ask-j", "sweep-ask-j", "sweep-ask-old"]


def test_a_log_is_followed_line_by_line(head: FakeHead, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = iter(["a\nb", "a\nbc\n", "a\nbc\nd"])
    states = iter(["RUNNING", "RUNNING", "SUCCEEDED"])
    monkeypatch.setattr(jobs, "logs", lambda *_: next(logs))
    head.answers["/api/jobs/j"] = None
    monkeypatch.setattr(jobs, "state", lambda *_: jobs._job(job_entry(next(states))))
    assert list(jobs.follow(head.connect(), "j", 0.0)) == ["a", "bc", "d"]
    assert jobs.spoken('sweep-job: {"begun": true}') is None
    assert jobs.spoken('sweep-job: {"fail') is None


def test_of_a_head_that_has_no_node_yet_one_is_told_to_wait(head: FakeHead) -> None:
    head.answers["/api/version"] = {"ray_version": "2.60.0"}
    head.answers["/api/v0/nodes"] = {"data": {"result": {"result": []}}}
    nodes = next(finding for finding in check_cluster(head.connect()) if finding.name == "nodes")
    assert (nodes.level, nodes.text) == (FAULT, "0 of 0 alive, 0 CPUs")
    assert nodes.cure.endswith("a head that was just started has its own some seconds later")


def test_nodes_that_differ_are_found() -> None:
    node = {"host": "a", "cpus": 4, "memory": 8e9, "versions": {"numpy": "2.4.0"}, "error": ""}
    found = dict(
        zip(
            "abc",
            compare_nodes([node, {**node, "versions": {"numpy": "2.5"}}, {**node, "error": "no"}]),
            strict=True,
        )
    )
    assert found["a"] == Finding("a", OK, "4 CPUs, 8.0 GB for tasks")
    assert found["b"].level == FAULT
    assert found["c"] == Finding("a", FAULT, "cannot run tasks: no")


def test_the_log_of_a_long_run_of_many_cells_stays_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(job_main.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr("sweep.progress.sentence", lambda state: f"{state} of 20000 cells")
    show = job_main._teller(SimpleNamespace(refresh=lambda **_: ""))
    for done in range(20_000):  # a minute each, two weeks together
        show(done)  # type: ignore[arg-type]
        clock[0] += 60.0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'sweep-job: {"begun": true}'
    assert lines[1:3] == ["0 of 20000 cells  after 0 s", "1 of 20000 cells  after 60 s"]
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


def test_a_full_disk_of_the_logs_ends_no_sweep_that_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is noted once, and the listing is written when there is room again."""
    job, logs = tmp_path / "session_1" / "job", tmp_path / "session_1" / "logs"
    for folder in (job, logs):
        folder.mkdir(parents=True)
    monkeypatch.chdir(job)
    Path("spec.toml").write_text(parse_spec(SPEC).to_toml())
    monkeypatch.setattr(listing, "_SECONDS", -1.0)
    monkeypatch.setattr(listing, "_SHARE", -1.0)
    run, tried = sweep.run, []

    def write(file: Path, content: bytes) -> None:
        tried.append(file)
        if len(tried) not in (1, 4):
            raise StoreError(f"{file} cannot be written: No space left on device")
        write_file(file, content)

    def run_here(spec: str, *, store: Path, progress: Callable[[object], None], **_: object) -> object:
        return run(spec, store=store, engine="serial", progress=progress)

    monkeypatch.setattr(listing, "write_file", write)
    monkeypatch.setattr("sweep.driver.run", run_here)
    store = tmp_path / "store"
    assert job_main.run(str(store), 1) == job_main.DONE
    said = capsys.readouterr().out
    assert said.count("what is stored cannot be shown to the dashboard at present") == 1
    assert said.count("No space left on device") == 1
    assert "2 of 2 cells done; 6 replicas computed" in said
    assert len(tried) >= 5
    shown = json.loads((logs / f"{listing.window_name(str(store))}.json").read_text())
    assert shown["status"]["replicas"] > 0


def test_what_a_full_disk_of_the_logs_has_no_room_for_is_lost_without_harm() -> None:
    """Ray has a job write straight to its log."""
    command = [sys.executable, "-u", "-c", "from sweep.engines.job_main import say; say('one'); say('two')"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("error", "code", "bad_input"),
    [
        (MismatchError("made with seed = 1"), job_main.BAD_INPUT, True),
        (SpecError("spec.toml", ["seed"]), job_main.BAD_INPUT, True),
        (LockError("is being written", "one"), job_main.TROUBLE, None),
    ],
)
def test_a_job_tells_whether_its_input_is_at_fault(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    bad_input: bool | None,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("sweep.driver.run", refuse)
    assert job_main._run(Listing(str(tmp_path / "store"), tmp_path), 1) == code
    facts = jobs._facts(capsys.readouterr().out)
    assert (facts["failed"], facts.get("bad_input"), facts.get("begun")) == (str(error), bad_input, None)


def test_a_job_tells_that_it_has_begun_once_its_listing_is_of_the_spec_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a spec that has grown; then with nothing to do but to write a damaged layout anew."""
    store, run = tmp_path / "store", sweep.run
    run(SPEC, store=store, engine="serial")
    listing = Listing(str(store), tmp_path)
    seen: list[tuple[int, bool, object]] = []

    def run_here(spec: str, *, progress: object, **_: object) -> object:
        def show(state: object) -> None:
            progress(state)  # type: ignore[operator]
            status = json.loads((tmp_path / f"{listing.name}.json").read_text())["status"]
            seen.append(
                (status["wanted"], bool(status["writer"]), jobs._facts(capsys.readouterr().out)["begun"])
            )
            raise KeyboardInterrupt

        return run(spec, store=store, engine="serial", progress=show)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sweep.driver.run", run_here)
    Path("spec.toml").write_text(parse_spec({**SPEC, "run": {**SPEC["run"], "replicas": 4}}).to_toml())
    with pytest.raises(KeyboardInterrupt):
        job_main._run(listing, 1)
    assert seen == [(8, True, True)]
    Path("spec.toml").write_text(parse_spec(SPEC).to_toml())
    (store / "layout.json").write_text("{}")
    assert job_main._run(listing, 1) == job_main.DONE
    assert store_status(store).done == 2
    assert jobs._facts(capsys.readouterr().out) == {"begun": True}


def test_a_run_tells_of_its_start_before_kernels_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(SerialEngine, "prepare", lambda *_: told.append("prepare"))
    sweep.run(SPEC, store=tmp_path / "s", engine="serial", progress=lambda state: told.append(state.last))
    assert told[:2] == ["starting", "prepare"]
