"""Joint laws of tagged queues at every point of a sweep, beside the product of the single laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from analysis.joint import TAGGED, Events, Floats, dependence
from analysis.norms import NORMS, norm_of, p_of_zero, queue_covariance
from analysis.shares import tagged_shares

if TYPE_CHECKING:
    import xarray as xr

    from analysis.quantities import Source

GRID = ("N", "d", "lam", "G")

_TENSORS = ("joint", "difference", "difference_stderr")
_LONG_NAMES = {
    "n": "replicas used",
    "replicas": "replicas stored",
    "p_zero": "p-value of independence",
    "norm_value": "norm of joint law minus product",
    "norm_stderr": "standard error of the norm",
    "norm_bias": "bound of the bias of the norm",
    "queue_covariance": "covariance of two queue lengths cut at the last level",
    "queue_covariance_stderr": "standard error of the covariance",
    "joint": "probability that the tagged queues are in the events",
    "difference": "joint law minus product, unbiased",
    "difference_stderr": "standard error of the difference",
}
_Row: TypeAlias = dict[str, Any]


def measure_chaos(
    tree: Source,
    k: int = 2,
    *,
    time: float | None = None,
    snapshot: float | None = None,
    levels: Sequence[int] | None = None,
    ages: Sequence[float] | None = None,
) -> xr.Dataset:
    """Estimate the joint law of k tagged queues and its difference from the product of k single laws.

    Queues are exchangeable, so that S^(N), or the ages stored with it, tells the joint law. From an
    equilibrium store the ends of the batches are taken, averaged within a replica; replicas are independent.

    Parameters
    ----------
    tree
        What `sweep.load` returns, its group `network` or `equilibrium`, or the path of a store.
    k
        Tagged queues, 2 or 3.
    time
        A stored time, of a transient store; the last by default.
    snapshot
        Take lengths with ages at this snapshot.
    levels
        Queue lengths ℓ; by default those that a share of 1e-3 of the queues reaches, at most 8 (3 with ages).
    ages
        With lengths, stored ages a; by default the quartiles of those of level 1, and inf. Given without
        `snapshot`, the last one is taken.

    Returns
    -------
    xarray.Dataset
        Over (N, d, lam, G): `replicas` stored, `n` of them used, `p_zero` of independence, and over `norm`:
        `norm_value`, `norm_stderr`, `norm_bias` (see `analysis.norms.norm_of`); over (level, level_2[,
        level_3]), with ages (level, age, level_2, age_2, …): `joint`, `difference`, unbiased and signed,
        `difference_stderr`; for k = 2 and levels 1 … L also `queue_covariance` and its `_stderr`, the sum of
        `difference` over all pairs of levels, which is the covariance of two lengths cut at L. NaN where a
        cell has fewer than k + 2 replicas or k servers.

    Raises
    ------
    ValueError, TypeError
        A tree without such data, another k, or a time, snapshot, level or age that is not stored.

    Examples
    --------
    >>> import xarray as xr
    >>> S = np.full((1, 1, 1, 1, 10, 1, 1), 0.5)  # always two of four queues are busy
    >>> tree = xr.Dataset({"S": ((*GRID, "replica", "t", "level"), S)}, coords={"N": [4], "t": [1.0],
    ...     "d": [2], "lam": [0.9], "G": ["exponential"], "level": [1]})
    >>> found = measure_chaos(tree)
    >>> round(found.difference.item(), 6), round(found.norm_value.sel(norm="sup").item(), 6)
    (-0.083333, 0.083333)
    """
    import xarray as xr

    if k not in TAGGED:
        raise ValueError(f"k must be one of {', '.join(map(str, TAGGED))}, got {k!r}")
    shares, events = tagged_shares(tree, time=time, snapshot=snapshot, levels=levels, ages=ages)
    servers = shares.coords["N"].values.tolist()
    table = np.empty([shares.sizes[axis] for axis in GRID], dtype=object)
    for index in np.ndindex(table.shape):
        table[index] = _measured(shares.values[index], servers[index[0]], events, k)
    inner = _inner(events, k)
    sizes = [len(labels) for labels, _ in inner.values()]
    variables = {}
    for name in table.flat[0] if table.size else ():
        stacked = np.array([row[name] for row in table.flat])
        tensor, normed = name in _TENSORS, name.startswith("norm_")
        dims = tuple(inner) if tensor else ("norm",) if normed else ()
        shape = sizes if tensor else [len(NORMS)] if normed else []
        described = {"units": "1", "long_name": _LONG_NAMES[name]}
        variables[name] = ((*GRID, *dims), stacked.reshape(*table.shape, *shape), described)
    coords: dict[str, Any] = {axis: shares.coords[axis].variable for axis in GRID}
    coords["norm"] = ("norm", list(NORMS), {"long_name": "norm of joint law minus product"})
    coords |= {dim: (dim, *labelled) for dim, labelled in inner.items()}
    return xr.Dataset(variables, coords=coords, attrs={"k": k, "source": shares.attrs["source"]})


def _inner(events: Events, k: int) -> dict[str, tuple[list[Any], dict[str, str]]]:
    """Axes of the events of each tagged queue, with labels, unit and long name."""
    axes: dict[str, tuple[list[Any], dict[str, str]]] = {}
    for tag in range(1, k + 1):
        suffix = f"_{tag}" if tag > 1 else ""
        levels: list[Any] = list(events.levels)
        axes["level" + suffix] = levels, {"units": "1", "long_name": "queue length at least"}
        if not events.any_age:
            ages = {"units": "mean service time", "long_name": "age of the job in service, at most"}
            axes["age" + suffix] = list(events.ages), ages
    return axes


def _measured(s: Floats, N: int, events: Events, k: int) -> _Row:
    """Variables of one cell, from shares over replicas of which absent ones are NaN."""
    present = s[~np.isnan(s).reshape(len(s), -1).any(axis=1)]
    parts = ("value", "stderr", "bias")
    if len(present) < k + 2 or k > N:
        nothing = np.full((len(events),) * k, math.nan)
        row: _Row = {**dict.fromkeys(_TENSORS, nothing), "n": 0, "p_zero": math.nan}
        row |= {f"norm_{part}": [math.nan] * len(NORMS) for part in parts}
        covariance = (math.nan, math.nan)
    else:
        found = dependence(present, N, events, k)
        tensors = (found.joint, found.difference, found.stderr)
        row = {name: found.tensor(values) for name, values in zip(_TENSORS, tensors, strict=True)}
        row |= {
            "n": found.n,
            "p_zero": p_of_zero(found.difference, found.covariance, found.weight, found.n - 1),
        }
        norms = [norm_of(found, kind) for kind in NORMS]
        row |= {f"norm_{part}": [getattr(norm, part) for norm in norms] for part in parts}
        covariance = queue_covariance(found)
    row["replicas"] = len(present)
    if k == 2 and events.any_age and events.levels == tuple(range(1, len(events) + 1)):
        row["queue_covariance"], row["queue_covariance_stderr"] = covariance
    return row
