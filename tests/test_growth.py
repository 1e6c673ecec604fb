"""A store grows in every direction by what is missing alone, and keeps the bits of what it had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import sweep
from sweep.cli import app
from sweep.driver import run
from sweep.errors import MismatchError
from sweep.spec import parse_spec
from sweep.status import store_status


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


def test_what_a_narrower_spec_leaves_out_of_the_results_is_told(tmp_path: Path) -> None:
    store, small = tmp_path / "store", tmp_path / "small.toml"
    wide = spec([5, 10, 20], ["exponential"], 4)
    assert run(wide, store=store, engine="serial").notes == store_status(store).notes == ()
    small.write_text(parse_spec(spec([10], ["exponential"], 3)).to_toml())
    ended = CliRunner().invoke(app, ["run", str(small), "--store", str(store), "--engine", "serial"])
    note = "the store also holds 2 cells and 1 replica of others that the spec does not ask for: "
    cure = "to have them in results.nc run a spec that does"
    assert ended.exit_code == 0
    assert ended.stdout.endswith(f"results: {store / 'results.nc'}\n{note}{cure}\n")
    assert sweep.load(store)["network"].S.shape[:1] == (1,)
    assert store_status(store).notes == (note + cure,)
    fewer = run(spec([5, 10, 20], ["exponential"], 3), store=store, engine="serial")
    assert fewer.notes == (f"the store also holds 3 replicas that the spec does not ask for: {cure}",)
    again = run(wide, store=store, engine="serial")
    assert (again.replicas_computed, again.notes, store_status(store).notes) == (0, (), ())
    assert np.isfinite(sweep.load(store)["network"].S.values).all()


def test_a_run_of_a_part_of_the_grid_asks_for_the_rest_as_well(tmp_path: Path) -> None:
    both = spec([5, 10], ["exponential"], 2)
    run(both, store=tmp_path / "store", engine="serial")
    part = run(both, store=tmp_path / "store", engine="serial", only={"N": 5})
    assert part.notes == ()


def critical(**changes: Any) -> dict[str, Any]:
    return {
        "name": "growth",
        "study": "heavy-traffic",
        "seed": 3,
        "grid": {"N": 5, "m": 4, "b1": [-1.0], "b0": 0.5, "ell": 2, "G": "exponential"} | changes,
        "run": {"horizon": 1.0, "times": 2, "levels": 2, "replicas": 2, "initial": "point(x=1.50)"},
    }


def test_a_grid_of_critical_networks_grows_at_the_positions_of_its_store(tmp_path: Path) -> None:
    """The default positions depend on the grid: of a larger one alone they would be others."""
    store = tmp_path / "store"
    run(critical(), store=store, engine="serial")
    before = sweep.load(store)["network"].to_dataset()
    larger = critical(b1=[-1.0, 0.5], G=["exponential", "hyperexponential(scv=10)"])
    larger["run"]["initial"] = "point( x=1.5 )"
    grown = run(larger, store=store, engine="serial")
    assert (grown.replicas_computed, grown.limits_solved, grown.cells_done) == (6, 3, 4)
    after = sweep.load(store)["network"].to_dataset()
    assert after.x.values.tolist() == before.x.values.tolist()
    kept = after.sel(b1=[-1.0], G=["exponential"])
    xr.testing.assert_identical(kept.drop_attrs(deep=False), before.drop_attrs(deep=False))
    given = parse_spec(larger | {"run": larger["run"] | {"positions": [0.0, 1.0]}})
    with pytest.raises(MismatchError, match=r"positions = 61 values from 0.0 .*, now \[0.0, 1.0\]"):
        run(given, store=store, engine="serial")
