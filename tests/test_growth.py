"""A store grows in every direction by what is missing alone, and keeps the bits of what it had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import sweep
from sweep.driver import run


def spec(N: list[int], G: list[str], replicas: int) -> dict[str, Any]:
    return {
        "name": "growth",
        "study": "transient",
        "seed": 3,
        "grid": {"N": N, "d": [2], "lam": [0.6], "G": G},
        "run": {"horizon": 2.0, "times": 5, "levels": 3, "replicas": replicas},
    }


def test_more_replicas_sizes_and_a_longer_law_name_are_added_to_what_there_is(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run(spec([10], ["exponential"], 10), store=store, engine="serial")
    before = {group: sweep.load(store)[group].to_dataset() for group in ("network", "fluid")}
    laws = ["exponential", "hyperexponential(scv=4.0)"]
    grown = run(spec([5, 10, 40], laws, 30), store=store, engine="serial")
    assert grown.replicas_computed == 3 * 2 * 30 - 10
    assert grown.limits_solved == 1
    assert grown.cells_done == grown.cells == 6
    after = sweep.load(store)
    there = {"N": [10], "d": [2], "lam": [0.6], "G": ["exponential"], "replica": range(10)}
    for group, old in before.items():
        new = after[group].to_dataset()
        kept = new.sel({dim: there[dim] for dim in there if dim in new.dims})
        xr.testing.assert_identical(kept.drop_attrs(deep=False), old.drop_attrs(deep=False))
        assert {name: v.dtype for name, v in new.variables.items() if name != "G"} == {
            name: v.dtype for name, v in old.variables.items() if name != "G"
        }
        assert np.isfinite(new.S.values).all()
    assert after["network"].G.values.tolist()[1].startswith("hyperexponential(")
