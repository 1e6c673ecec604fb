"""Fetching keeps nothing but what was listed, from a head that is slow, broken or hostile."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sweep
from sweep.cli import app
from sweep.engines import fetch as fetching
from sweep.engines.listing import window_name
from sweep.errors import EngineError, MismatchError, StoreError
from sweep.lock import StoreLock
from sweep.shard import DamageError
from sweep.status import store_status
from tests.fake_head import STORE, FakeHead, small_store
from tests.job_head import commands
from tests.newer_numbers import newer_numbers


@pytest.fixture
def head() -> Iterator[FakeHead]:
    with FakeHead() as fake:
        yield fake


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_store(tmp_path_factory.mktemp("head") / "store")


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
    assert (known.address, known.store) == (head.address, str(store))
    again = fetching.fetch(head.connect(), "sweep-run-1", tmp_path / "a")
    assert (again.sent, again.bytes) == (0, 0)


@pytest.mark.parametrize("mixed", [False, True])
def test_numbers_of_an_older_version_are_fetched_with_their_cells(
    head: FakeHead, store: Path, tmp_path: Path, mixed: bool
) -> None:
    mine = tmp_path / "head" / "store"
    shutil.copytree(store, mine)
    with newer_numbers():
        if mixed:
            spec = tomllib.loads((mine / "spec.toml").read_text())
            spec["run"]["replicas"] = 4
            assert sweep.run(spec, store=mine, engine="serial", mix_numbers=True).replicas_computed == 2
        head.offer(mine)
        fetching.fetch(head.connect(), STORE, tmp_path / "a")
    assert same_results(tmp_path / "a", mine)
    assert np.isfinite(sweep.load(tmp_path / "a")["network"].S_sup).sum() == (8 if mixed else 6)


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
    others = sum(name.endswith(".nc") for name in head.files) - 1
    assert len(list((tmp_path / "a" / "shards").iterdir())) == others > 0
    assert (tmp_path / "a" / "results.nc").exists()
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


def test_a_damaged_shard_is_left_out_and_told(head: FakeHead, store: Path, tmp_path: Path) -> None:
    """What was fetched of it before stays, and is then not missed."""
    mine, run = tmp_path / "head" / "store", CliRunner()
    shutil.copytree(store, mine)
    head.offer(mine)
    fetching.fetch(head.connect(), STORE, tmp_path / "before")
    shard = max(mine.glob("shards/network-*.nc"))
    shard.write_bytes(shard.read_bytes()[:-7])
    shutil.copytree(tmp_path / "before", tmp_path / "broken")
    shutil.copy(shard, tmp_path / "broken" / "shards")
    head.offer(mine)
    for target, missed in (("after", 1), ("before", 0), ("broken", 1)):
        arguments = ["fetch", STORE, "--address", head.address, "--to", str(tmp_path / target)]
        done = run.invoke(commands(), arguments)
        assert done.exit_code == missed, done.output
        text = "1 file is damaged on the head: submit again to recompute it"
        assert (text in done.stdout) == bool(missed)
        assert (tmp_path / target / "shards" / shard.name).exists() == (target != "after")
    assert same_results(tmp_path / "before", store)
    kept = sweep.load(tmp_path / "after")
    assert kept["fluid"].to_dataset().identical(sweep.load(store)["fluid"].to_dataset())
    told = run.invoke(commands(), ["status", STORE, "--address", head.address])
    assert f"damaged, will be computed again: {mine / 'shards' / shard.name}" in told.stdout


def test_the_status_of_a_store_on_a_head_is_told_as_that_of_one_here(
    head: FakeHead, store: Path, tmp_path: Path
) -> None:
    run, place = CliRunner(), ["--address", head.address]
    head.offer(store)
    listing = json.loads(head.files[f"{window_name(STORE)}.json"])
    listing["status"]["failed"] = [[f"N={number}", "no memory"] for number in range(23)]
    head.files[f"{window_name(STORE)}.json"] = json.dumps(listing).encode()
    told = run.invoke(app, ["status", STORE, *place])
    assert told.exit_code == 1
    assert told.stdout.count("failed  N=") == 20
    assert f"… and 3 more: see `sweep status {STORE} --address {head.address} --json`\n" in told.stdout
    told = run.invoke(app, ["status", STORE, *place, "--json"])
    assert told.exit_code == 1
    known = json.loads(told.stdout)
    assert {name: known[name] for name in listing["status"]} == listing["status"]
    assert (known["time"], known["trouble"], known["fetched"]) == (listing["time"], "", None)
    assert (known["job"]["id"], known["job"]["status"]) == ("sweep-run-1", "RUNNING")
    head.offer(tmp_path / "none")
    told = run.invoke(app, ["status", STORE, *place, "--json"])
    known = json.loads(told.stdout)
    assert (told.exit_code, known["cells"], known["name"]) == (0, None, None)


DAMAGED_LAYOUTS = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b"{",
    b"\0" * 100,
    b"\xff\xfe",
    b'{"groups": [{"keys": [[]]}]}',
    b'{"groups": 3}',
    lambda text: text.replace(b'"replicas": 3', b'"replicas": "three"'),
    lambda text: text.replace(b'"title"', b'"other"'),
    lambda text: text.replace(b'"small"', b'"\xff"'),
    lambda text: text.replace(b"[5, 10]", b"[10, 5]"),
    lambda text: text.replace(b'"keys": [[0, ', b'"keys": [[7, '),
    lambda text: text[:-9],
]


@pytest.mark.parametrize("damage", DAMAGED_LAYOUTS)
def test_a_damaged_layout_is_told_and_written_anew_by_another_run(
    head: FakeHead, store: Path, tmp_path: Path, damage: bytes | Callable[[bytes], bytes]
) -> None:
    mine = tmp_path / "head" / "store"
    shutil.copytree(store, mine)
    good = (mine / "layout.json").read_bytes()
    bad = damage if isinstance(damage, bytes) else damage(good)
    assert bad != good
    (mine / "layout.json").write_bytes(bad)
    text = f"layout.json of {mine} is damaged"
    cure = r" \(\w+\): run the sweep again, which writes it anew$"
    with pytest.raises(StoreError, match=f"^{re.escape(text)}{cure}"):
        store_status(mine)
    head.offer(mine)
    told = CliRunner().invoke(commands(), ["status", STORE, "--address", head.address])
    assert told.exit_code == 3, told.output
    assert told.stdout.startswith(text)
    with pytest.raises(StoreError, match=f"{STORE} on {head.address} cannot be fetched: {re.escape(text)}"):
        fetching.fetch(head.connect(), STORE, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    sweep.run(mine / "spec.toml", store=mine, engine="serial")
    assert (mine / "layout.json").read_bytes() == good


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "{} is not a sweep store (JSONDecodeError in store.json): give the directory named as"),
        (
            b'{"format": 9, "numbers_version": 2, "frame": {}}',
            "{} has store format 9, this version reads 1: use",
        ),
    ],
)
def test_a_store_that_cannot_be_read_is_not_said_to_be_empty(
    head: FakeHead, store: Path, tmp_path: Path, content: bytes, text: str
) -> None:
    mine = tmp_path / "head" / "store"
    shutil.copytree(store, mine)
    (mine / "store.json").write_bytes(content)
    head.offer(mine)
    told = CliRunner().invoke(commands(), ["status", STORE, "--address", head.address])
    assert told.exit_code == 3, told.output
    assert told.stdout.startswith(text.format(mine))
    assert "nothing is stored yet" not in told.stdout
    with pytest.raises(StoreError, match=re.escape(f"cannot be fetched: {text.format(mine)}")):
        fetching.fetch(head.connect(), STORE, tmp_path / "a")


def test_a_sweep_goes_on_as_long_as_someone_writes(
    head: FakeHead, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "ask", lambda *_: {"node": "n"})
    head.offer(store, "SUCCEEDED")
    assert fetching.fetch(head.connect(), STORE, tmp_path / "a").complete
    with StoreLock(store):
        head.offer(store, "SUCCEEDED")
    done = fetching.fetch(head.connect(), STORE, tmp_path / "a")
    assert (done.complete, done.damaged, done.sent) == (False, 0, 0)


def test_a_job_that_failed_before_it_made_a_store_tells_why(
    head: FakeHead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "ask", lambda *_: {"node": "n"})
    head.offer(tmp_path / "none", "FAILED")
    head.answers["/api/jobs/"][0]["message"] = "failed with exit code 2, last logs: a hundred lines"
    head.answers["/api/jobs/sweep-run-1/logs"] = {"logs": 'sweep-job: {"failed": "no trace x.txt"}\n'}
    run, place = CliRunner(), ["--address", head.address]
    status = run.invoke(commands(), ["status", STORE, *place])
    assert status.exit_code == 3
    assert f"{STORE}: nothing is stored yet\njob sweep-run-1 is FAILED, began" in status.stdout
    assert "Z: no trace x.txt\n" in status.stdout
    assert "hundred lines" not in status.stdout
    fetched = run.invoke(commands(), ["fetch", STORE, *place, "--to", str(tmp_path / "a")])
    assert fetched.exit_code == 0, fetched.output
    assert "nothing is stored yet\n" in fetched.stdout
    assert "results.nc" not in fetched.stdout
    del head.answers["/api/jobs/sweep-run-1/logs"]
    assert "hundred lines" in run.invoke(commands(), ["status", STORE, *place]).stdout
    head.answers["/api/jobs/"] = []
    with pytest.raises(MismatchError, match=r"/data/store is not a sweep store on http.*: give the path"):
        fetching.look(head.connect(), STORE)


def test_no_more_bytes_are_taken_than_were_listed(tmp_path: Path) -> None:
    endless = itertools.chain([b"x" * 10], itertools.repeat(b"x", 3))
    with pytest.raises(DamageError, match="its bytes are not those that were listed"):
        fetching._receive(endless, tmp_path / "a" / "file", 11, "0" * 32)
    assert list(endless) == [b"x"]


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


def test_a_directory_is_known_by_every_spelling_of_its_store(
    head: FakeHead, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that has the path as it was asked for is of that spelling alone."""
    monkeypatch.setattr(fetching, "ask", lambda *_: {"node": "n"})
    head.offer(store)
    other = {name.replace(window_name(STORE), window_name("~/it")): text for name, text in head.files.items()}
    head.files |= other
    head.answers["/api/jobs/"] = []
    assert fetching.fetch(head.connect(), "~/it", tmp_path / "a").sent > 0
    assert fetching.fetch(head.connect(), STORE, tmp_path / "a").sent == 0
    note = tmp_path / "a" / fetching.RECORD_FILE
    content = json.loads(note.read_text())
    note.write_text(json.dumps({**content, "store": "~/it"}))
    with pytest.raises(MismatchError, match="was fetched from ~/it, not /data/store: give that path, or"):
        fetching.fetch(head.connect(), STORE, tmp_path / "a")
    assert fetching.fetch(head.connect(), "~/it", tmp_path / "a").sent == 0
    assert fetching.fetch(head.connect(), STORE, tmp_path / "a").sent == 0
