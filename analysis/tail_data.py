"""Tails as the data hold them: log S_ℓ on the levels that can be seen, with the noise of replicas."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from analysis import quantities
from analysis.rows import ROW
from analysis.stores import run_of

if TYPE_CHECKING:
    import xarray as xr

    from analysis.tail_sequences import Floats

    Source: TypeAlias = xr.DataTree | xr.Dataset | str | os.PathLike[str] | ArrayLike

#: Means of replicas count as seen where they exceed this many standard errors.
SEEN = 10.0
#: Variables a tail is read from, the first that is there, and groups of a store likewise.
_VARIABLES, _GROUPS = ("log_S", "S_batch", "S"), ("invariant", "equilibrium")


@dataclass(frozen=True, kw_only=True)
class Tail:
    """What is seen: log S_ℓ, shape (level,), and if noisy leave-one-out values, shape (replica, level).

    A single replica tells no error, so that no level of it is seen.
    """

    log_S: Floats
    left_out: Floats

    @property
    def n(self) -> int:
        """Replicas, 0 without noise."""
        return len(self.left_out)

    def log_stderr(self) -> Floats:
        """Jackknife standard errors of log S_ℓ, 0 without noise."""
        return np.array([jackknife(column) for column in self.left_out.T]) if self.n else 0.0 * self.log_S


def tail_at(values: xr.DataArray, floor: float) -> Tail:
    """Take the levels that can be seen from log S over level, or S over replica and level."""
    if values.name == "log_S":
        log_S = values.values.astype(np.float64)
        low = math.log(floor) if floor > 0.0 else -math.inf
        log_S = log_S[: _leading(np.isfinite(log_S) & (log_S >= low))]
        return _falling(Tail(log_S=log_S, left_out=np.empty((0, log_S.size))))
    samples = values.transpose("replica", "level").values.astype(np.float64)
    samples = samples[~np.isnan(samples).any(axis=1)]
    n = samples.shape[0]
    if n < 2:
        return Tail(log_S=np.empty(0), left_out=np.empty((n, 0)))
    mean, total = samples.mean(axis=0), samples.sum(axis=0)
    stderr = samples.std(axis=0, ddof=1) / math.sqrt(n)
    with np.errstate(divide="ignore"):
        log_S, left_out = np.log(mean), np.log(np.maximum((total - samples) / (n - 1), 0.0))
    clear = np.asarray(mean > SEEN * stderr) & (mean >= floor)
    seen = _leading(clear & np.isfinite(left_out).all(axis=0))
    return _falling(Tail(log_S=log_S[:seen], left_out=left_out[:, :seen]))


def tails_of(source: Source, given: Mapping[str, Any], floor: float) -> xr.DataArray:
    """Return log_S, or S with replicas, over level and other axes; `given` labels become axes of length 1.

    Raises
    ------
    ValueError, TypeError
        As `analysis.classify_tail`.
    """
    if not 0.0 <= floor < 1.0:
        raise ValueError(f"floor must lie in [0, 1), got {floor!r}")
    values = _variable(source)
    if "batch" in values.dims:
        values = values.mean("batch")
    if "replica" not in values.dims and values.name != "log_S":
        with np.errstate(divide="ignore"):
            values = values.copy(data=np.log(values.values)).rename("log_S")
    for axis in values.dims:
        if axis in ("t", "snapshot"):
            raise ValueError(f"{values.name} must have no axis {axis}: select one time, or average over it")
    levels = values.coords["level"].values if "level" in values.coords else np.empty(0)
    if "level" not in values.dims or not np.array_equal(levels, np.arange(1, levels.size + 1)):
        raise ValueError(
            f"{values.name} must have the axis level, counting 1, 2, …, got {levels[:3].tolist()} …"
        )
    if values.name == "log_S" and (values > 0.0).any():
        raise ValueError(f"log_S must be at most 0, got {float(values.max()):g}: was S given instead?")
    for name, value in given.items():
        if name in values.dims:
            raise ValueError(f"{name} must be left out where the source has that axis, got {value!r}")
        values = values.drop_vars(name, errors="ignore").expand_dims({name: [value]})
    scalars: list[Hashable] = [name for name in ROW if name in values.coords and name not in values.dims]
    return values.expand_dims(scalars)


def opened(source: Source) -> Source:
    """Load a store given by its path."""
    return quantities.opened(source) if isinstance(source, (str, os.PathLike)) else source


def fraction_of(source: Source) -> float:
    """Return the share of arrivals that use d choices, from the spec that results carry; 1 without one."""
    import xarray as xr

    run = run_of(source) if isinstance(source, (xr.DataTree, xr.Dataset)) else None
    return float((run or {}).get("fraction", 1.0))


def _variable(source: Source) -> xr.DataArray:
    import xarray as xr

    source = opened(source)
    if isinstance(source, xr.DataTree):
        group = next((name for name in _GROUPS if name in source.children), None)
        if group is None:
            raise ValueError(
                f"tree must have one of the groups {', '.join(_GROUPS)}, got {', '.join(source) or 'none'}"
            )
        source = source[group].to_dataset()
    if isinstance(source, xr.Dataset):
        for name in _VARIABLES:
            if name in source.data_vars:
                return source[name]
        raise ValueError(
            f"source must hold one of {', '.join(_VARIABLES)}, got {', '.join(map(str, source)) or 'nothing'}"
        )
    log_S = np.asarray(source)
    if log_S.ndim != 1 or log_S.dtype.kind not in "fiu":
        raise TypeError(
            f"source must be a tree, a Dataset, a path or log S over level, got {type(source).__name__}"
        )
    return xr.DataArray(log_S, {"level": np.arange(1, log_S.size + 1)}, ("level",), name="log_S")


def jackknife(left_out: Floats) -> float:
    """Jackknife standard error, inf if a value is not finite."""
    if not np.isfinite(left_out).all():
        return math.inf
    return math.sqrt((left_out.size - 1) * float(np.var(left_out)))


def _falling(tail: Tail) -> Tail:
    """Keep the levels down to which S_ℓ decreases, whichever replica is left out."""
    rows = np.vstack([tail.log_S, tail.left_out])
    seen = _leading((np.diff(rows, axis=1, prepend=1.0) < 0.0).all(axis=0))
    return Tail(log_S=tail.log_S[:seen], left_out=tail.left_out[:, :seen])


def _leading(true: ArrayLike) -> int:
    """How many are true before the first that is not."""
    return int(np.argmin(np.append(true, False)))
