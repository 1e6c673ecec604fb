"""Names, dimensions, units and long names of what the heavy-traffic limit and its particles yield."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.schema import Variable

if TYPE_CHECKING:
    import xarray as xr

COORDINATES: Mapping[str, tuple[str, str]] = {
    "t": ("m mean service times", "scaled time t"),
    "x": ("sqrt(m) jobs", "scaled queue length x"),
    "probability": ("1", "probability that the quantile has below it"),
    "particle": ("1", "particle, counted from 0"),
}

#: What a solve of the PDE yields.
DIFFUSION: Mapping[str, Variable] = {
    "v": Variable(("t", "x"), "1", "P(X_t > x)"),
    "v_error": Variable(("t", "x"), "1", "estimated absolute error of v"),
    "u": Variable(("t", "x"), "1 / (sqrt(m) jobs)", "density −∂v/∂x of X_t"),
    "u_error": Variable(("t", "x"), "1 / (sqrt(m) jobs)", "estimated absolute error of u"),
    "mean": Variable(("t",), "sqrt(m) jobs", "mean E X_t"),
    "mean_error": Variable(("t",), "sqrt(m) jobs", "estimated absolute error of the mean"),
    "quantile": Variable(("t", "probability"), "sqrt(m) jobs", "quantile of X_t"),
    "quantile_error": Variable(("t", "probability"), "sqrt(m) jobs", "estimated absolute error of quantile"),
    "mass": Variable(("t",), "1", "total mass of the cells, 1 up to rounding"),
}

#: What one replica of the interacting particles yields.
PARTICLES: Mapping[str, Variable] = {
    "v": Variable(("t", "x"), "1", "share of particles beyond x"),
    "mean": Variable(("t",), "sqrt(m) jobs", "mean position of the particles"),
    "X": Variable(("t", "particle"), "sqrt(m) jobs", "position of each particle"),
}


def labelled(
    table: Mapping[str, Variable],
    arrays: Mapping[str, NDArray[Any]],
    coordinates: Mapping[str, NDArray[Any]],
    attributes: Mapping[str, object],
) -> xr.Dataset:
    """Return arrays as a dataset with the dimensions, units and long names of `table`."""
    import xarray as xr

    variables = {
        name: (table[name].dims, values, {"units": table[name].units, "long_name": table[name].long_name})
        for name, values in arrays.items()
    }
    used = {dim for dims, _, _ in variables.values() for dim in dims}
    coords = {
        dim: (dim, np.asarray(values), dict(zip(("units", "long_name"), COORDINATES[dim], strict=True)))
        for dim, values in coordinates.items()
        if dim in used
    }
    return xr.Dataset(variables, coords=coords, attrs=dict(attributes))
