"""Writers are killed at any moment, meet a full disk and each other, and readers look on."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweep import disk
from sweep.errors import LockError, StoreError
from sweep.store import Store
from tests.store_items import FRAME, ITEMS, key, write

pytestmark = pytest.mark.alone


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store", FRAME, 'name = "λ"\n')


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
from sweep.store import Store
from tests.store_items import write
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


def wait_for_files(store, pattern, count):
    """Wait at most ten seconds for so many files in the folder of shards."""
    end = time.monotonic() + 10.0
    while time.monotonic() < end and len(list((store.path / "shards").glob(pattern))) < count:
        time.sleep(0.0005)


def test_a_writer_killed_at_any_moment_leaves_only_whole_shards(store):
    """50 writers killed at random moments; some in the middle of a shard, none of which is ever indexed."""
    random_, interrupted, last = random.Random(3), 0, 0
    with script(WRITER, store.path, 50) as process:
        for line in process.stdout:
            wait_for_files(store, "[!.]*.nc", last // 40 + random_.randrange(3))
            if random_.randrange(2):
                wait_for_files(store, ".tmp-*", 1)
            else:
                time.sleep(random_.uniform(0.0, 0.01))
            os.kill(int(line), signal.SIGKILL)
            time.sleep(0.002)  # the next writer takes longer to begin, and then removes what this one left
            interrupted += any((store.path / "shards").glob(".tmp-*"))
            stored = store.index("network")
            assert store.damaged == []
            assert len(stored) % 40 == 0
            assert len(stored) >= last
            last = len(stored)
        assert process.wait() == 0, process.stderr.read()
    for (name, replica), (path, row) in stored.items():
        shard = store.load_shard(path)
        assert (shard.keys[row], shard.replicas[row]) == (name, replica)
    with store.lock():
        assert list((store.path / "shards").glob(".tmp-*")) == []
    assert last > 0
    assert interrupted > 5


DYING = """
import os, signal, sys
from sweep.store import Store
from tests.store_items import ITEMS, write
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
from sweep.store import Store
from tests.store_items import arrays, key
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
from sweep.errors import StoreError
from sweep.store import Store
from tests.store_items import write
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


def test_room_is_looked_for_at_the_nearest_folder_there_is(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    assert disk.nearest_folder(tmp_path) == tmp_path
    assert disk.nearest_folder(tmp_path / "file") == tmp_path
    assert disk.nearest_folder(tmp_path / "no" / "such.nc") == tmp_path
    monkeypatch.chdir(tmp_path)
    assert disk.nearest_folder(Path("no/such.nc")) == tmp_path


def test_what_netcdf_says_of_a_full_disk_is_told_as_such(store):
    with pytest.raises(StoreError, match=r"x\.nc cannot be written \(.*NetCDF: HDF error"):  # noqa: SIM117
        with disk.writing(store.path / "x.nc"):
            raise RuntimeError("NetCDF: HDF error")
