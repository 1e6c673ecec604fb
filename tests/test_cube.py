"""The cube: every value in its place, labelled, however it came about."""

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import sweep
from sweep import cube as cube_module
from sweep.cube import consolidate
from sweep.errors import StoreError
from sweep.layout import Layout, make_layout
from sweep.plan import make_plan
from sweep.results import load
from sweep.schema import COORDINATES, GROUPS
from sweep.spec import parse_spec
from sweep.store import Store
from tests.cubes import (
    AXES,
    CELLS,
    ITEMS,
    LIMITS,
    REPLICAS,
    cube,
    finished_store,
    key,
    layout,
    positions,
    value,
    write,
    write_limits,
)

POINT = {"d": 1, "lam": 0.5, "G": "exponential"}


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store", {"seed": 1}, 'name = "λ"\n')


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finished_store(tmp_path_factory.mktemp("finished") / "store")


@pytest.fixture(scope="module")
def tree(finished):
    return load(finished.path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": {**AXES, "N": [100, 10]}}, r"N must increase, got \[100, 10\]"),
        ({"axes": {**AXES, "lam": [0.5, 0.5]}}, r"lam must increase, got \[0\.5, 0\.5\]"),
        ({"t": [0.0, 0.0, 1.0]}, r"t must increase"),
        (
            {"cells": {(2, 0, 0, 0): key(1)}},
            r"positions over .*'N'.* must lie inside \(2, 2, 2, 3\), got \(2, 0",
        ),
        ({"limits": {(0, 0): key(1)}}, r"positions over \('d', .* must lie inside \(2, 2, 3\), got \(0, 0\)"),
    ],
)
def test_a_layout_that_is_no_grid_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        layout(**changes)


@pytest.mark.parametrize(("grid", "longest"), [({}, 3), ({"N": [10], **POINT}, 4)])
def test_the_axis_of_replicas_is_as_long_as_the_most_that_a_cell_has(grid, longest):
    """Where all are cases of their own it may be shorter than the spec's `replicas`."""
    cases = [{"N": 20, **POINT, "replicas": 3}, {"N": 30, **POINT, "replicas": 1}]
    run = {"horizon": 1.0, "times": 2, "levels": 2, "replicas": 4}
    tables = {"name": "cases", "study": "transient", "seed": 1, "cases": cases, "run": run}
    plan = make_plan(parse_spec(tables | ({"grid": grid} if grid else {})))
    made = make_layout(plan, {case.key: case.replicas for case in plan.cells if case.replicas != 4})
    assert made.coordinate("replica").tolist() == list(range(longest))
    assert plan.spec.most_replicas == longest
    read = Layout.from_json(made.to_json(), "a store")
    assert read.own == made.own
    assert json.loads(made.to_json())["more"] == made.own  # as stores have it that were made before


def test_every_value_is_in_its_place(tree):
    for (iN, i_d, i_lam, i_G), replica in ITEMS:
        place = tree["network"].dataset.sel(
            N=AXES["N"][iN], d=AXES["d"][i_d], lam=AXES["lam"][i_lam], G=AXES["G"][i_G], replica=replica
        )
        for name in GROUPS["network"]:
            expected = value("network", name, ((iN, i_d, i_lam, i_G), replica))
            assert np.array_equal(place[name].values, expected), name
    for i_d, i_lam, i_G in LIMITS:
        place = tree["fluid"].dataset.isel(d=i_d, lam=i_lam, G=i_G)
        for name in (name for name, v in GROUPS["fluid"].items() if not v.internal):
            assert np.array_equal(place[name].values, value("fluid", name, (i_d, i_lam, i_G))), name
    assert (tree["cells"].status == "done").all()
    assert (tree["cells"].replicas == REPLICAS).all()


@pytest.mark.parametrize("group", ["network", "fluid", "cells"])
def test_each_group_alone_carries_its_coordinates_units_and_names(finished, group):
    with xr.open_dataset(finished.results, group=group) as dataset:
        leading = {"network": ("N", "d", "lam", "G", "replica"), "fluid": ("d", "lam", "G")}
        shown = {name: variable for name, variable in GROUPS[group].items() if not variable.internal}
        assert set(dataset.data_vars) == set(shown)
        for name, variable in shown.items():
            found = dataset[name]
            assert found.dims == (*leading.get(group, ("N", "d", "lam", "G")), *variable.dims)
            assert found.attrs == {"units": variable.units, "long_name": variable.long_name}
            assert variable.dtype == "str" or found.dtype == variable.dtype
        assert set(dataset.coords) == set(dataset.dims)
        for dim in dataset.dims:
            assert dataset[dim].attrs == dict(zip(("units", "long_name"), COORDINATES[dim], strict=True))
        assert dataset.G.values.tolist() == AXES["G"]
        assert (dataset.d.dtype, dataset.lam.dtype) == (np.int64, np.float64)


def test_the_root_says_what_it_is_and_what_made_it(tree):
    assert list(tree.attrs) == ["title", "Conventions", "history", "provenance", "spec"]
    assert (tree.attrs["title"], tree.attrs["Conventions"]) == ("a test", "CF-1.11")
    assert tree.attrs["spec"] == 'name = "λ"\n'
    assert json.loads(tree.attrs["provenance"])["versions"]["sqd-sweep"] == sweep.__version__


def test_a_partial_cube_has_the_shape_of_the_finished_one(store, tree):
    some = [item for item in ITEMS if item[0] != (0, 0, 0, 0)][:20]
    write(store, some)
    failed, absent = CELLS[(1, 1, 1, 1)], (1, 1, 1, 2)
    store.record_failure(failed, "ValueError: why", "", 2)
    consolidate(store, layout(cells={cell: name for cell, name in CELLS.items() if cell != absent}))
    partial = load(store)
    for group in ("network", "fluid", "cells"):
        mine, theirs = partial[group].dataset, tree[group].dataset
        assert {name: (v.dims, v.shape) for name, v in mine.variables.items()} == {
            name: (v.dims, v.shape) for name, v in theirs.variables.items()
        }
    stored = np.isfinite(partial["network"].S_sup.values)
    assert stored.sum() == 20
    assert np.array_equal(partial["network"].S.values[stored], tree["network"].S.values[stored])
    assert np.isnan(partial["fluid"].S.values).all()
    cells = partial["cells"].dataset
    assert cells.status.values[0, 0, 0, 0] == "pending"
    assert cells.status.values[some[0][0]] == "done"
    assert (cells.status.values[1, 1, 1, 1], cells.error.values[1, 1, 1, 1]) == ("failed", "ValueError: why")
    assert cells.attempts.values.sum() == 2
    assert (cells.status.values[absent], cells.replicas.values[absent]) == ("", 0)
    assert cells.replicas.values.sum() == 20


def test_a_cell_that_was_finished_after_a_failure_is_done(store):
    write(store, ITEMS)
    store.record_failure(CELLS[(0, 0, 0, 0)], "once", "", 1)
    consolidate(store, layout())
    assert load(store)["cells"].status.values[0, 0, 0, 0] == "done"


def test_without_snapshots_there_are_no_ages(store):
    write(store, ITEMS, without=["nu_cdf"])
    consolidate(store, layout(snapshot=(), age=(np.inf,)))
    network = load(store)["network"].dataset
    assert "nu_cdf" not in network
    assert set(network.dims) == {"N", "d", "lam", "G", "replica", "t", "level"}


def test_the_last_age_is_infinite(tree):
    assert tree["network"].age.values.tolist() == [0.0, 1.0, np.inf]


def test_shards_from_before_a_variable_leave_it_missing(store, tree):
    write(store, ITEMS[:10], without=["S_sup"])
    write(store, ITEMS[10:])
    consolidate(store, layout())
    network = load(store)["network"].dataset
    assert np.isnan(network.S_sup.values).sum() == 10
    assert network.S.identical(tree["network"].S)


def test_a_shard_of_other_sizes_is_refused(store):
    write(store, ITEMS)
    with pytest.raises(StoreError, match=r"holds S of shape \(3, 2\) an item, the spec asks for \(3, 1\)"):
        consolidate(store, layout(level=(1,)))
    assert [entry.name for entry in store.path.iterdir() if "results" in entry.name] == []


@settings(max_examples=15, deadline=None)
@given(
    order=st.permutations(ITEMS),
    sizes=st.lists(st.integers(1, 30), min_size=72, max_size=72),
    slab=st.sampled_from([1, 1000, 5000, 20000, 1 << 28]),
    chunk=st.sampled_from([1, 100, 3000, 1 << 18]),
)
def test_the_cube_has_the_same_bytes_however_it_was_batched(
    tmp_path_factory, tree, order, sizes, slab, chunk
):
    store = Store.create(tmp_path_factory.mktemp("batched") / "store", {}, "")
    start = 0
    for size in sizes:
        if start < len(order):
            write(store, order[start : start + size])
            start += size
    write_limits(store, list(LIMITS)[:5])
    write_limits(store, list(LIMITS)[5:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cube_module, "_SLAB_BYTES", slab)
        patch.setattr(cube_module, "_CHUNK_BYTES", chunk)
        consolidate(store, layout())
    assert cube(load(store)) == cube(tree)


def test_types_and_text_survive_being_saved_merged_and_grown(tree, tmp_path):
    cells = tree["cells"].dataset
    other = cells.assign_coords(G=[name + " and a much longer label" for name in AXES["G"]])
    grown = xr.concat([cells, other], "G", data_vars="all", coords="minimal", compat="override", join="outer")
    grown.to_netcdf(tmp_path / "grown.nc")
    with xr.open_dataset(tmp_path / "grown.nc") as again:
        assert again.G.values.tolist() == AXES["G"] + other.G.values.tolist()
        assert again.replicas.dtype == np.int32
        assert set(again.status.values.flat) == {"done"}
    tree.to_netcdf(tmp_path / "tree.nc")
    assert cube(load(tmp_path / "tree.nc")) == cube(tree)
    assert all(not v.encoding for node in tree.subtree for v in node.dataset.variables.values())


def test_a_cube_may_be_built_elsewhere_than_in_the_store(finished, tmp_path, tree):
    target = tmp_path / "elsewhere.nc"
    assert consolidate(finished, layout(), target) == target
    assert cube(load(target)) == cube(tree)
    with pytest.raises(StoreError, match=r"gone/x\.nc cannot be written"):
        consolidate(finished, layout(), tmp_path / "gone" / "x.nc")


def test_ten_thousand_cells_are_built_from_few_readings_of_shards(tmp_path, monkeypatch):
    """Each of the 20 shards is read once, whatever a second is worth on this machine."""
    store = Store.create(tmp_path / "store", {}, "")
    sizes = range(1, 2501)
    cells = {(i, *rest): key(i, rest) for i in range(2500) for rest in positions("d", "lam")}
    cells = {(i, d, lam, 0): name for (i, d, lam), name in cells.items()}
    names = list(cells.values())
    generator = np.random.default_rng(1)
    for start in range(0, len(names), 500):
        arrays = {
            "S": generator.random((500, 11, 8)),
            "X": generator.random((500, 11)),
            "S_sup": generator.random(500),
        }
        store.write_shard("network", names[start : start + 500], [0] * 500, arrays)
    load_shard, read = Store.load_shard, []

    def counted(self, path):
        read.append(path)
        return load_shard(self, path)

    monkeypatch.setattr(Store, "load_shard", counted)
    consolidate(
        store,
        layout(
            cells=cells,
            limits={},
            axes={**AXES, "N": sizes, "G": ["exponential"]},
            replicas=1,
            t=range(11),
            level=range(1, 9),
            snapshot=(),
        ),
    )
    loaded = load(store)
    assert sorted(read) == sorted((store.path / "shards").glob("*.nc"))
    assert len(read) == 20
    assert (loaded["cells"].status == "done").all()
