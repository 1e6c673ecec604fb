"""The tasks of a sweep: what a worker computes for a limit and for a batch of replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.task import Arrays

SOLVE_LIMIT = "sweep.work:solve_limit"
RUN_REPLICAS = "sweep.work:run_replicas"


def solve_limit(payload: Mapping[str, Any], shared: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:  # noqa: ARG001
    """Solve the hydrodynamic equations of one `Limit`; arrays have a leading item axis of length 1."""
    from sweep.comparison import knots, limit_error, measures
    from sweep.fluid.transient import solve

    limit, grids = payload["limit"], dict(payload["grids"])
    snapshots, ages = grids["snapshots"], grids.pop("ages")
    if not snapshots.size:
        arrays = solve(limit, **grids, ages=ages, tolerance=payload["tolerance"])
    else:
        fine = knots(limit, snapshots)
        both = np.union1d(fine, ages)
        arrays = solve(limit, **grids, ages=both, tolerance=payload["tolerance"])
        nu = arrays["nu_cdf"]
        arrays["nu_cdf"] = nu[:, :, np.searchsorted(both, ages)]
        arrays["knot_age"], arrays["knot_cdf"] = fine, nu[:, :, np.searchsorted(both, fine)]
        arrays["d_P_error"] = limit_error(measures(arrays), float(arrays["S_error"].max()))
    return {name: values[np.newaxis] for name, values in arrays.items()}


def run_replicas(payload: Mapping[str, Any], shared: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:
    """Simulate every replica of a batch; arrays have a leading item axis, in the batch's order."""
    from sweep.comparison import compare, measures
    from sweep.network.simulate import run_path

    grids = dict(payload["grids"])
    ages = grids.pop("ages")
    rows = []
    for cell, replicas in payload["items"]:
        limit = shared[cell.limit.key]
        nu = measures(limit) if "knot_cdf" in limit else []
        for replica in replicas:
            path = run_path(cell, seed=payload["seed"], replica=replica, **grids)
            row = path.arrays(ages)
            rows.append({**row, **compare(cell.G, path, row["S"], limit, nu)})
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def warm_up() -> None:
    """Compile the kernels into their cache, so that workers that start together do not race to build it."""
    grids: dict[str, Any] = {
        "times": np.array([0.0, 0.5]),
        "levels": 1,
        "snapshots": np.array([0.5]),
        "ages": np.array([np.inf]),
    }
    cell = Cell(N=2, d=2, lam=0.5, G="exponential")
    limit = solve_limit({"limit": cell.limit, "grids": grids, "tolerance": 1e-2}, {})
    shared = {cell.limit.key: {name: values[0] for name, values in limit.items()}}
    run_replicas({"items": ((cell, (0,)),), "seed": 0, "grids": grids}, shared)
