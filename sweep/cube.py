"""The cube of results, built from the shards of a store."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
from numpy.typing import NDArray

from sweep.disk import replacing, writing
from sweep.errors import StoreError
from sweep.layout import Group, Layout
from sweep.provenance import provenance_text, utc_now
from sweep.schema import GROUPS, Variable
from sweep.store import NO_REPLICA, Failure, Index, Store

Array = NDArray[Any]
#: Consecutive items: position in a slab, row of a shard, how many.
Piece = tuple[int, int, int]

#: Axes that a limit does not have.
_NO_LIMIT_AXES = ("N", "m", "replica")
_CHUNK_BYTES = 1 << 18
_SLAB_BYTES = 1 << 28


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
    places = {kind: store.index(kind) for kind in dict.fromkeys(group.kind for group in layout.groups)}
    root = _attributes(store, layout)
    with writing(target), replacing(target) as aside, netCDF4.Dataset(aside, "w", format="NETCDF4") as file:
        file.setncatts(root)
        for group in layout.groups:
            _write_group(file, store, layout, group, places[group.kind])
        _write_cells(file, store, layout, places)
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


def _write_group(file: Any, store: Store, layout: Layout, group: Group, index: Index) -> None:
    """Fill one group slab by slab, each shard of a slab read once."""
    variables = layout.variables(group.kind)
    target = file.createGroup(group.name)
    dims = dict.fromkeys(dim for variable in variables.values() for dim in variable.dims)
    _write_coordinates(target, layout, (*group.axes, *dims))
    for name, variable in variables.items():
        _create(target, name, variable, group.axes)
    shape = tuple(len(layout.coordinate(dim)) for dim in group.axes)
    item = sum(8 * math.prod(len(layout.coordinate(dim)) for dim in v.dims) for v in variables.values())
    for slab in _slabs(group.axes, shape, item):
        wanted: dict[Path, list[Piece]] = {}
        for path, piece in _pieces(layout, group, index, slab):
            wanted.setdefault(path, []).append(piece)
        if wanted:
            _fill(target, store, wanted, slab)


def _pieces(
    layout: Layout, group: Group, index: Index, slab: tuple[slice, ...]
) -> Iterator[tuple[Path, Piece]]:
    """Yield what is stored of a slab; replicas that a cell is not asked for are left out."""
    *grid, last = slab if group.replicated else (*slab, slice(NO_REPLICA, NO_REPLICA + 1))
    width = last.stop - last.start
    for number, position in enumerate(product(*(range(part.start, part.stop) for part in grid))):
        key = group.keys.get(position)
        if key is None:
            continue
        stop = min(last.stop, layout.wanted(key)) if group.replicated else last.stop
        for first, count, path, row in index.pieces(key, last.start, stop):
            yield path, (number * width + first - last.start, row, count)


def _fill(target: Any, store: Store, wanted: Mapping[Path, Sequence[Piece]], slab: tuple[slice, ...]) -> None:
    """Fill a slab with pieces of each shard."""
    sizes = tuple(part.stop - part.start for part in slab)
    blocks = {
        name: np.full((math.prod(sizes), *variable.shape[len(slab) :]), np.nan, variable.dtype)
        for name, variable in target.variables.items()
        if name not in target.dimensions
    }
    for path, pieces in wanted.items():
        shard = store.load_shard(path)
        for name, block in blocks.items():
            values = shard.arrays.get(name)
            if values is None:
                continue
            if values.shape[1:] != block.shape[1:]:
                raise StoreError(
                    f"shard {path} holds {name} of shape {values.shape[1:]} an item, the spec asks for "
                    f"{block.shape[1:]}: give a new --store"
                )
            for to, row, count in pieces:
                block[to : to + count] = values[row : row + count]
    for name, block in blocks.items():
        target[name][slab] = block.reshape(*sizes, *block.shape[1:])


def _slabs(dims: tuple[str, ...], shape: tuple[int, ...], item_bytes: int) -> Iterator[tuple[slice, ...]]:
    """Cut the leading axes into blocks of at most `_SLAB_BYTES`.

    Limits are kept apart before sizes N are: a shard mostly holds replicas of one limit, so it is read once.
    """
    steps = list(shape)
    rest = item_bytes * math.prod(shape)
    for axis in sorted(range(len(dims)), key=lambda axis: (dims[axis] in _NO_LIMIT_AXES, axis)):
        rest //= shape[axis]
        steps[axis] = min(shape[axis], max(1, _SLAB_BYTES // rest))
        if steps[axis] > 1:
            break
    starts = (range(0, size, step) for size, step in zip(shape, steps, strict=True))
    for corner in product(*starts):
        yield tuple(slice(a, min(a + n, size)) for a, n, size in zip(corner, steps, shape, strict=True))


def _write_cells(file: Any, store: Store, layout: Layout, places: Mapping[str, Index]) -> None:
    """Say of each cell what became of it; positions without a cell have an empty status."""
    target = file.createGroup("cells")
    axes = tuple(layout.axes)
    _write_coordinates(target, layout, axes)
    shape = tuple(len(layout.coordinate(dim)) for dim in axes)
    failures = store.failures()
    values = {
        "status": np.full(shape, "", dtype=object),
        "replicas": np.zeros(shape, dtype=np.int32),
        "attempts": np.zeros(shape, dtype=np.int32),
        "error": np.full(shape, "", dtype=object),
        "numbers": np.full(shape, "", dtype=object),
    }
    for position, cells in layout.cells.items():
        stored = [places[kind].count(key, below=layout.wanted(key)) for kind, key in cells]
        failed = [failures[key] for _, key in cells if key in failures]
        done = all(count == layout.wanted(key) for count, (_, key) in zip(stored, cells, strict=True))
        values["replicas"][position] = min(stored)
        versions = {version for kind, key in cells for version in places[kind].numbers(key)}
        values["numbers"][position] = " ".join(map(str, sorted(versions)))
        values["status"][position] = "done" if done else _unfinished(failed)
        if failed:
            values["attempts"][position] = max(failure.attempts for failure in failed)
            values["error"][position] = failed[0].error
    for name, array in values.items():
        _create(target, name, GROUPS["cells"][name], axes)[...] = array


def _unfinished(failed: Sequence[Failure]) -> str:
    if not failed:
        return "pending"
    return "quarantined" if any(failure.quarantined for failure in failed) else "failed"


def _write_coordinates(target: Any, layout: Layout, dims: Sequence[str]) -> None:
    for dim in dims:
        values = layout.coordinate(dim)
        target.createDimension(dim, len(values))
        variable = target.createVariable(dim, str if dim == "G" else values.dtype, (dim,))
        variable.setncatts(dict(zip(("units", "long_name"), layout.labels(dim), strict=True)))
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
