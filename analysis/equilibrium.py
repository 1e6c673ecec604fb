"""N-server networks in equilibrium against the invariant state of their limit, over N.

`python -m analysis.equilibrium STORE` prints the table, and draws the picture on request.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import special

from analysis.constants import has_variance
from analysis.equilibrium_bias import LEAST_SHARE
from analysis.least_squares import Floats
from analysis.moments import ROUNDING
from analysis.norms import euclidean, p_of_zero
from analysis.quantities import group_of, opened
from analysis.tagged import GRID

if TYPE_CHECKING:
    import xarray as xr

    from analysis.quantities import Source

#: Levels taken by default have an invariant S_ℓ above `LEAST_SHARE` in some row; at most so many.
MOST_LEVELS = 8

_LONG_NAMES = {
    "S": "mean share of queues with length at least ℓ",
    "S_stderr": "its standard error over replicas",
    "difference": "mean share less the invariant S_ℓ",
    "scaled": "N times the difference",
    "scaled_stderr": "standard error of N times the difference",
    "batch_stderr": "standard error by means of batches; NaN without a second moment",
    "batch_p": "p-value of their agreement with replicas",
    "start_difference": "mean share from the main start less that from empty",
    "start_stderr": "standard error of that difference",
    "mean_queue": "mean queue length",
    "mean_queue_scaled": "N times (mean queue length less Σ S_ℓ)",
    "mean_queue_scaled_stderr": "standard error of N times that difference",
    "busy_z": "S_1 less λ in standard errors",
    "gap": "Euclidean norm over ℓ of the difference",
    "gap_stderr": "standard error of the norm",
    "gap_bias": "bound of the bias of the norm",
    "p_zero": "p-value of no difference at any level",
    "freedom": "degrees of freedom of the standard errors without control",
    "start_freedom": "degrees of freedom to test the difference of the starts with",
    "n": "replicas",
}
#: Variables over the levels.
_BY_LEVEL = tuple(_LONG_NAMES)[:9]
_Row: TypeAlias = dict[str, Any]


def compare_equilibrium(
    tree: Source, levels: Sequence[int] | None = None, *, control: bool = False
) -> xr.Dataset:
    """Compare time averages of the network in equilibrium with the invariant state.

    Parameters
    ----------
    tree
        What `sweep.load` returns for a study `equilibrium`, or the path of its store.
    levels
        Queue lengths ℓ, increasing; by default those with S_ℓ > 1e-3 in some row, at most 8.
    control
        Use S_1 − λ, whose mean is exactly 0 in equilibrium, as a control variate over replicas: it takes much
        of the noise of S_2, S_3, … and the mean queue, and all of S_1. `busy_z`, which tests that mean, and
        what is said of batches and of starts are without it.

    Returns
    -------
    xarray.Dataset
        Over (N, d, lam, G): `n` replicas; `busy_z`, S_1 − λ in standard errors, as E S_1^(N)/N = λ exactly in
        equilibrium; `mean_queue` and N times its difference from Σ S_ℓ; `gap`, the norm over ℓ of the
        difference (see `analysis.norms.euclidean`); `p_zero` of no difference. Over level as well: `S`,
        `difference` from the invariant state, `scaled`, N times that, with standard errors over independent
        replicas (with a single replica of a law of finite variance, by batch means); `batch_stderr`, the
        standard error by batch means, and `batch_p` of its agreement with replicas, where the law has a
        second moment; `start_difference`, main start less start from empty, where that was run, to be held
        against Student's t with `start_freedom`. NaN where absent.

    Raises
    ------
    ValueError, TypeError
        A tree without the groups equilibrium and invariant or without level 1, or levels that are not stored.

    Notes
    -----
    With control the estimate is ȳ − β (c̄ − λ), β the slope of y on c = S_1 over n replicas, with standard
    error √(s² (1/n + (c̄ − λ)²/Σ(c − c̄)²)), s² the residual variance on n − 2 degrees of freedom.
    """
    import xarray as xr

    source = opened(tree)
    runs, limit = group_of(source, "equilibrium"), group_of(source, "invariant")
    have_empty = isinstance(source, xr.DataTree) and "equilibrium_from_empty" in source.children
    empty = group_of(source, "equilibrium_from_empty") if have_empty else None
    chosen = _levels(runs, limit, levels)
    needed = sorted({1, *chosen})  # S_1 tells whether runs were in equilibrium, and is the control
    table = np.empty([runs.sizes[axis] for axis in GRID], dtype=object)
    for index in np.ndindex(table.shape):
        place = {axis: runs[axis].values[k] for axis, k in zip(GRID, index, strict=True)}
        table[index] = _compared(
            _samples(runs, place, needed),
            _samples(empty, place, needed),
            _invariant(limit, place, needed),
            slice(len(needed) - len(chosen), -1),
            place,
            control,
        )
    variables = {}
    for name, long_name in _LONG_NAMES.items():
        values = np.array([row[name] for row in table.flat]).reshape(*table.shape, *_tail(name, chosen))
        dims = (*GRID, "level") if name in _BY_LEVEL else GRID
        variables[name] = (dims, values, {"units": "1", "long_name": long_name})
    coords: dict[str, Any] = {axis: runs.coords[axis].variable for axis in GRID}
    coords["level"] = ("level", chosen, {"units": "1", "long_name": "queue length at least"})
    spec = source.attrs.get("spec", "") if isinstance(source, xr.DataTree) else ""
    result = xr.Dataset(variables, coords=coords, attrs={"spec": spec, "control": int(control)})
    result["invariant"] = limit.S.sel(level=chosen)
    return result


def _tail(name: str, chosen: list[int]) -> list[int]:
    return [len(chosen)] if name in _BY_LEVEL else []


def _levels(runs: xr.Dataset, limit: xr.Dataset, asked: Sequence[int] | None) -> list[int]:
    stored = [level for level in runs.level.values.tolist() if level in limit.level.values]
    if 1 not in stored:
        raise ValueError(f"tree must hold level 1, as E S_1 = λ tells of equilibrium, got levels {stored}")
    if asked is None:
        reached = (limit.S > LEAST_SHARE).any([dim for dim in limit.S.dims if dim != "level"])
        return [level for level in stored if bool(reached.sel(level=level))][:MOST_LEVELS] or stored[:1]
    if not asked or sorted(set(asked)) != list(asked) or not set(asked) <= set(stored):
        raise ValueError(f"levels must increase and be among {stored[0]} … {stored[-1]}, got {list(asked)}")
    return list(asked)


def _samples(data: xr.Dataset | None, place: dict[str, Any], levels: list[int]) -> Floats:
    """Batch means of S_ℓ and, last, of jobs per server: shape (replica, batch, level + 1); no NaN."""
    if data is None or any(value not in data[axis].values for axis, value in place.items()):
        return np.empty((0, 1, len(levels) + 1))
    cell = data.sel(place)
    S = cell.S_batch.sel(level=levels).transpose("replica", "batch", "level").values
    X = cell.X_batch.transpose("replica", "batch").values
    both = np.concatenate([S, X[..., None]], axis=2)
    return np.asarray(both[~np.isnan(both).any(axis=(1, 2))], dtype=np.float64)


def _invariant(limit: xr.Dataset, place: dict[str, Any], levels: list[int]) -> Floats:
    """S_ℓ and, last, the mean queue: shape (level + 1,)."""
    cell = limit.sel({axis: place[axis] for axis in GRID[1:]})
    return np.append(cell.S.sel(level=levels).values, float(cell.mean_queue))


def _compared(
    runs: Floats, empty: Floats, invariant: Floats, shown: slice, place: dict[str, Any], control: bool
) -> _Row:
    """Variables of one cell, from S_1 first and the mean queue last; `shown` are the levels asked for."""
    n, N = len(runs), int(place["N"])
    nothing = np.full_like(invariant[shown], math.nan)
    row: _Row = {**dict.fromkeys(_LONG_NAMES, math.nan), **dict.fromkeys(_BY_LEVEL, nothing), "n": n}
    if n == 0:
        return row
    means = runs.mean(axis=1)
    mean = means.mean(axis=0)
    covariance, batch_stderr, batch_p = _errors(runs, has_variance(str(place["G"])))
    stderr = np.sqrt(np.diag(covariance))
    row["freedom"] = n - 1.0 if n >= 2 else np.isfinite(stderr[0]) * (runs.shape[1] - 1.0)
    row |= _start(mean, stderr, n, empty, shown) if n >= 2 else {}
    if stderr[0] > 0.0:
        row["busy_z"] = (mean[0] - float(place["lam"])) / stderr[0]
    if control:
        mean, covariance = _controlled(means, float(place["lam"]))
        stderr = np.sqrt(np.diag(covariance))
    difference = np.where(np.isfinite(invariant), mean - invariant, math.nan)
    row |= {
        "S": mean[shown], "S_stderr": stderr[shown], "difference": difference[shown],
        "scaled": N * difference[shown], "scaled_stderr": N * stderr[shown],
        "batch_stderr": batch_stderr[shown], "batch_p": batch_p[shown],
        "mean_queue": mean[-1], "mean_queue_scaled": N * difference[-1],
        "mean_queue_scaled_stderr": N * stderr[-1] if math.isfinite(invariant[-1]) else math.nan,
    }  # fmt: skip
    inner = difference[shown], covariance[shown, shown]
    if np.isfinite(inner[1]).all():
        norm = euclidean(*inner)
        row |= {"gap": norm.value, "gap_stderr": norm.stderr, "gap_bias": norm.bias}
        row["p_zero"] = p_of_zero(*inner, freedom=float(row["freedom"]) - control)
    return row


def _start(mean: Floats, stderr: Floats, n: int, empty: Floats, shown: slice) -> _Row:
    """Difference between the two starts, its standard error, and the degrees of freedom of its test.

    Of unequal variances Student's t with the fewer replicas' freedom is a bound, whatever their ratio (Mickey
    & Brown 1966). Welch's estimated freedom is none: it is large where two or three replicas happen to agree.
    """
    if len(empty) < 2:
        return {}
    other = empty.mean(axis=1)
    error = np.sqrt(stderr**2 + other.var(axis=0, ddof=1) / len(other))
    return {
        "start_difference": (mean - other.mean(axis=0))[shown],
        "start_stderr": error[shown],
        "start_freedom": min(n, len(other)) - 1.0,
    }


def _controlled(means: Floats, lam: float) -> tuple[Floats, Floats]:
    """Means given S_1 = λ by regression over replicas, and their covariance on n − 2 degrees of freedom."""
    n, width = means.shape
    control = means[:, 0] - np.mean(means[:, 0])
    square = float(control @ control)
    if n < 3 or square <= n * (ROUNDING * np.mean(means[:, 0])) ** 2:
        return means.mean(axis=0), np.full((width, width), math.nan)
    slope = control @ means / square
    off = float(np.mean(means[:, 0])) - lam
    residual = means - means.mean(axis=0) - np.outer(control, slope)
    residual[:, 0] = 0.0
    covariance = residual.T @ residual / (n - 2) * (1 / n + off**2 / square)
    return np.asarray(means.mean(axis=0) - slope * off), np.asarray(covariance)


def _errors(runs: Floats, has_variance: bool) -> tuple[Floats, Floats, Floats]:
    """Covariance of the mean, standard error by batch means, and p-value of their agreement.

    Between replicas and, where batches are independent, within them the variance of a replica's mean is the
    same: its ratio follows an F law.
    """
    n, batches, width = runs.shape
    means = runs.mean(axis=1)
    nothing = np.full(width, math.nan)
    covariance = np.full((width, width), math.nan)
    if n >= 2:
        covariance = np.cov(means, rowvar=False).reshape(width, width) / n
    if not has_variance or batches < 2:
        return covariance, nothing, nothing
    deviations = (runs - means[:, None, :]).reshape(-1, width)
    freedom = n * (batches - 1)
    within = deviations.T @ deviations / freedom / batches / n
    if n == 1:
        return within, np.sqrt(np.diag(within)), nothing
    ratio = np.diag(covariance) / np.where(np.diag(within) > 0.0, np.diag(within), math.nan)
    upper = special.fdtrc(n - 1, freedom, ratio)
    return covariance, np.sqrt(np.diag(within)), 2 * np.minimum(upper, 1 - upper)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how a store in equilibrium compares with the invariant state; return 0, or 2 if it is bad."""
    from analysis.equilibrium_command import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
