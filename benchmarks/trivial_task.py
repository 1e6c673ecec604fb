"""A task too small to matter: one replica of a tiny network and its distance from the limit."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell, Limit
from sweep.fluid.transient import solve
from sweep.network.replica import run_cell

D, HORIZON, TIMES, LEVELS = 2, 0.5, 3, 4
GRID = np.linspace(0.0, HORIZON, TIMES)
NONE = np.empty(0)


@functools.cache
def limit(lam: float) -> NDArray[np.float64]:
    """Return S of the limit, shape (t, level), solved once a process."""
    solved = solve(
        Limit(d=D, lam=lam, G="exponential"),
        times=GRID,
        levels=LEVELS,
        snapshots=NONE,
        ages=np.array([np.inf]),
        tolerance=1e-7,
    )
    return solved["S"]


def task(N: int, lam: float) -> float:
    """Return the distance from the limit of one replica of N servers: what a worker of a sweep does."""
    cell = Cell(N=int(N), d=D, lam=float(lam), G="exponential")
    path = run_cell(cell, times=GRID, seed=1, replica=0, levels=LEVELS, snapshots=NONE).arrays(NONE)
    return float(np.max(np.abs(path["S"] - limit(float(lam)))))
