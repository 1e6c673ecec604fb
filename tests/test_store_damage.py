"""Shards count whole or not at all: bits are flipped, ends cut, names and contents exchanged."""

import hashlib
import random

import netCDF4
import numpy as np
import pytest

from sweep.errors import StoreError
from sweep.store import Store
from tests.store_items import FRAME, ITEMS, key, write


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store", FRAME, 'name = "λ"\n')


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
    assert store.damaged == [(bad, "its bytes are not those that were written")]
    content = bad.read_bytes()
    store.set_damaged_aside()
    [moved] = (store.path / "damaged").iterdir()
    assert (moved.name, moved.read_bytes()) == (bad.name, content)
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
