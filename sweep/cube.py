"""The cube of results, built from the shards of a store."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.disk import replacing, writing
from sweep.errors import StoreError
from sweep.provenance import provenance_text, utc_now
from sweep.schema import COORDINATES, GRID, GROUPS, LIMIT_GRID, Variable
from sweep.store import NO_REPLICA, Place, Store

Position = tuple[int, ...]
Array = NDArray[Any]

#: Coordinates that are whole numbers; the others are float64, G is text.
_WHOLE = ("N", "d", "replica", "level")
_CHUNK_BYTES = 1 << 18
_SLAB_BYTES = 1 << 28


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Axes of the cube, and which cell or limit belongs where.

    Parameters
    ----------
    N, d, lam
        Values of the numeric axes, increasing.
    G
        Service laws in the order of the spec.
    cells
        Key of the cell at each (iN, id, ilam, iG); positions may be absent.
    limits
        Key of the limit at each (id, ilam, iG).
    replicas
        Replicas of a cell.
    t, level
        Times and levels of the outputs.
    snapshot, age
        Times and ages of the age snapshots; without snapshots, what depends on them is left out.
    attributes
        Attributes of the whole, such as the title.
    texts
        The parameters of each cell, by its key, to be shown.

    Raises
    ------
    ValueError
        A numeric axis that does not increase, or a position outside the axes.
    """

    N: Sequence[int]
    d: Sequence[int]
    lam: Sequence[float]
    G: Sequence[str]
    cells: Mapping[Position, str]
    limits: Mapping[Position, str]
    replicas: int
    t: ArrayLike
    level: ArrayLike
    snapshot: ArrayLike = ()
    age: ArrayLike = (math.inf,)
    attributes: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("N", "d", "lam", "t", "level", "snapshot", "age"):
            values = np.asarray(getattr(self, name))
            if np.any(values[1:] <= values[:-1]):
                raise ValueError(f"{name} must increase, got {values.tolist()}")
        for dims, keys in ((GRID, self.cells), (LIMIT_GRID, self.limits)):
            shape = tuple(len(getattr(self, dim)) for dim in dims)
            for position in keys:
                if len(position) != len(dims) or not all(
                    0 <= i < n for i, n in zip(position, shape, strict=True)
                ):
                    raise ValueError(f"positions over {dims} must lie inside {shape}, got {position}")

    def coordinate(self, dim: str) -> Array:
        """Return the values of one axis."""
        if dim == "G":
            return np.array(self.G, dtype=object)
        values = range(self.replicas) if dim == "replica" else getattr(self, dim)
        return np.asarray(values, dtype=np.int64 if dim in _WHOLE else np.float64)

    def to_json(self) -> str:
        """Return the layout as text; a store keeps it, so that looking at one needs no law's file."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in ("t", "level", "snapshot", "age"):
            values[name] = np.asarray(values[name]).tolist()
        for name in ("cells", "limits"):
            values[name] = [[*position, key] for position, key in values[name].items()]
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """Return the layout that `to_json` wrote."""
        values = json.loads(text)
        for name in ("cells", "limits"):
            values[name] = {tuple(row[:-1]): row[-1] for row in values[name]}
        return cls(**values)

    def variables(self, group: str) -> dict[str, Variable]:
        """Return the variables of a group: the same for a partial store as for a finished one."""
        snapshots = np.size(self.snapshot) > 0
        return {
            name: variable
            for name, variable in GROUPS[group].items()
            if not variable.internal and (snapshots or "snapshot" not in variable.dims)
        }


@dataclass(frozen=True)
class _Group:
    """One group of shards to be laid out: its axes in front, and the key at each position."""

    kind: str
    leading: tuple[str, ...]
    keys: Mapping[Position, str]


def consolidate(store: Store, layout: Layout, target: Path | None = None) -> Path:
    """Build the cube `results.nc` from what the store holds now.

    The file is made aside and renamed, so that whoever holds the old one open keeps good bytes. Replicas that
    are not stored are NaN; values are the same however they were batched into shards.

    Parameters
    ----------
    store
        The store.
    layout
        Axes of the cube.
    target
        The file, by default the store's `results.nc`, which only the holder of its lock may write.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    StoreError
        The disk is full or cannot be written, or a shard does not fit the layout.
    """
    target = store.results if target is None else target
    network, fluid = store.index("network"), store.index("fluid")
    root = _attributes(store, layout)
    with writing(target), replacing(target) as aside, netCDF4.Dataset(aside, "w", format="NETCDF4") as file:
        file.setncatts(root)
        _write_group(file, store, layout, _Group("network", (*GRID, "replica"), layout.cells), network)
        _write_group(file, store, layout, _Group("fluid", LIMIT_GRID, layout.limits), fluid)
        _write_cells(file, store, layout, network)
    return target


def _attributes(store: Store, layout: Layout) -> dict[str, str]:
    return {
        "title": store.path.name,
        **layout.attributes,
        "Conventions": "CF-1.11",
        "history": f"{utc_now()} built from the shards of the store",
        "provenance": provenance_text(),
        "spec": store.spec_path.read_text(encoding="utf-8"),
    }


def _write_group(
    file: Any, store: Store, layout: Layout, group: _Group, places: Mapping[tuple[str, int], Place]
) -> None:
    """Fill one group slab by slab, each shard of a slab read once."""
    variables = layout.variables(group.kind)
    target = file.createGroup(group.kind)
    dims = dict.fromkeys(dim for variable in variables.values() for dim in variable.dims)
    _write_coordinates(target, layout, (*group.leading, *dims))
    for name, variable in variables.items():
        _create(target, name, variable, group.leading)
    shape = tuple(len(layout.coordinate(dim)) for dim in group.leading)
    item = sum(8 * math.prod(len(layout.coordinate(dim)) for dim in v.dims) for v in variables.values())
    for slab in _slabs(group.leading, shape, item):
        wanted: dict[Path, list[tuple[int, int]]] = {}
        for flat, position in enumerate(product(*(range(part.start, part.stop) for part in slab))):
            *grid, replica = position if "replica" in group.leading else (*position, NO_REPLICA)
            place = places.get((group.keys.get(tuple(grid), ""), replica))
            if place is not None:
                wanted.setdefault(place[0], []).append((flat, place[1]))
        if wanted:
            _fill(target, store, wanted, slab)


def _fill(
    target: Any, store: Store, wanted: Mapping[Path, Sequence[tuple[int, int]]], slab: tuple[slice, ...]
) -> None:
    """Fill a slab with (position in it, row of the shard) pairs of each shard."""
    sizes = tuple(part.stop - part.start for part in slab)
    blocks = {
        name: np.full((math.prod(sizes), *variable.shape[len(slab) :]), np.nan, variable.dtype)
        for name, variable in target.variables.items()
        if name not in target.dimensions
    }
    for path, pairs in wanted.items():
        shard = store.load_shard(path)
        to, rows = np.array(pairs).T
        for name, block in blocks.items():
            values = shard.arrays.get(name)
            if values is None:
                continue
            if values.shape[1:] != block.shape[1:]:
                raise StoreError(
                    f"shard {path} holds {name} of shape {values.shape[1:]} an item, the spec asks for "
                    f"{block.shape[1:]}: give a new --store"
                )
            block[to] = values[rows]
    for name, block in blocks.items():
        target[name][slab] = block.reshape(*sizes, *block.shape[1:])


def _slabs(dims: tuple[str, ...], shape: tuple[int, ...], item_bytes: int) -> Iterator[tuple[slice, ...]]:
    """Cut the leading axes into blocks of at most `_SLAB_BYTES`.

    Limits are kept apart before sizes N are: a shard mostly holds replicas of one limit, so it is read once.
    """
    steps = list(shape)
    rest = item_bytes * math.prod(shape)
    for axis in sorted(range(len(dims)), key=lambda axis: (dims[axis] not in LIMIT_GRID, axis)):
        rest //= shape[axis]
        steps[axis] = min(shape[axis], max(1, _SLAB_BYTES // rest))
        if steps[axis] > 1:
            break
    starts = (range(0, size, step) for size, step in zip(shape, steps, strict=True))
    for corner in product(*starts):
        yield tuple(slice(a, min(a + n, size)) for a, n, size in zip(corner, steps, shape, strict=True))


def _write_cells(file: Any, store: Store, layout: Layout, places: Mapping[tuple[str, int], Place]) -> None:
    """Say of each cell what became of it; positions without a cell have an empty status."""
    target = file.createGroup("cells")
    _write_coordinates(target, layout, GRID)
    shape = tuple(len(layout.coordinate(dim)) for dim in GRID)
    failures = store.failures()
    values = {
        "status": np.full(shape, "", dtype=object),
        "replicas": np.zeros(shape, dtype=np.int32),
        "attempts": np.zeros(shape, dtype=np.int32),
        "error": np.full(shape, "", dtype=object),
    }
    for position, key in layout.cells.items():
        stored = sum((key, replica) in places for replica in range(layout.replicas))
        failure = failures.get(key)
        unfinished = "pending" if failure is None else "failed"
        values["replicas"][position] = stored
        values["status"][position] = "done" if stored == layout.replicas else unfinished
        if failure is not None:
            values["attempts"][position], values["error"][position] = failure.attempts, failure.error
    for name, array in values.items():
        _create(target, name, layout.variables("cells")[name], GRID)[...] = array


def _write_coordinates(target: Any, layout: Layout, dims: Sequence[str]) -> None:
    for dim in dims:
        values = layout.coordinate(dim)
        target.createDimension(dim, len(values))
        variable = target.createVariable(dim, str if dim == "G" else values.dtype, (dim,))
        variable.setncatts(dict(zip(("units", "long_name"), COORDINATES[dim], strict=True)))
        variable[...] = values


def _create(target: Any, name: str, variable: Variable, leading: tuple[str, ...]) -> Any:
    dims = (*leading, *variable.dims)
    if variable.dtype == "str":
        made = target.createVariable(name, str, dims)
    else:
        shape = tuple(len(target.dimensions[dim]) for dim in dims)
        dtype = np.dtype(variable.dtype)
        packing = {
            "zlib": True,
            "complevel": 1,
            "shuffle": True,
            "chunksizes": _chunks(shape, dtype.itemsize),
        }
        fill = np.nan if dtype.kind == "f" else False
        made = target.createVariable(name, dtype, dims, fill_value=fill, **packing)
    made.setncatts({"units": variable.units, "long_name": variable.long_name})
    return made


def _chunks(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    """Return a block of trailing axes of about `_CHUNK_BYTES`: a cell's replicas, several cells if tiny."""
    chunks, inner = [], item_bytes
    for size in reversed(shape):
        chunks.append(min(size, max(1, _CHUNK_BYTES // inner)))
        inner *= chunks[-1]
    return tuple(reversed(chunks))
