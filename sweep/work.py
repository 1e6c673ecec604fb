"""The named tasks of a sweep: what a worker computes for a limit and for a batch of replicas.

A limit's arrays have a leading item axis of length 1; those of replicas have one in the batch's order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.task import Arrays, resolve

if TYPE_CHECKING:
    from sweep.cell import Limit
    from sweep.fluid.state import InvariantState
    from sweep.studies.base import Case, SweepSpec

Row = dict[str, Any]


def solve_limit(payload: Mapping[str, Any], shared: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:  # noqa: ARG001
    """Solve the hydrodynamic equations of one `Limit`."""
    from sweep.comparison import knots, limit_error, measures
    from sweep.fluid.transient import solve

    limit, grids = payload["limit"], payload["grids"]
    snapshots, ages = grids["snapshots"], grids["ages"]
    fine = knots(limit, snapshots) if snapshots.size else ages
    both = np.union1d(fine, ages)
    arrays = solve(
        limit,
        times=grids["times"],
        levels=grids["levels"],
        snapshots=snapshots,
        ages=both,
        tolerance=grids["tolerance"],
    )
    if snapshots.size:
        nu = arrays["nu_cdf"]
        arrays["nu_cdf"] = nu[:, :, np.searchsorted(both, ages)]
        arrays["knot_age"], arrays["knot_cdf"] = fine, nu[:, :, np.searchsorted(both, fine)]
        arrays["d_P_error"] = limit_error(measures(arrays), float(arrays["S_error"].max()))
    return {name: values[np.newaxis] for name, values in arrays.items()}


def solve_invariant(payload: Mapping[str, Any], shared: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:  # noqa: ARG001
    """Solve for the invariant state of one `Limit`."""
    levels = payload["grids"]["levels"]
    state = _invariant(payload["limit"], levels)
    S, log_S = np.full(levels, np.nan), np.full(levels, np.nan)
    S[: state.levels], log_S[: state.levels] = state.S, state.log_S
    arrays = {
        "S": S,
        "log_S": log_S,
        "mean_queue": state.length.value,
        "mean_queue_error": state.length.error,
        "mean_time_in_system": state.mean_time_in_system,
        "mean_virtual_waiting_time": state.mean_virtual_waiting_time,
    }
    return {name: np.asarray(values)[np.newaxis] for name, values in arrays.items()}


def _invariant(limit: Limit, levels: int) -> InvariantState:
    """Return the invariant state, with fewer levels where deeper ones are out of reach: S_ℓ < 1e-80 or so."""
    from sweep.errors import AccuracyError
    from sweep.fluid.invariant import solve_invariant

    try:
        return solve_invariant(limit, levels)
    except AccuracyError:
        state, reached, beyond = solve_invariant(limit, 1), 1, levels
    while beyond - reached > 1:
        middle = (reached + beyond) // 2
        try:
            state, reached = solve_invariant(limit, middle), middle
        except AccuracyError:
            beyond = middle
    return state


def solve_heavy_limit(payload: Mapping[str, Any], shared: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:  # noqa: ARG001
    """Solve the heavy-traffic limit of one `DiffusionLimit`."""
    from sweep.diffusion import study

    limit, grids = payload["limit"], payload["grids"]
    model = limit.model
    arrays = study.solve_heavy_limit(
        b1=model.b1,
        b0=model.b0,
        ell=model.ell,
        sigma2=model.sigma2,
        times=grids["times"],
        x=grids["x"],
        initial=limit.initial,
        tolerance=grids["tolerance"],
    )
    return {name: np.asarray(values)[np.newaxis] for name, values in arrays.items()}


def run_replicas(payload: Mapping[str, Any], shared: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:
    """Simulate replicas on a time grid and compare each with its hydrodynamic limit."""
    from sweep.comparison import compare, measures
    from sweep.network.replica import run_cell

    grids = payload["grids"]

    def row(case: Case, replica: int) -> Row:
        path = run_cell(
            case.cell,
            times=grids["times"],
            seed=payload["seed"],
            replica=replica,
            levels=grids["levels"],
            snapshots=grids["snapshots"],
        )
        arrays = path.arrays(grids["ages"])
        if case.limit is None:
            return arrays
        limit = shared[case.limit_key]
        nu = measures(limit) if "knot_cdf" in limit else []
        return {**arrays, **compare(case.cell.G, path, arrays["S"], limit, nu)}

    return _rows(payload, row)


def run_equilibrium(payload: Mapping[str, Any], shared: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:  # noqa: ARG001
    """Simulate long runs and average each over its batches."""
    from sweep.network.replica import run_cell

    grids = payload["grids"]
    edges, measured = grids["edges"], grids["measure"]

    def row(case: Case, replica: int) -> Row:
        path = run_cell(
            case.cell,
            times=edges,
            seed=payload["seed"],
            replica=replica,
            levels=grids["levels"],
            snapshots=np.empty(0),
            averages=True,
            measure=measured,
        )
        arrays, lam = path.arrays(np.array([np.inf])), case.cell.lam
        # The first interval is the warm-up.
        S, X = arrays["S_average"][1:], arrays["X_average"][1:]
        row = {
            "S_batch": S,
            "X_batch": X,
            "E_batch": arrays["E"][1:] - arrays["E"][:-1],
            "S_end": arrays["S"][1:],
            "X_end": arrays["X"][1:],
            "time_in_system": X / lam,
            "waiting_time": (X - S[:, 0]) / lam,
            "longest": arrays["longest"],
        }
        for name in ("time_in_system", "waiting_time") if measured else ():
            row[f"{name}_measured"] = arrays[name][1:]
        return row

    return _rows(payload, row)


def run_scaled(payload: Mapping[str, Any], shared: Mapping[str, Arrays]) -> dict[str, NDArray[Any]]:
    """Simulate critical networks and compare their scaled queues with the diffusion limit."""
    from sweep.diffusion.study import empirical_distances
    from sweep.network.simulate import run_path

    grids = payload["grids"]

    def row(case: Case, replica: int) -> Row:
        m, tagged, levels = dict(case.options)["m"], grids["tagged"], grids["levels"]
        times = m * grids["times"]
        path = run_path(
            case.cell,
            times=times,
            seed=payload["seed"],
            replica=replica,
            levels=None,
            snapshots=times if tagged else np.empty(0),
        )
        S = path.arrays(np.array([np.inf]))["S"]
        shown = np.zeros((len(S), levels))
        shown[:, : S.shape[1]] = S[:, :levels]
        N, limit = case.cell.N, shared[case.limit_key]
        counts = np.rint(S * N).astype(np.int64)
        row = {"S": shown, **empirical_distances(counts, N=N, m=m, x=grids["x"], limit=limit)}
        if tagged:
            row["tagged"] = path.lengths[:, :tagged] / math.sqrt(m)
        return row

    return _rows(payload, row)


def _rows(payload: Mapping[str, Any], row: Callable[[Any, int], Row]) -> dict[str, NDArray[Any]]:
    """Stack the rows of a batch, without what the sweep does not store."""
    rows = [row(case, replica) for case, replicas in payload["items"] for replica in replicas]
    omitted = payload["grids"]["omit"]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0] if name not in omitted}


def warm_up(spec: SweepSpec) -> None:
    """Compile a spec's kernels into their cache, so that workers that start together do not race for it."""
    from sweep.spec import parse_spec

    tables = {"name": "warm-up", "study": spec.study, "seed": 0, **_SMALL[spec.study]}
    choices = {name: getattr(spec.run, name) for name in ("routing", "method") if hasattr(spec.run, name)}
    if choices and any(case.cell.method == "lumped" for case in spec.cells()):
        tables["run"] = {**tables["run"], "method": "lumped"}
        tables["run"].pop("snapshots", None)
    elif choices.get("routing", "sampled") != "sampled":
        tables["run"] = {**tables["run"], "routing": choices["routing"]}
        tables["run"].pop("tolerance", None)  # there is no limit
        tables["grid"] = {**tables["grid"], "d": 1}
    small = parse_spec(tables)
    (case, *_), grids = small.cells(), small.grids()
    shared = {}
    if case.limit is not None:
        limit = resolve(small.LIMIT_TASK)({"limit": case.limit, "grids": grids}, {})
        shared = {case.limit.key: {name: values[0] for name, values in limit.items()}}
    resolve(small.REPLICA_TASK)({"items": ((case, (0,)),), "seed": 0, "grids": grids}, shared)


_SMALL: Mapping[str, Mapping[str, Any]] = {
    "transient": {
        "grid": {"N": 2, "d": 2, "lam": 0.5, "G": "exponential"},
        "run": {
            "horizon": 0.5,
            "times": 2,
            "replicas": 1,
            "levels": 1,
            "snapshots": [0.5],
            "tolerance": 1e-2,
        },
    },
    "equilibrium": {
        "grid": {"N": 2, "d": 2, "lam": 0.5, "G": "exponential"},
        "run": {"horizon": 0.5, "warmup": 0.0, "batches": 1, "replicas": 1, "levels": 1},
    },
    "heavy-traffic": {
        "grid": {"N": 4, "m": 4, "b1": -1.0, "b0": 1.0, "ell": 2, "G": "exponential"},
        "run": {"horizon": 0.5, "times": 2, "replicas": 1, "levels": 1, "tolerance": 1e-2},
    },
}
