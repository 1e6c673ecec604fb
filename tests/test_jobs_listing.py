"""Listings of stores: what they hold, and that nothing else is taken from a head that lies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweep.engines import fetch as fetching
from sweep.engines.listing import Listing, window_name
from sweep.errors import EngineError, StoreError
from sweep.store import Store
from tests.fake_head import STORE, FakeHead, job_entry, small_store


@pytest.fixture
def head() -> Iterator[FakeHead]:
    with FakeHead() as fake:
        yield fake


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_store(tmp_path_factory.mktemp("head") / "store")


def test_a_directory_where_a_file_should_be_hides_nothing_else(store: Path, tmp_path: Path) -> None:
    mine = tmp_path / "store"
    shutil.copytree(store, mine)
    (mine / "failures" / f"{'0' * 32}.json").mkdir(parents=True)
    listing = Listing(str(mine), tmp_path)
    listing.write()
    content = json.loads((tmp_path / f"{listing.name}.json").read_text())
    assert (content["status"]["done"], content["trouble"]) == (2, "")
    assert content["files"].keys() == {
        path.relative_to(mine).as_posix() for path in mine.rglob("*") if path.is_file()
    } - {"results.nc", "checked.json"}


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "/etc/x",
        "shards/../../x",
        "other/x",
        "shards/a/b",
        "shards",
        "shards/",
        "shards/a.nc",
        "results.nc",
        "lock",
        ".fetched.json",
        "store.json\n",
        "store.json\0",
        f"failures/{'0' * 32}.json\n",
        f"failures/{'0' * 33}.json",
        f"shards/{'a' * 300}-{'0' * 16}-{'0' * 32}.nc",
        "",
    ],
)
def test_a_listing_cannot_name_other_files(head: FakeHead, store: Path, tmp_path: Path, path: str) -> None:
    head.offer(store)
    listing = json.loads(head.files[f"{window_name(STORE)}.json"])
    listing["files"] = {path: [1, "0" * 32]}
    head.files[f"{window_name(STORE)}.json"] = json.dumps(listing).encode()
    with pytest.raises(EngineError, match="which is no file of a store: is it a head of yours") as caught:
        fetching.fetch(head.connect(), STORE, tmp_path / "a")
    assert f"the listing of {STORE} on {head.address} has {path!r}, which is no file" in str(caught.value)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("changes", "entry"),
    [
        ({"files": {"store.json": [-1, "0" * 32]}}, "files.store.json.0"),
        ({"files": {"store.json": ["1", "0" * 32]}}, "files.store.json.0"),
        ({"files": {"store.json": [1, "no digest"]}}, "files.store.json.1"),
        ({"files": {"store.json": [1]}}, "files.store.json.1"),
        ({"files": ["store.json"]}, "files"),
        ({"status": {"name": "x"}}, "status.cells"),
        ({"time": 3}, "time"),
    ],
)
def test_a_listing_of_the_wrong_form_is_refused_with_its_entry(
    head: FakeHead, store: Path, tmp_path: Path, changes: dict[str, object], entry: str
) -> None:
    head.offer(store)
    listing = json.loads(head.files[f"{window_name(STORE)}.json"])
    head.files[f"{window_name(STORE)}.json"] = json.dumps({**listing, **changes}).encode()
    with pytest.raises(EngineError, match=": is it a head of yours") as caught:
        fetching.fetch(head.connect(), STORE, tmp_path / "a")
    assert f"the listing of {STORE} on {head.address} is wrong, '{entry}': " in str(caught.value)
    head.files[f"{window_name(STORE)}.json"] = b"[not JSON"
    with pytest.raises(EngineError, match="is wrong, 'all of it': Invalid JSON"):
        fetching.look(head.connect(), STORE)


def test_every_file_of_a_store_is_listed(store: Path, tmp_path: Path) -> None:
    mine = tmp_path / "store"
    shutil.copytree(store, mine)
    (mine / "failures").mkdir(exist_ok=True)
    (mine / "failures" / f"{'0' * 32}.json").write_text("{}")
    expected = {path.relative_to(mine).as_posix() for path in mine.rglob("*") if path.is_file()}
    for foreign in ("shards/mine.nc", "failures/mine.json", "shards/.tmp-x.nc"):
        (mine / foreign).write_text("")
    listing = Listing(str(mine), tmp_path)
    listing.write()
    files = json.loads((tmp_path / f"{listing.name}.json").read_text())["files"]
    assert set(files) == expected - {"results.nc", "checked.json"}


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


def test_a_listing_of_nothing_says_so(tmp_path: Path) -> None:
    """Nor has a store that is being made a fault."""
    listing = Listing(str(tmp_path / "store"), tmp_path)
    for files in (set(), {"store.json", "spec.toml"}):
        listing.write()
        content = json.loads((tmp_path / f"{listing.name}.json").read_text())
        assert (content["status"], content["trouble"], content["files"].keys()) == (None, "", files)
        if not files:
            Store.create(tmp_path / "store", {"seed": 1}, "")
