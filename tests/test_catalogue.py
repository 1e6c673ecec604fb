"""Shards are read and checked once, remembered across openings, and never trusted when something changed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep import catalogue as module
from sweep import store as store_module
from sweep.catalogue import Entry, Index, entry_of
from sweep.errors import MismatchError, StoreError
from sweep.frame import write_frame
from sweep.seeds import NUMBERS_VERSION
from sweep.store import CHECKED_FILE, Store

KEYS = ["0" * 32, "1" * 32, "2" * 32]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store", {"seed": 1}, "")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the shards that were read to be checked."""
    found: list[str] = []
    inspect = module._inspect

    def noted(path: Path) -> Entry | str:
        found.append(path.name)
        return inspect(path)

    monkeypatch.setattr(module, "_inspect", noted)
    return found


def write(store: Store, key: str, replicas: range) -> Path:
    values = np.array([float(replica) for replica in replicas])
    return store.write_shard("network", [key] * len(replicas), replicas, {"S_sup": values})


# --------------------------------------------------------------------------------------------- index

ITEMS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-1, 12)), min_size=1, max_size=30, unique=True)


@given(st.lists(ITEMS, max_size=5), st.integers(0, 14))
def test_an_index_is_the_mapping_of_its_items(shards: list[list[tuple[str, int]]], below: int) -> None:
    index, plain = Index(), dict[tuple[str, int], tuple[Path, int]]()
    for number, items in enumerate(shards):
        path = Path(f"{number}.nc")
        index.add(path, entry_of("network", 1, [key for key, _ in items], [r for _, r in items]))
        for row, item in enumerate(items):
            plain.setdefault(item, (path, row))
    assert index == plain
    assert len(index) == len(plain)
    assert sorted(index.keys_stored()) == sorted({key for key, _ in plain})
    for key in KEYS:
        replicas = sorted(replica for name, replica in plain if name == key)
        assert index.replicas(key) == replicas
        assert index.count(key) == len(replicas)
        assert index.count(key, below=below) == sum(replica < below for replica in replicas)
        found = [
            ((key, first + i), (path, row + i))
            for first, count, path, row in index.pieces(key, 0, below)
            for i in range(count)
        ]
        assert sorted(found) == sorted((item, plain[item]) for item in plain if item in dict(found))
        assert sorted(r for (_, r), _ in found) == [r for r in replicas if 0 <= r < below]
    assert ("3" * 32, 0) not in index


def test_a_hundred_replicas_of_many_cells_take_little_memory() -> None:
    """An entry of a plain mapping alone takes about 200 bytes; there would be a million."""
    import tracemalloc

    tracemalloc.start()
    index = Index()
    for number in range(100):
        runs = tuple((f"{100 * number + cell:032x}", 0, 100) for cell in range(100))
        index.add(Path(f"{number}.nc"), Entry("network", 1, runs))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert sum(index.count(key) for key in index.keys_stored()) == 10**6
    assert held < 2**23


# ------------------------------------------------------------------------------------------ catalogue


def test_a_store_that_was_closed_opens_without_reading_its_shards(store: Store, reads: list[str]) -> None:
    with store.lock():
        write(store, KEYS[0], range(3))
    assert len(Store.open(store.path).index("network")) == 3
    assert reads == []  # the writer knew what it wrote
    (store.path / CHECKED_FILE).unlink()
    again = Store.open(store.path)
    assert len(again.index("network")) == len(again.index("network")) == 3
    assert len(reads) == 1
    with again.lock():
        again.index("network")
    assert len(Store.open(store.path).index("network")) == 3
    assert len(reads) == 1


@pytest.mark.parametrize("content", [b"", b"x", b"0" * 64 + b"\n{}"])
def test_a_damaged_memory_of_checked_shards_is_not_used(
    store: Store, reads: list[str], content: bytes
) -> None:
    with store.lock():
        write(store, KEYS[0], range(3))
    (store.path / CHECKED_FILE).write_bytes(content)
    assert len(Store.open(store.path).index("network")) == 3
    assert len(reads) == 1


def test_a_memory_of_another_format_is_not_used(
    store: Store, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, store.lock():
        patch.setattr(module, "_FORMAT", 2)
        write(store, KEYS[0], range(3))
        store.index("network")
    assert len(Store.open(store.path).index("network")) == 3
    assert len(reads) == 1


def test_a_changed_or_replaced_shard_is_checked_again(store: Store, reads: list[str]) -> None:
    with store.lock():
        paths = [write(store, key, range(3)) for key in KEYS]
    status = paths[0].stat()
    paths[0].write_bytes(paths[0].read_bytes()[:-1] + b"x")
    os.utime(paths[0], ns=(status.st_atime_ns, status.st_mtime_ns))  # only its change of status tells
    image = paths[1].read_bytes()
    paths[1].unlink()
    paths[1].write_bytes(image)
    again = Store.open(store.path)
    assert sorted(again.index("network")) == [(key, r) for key in KEYS[1:] for r in range(3)]
    assert sorted(reads) == sorted(path.name for path in paths[:2])
    assert [path for path, _ in again.damaged] == paths[:1]


def test_damage_that_nothing_tells_is_found_at_reading_and_mended_by_the_next_run(
    store: Store, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.lock():
        path = write(store, KEYS[0], range(3))
    stamp = module._stamp(path)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    monkeypatch.setattr(module, "_stamp", lambda _: stamp)
    again = Store.open(store.path)
    assert len(again.index("network")) == 3
    assert reads == []
    with pytest.raises(StoreError, match=r"cannot be read \(its bytes are not .*run the sweep again"):
        again.read("network", KEYS[0])
    assert not (store.path / CHECKED_FILE).exists()
    assert len(again.index("network")) == 0
    next_run = Store.open(store.path)
    with next_run.lock():
        next_run.set_damaged_aside()
        assert len(list((store.path / "damaged").iterdir())) == 1
        write(next_run, KEYS[0], range(3))
        assert len(next_run.index("network")) == 3


def test_a_writer_reads_one_key_without_looking_at_every_shard(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.lock():
        store.index("network")
        for key in KEYS:
            write(store, key, range(3))
        monkeypatch.setattr(module.Catalogue, "scan", lambda _: pytest.fail("looked at every shard"))
        for key in KEYS:
            replicas, arrays = store.read("network", key)
            assert replicas.tolist() == arrays["S_sup"].tolist() == [0, 1, 2]


def test_a_full_disk_costs_the_memory_of_checked_shards_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("full")

    with store.lock():
        write(store, KEYS[0], range(3))
        monkeypatch.setattr(module, "write_file", full)
    assert not (store.path / CHECKED_FILE).exists()
    assert len(Store.open(store.path).index("network")) == 3


# ------------------------------------------------------------------------------------ mixed numbers


def test_numbers_of_another_version_are_refused_or_kept_apart_by_cell(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.lock():
        write(store, KEYS[0], range(3))
        write(store, KEYS[2], range(1))
    before = (store.path / "store.json").read_bytes()
    new = NUMBERS_VERSION + 1
    for place in (store_module, "sweep.frame", "sweep.provenance"):
        name = place if isinstance(place, str) else place.__name__
        monkeypatch.setattr(f"{name}.NUMBERS_VERSION", new)
    monkeypatch.setattr("sweep.store.provenance_text", lambda: f'{{"numbers_version": {new}}}')
    with pytest.raises(
        MismatchError, match=f"holds numbers of version {NUMBERS_VERSION}, this .* makes {new}"
    ):
        Store.open(store.path)
    mixed = Store.open(store.path, mixing=True)
    assert (store.path / "store.json").read_bytes() == before
    with mixed.lock():
        mixed.mix_numbers()
        mixed.mix_numbers()
        mixed.adopt({KEYS[0]: KEYS[1]})  # the same cell's key, then and now
        assert mixed.index("network").replicas(KEYS[1]) == [0, 1, 2]
        write(mixed, KEYS[1], range(3, 5))
        replicas, arrays = mixed.read("network", KEYS[1])
        assert replicas.tolist() == arrays["S_sup"].tolist() == [0, 1, 2, 3, 4]
    (store.path / CHECKED_FILE).unlink()  # shards tell their version themselves
    again = Store.open(store.path)
    assert again.numbers == (NUMBERS_VERSION, new)
    again.adopt({KEYS[0]: KEYS[1]})
    index = again.index("network")
    assert index.numbers(KEYS[1]) == (NUMBERS_VERSION, new)
    assert index.numbers(KEYS[2]) == (NUMBERS_VERSION,)
    assert index.numbers("3" * 32) == ()


def test_a_version_that_was_never_mixed_in_is_refused_by_a_mixed_store(tmp_path: Path) -> None:
    write_frame(tmp_path, {}, [NUMBERS_VERSION + 1, NUMBERS_VERSION + 2])
    with pytest.raises(MismatchError, match=f"version {NUMBERS_VERSION + 1} and {NUMBERS_VERSION + 2}, this"):
        Store.open(tmp_path)
