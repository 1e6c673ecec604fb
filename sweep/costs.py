"""Rough costs of the work: seconds of one core and bytes, measured once; plans and batches rest on them."""

from __future__ import annotations

import math

from sweep.cell import Cell

#: Bytes of a worker before it has any work.
WORKER_BYTES = 250_000_000
LIMIT_SECONDS = 0.2
_SERVER_BYTES = 32
_SNAPSHOT_BYTES = 40  # age and length of a server, and their sorted copy
#: Prohorov distances and V at one snapshot: for any N, and for each server.
_DISTANCE_SECONDS, _DISTANCE_SERVER_SECONDS = 0.05, 1e-6


def path_seconds(cell: Cell, horizon: float) -> float:
    """Estimate the seconds of one path: an event costs more where servers outgrow the cache."""
    events = cell.lam * cell.N * horizon * (cell.d + 2)
    nanoseconds = 8.0 + 6.0 * max(0.0, math.log10(cell.N / 1e5))
    return 5e-4 + 1e-9 * (events * nanoseconds + 2.0 * cell.N * horizon)


def distance_seconds(cell: Cell, snapshots: int) -> float:
    """Estimate the seconds that distances at so many snapshots take for one path."""
    return snapshots * (_DISTANCE_SECONDS + _DISTANCE_SERVER_SECONDS * cell.N)


def path_bytes(cell: Cell, snapshots: int) -> int:
    """Estimate the bytes of the servers of one path."""
    return cell.N * (_SERVER_BYTES + _SNAPSHOT_BYTES * snapshots)
