"""A small sweep of made-up arrays, each different, as a store and as the cube of its results."""

import hashlib
import itertools

import numpy as np

from sweep.cube import consolidate
from sweep.layout import Group, Layout
from sweep.schema import GROUPS
from sweep.store import Store

LONG = "hyperexponential(scv=" + "1" * 60 + ")"
AXES = {"N": [10, 100], "d": [1, 2], "lam": [0.5, 0.9], "G": [LONG, "exponential", "λ"]}
REPLICAS, TIMES, LEVELS = 3, (0.0, 1.5, 3.0), (1, 2)
SNAPSHOTS, AGES = (1.5, 3.0), (0.0, 1.0, np.inf)
SIZES = {"t": 3, "level": 2, "snapshot": 2, "age": 3, "knot": 4}


def key(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def positions(*names):
    return list(itertools.product(*(range(len(AXES[name])) for name in names)))


CELLS = {position: key("cell", position) for position in positions("N", "d", "lam", "G")}
LIMITS = {position: key("limit", position) for position in positions("d", "lam", "G")}
ITEMS = [(position, replica) for position in CELLS for replica in range(REPLICAS)]


def layout(cells=CELLS, limits=LIMITS, axes=AXES, replicas=REPLICAS, **coordinates):
    return Layout(
        axes=axes,
        coordinates={"t": TIMES, "level": LEVELS, "snapshot": SNAPSHOTS, "age": AGES} | coordinates,
        groups=(
            Group("network", "network", (*AXES, "replica"), cells),
            Group("fluid", "fluid", ("d", "lam", "G"), limits),
        ),
        replicas=replicas,
        attributes={"title": "a test"},
    )


def value(group, name, item):
    """The array of one item: different for every group, variable and item."""
    seed = int(hashlib.sha256(repr((group, name, item)).encode()).hexdigest()[:8], 16)
    shape = tuple(SIZES[dim] for dim in GROUPS[group][name].dims)
    return np.random.default_rng(seed).random(shape)


def write(store, items, without=()):
    arrays = {
        name: np.stack([value("network", name, item) for item in items])
        for name in GROUPS["network"]
        if name not in without
    }
    store.write_shard("network", [CELLS[cell] for cell, _ in items], [number for _, number in items], arrays)


def write_limits(store, limits):
    arrays = {name: np.stack([value("fluid", name, item) for item in limits]) for name in GROUPS["fluid"]}
    store.write_shard("fluid", [LIMITS[limit] for limit in limits], None, arrays)


def cube(tree):
    """Everything outside /cells with its bytes."""
    return {
        (group, name): (variable.dims, variable.dtype, variable.values.tobytes())
        for group in ("network", "fluid")
        for name, variable in tree[group].dataset.variables.items()
    }


def finished_store(path):
    """Make a store of all items, each kind in one shard, with its results."""
    store = Store.create(path, {"seed": 1}, 'name = "λ"\n')
    write(store, ITEMS)
    write_limits(store, list(LIMITS))
    consolidate(store, layout())
    return store
