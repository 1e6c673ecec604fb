"""Names, dimensions, units and long names of everything that is stored or returned."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Variable:
    """Trailing dimensions, unit and long name of one variable (grid and replica axes come before)."""

    dims: tuple[str, ...]
    units: str
    long_name: str
    dtype: str = "f8"
    internal: bool = False  # kept in shards for later tasks, no part of results


COORDINATES: Mapping[str, tuple[str, str]] = {
    "N": ("1", "number of servers N"),
    "d": ("1", "number of queues sampled by an arrival d"),
    "lam": ("1 / mean service time", "arrival rate per server λ"),
    "G": ("1", "service law G, unit mean"),
    "replica": ("1", "replica, counted from 0"),
    "t": ("mean service time", "time t"),
    "level": ("1", "queue length ℓ at least"),
    "snapshot": ("mean service time", "time of the age snapshot"),
    "age": ("mean service time", "age of the job in service, at most"),
    "batch": ("1", "batch of the run after its warm-up, counted from 0"),
    "m": ("1", "scale m: time is divided by it, queue lengths by its square root"),
    "b1": ("1", "excess rate of the uniform stream times √m, per server"),
    "b0": ("1", "rate of the stream that uses choices times √m, per server"),
    "ell": ("1", "number of queues sampled by an arrival of that stream ℓ"),
    "x": ("1", "scaled queue length x"),
    "server": ("1", "tagged queue, counted from 0"),
}

_TIME = "mean service time"
#: In heavy traffic t is scaled.
SCALED_TIME = ("m mean service times", "scaled time t")

#: What one replica of the network yields.
NETWORK: Mapping[str, Variable] = {
    "S": Variable(("t", "level"), "1", "fraction of queues with length at least ℓ, S^(N)_ℓ / N"),
    "D": Variable(
        ("t", "level"), "1", "completions per server from queues of length at least ℓ, D^(N)_ℓ / N"
    ),
    "X": Variable(("t",), "1", "jobs per server, X^(N) / N"),
    "E": Variable(("t",), "1", "arrivals per server, E^(N) / N"),
    "R_E": Variable(("t",), "mean service time", "time since the last arrival at the network, R_E"),
    "longest": Variable((), "1", "longest queue at any time up to the last stored one"),
    "S_average": Variable(("t", "level"), "1", "average of S^(N)_ℓ / N over the interval that ends at t"),
    "X_average": Variable(("t",), "1", "average jobs per server over the interval that ends at t"),
    "time_in_system": Variable(
        ("t",), _TIME, "mean time in system of the jobs that leave in the interval that ends at t"
    ),
    "waiting_time": Variable(
        ("t",), _TIME, "mean wait before service of the jobs that leave in the interval that ends at t"
    ),
    "S_sup": Variable((), "1", "sup over stored t and ℓ of |S^(N)_ℓ / N − S_ℓ|"),
    "d_S": Variable(("snapshot",), "1", "distance d_𝕊 from the limit, sup over stored ℓ of d_P / ℓ"),
    "d_P": Variable(("snapshot", "level"), "1", "Prohorov distance of ν^(N)_ℓ / N from ν_ℓ"),
    "V": Variable(
        ("snapshot", "level"), "1", "norm of residual lives, sup over r of |⟨Ḡ(·+r) / Ḡ, ν^(N)_ℓ / N − ν_ℓ⟩|"
    ),
    "nu_cdf": Variable(
        ("snapshot", "level", "age"),
        "1",
        "fraction of queues of length at least ℓ serving a job of age at most a",
    ),
}

#: What one long run of the network yields.
EQUILIBRIUM: Mapping[str, Variable] = {
    "S_batch": Variable(("batch", "level"), "1", "time average over the batch of S^(N)_ℓ / N"),
    "X_batch": Variable(("batch",), "1", "time average over the batch of jobs per server"),
    "E_batch": Variable(("batch",), "1", "arrivals per server in the batch"),
    "S_end": Variable(("batch", "level"), "1", "S^(N)_ℓ / N at the end of the batch"),
    "X_end": Variable(("batch",), "1", "jobs per server at the end of the batch"),
    "time_in_system": Variable(("batch",), _TIME, "mean time in system of a job, by Little's law"),
    "waiting_time": Variable(("batch",), _TIME, "mean wait of a job before its service, by Little's law"),
    "time_in_system_measured": Variable(
        ("batch",), _TIME, "mean time in system of the jobs that leave in the batch"
    ),
    "waiting_time_measured": Variable(
        ("batch",), _TIME, "mean wait before service of the jobs that leave in the batch"
    ),
    "longest": Variable((), "1", "longest queue at any time of the run, warm-up included"),
}

#: What one replica of a critical network yields, scaled.
SCALED: Mapping[str, Variable] = {
    "S": Variable(("t", "level"), "1", "fraction of queues with length at least ℓ, S^(N)_ℓ / N"),
    "X": Variable(("t",), "1", "mean over queues of the scaled length Q / √m"),
    "v": Variable(("t", "x"), "1", "share of queues with Q / √m > x"),
    "W1": Variable(("t",), "1", "Wasserstein-1 distance of the empirical law of Q / √m from the limit"),
    "KS": Variable(("t",), "1", "Kolmogorov distance of the empirical law of Q / √m from the limit"),
    "d_P": Variable(("t",), "1", "Prohorov distance of the empirical law of Q / √m from the limit"),
    "tagged": Variable(("t", "server"), "1", "scaled length Q / √m of single queues"),
}

#: What a solve of the heavy-traffic limit yields.
DIFFUSION: Mapping[str, Variable] = {
    "v": Variable(("t", "x"), "1", "tail P(X > x) of the limit"),
    "u": Variable(("t", "x"), "1", "density of the limit, −∂v/∂x"),
    "mean": Variable(("t",), "1", "mean scaled queue length of the limit"),
    "error": Variable((), "1", "estimated absolute error of v"),
    "v_stationary": Variable(("x",), "1", "tail of the stationary law; NaN where there is none"),
    "mean_stationary": Variable((), "1", "mean of the stationary law; NaN where there is none"),
    "fine_x": Variable(("knot",), "1", "positions between which v is linear", internal=True),
    "fine_v": Variable(("t", "knot"), "1", "v at the knots", internal=True),
}

#: What a solve of the hydrodynamic equations yields.
FLUID: Mapping[str, Variable] = {
    "S": Variable(("t", "level"), "1", "limit fraction of queues with length at least ℓ, S_ℓ"),
    "S_error": Variable(("t", "level"), "1", "estimated absolute error of the limit S_ℓ"),
    "D": Variable(("t", "level"), "1", "limit completions per server from queues of length at least ℓ, D_ℓ"),
    "X": Variable(("t",), "1", "limit jobs per server, Σ S_ℓ"),
    "E": Variable(("t",), "1", "limit arrivals per server, ∫ λ(s) ds"),
    "virtual_wait": Variable(
        ("t",), "mean service time", "limit mean wait before service of an arrival at time t"
    ),
    "nu_cdf": Variable(
        ("snapshot", "level", "age"),
        "1",
        "limit mass of ages at most a at queues of length at least ℓ, ν_ℓ[0, a]",
    ),
    "d_P_error": Variable(("snapshot", "level"), "1", "the limit's own share of d_P, estimated"),
    "knot_age": Variable(("knot",), "mean service time", "ages between which ν_ℓ is linear", internal=True),
    "knot_cdf": Variable(("snapshot", "level", "knot"), "1", "ν_ℓ[0, a] at the knots", internal=True),
}

#: What an invariant state consists of.
INVARIANT: Mapping[str, Variable] = {
    "S": Variable(("level",), "1", "invariant fraction of queues with length at least ℓ, S_ℓ"),
    "log_S": Variable(("level",), "1", "natural logarithm of S_ℓ, which does not underflow"),
    "age_cdf": Variable(
        ("level", "age"),
        "1",
        "share of the jobs in service at queues of length at least ℓ with age at most a",
    ),
    "mean_queue": Variable((), "1", "mean queue length, Σ S_ℓ"),
    "mean_queue_error": Variable((), "1", "estimated absolute error of the mean queue length"),
    "mean_time_in_system": Variable((), "mean service time", "mean time in system, Σ S_ℓ / λ"),
    "mean_virtual_waiting_time": Variable(
        (), "mean service time", "mean wait of an arrival before its service, Σ_{ℓ≥2} S_ℓ / λ"
    ),
}

#: What is known of each cell of the grid, whatever became of it.
CELLS: Mapping[str, Variable] = {
    "status": Variable((), "1", "pending, done, failed or quarantined", "str"),
    "replicas": Variable((), "1", "replicas stored", "i4"),
    "attempts": Variable((), "1", "tries of the cell, or of its limit, in the run that last failed", "i4"),
    "error": Variable((), "1", "last error, empty if there was none", "str"),
    "numbers": Variable((), "1", "versions of the random numbers of its replicas", "str"),
}

GROUPS: Mapping[str, Mapping[str, Variable]] = {
    "network": NETWORK,
    "fluid": FLUID,
    "invariant": INVARIANT,
    "equilibrium": EQUILIBRIUM,
    "scaled": SCALED,
    "diffusion": DIFFUSION,
    "cells": CELLS,
}


def stored_variables(kind: str, sizes: Mapping[str, int], omitted: Collection[str]) -> dict[str, Variable]:
    """Return the variables of a group of results.nc: those without an empty dimension that are kept."""
    return {
        name: variable
        for name, variable in GROUPS[kind].items()
        if not variable.internal
        and name not in omitted
        and all(sizes.get(dim, 0) > 0 for dim in variable.dims)
    }


def dataset(
    group: str,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    coordinates: Mapping[str, Any],
    leading: tuple[str, ...] = (),
) -> xr.Dataset:
    """Label arrays of one group: dimensions, units and long names from the table above.

    Parameters
    ----------
    group
        A key of `GROUPS`.
    arrays
        Values by variable name; each has the axes `leading` followed by the variable's own dimensions.
    coordinates
        Values of every dimension used, by name.
    leading
        Grid and replica axes in front, none for a single replica or solve.

    Raises
    ------
    ValueError
        An array whose shape does not fit its dimensions.
    """
    import xarray as xr

    variables = {}
    for name, values in arrays.items():
        variable = GROUPS[group][name]
        dims = (*leading, *variable.dims)
        shape = tuple(len(coordinates[dim]) for dim in dims)
        if values.shape != shape:
            raise ValueError(f"{group}/{name} must have shape {shape} over {dims}, got {values.shape}")
        variables[name] = (dims, values, {"units": variable.units, "long_name": variable.long_name})
    used = {dim for dims, _, _ in variables.values() for dim in dims}
    coords = {dim: labelled(dim, coordinates[dim]) for dim in coordinates if dim in used}
    return xr.Dataset(variables, coords=coords)


def labelled(dim: str, values: Any) -> tuple[str, np.ndarray[Any, Any], dict[str, str]]:
    """Coordinate values with their unit and long name, as xarray takes them."""
    units, long_name = COORDINATES[dim]
    return dim, np.asarray(values), {"units": units, "long_name": long_name}
