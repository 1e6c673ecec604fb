"""What the store keeps and gives back; other frames, other versions and misfits are refused."""

import json

import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.errors import StoreError
from sweep.seeds import NUMBERS_VERSION
from sweep.store import Failure, Store
from tests.store_items import FRAME, ITEMS, arrays, content, key, write


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
        (None, r"is not a sweep store \(it has no store.json\): give the directory"),
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


def test_failures_are_kept_replaced_and_cleared(store):
    store.record_failure(key(1), "ValueError: λ", "Traceback …", 1)
    store.record_failure(key(1), "ValueError: λ", "Traceback …", 2)
    store.record_failure(key(2), "lost", "", 3)
    store.clear_failure(key(2))
    store.clear_failure(key(3))
    assert Store.open(store.path).failures() == {key(1): Failure(key(1), "ValueError: λ", "Traceback …", 2)}
    assert not store.failures()[key(1)].quarantined
    store.record_failure(key(4), "worker died", "", 3, quarantined=True)
    assert Store.open(store.path).failures()[key(4)].quarantined
    old = {"key": key(5), "error": "e", "details": "", "attempts": 1}  # as earlier versions wrote it
    (store.path / "failures" / f"{key(5)}.json").write_text(json.dumps(old))
    assert store.failures()[key(5)] == Failure(key(5), "e", "", 1)
    (store.path / "failures" / f"{key(1)}.json").write_text("{")
    assert "is damaged" in store.failures()[key(1)].error
    with pytest.raises(ValueError, match="key must be 32 hexadecimal digits"):
        store.record_failure("../x", "", "", 1)
