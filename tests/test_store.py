"""What the store keeps: whole shards only, checked when read, whoever kills, fills or damages what."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep import disk
from sweep.errors import LockError, StoreError
from sweep.seeds import NUMBERS_VERSION
from sweep.store import Failure, Store

FRAME = {"study": "transient", "seed": 7, "horizon": 3.0, "times": [0.0, 1.5, 3.0], "levels": 2}
ITEMS = [(cell, replica) for cell in range(4) for replica in range(3)]


def key(number):
    return hashlib.sha256(str(number).encode()).hexdigest()[:32]


def arrays(items, times=3, levels=2):
    """Values that say which item they belong to."""
    base = np.array([100.0 * cell + replica for cell, replica in items])
    grid = np.arange(times * levels).reshape(times, levels) / 7
    return {
        "S": base[:, None, None] + grid,
        "D": base[:, None, None] - grid,
        "X": base[:, None] + grid[:, 0],
        "E": base[:, None] - grid[:, 0],
        "S_sup": base / 3,
    }


def write(store, items, **changes):
    values = arrays(items, **changes)
    return store.write_shard("network", [key(c) for c, _ in items], [r for _, r in items], values)


def content(store):
    """Bytes of every stored item by (key, replica)."""
    return {
        item: {name: values[row].tobytes() for name, values in store.load_shard(path).arrays.items()}
        for item, (path, row) in store.index("network").items()
    }


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store", FRAME, 'name = "λ"\n')


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Contents of all items stored as one batch."""
    whole = Store.create(tmp_path_factory.mktemp("whole") / "store", FRAME, "")
    write(whole, ITEMS)
    return content(whole)


def test_a_store_opens_as_it_was_made(store):
    again = Store.open(store.path)
    assert again.frame == FRAME
    assert again.spec_path.read_text(encoding="utf-8") == 'name = "λ"\n'
    again.write_spec("new")
    assert store.spec_path.read_text(encoding="utf-8") == "new"
    assert (again.index("network"), again.damaged, again.failures(), again.lock_owner()) == ({}, [], {}, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"is not a sweep store \(FileNotFoundError in store.json\): give the directory"),
        ("{", r"is not a sweep store \(JSONDecodeError"),
        ("[]", r"is not a sweep store \(TypeError"),
        ('{"format": 1}', r"is not a sweep store \(KeyError"),
        (
            '{"format": 99, "numbers_version": 1, "frame": {}}',
            "has store format 99, this version reads 1: use",
        ),
        (
            '{"format": 1, "numbers_version": 0, "frame": {}}',
            f"holds numbers of version 0, this version makes {NUMBERS_VERSION}: give a new --store",
        ),
        (
            '{"format": 1, "numbers_version": [0, -1], "frame": {}}',
            "holds numbers of version 0 and -1, .* or add --mix-numbers to have both in it",
        ),
        ('{"format": 1, "numbers_version": [null], "frame": {}}', r"is not a sweep store \(TypeError"),
    ],
)
def test_what_is_not_a_store_of_this_version_is_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "store.json").write_text(text)
    with pytest.raises(StoreError, match=message):
        Store.open(tmp_path)


def test_a_store_is_not_made_over_something_else(store, tmp_path):
    with pytest.raises(StoreError, match="is a sweep store already: open it"):
        Store.create(store.path, FRAME, "")
    with pytest.raises(StoreError, match="holds other files: give a new or empty directory"):
        Store.create(tmp_path, FRAME, "")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be written .*Not a directory|cannot be written .*exists"):
        Store.create(tmp_path / "file", FRAME, "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 4.0}, r"made with horizon = 3\.0, now 4\.0: give a new --store, or set it back"),
        ({"times": [0.0, 1.0, 3.0]}, r"times \[1\] = 1\.5, now 1\.0: give"),
        (
            {"times": [0.0, 1.0, 2.0, 2.5, 3.0]},
            r"times = \[0\.0, 1\.5, 3\.0\], now 5 values from 0\.0 to 3\.0",
        ),
        ({"seed": 8, "levels": 3}, r"seed = 7, now 8; levels = 2, now 3"),
        ({"ages": [1.0]}, r"ages = None, now \[1\.0\]"),
    ],
)
def test_another_frame_is_refused_with_both_values_and_the_cure(store, changes, message):
    store.check_frame(dict(FRAME, times=(0.0, 1.5, 3.0)))
    with pytest.raises(StoreError, match=message):
        store.check_frame(FRAME | changes)


def test_shards_give_back_what_was_stored(store):
    path = write(store, ITEMS)
    assert path.parent == store.path / "shards"
    assert list(store.index("network")) == [(key(c), r) for c, r in ITEMS]
    assert store.index("fluid") == {}
    for cell in range(4):
        replicas, stored = store.read("network", key(cell))
        assert replicas.tolist() == [0, 1, 2]
        for name, values in arrays([(cell, r) for r in range(3)]).items():
            assert stored[name].dtype == np.float64
            assert np.array_equal(stored[name], values), name


def test_limits_have_no_replica(store):
    values = arrays([(5, 0)])
    fluid = {name: values[name] for name in ("S", "D", "X", "E")} | {"S_error": values["S"]}
    store.write_shard("fluid", [key(5)], None, fluid, {"seconds": 0.5, "worker": "λ"})
    replicas, stored = store.read("fluid", key(5))
    assert replicas.tolist() == [-1]
    assert np.array_equal(stored["S_error"], values["S"])
    with pytest.raises(StoreError, match=f"holds no network results of {key(5)}: run the sweep first"):
        store.read("network", key(5))


def test_an_array_that_an_older_shard_lacks_is_nan(store):
    values = arrays([(0, 0)])
    store.write_shard("network", [key(0)], [0], {name: values[name] for name in ("X", "E")})
    write(store, [(0, 1)])
    _, stored = store.read("network", key(0))
    assert np.isnan(stored["S_sup"]).tolist() == [True, False]
    assert not np.isnan(stored["X"]).any()


def test_a_shard_is_a_plain_netcdf_file_that_explains_itself(store):
    values = arrays([(0, 0)])
    path = store.write_shard("network", [key(0)], [0], values, {"seconds": 0.5})
    with netCDF4.Dataset(path) as file:
        assert (file.kind, file.complete, file.seconds) == ("network", 1, 0.5)
        assert json.loads(file.provenance)["versions"]["numpy"] == np.__version__
        assert {dim: len(size) for dim, size in file.dimensions.items()} == {
            "item": 1, "hex": 32, "t": 3, "level": 2,
        }  # fmt: skip
        assert not any(size.isunlimited() for size in file.dimensions.values())
        assert file["key"].dtype == "S1"
        assert file["S"].units == "1"
        assert file["S"].filters()["shuffle"]
        assert np.array_equal(file["S"][...], values["S"])


@pytest.mark.parametrize(
    ("kind", "keys", "replicas", "change", "message"),
    [
        ("networks", [0], [0], {}, "kind must be one of network, fluid.*, got 'networks'"),
        ("network", [0], [0, 1], {}, "keys and replicas must have one entry an item, got 1 and 2"),
        ("network", [], [], {}, "keys and replicas must have one entry an item, got 0 and 0"),
        ("network", ["xyz"], [0], {}, "key must be 32 hexadecimal digits, got 'xyz'"),
        ("network", [0, 0], [1, 1], {}, "items must differ, got one twice among 2"),
        ("network", [0], [0], {"Y": np.zeros(1)}, "variables of network must be among S, D, .*got 'Y'"),
        (
            "network",
            [0],
            [0],
            {"X": np.zeros((1, 3, 1))},
            r"X must have dimensions \('item', 't'\) .* got shape",
        ),
        ("network", [0], [0], {"X": np.zeros((2, 3))}, r"X must have dimensions .*got shape \(2, 3\)"),
        ("network", [0], [0], {"X": np.zeros((1, 4))}, r"X must have .*'t': 3.*got shape \(1, 4\)"),
    ],
)
def test_items_that_do_not_fit_are_refused(store, kind, keys, replicas, change, message):
    names = [value if isinstance(value, str) else key(value) for value in keys]
    with pytest.raises(ValueError, match=message):
        store.write_shard(kind, names, replicas, arrays([(0, 0)]) | change)
    assert not (store.path / "shards").exists()


@pytest.mark.parametrize("value", [None, True, {"a": 1}])
def test_attributes_that_netcdf_cannot_hold_are_refused(store, value):
    with pytest.raises(TypeError, match=r"attribute extra must be text or a number, got .*JSON text"):
        store.write_shard("network", [key(0)], [0], arrays([(0, 0)]), {"extra": value})


def test_storing_the_same_items_again_changes_nothing(store):
    first = write(store, ITEMS)
    before = first.read_bytes(), first.stat().st_mtime_ns
    assert write(Store.open(store.path), ITEMS) == first
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    assert list((store.path / "shards").iterdir()) == [first]


@settings(max_examples=25, deadline=None)
@given(st.permutations(ITEMS), st.lists(st.integers(1, 6), min_size=12, max_size=12), st.integers(0, 5))
def test_items_are_the_same_however_they_were_batched(tmp_path_factory, expected, order, sizes, overlap):
    store = Store.create(tmp_path_factory.mktemp("batched") / "store", FRAME, "")
    start = 0
    for size in sizes:
        if start < len(order):
            write(store, order[max(0, start - overlap) : start + size])
            start += size
    assert content(Store.open(store.path)) == expected


def damage(path, position, mask):
    image = bytearray(path.read_bytes())
    image[position] ^= mask
    path.write_bytes(image)


def test_a_flipped_bit_anywhere_costs_that_shard_alone(store):
    good, bad = write(store, ITEMS[:6]), write(store, ITEMS[6:])
    image, random_ = bad.read_bytes(), random.Random(1)
    for _ in range(100):
        damage(bad, random_.randrange(len(image)), 1 << random_.randrange(8))
        again = Store.open(store.path)
        assert set(again.index("network")) == {(key(c), r) for c, r in ITEMS[:6]}
        assert again.damaged == [(bad, "its bytes are not those that were written")]
        bad.write_bytes(image)
    assert len(Store.open(store.path).index("network")) == len(ITEMS)
    assert good.exists()


@pytest.mark.parametrize("length", [0, 1, 511, 4096, -1])
def test_a_cut_shard_is_left_out_reported_and_kept(store, length):
    write(store, ITEMS[:6])
    bad = write(store, ITEMS[6:])
    bad.write_bytes(bad.read_bytes()[:length])
    assert len(store.index("network")) == 6
    assert store.damaged == [(bad, "its bytes are not those that were written")]
    assert bad.exists()


def disguise(store, complete, shift):
    """Make a file of a shard's content but for its mark and one value, under the name its bytes deserve."""
    path = write(store, ITEMS)
    other = path.with_name("other")
    with netCDF4.Dataset(path) as shard, netCDF4.Dataset(other, "w") as file:
        file.setncatts({**shard.__dict__, "complete": complete})
        for dim, size in shard.dimensions.items():
            file.createDimension(dim, len(size))
        for name, variable in shard.variables.items():
            file.createVariable(name, variable.dtype, variable.dimensions)[...] = variable[...]
        file["X"][0, 0] += shift
    digest = hashlib.sha256(other.read_bytes()).hexdigest()[:32]
    path.unlink()
    return other.rename(path.with_name(f"{path.name[:25]}{digest}.nc"))


def test_a_shard_may_be_written_by_another_netcdf_library(store):
    disguise(store, np.int32(1), 0.0)
    assert len(store.index("network")) == len(ITEMS)


@pytest.mark.parametrize(
    ("complete", "shift", "reason"),
    [(0, 0.0, "it is not marked complete"), (1, 1e-9, "its arrays do not match their checksum")],
)
def test_a_shard_that_was_edited_or_never_finished_is_left_out(store, complete, shift, reason):
    path = disguise(store, np.int32(complete), shift)
    assert store.index("network") == {}
    assert store.damaged == [(path, reason)]


def test_what_only_looks_like_a_shard_is_reported(store):
    write(store, ITEMS)
    (store.path / "shards" / "notes.nc").write_text("")
    (store.path / "shards" / f"network-{key(0)[:16]}-{key(1)}.nc").mkdir()
    assert {reason.split(" (")[0] for _, reason in store.damaged} == {
        "its name is not that of a shard",
        "it cannot be read",
    }
    assert len(store.index("network")) == len(ITEMS)


def test_damaged_shards_are_set_aside_and_redone(store):
    bad = write(store, ITEMS)
    damage(bad, 2000, 1)
    [(moved, reason)] = store.set_damaged_aside()
    assert reason == "its bytes are not those that were written"
    assert moved.parent == store.path / "damaged"
    assert moved.exists()
    assert store.damaged == []
    write(store, ITEMS)
    assert len(store.index("network")) == len(ITEMS)


def test_a_damaged_shard_does_not_count_as_stored(store):
    bad = write(store, ITEMS)
    damage(bad, 2000, 1)
    write(store, ITEMS)
    assert len(store.index("network")) == len(ITEMS)


def test_a_shard_that_vanishes_after_it_was_indexed_is_named(store):
    path = write(store, ITEMS)
    store.index("network")
    path.unlink()
    with pytest.raises(StoreError, match=rf"shard {path} cannot be read .*run the sweep again to redo it"):
        store.load_shard(path)
    assert store.index("network") == {}


def test_failures_are_kept_replaced_and_cleared(store):
    store.record_failure(key(1), "ValueError: λ", "Traceback …", 1)
    store.record_failure(key(1), "ValueError: λ", "Traceback …", 2)
    store.record_failure(key(2), "lost", "", 3)
    store.clear_failure(key(2))
    store.clear_failure(key(3))
    assert Store.open(store.path).failures() == {key(1): Failure(key(1), "ValueError: λ", "Traceback …", 2)}
    assert store.failures()[key(1)].status == "failed"
    store.record_failure(key(4), "worker died", "", 3, quarantined=True)
    assert Store.open(store.path).failures()[key(4)].status == "quarantined"
    old = {"key": key(5), "error": "e", "details": "", "attempts": 1}  # as earlier versions wrote it
    (store.path / "failures" / f"{key(5)}.json").write_text(json.dumps(old))
    assert store.failures()[key(5)] == Failure(key(5), "e", "", 1)
    (store.path / "failures" / f"{key(1)}.json").write_text("{")
    assert "is damaged" in store.failures()[key(1)].error
    with pytest.raises(ValueError, match="key must be 32 hexadecimal digits"):
        store.record_failure("../x", "", "", 1)


def test_the_lock_keeps_out_others_and_clears_what_a_killed_writer_left(store):
    write(store, ITEMS)
    left = [store.path / ".tmp-1-results.nc", store.path / "shards" / ".tmp-1-network.nc"]
    for path in left:
        path.write_text("half")
    assert len(store.index("network")) == len(ITEMS)
    with store.lock("a run"):
        assert not any(path.exists() for path in left)
        assert "(a run)" in store.lock_owner()
        with pytest.raises(LockError, match=r"is locked by .*a run"), Store.open(store.path).lock():
            pass
    assert store.lock_owner() is None


WRITER = """
import os, signal, sys, time
from tests.test_store import Store, write
from sweep.provenance import provenance_text
folder, rounds = sys.argv[1], int(sys.argv[2])
provenance_text()
for round_ in range(rounds):
    child = os.fork()
    if child == 0:
        store = Store.open(folder)
        with store.lock("writer"):
            for batch in range(10**6):
                write(store, [(1000 * round_ + batch, replica) for replica in range(40)], times=20, levels=10)
    print(child, flush=True)
    os.waitpid(child, 0)
"""


def script(text, *arguments, **options):
    command = [sys.executable, "-W", "error", "-c", text, *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def wait_for_shards(store, count):
    """Wait at most ten seconds for so many shards."""
    end = time.monotonic() + 10.0
    while time.monotonic() < end and len(list(store.path.glob("shards/[!.]*.nc"))) < count:
        time.sleep(0.001)


def test_a_writer_killed_at_any_moment_leaves_only_whole_shards(store):
    """50 writers killed at random moments; some in the middle of a shard, none of which is ever indexed."""
    random_, interrupted, last = random.Random(3), 0, 0
    with script(WRITER, store.path, 50) as process:
        for line in process.stdout:
            wait_for_shards(store, last // 40 + random_.randrange(3))
            time.sleep(random_.uniform(0.0, 0.01))
            os.kill(int(line), signal.SIGKILL)
            time.sleep(0.002)
            stored = store.index("network")
            assert store.damaged == []
            assert len(stored) % 40 == 0
            assert len(stored) >= last
            last = len(stored)
            interrupted += any((store.path / "shards").glob(".tmp-*"))
        assert process.wait() == 0, process.stderr.read()
    for (name, replica), (path, row) in stored.items():
        shard = store.load_shard(path)
        assert (shard.keys[row], shard.replicas[row]) == (name, replica)
    with store.lock():
        assert list((store.path / "shards").glob(".tmp-*")) == []
    assert last > 0
    assert interrupted > 0


DYING = """
import os, signal, sys
from tests.test_store import Store, write, ITEMS
from sweep import disk as module
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
owner, name = (os, "replace") if sys.argv[2] == "replace" else (module, "_sync")
store = Store.open(sys.argv[1])
with store.lock():
    write(store, ITEMS[:6])
    setattr(owner, name, die)
    write(store, ITEMS[6:])
"""


@pytest.mark.parametrize("moment", ["sync", "replace"])
def test_a_writer_killed_before_the_rename_has_stored_nothing_of_that_shard(store, moment):
    with script(DYING, store.path, moment) as process:
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
    assert len(list((store.path / "shards").glob(".tmp-*"))) == 1
    assert set(store.index("network")) == {(key(c), r) for c, r in ITEMS[:6]}
    with store.lock():
        write(store, ITEMS)
    assert len(list((store.path / "shards").iterdir())) == 2
    assert len(store.index("network")) == len(ITEMS)


READER = """
import sys
from tests.test_store import Store, arrays, key
import numpy as np
store, seen = Store.open(sys.argv[1]), 0
print("ready", flush=True)
while seen < 40:
    index = store.index("network")
    assert len(index) >= seen and store.damaged == []
    if len(index) > seen:
        replicas, stored = store.read("network", key(len(index) - 1))
        assert np.array_equal(stored["S"], arrays([(len(index) - 1, 0)])["S"])
    seen = len(index)
print("whole", flush=True)
"""


def test_a_second_process_reads_whole_shards_throughout(store):
    with script(READER, store.path) as process:
        assert process.stdout.readline() == "ready\n"
        for cell in range(40):
            write(store, [(cell, 0)])
        assert process.stdout.readline() == "whole\n", process.stderr.read()


FULL = """
import resource, sys
from tests.test_store import Store, StoreError, write
store = Store.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
try:
    write(store, [(0, replica) for replica in range(40)], times=20, levels=10)
except StoreError as error:
    print(error)
"""


def test_a_full_disk_is_named_and_leaves_no_half_shard(store):
    write(store, ITEMS)
    with script(FULL, store.path) as process:
        message = process.stdout.read()
        assert process.wait() == 0, process.stderr.read()
    assert "shards/network-" in message
    assert "cannot be written" in message
    assert "bytes are free on that disk: make room" in message
    assert len(list((store.path / "shards").iterdir())) == 1
    assert len(store.index("network")) == len(ITEMS)


def test_what_netcdf_says_of_a_full_disk_is_told_as_such(store):
    with pytest.raises(StoreError, match=r"x\.nc cannot be written \(.*NetCDF: HDF error"):  # noqa: SIM117
        with disk.writing(store.path / "x.nc"):
            raise RuntimeError("NetCDF: HDF error")
