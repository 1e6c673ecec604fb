"""Fetching keeps nothing but what was listed, from a head that is slow, broken or hostile."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import sweep
from sweep.engines import fetch as fetching
from sweep.engines.listing import Listing, window_name
from sweep.errors import EngineError, MismatchError, StoreError
from tests.fake_head import STORE, FakeHead, job_entry


@pytest.fixture
def head() -> Iterator[FakeHead]:
    with FakeHead() as fake:
        yield fake


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
    note = tmp_path / "a" / fetching.RECORD_FILE
    content = json.loads(note.read_text())
    note.write_text(json.dumps({**content, "store": "/data/other"}))
    with pytest.raises(MismatchError, match="was fetched from /data/other, not /data/store: give that path"):
        fetching.fetch(head.connect(), STORE, tmp_path / "a")
    note.write_text(json.dumps(content))
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
