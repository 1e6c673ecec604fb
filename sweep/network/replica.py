"""One replica of a cell, by the kernel that its routing rule and method ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.routing import as_rule

if TYPE_CHECKING:
    from sweep.network.lumped import LumpedPath
    from sweep.network.path import Path

Floats = NDArray[np.float64]


def run_cell(
    cell: Cell,
    *,
    times: Floats,
    seed: int,
    replica: int,
    levels: int | None,
    snapshots: Floats,
    averages: bool = False,
    measure: bool = False,
) -> Path | LumpedPath:
    """Run one replica for arguments that are checked already; parameters as for `simulate`.

    Raises
    ------
    ValueError
        An output that the cell's method does not have: see `check_method`.
    """
    grids = {"times": times, "seed": seed, "replica": replica, "levels": levels}
    if cell.method == "lumped":
        from sweep.network.lumped import run_lumped

        check_method(cell, snapshots=snapshots.size, measure=measure)
        return run_lumped(cell, **grids, averages=averages)  # type: ignore[arg-type]
    outputs = {"snapshots": snapshots, "averages": averages, "measure": measure}
    if as_rule(cell.routing).sees_all:
        from sweep.network.eager import run_eager

        return run_eager(cell, cell.routing, **grids, **outputs)  # type: ignore[arg-type]
    from sweep.network.simulate import run_path

    return run_path(cell, **grids, **outputs)  # type: ignore[arg-type]


def check_method(cell: Cell, *, snapshots: int = 0, measure: bool = False, tagged: int = 0) -> None:
    """Check that the cell's method has what is asked for.

    Raises
    ------
    ValueError
        Ages, single queues or single jobs of a network that is lumped to its level counts.
    """
    from sweep.network.lumped_method import choose_method

    choose_method(cell, snapshots=snapshots, measure=measure, tagged=tagged, method=cell.method)
