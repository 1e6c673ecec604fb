"""Results of critical networks whose distances, means and queues follow known laws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray as xr

from sweep.diffusion.study import solve_heavy_limit

ROW = ("b1", "b0", "ell", "G")
DIMS = ("N", "m", *ROW, "replica", "t")
SCALES, SIZES, REPLICAS = (25, 100, 400), (100, 1000, 10_000), 40
TIMES, X = np.array([0.0, 0.5, 0.75, 1.0, 2.0]), np.linspace(0.0, 6.0, 61)
#: Without a second stream each queue is reflected Brownian motion on its own.
MODEL: dict[str, Any] = {"b1": -1.0, "b0": 0.0, "ell": 2, "sigma2": 2.0}
SPEC = '[run]\ninitial = "points(0: 0.5, 1: 0.5)"\nexchangeable = {}\nfixed = {}\n'


def reflected(rng: np.random.Generator, X: np.ndarray, t: float) -> np.ndarray:
    """Draw from the exact transition of reflected Brownian motion with drift −1, σ² = 2."""
    y = -t + math.sqrt(2.0 * t) * rng.standard_normal(X.shape)
    least = 0.5 * (y - np.sqrt(y * y + 4.0 * t * rng.standard_exponential(X.shape)))
    return np.asarray(X + y - np.minimum(X + least, 0.0))


def make_tree(
    initial: str = "empty", starts: Any = 0.0, spec: str | None = None, replicas: int = REPLICAS
) -> xr.DataTree:
    """Networks whose distances are √(4/m + 9/N), means 1 − 0.8/√m + 0.5/m, and whose queues are the limit."""
    rng = np.random.default_rng(4)
    shape = (len(SIZES), len(SCALES), 1, 1, 1, 1, replicas, TIMES.size)
    N, m = np.array(SIZES)[:, None], np.array(SCALES)[None, :]
    noise = 1.0 + 0.05 * rng.standard_normal(shape)
    distance = np.sqrt(4.0 / m + 9.0 / N).reshape(len(SIZES), len(SCALES), *[1] * 6)
    limit = solve_heavy_limit(**MODEL, times=TIMES, x=X, initial=initial)
    mean = (limit["mean"] + ((0.5 / m - 0.8 / np.sqrt(m)) * np.ones_like(N))[..., None]).reshape(
        len(SIZES), len(SCALES), 1, 1, 1, 1, 1, TIMES.size
    )
    tagged = np.empty((*shape, 3))
    tagged[..., 0, :] = starts if not callable(starts) else starts(rng, tagged[..., 0, :].shape)
    for k in range(1, TIMES.size):
        tagged[..., k, :] = reflected(rng, tagged[..., k - 1, :], float(TIMES[k] - TIMES[k - 1]))
    variables = {
        **dict.fromkeys(("W1", "KS", "d_P"), (DIMS, distance * noise)),
        "X": (DIMS, mean + 0.01 * rng.standard_normal(shape)),
        "v": ((*DIMS, "x"), np.broadcast_to(limit["v"], (*shape, X.size))),
        "tagged": ((*DIMS, "server"), tagged),
    }
    grid = {"b1": [-1.0], "b0": [0.0], "ell": [2], "G": ["exponential"], "t": TIMES, "x": X}
    network = xr.Dataset(variables, coords={"N": list(SIZES), "m": list(SCALES), **grid})
    named = {name: limit[name] for name in ("v", "u", "mean", "error", "v_stationary", "mean_stationary")}
    dims = {"v": ("t", "x"), "u": ("t", "x"), "mean": ("t",), "v_stationary": ("x",)}
    diffusion = xr.Dataset(
        {
            name: ((*ROW, *dims.get(name, ())), values[None, None, None, None])
            for name, values in named.items()
        },
        coords=grid,
    )
    tree = xr.DataTree.from_dict({"network": network, "diffusion": diffusion})
    if spec is not None:
        tree.attrs["spec"] = spec
    return tree
