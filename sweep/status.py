"""What a store holds, told from the store alone; nothing here takes its lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweep.catalogue import Index
from sweep.cube import consolidate
from sweep.layout import Layout
from sweep.store import Store


@dataclass(frozen=True, kw_only=True)
class Status:
    """Counts of cells and replicas, failed cells as (parameters, error), and remarks.

    `damaged` names the shards that are left out, and `writer` who writes to the store, in words.
    """

    name: str
    cells: int
    done: int
    replicas: int
    wanted: int
    failed: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    damaged: tuple[str, ...] = ()
    writer: str | None = None


def laid_out(path: str | Path) -> tuple[Store, Layout]:
    """Open a store to look at, whatever the versions of its numbers; return it and the layout of its cube.

    Raises
    ------
    StoreError
        `path` is not a store, or has no layout, or one that is damaged.
    """
    store = Store.open(path, mixing=True)  # nothing is added to it
    layout = Layout.from_json(store.layout_text, store.path)
    store.adopt(layout.aliases)
    return store, layout


def store_status(path: str | Path) -> Status:
    """Return how far the sweep of a store is.

    Raises
    ------
    StoreError
        `path` is not a store, or has no layout, or one that is damaged.
    """
    store, layout = laid_out(path)
    kinds = {group.kind for group in layout.groups if group.replicated}
    places = {kind: store.index(kind) for kind in kinds}
    failures = store.failures()
    done, replicas, wanted, failed = 0, 0, 0, []
    for cells in layout.cells.values():
        stored = [places[kind].count(key, below=layout.wanted(key)) for kind, key in cells]
        asked = [layout.wanted(key) for _, key in cells]
        done += stored == asked
        replicas += sum(stored)
        wanted += sum(asked)
        failed += [
            (layout.texts[key], failures[key].error)
            for (_, key), have, need in zip(cells, stored, asked, strict=True)
            if key in failures and have < need
        ]
    asked_of = {key: layout.wanted(key) for cells in layout.cells.values() for _, key in cells}
    damaged = store.damaged
    notes = [f"damaged, will be computed again: {shard} ({reason})" for shard, reason in damaged]
    notes += [note for index in places.values() for note in left_out(index, asked_of)]
    owner = store.lock_owner()
    if owner is not None:
        notes.insert(0, f"being written by {owner}")
    return Status(
        name=layout.attributes["title"],
        cells=len(layout.cells),
        done=done,
        replicas=replicas,
        wanted=wanted,
        failed=tuple(failed),
        notes=tuple(notes),
        damaged=tuple(shard.name for shard, _ in damaged),
        writer=owner,
    )


def left_out(index: Index, wanted: Mapping[str, int]) -> tuple[str, ...]:
    """Return a remark, if any, on what is stored beyond the replicas `wanted` of each cell, by its key.

    results.nc is made for the spec last run: what a wider one had computed stays in the shards.
    """
    cells = sum(key not in wanted for key in index.keys_stored())
    replicas = sum(index.count(key) - index.count(key, below=most) for key, most in wanted.items())
    if not cells and not replicas:
        return ()
    counts = (
        (cells, "cell" if cells == 1 else "cells"),
        (replicas, ("replica" if replicas == 1 else "replicas") + (" of others" if cells else "")),
    )
    held = " and ".join(f"{count} {what}" for count, what in counts if count)
    return (
        f"the store also holds {held} that the spec does not ask for: "
        "to have them in results.nc run a spec that does",
    )


def export(store: str | Path, file: str | Path) -> Path:
    """Write what the store's spec asks for, as far as stored, into one netCDF file; return its path.

    Raises
    ------
    StoreError
        `store` is not a store or was not run yet, or `file` cannot be written.
    ValueError
        `file` lies in the store or below it, or in no directory.
    """
    keeper, layout = laid_out(store)
    target = Path(file)
    folder = target.parent.resolve()
    if keeper.path.resolve() in (folder, *folder.parents):
        raise ValueError(f"FILE must not lie in the store itself, got {target}: give another place")
    if not target.parent.is_dir():
        raise ValueError(f"FILE must lie in an existing directory, got {target}: make {target.parent}")
    return consolidate(keeper, layout, target)
