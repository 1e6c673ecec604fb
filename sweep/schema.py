"""Names, dimensions, units and long names of everything that is stored or returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

#: Axes of the parameter grid, in the order of stored dimensions.
GRID = ("N", "d", "lam", "G")
LIMIT_GRID = ("d", "lam", "G")


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
}

#: What one replica of the network yields.
NETWORK: Mapping[str, Variable] = {
    "S": Variable(("t", "level"), "1", "fraction of queues with length at least ℓ, S^(N)_ℓ / N"),
    "D": Variable(
        ("t", "level"), "1", "completions per server from queues of length at least ℓ, D^(N)_ℓ / N"
    ),
    "X": Variable(("t",), "1", "jobs per server, X^(N) / N"),
    "E": Variable(("t",), "1", "arrivals per server, E^(N) / N"),
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
    "status": Variable((), "1", "pending, done or failed", "str"),
    "replicas": Variable((), "1", "replicas stored", "i4"),
    "attempts": Variable((), "1", "failed attempts so far", "i4"),
    "error": Variable((), "1", "last error, empty if there was none", "str"),
}

GROUPS: Mapping[str, Mapping[str, Variable]] = {
    "network": NETWORK,
    "fluid": FLUID,
    "invariant": INVARIANT,
    "cells": CELLS,
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
