"""After the warm-up of a spec its workers find every kernel compiled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sweep import work
from sweep.spec import parse_spec
from tests.processors import printed

#: Prints, for each of the specs given, a kernel that the warm-up has compiled or loaded, and those that the
#: first replica of each cell and its limit need beside. Each spec has a process that has compiled none.
PROGRAM = """
import importlib, json, os, sys
import scipy.optimize, sweep.comparison, sweep.diffusion.study, sweep.fluid.transient, sweep.network.simulate
from pathlib import Path
from numba.core.dispatcher import Dispatcher
import sweep
from sweep.spec import parse_spec
from sweep.task import resolve
from sweep.work import warm_up

package = Path(sweep.__file__).parent
files = sorted(package.glob("*/*kernels.py"))
modules = [importlib.import_module(f"sweep.{file.parent.name}.{file.stem}") for file in files]
kernels = {id(kernel): kernel for module in modules for kernel in vars(module).values()
           if isinstance(kernel, Dispatcher)}

def compiled():
    return {(kernel.__name__, signature) for kernel in kernels.values() for signature in kernel.overloads}

def needed(tables):
    spec = parse_spec(tables)
    warm_up(spec)
    warmed, grids = compiled(), spec.grids()
    for case in spec.cells():
        shared = {}
        if case.limit is not None:
            limit = resolve(spec.LIMIT_TASK)({"limit": case.limit, "grids": grids}, {})
            shared = {case.limit_key: {name: values[0] for name, values in limit.items()}}
        resolve(spec.REPLICA_TASK)({"items": ((case, (0,)),), "seed": 1, "grids": grids}, shared)
    return bool(warmed), sorted({name for name, _ in compiled() - warmed})

for tables in json.loads(sys.argv[1]):
    if not os.fork():
        print(json.dumps(needed(tables)), flush=True)
        os._exit(0)
    os.wait()
"""
PHASES = "phase_type(alpha=[1, 0], T=[[-2, 2], [0, -2]])"
RUN: Mapping[str, Any] = {"horizon": 3.0, "times": 4, "levels": 3, "replicas": 1}
BATCHES: Mapping[str, Any] = {"horizon": 3.0, "warmup": 1.0, "batches": 2, "levels": 3, "replicas": 1}


def tables(study: str, run: Mapping[str, Any], **grid: Any) -> dict[str, Any]:
    return {"name": "warm", "study": study, "seed": 1, "grid": grid, "run": run}


SPECS = [
    tables(
        "transient",
        {**RUN, "horizon": 0.5, "method": "auto", "arrivals": "gamma(shape=0.5)"},
        **{"N": [20, 200_000], "d": 3, "lam": 0.9, "G": ["exponential", "gamma(shape=2.5)", PHASES]},
    ),
    tables(
        "transient", {**RUN, "snapshots": [2.0]}, N=20, d=2, lam=0.9, G=["lomax(beta=1.5)", "deterministic"]
    ),
    tables("transient", {**RUN, "routing": "shortest"}, N=20, d=1, lam=0.9, G=["exponential", "erlang(k=2)"]),
    tables(
        "equilibrium", {**BATCHES, "measure": True}, N=20, d=5, lam=0.3, G=["exponential", "lomax(beta=1.5)"]
    ),
    tables(
        "heavy-traffic",
        {**RUN, "horizon": 1.0, "initial": "law(exponential, mean=0.7)", "tolerance": 1e-4},
        **{"N": 20, "m": 25, "b1": -1.0, "b0": 1.0, "ell": 2, "G": ["exponential", PHASES]},
    ),
]


def test_after_the_warm_up_no_cell_compiles_a_kernel() -> None:
    found = [json.loads(line) for line in printed(PROGRAM, json.dumps(SPECS)).splitlines()]
    assert found == [[True, []]] * len(SPECS)


@pytest.mark.parametrize("task", ["solve_limit", "run_replicas"])
def test_a_cell_that_fails_is_left_to_its_own_task(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def failing(*_: object) -> None:
        asked.append(task)
        raise ArithmeticError("no solution")

    monkeypatch.setattr(work, task, failing)
    work.warm_up(parse_spec(tables("transient", RUN, N=20, d=2, lam=0.9, G=["exponential", "erlang(k=2)"])))
    assert asked == [task, task]


def test_a_large_network_is_warmed_up_by_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(work, "solve_limit", lambda *_: {})
    monkeypatch.setattr(work, "run_replicas", lambda payload, _: sizes.append(payload["items"][0][0].cell.N))
    for initial in ("empty", "lengths(1: 0.0001)", "lengths(1: 0.0000003)"):
        run = {**RUN, "initial": initial}
        work.warm_up(parse_spec(tables("transient", run, N=[10**8, 10**7], d=2, lam=0.9, G="exponential")))
    assert sizes == [100, 10**4, 10**7]
