"""A transient store of known law, with cells that are done, pending and failed."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from sweep import schema


def synthetic(power: float, sizes: tuple[int, ...] = (100, 1000, 10_000), spread: float = 0.1) -> xr.DataTree:
    """Twelve replicas of N^power with lognormal noise, and what of the cells is done."""
    rng = np.random.default_rng(3)
    shape = (len(sizes), 1, 1, 1, 12)
    values = np.array([N**power for N in sizes]).reshape(-1, 1, 1, 1, 1) * np.exp(
        spread * rng.standard_normal(shape)
    )
    coordinates: dict[str, Any] = {
        "N": sizes, "d": [2], "lam": [0.9], "G": ["exponential"], "replica": range(12)
    }  # fmt: skip
    axes = ("N", "d", "lam", "G")
    cells = {
        "status": np.array(["done", "pending", "failed"][: len(sizes)], dtype=object).reshape(shape[:4]),
        "replicas": np.array([12, 0, 0][: len(sizes)]).reshape(shape[:4]),
        "attempts": np.zeros(shape[:4], dtype=int),
        "error": np.array(["", "", "<b>MemoryError</b>"][: len(sizes)], dtype=object).reshape(shape[:4]),
    }
    tree = xr.DataTree.from_dict(
        {
            "network": schema.dataset("network", {"S_sup": values}, coordinates, (*axes, "replica")),
            "cells": schema.dataset("cells", cells, coordinates, axes),
        }
    )
    tree.attrs = {"title": "Known law", "study": "transient"}
    return tree


def with_a_case_beside_the_grid() -> xr.DataTree:
    """The known law at (2, .9), and one point more at (3, .5): of four networks two were asked for."""
    tree = synthetic(-0.5)
    wide = tree["network"].to_dataset().reindex(d=[2, 3], lam=[0.9, 0.5])
    wide["S_sup"].loc[{"N": 1000, "d": 3, "lam": 0.5}] = wide.S_sup.sel(N=1000, d=2, lam=0.9).values
    tree["network"] = xr.DataTree(wide)
    return tree
