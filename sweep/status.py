"""What a store holds, told from the store alone; nothing here takes its lock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sweep.cube import consolidate
from sweep.driver import layout
from sweep.plan import Plan, make_plan
from sweep.spec import read_spec
from sweep.store import Store


@dataclass(frozen=True, kw_only=True)
class Status:
    """Counts of cells and replicas, failed cells as (parameters, error), and remarks."""

    name: str
    cells: int
    done: int
    replicas: int
    wanted: int
    failed: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def store_status(path: str | Path) -> Status:
    """Return how far the sweep of a store is.

    Raises
    ------
    StoreError
        `path` is not a store.
    """
    store = Store.open(path)
    plan = _plan(store)
    stored = store.index("network")
    wanted = range(plan.spec.run.replicas)
    have = {cell.key: sum((cell.key, number) in stored for number in wanted) for cell in plan.cells}
    failures = store.failures()
    failed = [
        (cell.text, failures[cell.key].error)
        for cell in plan.cells
        if cell.key in failures and have[cell.key] < len(wanted)
    ]
    notes = [f"damaged, will be computed again: {shard} ({reason})" for shard, reason in store.damaged]
    owner = store.lock_owner()
    if owner is not None:
        notes.insert(0, f"being written by {owner}")
    return Status(
        name=plan.spec.name,
        cells=len(plan.cells),
        done=sum(count == len(wanted) for count in have.values()),
        replicas=sum(have.values()),
        wanted=len(wanted) * len(plan.cells),
        failed=tuple(failed),
        notes=tuple(notes),
    )


def export(store: str | Path, file: str | Path) -> Path:
    """Write everything stored so far into one netCDF file of its own, and return its path.

    Raises
    ------
    StoreError
        `store` is not a store, or `file` cannot be written.
    """
    keeper = Store.open(store)
    return consolidate(keeper, layout(_plan(keeper)), Path(file))


def _plan(store: Store) -> Plan:
    return make_plan(read_spec(store.spec_path))
