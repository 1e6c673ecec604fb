"""The named tasks of a sweep: what a worker computes for a limit and for a batch of replicas.

A limit's arrays have a leading item axis of length 1; those of replicas have one in the batch's order.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.task import Arrays, resolve

if TYPE_CHECKING:
    from sweep.cell import Cell, Limit
    from sweep.fluid.state import InvariantState
    from sweep.studies.base import Case, SweepSpec

Row = dict[str, Any]
#: Last time and tolerance of what is computed for its kernels alone.
_SHORT, _COARSE = 0.5, 1e-2
#: Stored times there, without and with snapshots: enough for the limit's path to go on in blocks.
_STEPS, _STEPS_BETWEEN = 256, 64


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
    """Compile the kernels of a spec into their cache, so that workers that start together do not race for it.

    Of each method and kind of service law the cheapest cell, with its limit, is computed on short grids. What
    fails here is told by the task that it belongs to.
    """
    kinds = {_kind(case): case for case in sorted(spec.cells(), key=lambda case: -case.seconds)}
    grids = _short(spec)
    for case in kinds.values():
        with contextlib.suppress(Exception):
            shared = {}
            if case.limit is not None:
                limit = resolve(spec.LIMIT_TASK)({"limit": case.limit, "grids": grids}, {})
                shared = {case.limit_key: {name: values[0] for name, values in limit.items()}}
            items = ((replace(case, cell=_small(case.cell)), (0,)),)
            resolve(spec.REPLICA_TASK)({"items": items, "seed": 0, "grids": grids}, shared)


def _kind(case: Case) -> tuple[Any, ...]:
    """Return what decides on the kernels of a case, within a spec."""
    law = case.cell.G
    return case.group, case.cell.method, type(law), law.origin_exponent < 1.0


def _short(spec: SweepSpec) -> dict[str, Any]:
    """Return a spec's grids with a short time, one level, and one snapshot if there are any."""
    grids, end = spec.grids(), min(_SHORT, spec.run.horizon)
    if "snapshots" in grids:
        steps = _STEPS_BETWEEN if grids["snapshots"].size else _STEPS
        grids["times"] = end * np.arange(steps + 1) / steps
        grids["snapshots"] = grids["times"][-1:] if grids["snapshots"].size else grids["snapshots"]
    else:
        grids["times"] = grids["edges"] = np.array([0.0, end])
    return {**grids, "levels": 1, "tolerance": _COARSE}


def _small(cell: Cell) -> Cell:
    """Return a cell of few servers, of which its start makes whole numbers."""
    for digits in range(2, len(str(cell.N))):
        with contextlib.suppress(ValueError):
            return replace(cell, N=10**digits)
    return cell
