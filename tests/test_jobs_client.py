"""What submitting and fetching do when the other side is no head, an old, a broken or a hostile one."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

import sweep
from sweep.engines import fetch as fetching
from sweep.engines import job_main, jobs, package
from sweep.engines.checkup import compare_nodes
from sweep.engines.dashboard import Dashboard, UnreachableError, check_address, cluster_token
from sweep.engines.job_main import lacks
from sweep.engines.listing import Listing, window_name
from sweep.errors import EngineError, MismatchError, SpecError, StoreError

Answer = tuple[int, bytes]
STORE = "/data/store"


class FakeHead:
    """Answers by path, as told; keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {"/api/authentication_mode": {"authentication_mode": "disabled"}}
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.short: set[str] = set()  # files whose answer is cut
        self.posted: list[Any] = []
        self.clients = ExitStack()
        head = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                head.answer(self)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def connect(self, token: str | None = None) -> Dashboard:
        """A client, closed at the end of the test."""
        return self.clients.enter_context(Dashboard(self.address, token=token))

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        self.asked.append((request.command, parts.path, request.headers.get("Authorization", "")))
        if request.command == "POST":
            self.posted.append(json.loads(body))
        name = parse_qs(parts.query).get("filename", [""])[0]
        status, content = self.content(parts.path, name)
        request.send_response(status)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if name in self.short:
            self.short.discard(name)
            request.wfile.write(content[: len(content) // 2])
            request.close_connection = True
        else:
            request.wfile.write(content)

    def content(self, path: str, name: str) -> Answer:
        if path == "/api/v0/logs/file":
            return (200, self.files[name]) if name in self.files else (500, f"no file {name}".encode())
        if path not in self.answers:
            return 404, b"unknown"
        found = self.answers[path]
        if isinstance(found, tuple):
            return found
        return 200, json.dumps(found).encode()

    def offer(self, store: Path, status: str = "RUNNING") -> None:
        """Let a store of this machine be seen as `STORE` of a job."""
        logs = store.parent / "logs"
        logs.mkdir(exist_ok=True)
        listing = Listing(str(store), logs)
        listing.write()
        content = (logs / f"{listing.name}.json").read_bytes()
        self.files = {f"{window_name(STORE)}.json": content}
        for path in json.loads(content)["files"]:
            self.files[f"{window_name(STORE)}/{path}"] = (store / path).read_bytes()
        self.answers["/api/jobs/"] = [job_entry(status)]


def job_entry(status: str, name: str = "sweep-run-1", began: int = 1000) -> dict[str, Any]:
    return {
        "submission_id": name,
        "status": status,
        "message": "",
        "metadata": {"sweep": "run", "store": STORE},
        "driver_node_id": "n" * 8,
        "start_time": began,
        "end_time": None,
    }


@pytest.fixture
def head() -> Iterator[FakeHead]:
    fake = FakeHead()
    thread = threading.Thread(target=fake.server.serve_forever)
    thread.start()
    with fake.clients:
        yield fake
    fake.server.shutdown()
    thread.join()
    fake.server.server_close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished store of some shards."""
    place = tmp_path_factory.mktemp("head") / "store"
    spec = {
        "name": "small",
        "study": "transient",
        "seed": 1,
        "grid": {"N": [5, 10], "d": 2, "lam": 0.5, "G": "exponential"},
        "run": {"horizon": 1.0, "times": 3, "levels": 2, "replicas": 3},
    }
    sweep.run(spec, store=place, engine="serial")
    return place


# ------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "address", ["ray://head:10001", "ftp://head", "http://", "", "head:port", "http://head:99999999"]
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(
        ValueError, match="address must be that of the head's dashboard, like http://HEAD:8265"
    ):
        check_address(address)


def test_an_address_without_scheme_is_of_http() -> None:
    assert check_address("head:8265") == "http://head:8265"
    assert check_address("https://proxy/ray/") == "https://proxy/ray"


def test_a_head_that_is_down_is_unreachable_with_a_cure() -> None:
    with pytest.raises(
        UnreachableError, match=r"the head http://127\.0\.0\.1:9 is unreachable .*ssh -L 8265"
    ):
        Dashboard("127.0.0.1:9")


@pytest.mark.parametrize("answer", [(200, b"<html>"), (200, b"{}"), (200, b"[]")])
def test_another_server_is_no_dashboard(head: FakeHead, answer: Answer) -> None:
    head.answers["/api/authentication_mode"] = answer
    with pytest.raises(UnreachableError, match="is no Ray dashboard: give the address that `ray start`"):
        head.connect()


def test_a_redirect_is_not_followed(head: FakeHead) -> None:
    head.answers["/api/authentication_mode"] = (302, b"elsewhere")
    with pytest.raises(EngineError, match=r"refused GET /api/authentication_mode: elsewhere \(HTTP 302\)"):
        head.connect()


# ---------------------------------------------------------------------------------------------- tokens


def test_a_token_is_sent_only_to_a_head_that_asks(head: FakeHead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    head.answers["/api/jobs/"] = []
    assert jobs.jobs(head.connect()) == []
    assert {sent for _, _, sent in head.asked} == {""}
    head.answers["/api/authentication_mode"] = {"authentication_mode": "token"}
    jobs.jobs(head.connect())
    assert [sent for _, _, sent in head.asked[-2:]] == ["", "Bearer secret"]


def test_a_head_older_than_tokens_lets_all_in(head: FakeHead) -> None:
    del head.answers["/api/authentication_mode"]
    assert head.connect().open


def test_a_missing_and_a_wrong_token_are_told(
    head: FakeHead, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    head.answers["/api/authentication_mode"] = {"authentication_mode": "token"}
    with pytest.raises(EngineError, match="asks for a token: set RAY_AUTH_TOKEN, or copy the file"):
        head.connect()
    head.answers["/api/jobs/"] = (403, b"Forbidden: Invalid authentication token")
    with pytest.raises(EngineError, match=r"does not accept the token \(Forbidden: Invalid .*: set RAY_AUTH"):
        jobs.jobs(head.connect("wrong"))


def test_the_token_is_found_where_ray_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    assert cluster_token() is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("one\n")
    assert cluster_token() == "one"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "other"))
    with pytest.raises(EngineError, match=r"other \(RAY_AUTH_TOKEN_PATH\) cannot be read: "):
        cluster_token()
    (tmp_path / "other").write_text("two")
    assert cluster_token() == "two"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "three")
    assert cluster_token() == "three"


# ------------------------------------------------------------------------------------------- pre-flight

NEEDS: Mapping[str, Any] = {"python": "3.11", "packages": {"numpy": ["2.4", "3"]}, "here": {}}


@pytest.mark.parametrize(
    ("needs", "fault"),
    [
        (
            {"python": "3.99"},
            r"the head runs Python 3\.\S+ \(.*\), Python 3.99 or newer is needed: start Ray",
        ),
        ({"packages": {"numpy": ["9", ""]}}, r"must have numpy 9 or newer, got [\d.]+: install requirements"),
        (
            {"packages": {"numpy": ["0.5", "1.0"]}},
            r"must have numpy 0.5 or newer but before 1.0, got [\d.]+: install",
        ),
        ({"packages": {"no-such": ["1.0", ""]}}, "must have no-such 1.0 or newer, got none: install req"),
    ],
)
def test_what_the_head_lacks_is_told_with_a_cure(needs: Mapping[str, Any], fault: str) -> None:
    faults, notes = lacks({**NEEDS, **needs})
    assert len(faults) == 1
    assert re.search(fault, faults[0])
    assert notes == []


def test_another_version_than_here_is_a_remark() -> None:
    faults, notes = lacks({**NEEDS, "here": {"numpy": "2.3.9"}})
    assert faults == []
    assert notes == [f"the head has numpy {np.__version__}, the submitter 2.3.9"]


def test_this_python_has_what_is_needed() -> None:
    assert lacks(package.requirements()) == ([], [])


def test_the_first_look_at_a_head_imports_the_standard_library_alone() -> None:
    code = "import sys, sweep.engines.job_main; print(*{'numpy', 'ray', 'numba', 'typer'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("version", ["2.9.3", "3.0.0"])
def test_a_cluster_of_another_ray_is_refused(head: FakeHead, version: str) -> None:
    head.answers["/api/version"] = {"ray_version": version}
    with pytest.raises(EngineError, match=rf"must run Ray 2\.60 or newer, before 3, got {version}: start it"):
        jobs.check_ray(head.connect())


@pytest.mark.parametrize("place", ["runs/one", "./one", "~other/one", ""])
def test_a_relative_store_is_refused_before_anything_is_sent(
    head: FakeHead, place: str, tmp_path: Path
) -> None:
    dashboard = head.connect()
    with pytest.raises(ValueError, match="store must be an absolute path on the head, or begin with ~/, got"):
        jobs.submit(dashboard, tmp_path / "none.toml", store=place)
    with pytest.raises(SpecError, match="the spec file must be readable text"):
        jobs.submit(dashboard, tmp_path / "none.toml", store=STORE)
    assert len(head.asked) == 1


def test_files_that_a_spec_names_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    for name in ("data/one.txt", "two.txt", "unnamed.txt"):
        Path(name).write_text("1\n3\n")
    Path("spec.toml").write_text(
        'G = ["trace(data/one.txt)", "exponential", "trace(path=\'two.txt\')", "lomax(beta=1.5)"]'
    )
    content = package.spec_package(Path("spec.toml"))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["data/one.txt", "requires.json", "spec.toml", "start.sh", "two.txt"]
        assert archive.read("data/one.txt") == b"1\n3\n"
    assert content == package.spec_package(Path("spec.toml"))


def test_a_file_outside_the_current_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("../one.txt").write_text("1\n")
    for name in ("../one.txt", str(tmp_path / "one.txt")):
        Path("spec.toml").write_text(f'G = "trace({name})"')
        with pytest.raises(ValueError, match=r"must lie below the current directory, got .*one.txt': copy"):
            package.spec_package(Path("spec.toml"))


def test_too_large_an_upload_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: FakeHead
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(package, "UPLOAD_LIMIT", 1000)
    Path("one.txt").write_text("1\n" * 2000)
    Path("spec.toml").write_text('G = "trace(one.txt)"')
    with pytest.raises(
        ValueError, match=r"must have at most 0 MiB together, got 0 MiB, the largest one\.txt"
    ):
        package.spec_package(Path("spec.toml"))
    monkeypatch.setattr(jobs, "UPLOAD_LIMIT", 1000)
    with pytest.raises(ValueError, match="upload must have at most 1,000 bytes, got"):
        jobs.start(head.connect(), ["publish"], b"x" * 1001, {"sweep": "ask"})


def test_the_package_sent_is_this_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(package.code_package())) as archive:
        archive.extractall(tmp_path)
    code = "import sweep.driver, sweep.engines.fetch; print(sweep.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path / "sweep" / "__init__.py")
    assert set(json.loads((tmp_path / package.ORIGIN_FILE).read_text())) == {"commit", "modified"}


# ------------------------------------------------------------------------------------------------ jobs


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


# --------------------------------------------------------------------------------------------- fetching


def same_results(one: Path, other: Path) -> bool:
    left, right = sweep.load(one), sweep.load(other)
    return all(left[name].to_dataset().identical(right[name].to_dataset()) for name in ("network", "fluid"))


def test_a_store_is_fetched_whole_then_not_again(head: FakeHead, store: Path, tmp_path: Path) -> None:
    head.offer(store)
    told: list[tuple[int, int]] = []
    done = fetching.fetch(head.connect(), STORE, tmp_path / "a", lambda *now: told.append(now))
    assert (done.files, done.sent, done.complete) == (len(head.files) - 1, done.files, False)
    assert told[-1][0] == told[-1][1] == done.bytes
    assert same_results(tmp_path / "a", store)
    known = fetching.record(tmp_path / "a")
    assert known is not None
    assert (known.address, known.store) == (head.address, STORE)
    again = fetching.fetch(head.connect(), "sweep-run-1", tmp_path / "a")
    assert (again.sent, again.bytes) == (0, 0)


def test_a_cut_answer_and_a_damaged_copy_are_asked_for_again(
    head: FakeHead, store: Path, tmp_path: Path
) -> None:
    head.offer(store)
    shards = sorted(name for name in head.files if name.endswith(".nc"))
    head.short = {shards[0]}
    fetching.fetch(head.connect(), STORE, tmp_path / "a")
    broken = tmp_path / "a" / "shards" / Path(shards[-1]).name
    broken.write_bytes(broken.read_bytes()[:-7])
    done = fetching.fetch(head.connect(), STORE, tmp_path / "a")
    assert done.sent == 1
    assert same_results(tmp_path / "a", store)


def test_bytes_other_than_those_listed_are_never_kept(head: FakeHead, store: Path, tmp_path: Path) -> None:
    head.offer(store)
    shard = max(name for name in head.files if name.endswith(".nc"))
    good, head.files[shard] = head.files[shard], b"x" * len(head.files[shard])
    with pytest.raises(
        EngineError, match=r"could not be fetched \(its bytes are not those .* goes on from here"
    ):
        fetching.fetch(head.connect(), STORE, tmp_path / "a")
    assert not (tmp_path / "a" / "shards" / Path(shard).name).exists()
    assert not list((tmp_path / "a").rglob(".tmp*"))
    head.files[shard] = good
    assert fetching.fetch(head.connect(), STORE, tmp_path / "a").sent == 1


def test_a_failure_that_was_cleared_is_cleared_here(head: FakeHead, store: Path, tmp_path: Path) -> None:
    head.offer(store)
    listing = json.loads(head.files[f"{window_name(STORE)}.json"])
    text = b'{"key": "0"}'
    name = f"failures/{'0' * 32}.json"
    digest = hashlib.sha256(text).hexdigest()[:32]
    with_failure = {**listing, "files": {**listing["files"], name: [len(text), digest]}}
    head.files[f"{window_name(STORE)}/{name}"] = text
    head.files[f"{window_name(STORE)}.json"] = json.dumps(with_failure).encode()
    fetching.fetch(head.connect(), STORE, tmp_path / "a")
    assert (tmp_path / "a" / name).read_bytes() == text
    del head.files[f"{window_name(STORE)}/{name}"]  # cleared after it was listed
    (tmp_path / "a" / name).write_bytes(b"")
    fetching.fetch(head.connect(), STORE, tmp_path / "a")
    head.offer(store)
    fetching.fetch(head.connect(), STORE, tmp_path / "a")
    assert not (tmp_path / "a" / name).exists()


@pytest.mark.parametrize("path", ["../outside", "/etc/x", "shards/../../x", "other/x", "shards/a/b"])
def test_a_listing_cannot_write_elsewhere(head: FakeHead, store: Path, tmp_path: Path, path: str) -> None:
    head.offer(store)
    listing = json.loads(head.files[f"{window_name(STORE)}.json"])
    listing["files"] = {path: [1, "0" * 32]}
    head.files[f"{window_name(STORE)}.json"] = json.dumps(listing).encode()
    with pytest.raises(EngineError, match="which is no file of a store: is it a head of yours"):
        fetching.fetch(head.connect(), STORE, tmp_path / "a")


def test_directories_of_others_are_left_alone(head: FakeHead, store: Path, tmp_path: Path) -> None:
    head.offer(store)
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(StoreError, match="holds other files: give a new directory, or one that was fetched"):
        fetching.fetch(head.connect(), STORE, tmp_path)
    fetching.fetch(head.connect(), STORE, tmp_path / "a")
    (tmp_path / "a" / "store.json").write_text("{}")
    with pytest.raises(MismatchError, match="was fetched from another sweep than /data/store at"):
        fetching.fetch(head.connect(), STORE, tmp_path / "a")


def test_a_job_that_has_listed_nothing_yet_is_told(head: FakeHead) -> None:
    head.answers["/api/jobs/"] = [job_entry("RUNNING")]
    with pytest.raises(EngineError, match=r"the job has not listed /data/store yet .*: try again shortly"):
        fetching.look(head.connect(), STORE)
    with pytest.raises(ValueError, match="store must be an absolute path on the head"):
        fetching.look(head.connect(), "no-job")


def test_a_listing_outside_a_session_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="lies in no session of Ray: this is for jobs that `sweep submit`"):
        Listing("/data/store")


def test_a_listing_of_nothing_waits_for_a_store_unless_one_is_needed(tmp_path: Path) -> None:
    listing = Listing(str(tmp_path / "store"), tmp_path)
    listing.write()
    assert json.loads((tmp_path / f"{listing.name}.json").read_text())["status"] is None
    with pytest.raises(StoreError, match="store is not a sweep store"):
        listing.write(needed=True)
