"""The tasks of a sweep: what a worker computes for a limit and for a batch of replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell, Limit
from sweep.task import Arrays

SOLVE_LIMIT = "sweep.work:solve_limit"
RUN_REPLICAS = "sweep.work:run_replicas"


def solve_limit(payload: Mapping[str, Any], shared: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:  # noqa: ARG001
    """Solve the hydrodynamic equations of one `Limit`; arrays have a leading item axis of length 1."""
    from sweep.fluid.transient import solve

    arrays = solve(payload["limit"], **payload["grids"], tolerance=payload["tolerance"])
    return {name: values[np.newaxis] for name, values in arrays.items()}


def run_replicas(payload: Mapping[str, Any], shared: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:
    """Simulate every replica of a batch; arrays have a leading item axis, in the batch's order."""
    from sweep.network.simulate import run_replica

    rows = []
    for cell, replicas in payload["items"]:
        limit = shared[cell.limit.key]["S"]
        for replica in replicas:
            row = run_replica(cell, seed=payload["seed"], replica=replica, **payload["grids"])
            row["S_sup"] = np.max(np.abs(row["S"] - limit))
            rows.append(row)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def warm_up() -> None:
    """Compile the kernels into their cache, so that workers that start together do not race to build it."""
    from sweep.fluid.transient import solve
    from sweep.network.simulate import run_replica

    grids: dict[str, Any] = {
        "times": np.array([0.0, 0.5]),
        "levels": 1,
        "snapshots": np.array([0.5]),
        "ages": np.array([np.inf]),
    }
    cell = Cell(N=2, d=2, lam=0.5, G="exponential")
    run_replica(cell, seed=0, replica=0, **grids)
    solve(Limit(d=2, lam=0.5, G="exponential"), **grids, tolerance=1e-2)
