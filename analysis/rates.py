"""How fast the N-server network approaches its limit: powers of N fitted to replicas."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from analysis.regression import STATISTICS, Point, PowerLaw, fit_power_law, summarise

if TYPE_CHECKING:
    import xarray as xr

    Source: TypeAlias = xr.DataTree | xr.Dataset | str | os.PathLike[str]

#: Probability that an interval covers the exponent.
CONFIDENCE = 0.95

METHOD = (
    "statistic over replicas = constant · N^exponent by weighted least squares of its logarithms, corrected "
    "for bias, with delta-method variances; relative variances pooled over N (t interval and F test, as "
    "many degrees of freedom as replicas less values of N) unless Bartlett's test, corrected for kurtosis, "
    "rejects their equality at 1 %, then one variance per N (Kenward–Roger interval, Johansen's Welch–James "
    "test)"
)

_ROW = ("d", "lam", "G")
_PERCENT = f"{100 * CONFIDENCE:.0f} %"
_EMPTY = {"n": 0}  # every other variable is NaN where nothing could be fitted


@dataclass(frozen=True, kw_only=True)
class RateFit:
    """The fitted power law of one (d, lam, G): statistic = constant · N^exponent.

    `exponent_lo` and `exponent_hi` bound the 95 % interval, `p_value` is that of the lack of fit (NaN with
    two N, which any line fits), `n` counts the replicas used at all N. Where nothing could be fitted n is 0.

    Examples
    --------
    >>> print(RateFit(d=2, lam=0.9, G="exponential", exponent=-0.498, exponent_stderr=0.008,
    ...               exponent_lo=-0.514, exponent_hi=-0.482, constant=1.2, constant_stderr=0.1,
    ...               p_value=0.41, n=128))
    exponent −0.498 ± 0.008 (95 % −0.514 … −0.482), lack of fit p = 0.41, 128 replicas
    """

    d: int
    lam: float
    G: str
    exponent: float
    exponent_stderr: float
    exponent_lo: float
    exponent_hi: float
    constant: float
    constant_stderr: float
    p_value: float
    n: int

    def __str__(self) -> str:
        if self.n == 0:
            return "no fit: fewer than two N with two replicas each"
        interval = f"{_PERCENT} {signed(self.exponent_lo)} … {signed(self.exponent_hi)}"
        return (
            f"exponent {signed(self.exponent)} ± {self.exponent_stderr:.3f} ({interval}), "
            f"{self._lack_of_fit()}, {self.n} replicas"
        )

    def _lack_of_fit(self) -> str:
        if math.isnan(self.p_value):
            return "lack of fit not testable with two N"
        return "lack of fit p < 0.001" if self.p_value < 0.001 else f"lack of fit p = {self.p_value:.2g}"


def signed(value: float) -> str:
    """Three decimals with a typographic minus sign."""
    return f"{value:.3f}".replace("-", "−")


def fit_rate(tree: Source, quantity: str = "S_sup", statistic: str = "mean") -> xr.Dataset:
    """Fit statistic = constant · N^exponent for every (d, lam, G).

    Parameters
    ----------
    tree
        What `sweep.load` returns, its network group, or the path of a store.
    quantity
        Variable of the network group over N and replica, positive; NaN where a replica is absent.
    statistic
        "mean" or "rms" over the replicas of each N.

    Returns
    -------
    xarray.Dataset
        Over (d, lam, G) and what other axes the quantity has: `exponent`, `exponent_stderr`, `exponent_lo`,
        `exponent_hi` (dimensionless), `constant`, `constant_stderr` (units of the quantity), `p_value` of the
        lack of fit, `n` replicas used. Values of N with a single replica are left out; a row with fewer than
        two N is NaN with n = 0.

    Raises
    ------
    ValueError
        An unknown quantity or statistic, a quantity without one of the axes N, d, lam, G and replica, values
        that are not positive, replicas that are all equal, or no row that can be fitted.
    TypeError
        A tree that is none of the three.

    Notes
    -----
    With x̄ the mean and s² the variance of n replicas, Var log x̄ ≈ s²/(n x̄²) and E log x̄ lies s²/(2 n x̄²) low;
    with y = x² and ȳ its mean, Var log rms ≈ s_y²/(4 n ȳ²) and the bias is as large. Relative variances are
    pooled over N where they agree. See `analysis.regression.fit_power_law` for interval and test. With
    lognormal noise of equal relative spread the 95 % interval covers 94 to 95 % of the time for 2 to 32
    replicas; with spreads that differ it needs about 32 replicas at each N.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> distance = xr.DataArray(
    ...     np.array([[0.09, 0.11], [0.009, 0.011]])[:, None, None, None, :],
    ...     coords={"N": [100, 10_000], "d": [2], "lam": [0.9], "G": ["exponential"]},
    ...     dims=("N", "d", "lam", "G", "replica"))
    >>> row, = rate_table(fit_rate(xr.Dataset({"S_sup": distance})))
    >>> print(row)
    exponent −0.500 ± 0.031 (95 % −0.632 … −0.368), lack of fit not testable with two N, 4 replicas
    """
    import xarray as xr

    if statistic not in STATISTICS:
        raise ValueError(f"statistic must be one of {', '.join(STATISTICS)}, got {statistic!r}")
    values = replicas_of(tree, quantity)
    dims = values.dims[1:-1]
    rows = np.empty(values.shape[1:-1], dtype=object)
    for index in np.ndindex(rows.shape):
        rows[index] = _fit(points_of(values, index, statistic), statistic)
    if rows.size == 0 or not any(row["n"] for row in rows.flat):
        raise ValueError(_nothing_to_fit(values))
    variables = {}
    for name, described in _describe(values.attrs.get("units", "1"), quantity, statistic).items():
        column = [row.get(name, math.nan) for row in rows.flat]
        dtype = np.int64 if name == "n" else np.float64
        variables[name] = (dims, np.array(column, dtype=dtype).reshape(rows.shape), described)
    attributes = {"quantity": quantity, "statistic": statistic, "confidence": CONFIDENCE, "method": METHOD}
    return xr.Dataset(variables, coords={dim: values.coords[dim] for dim in dims}, attrs=attributes)


def rate_table(fits: xr.Dataset) -> Iterator[RateFit]:
    """Yield the rows of what `fit_rate` returns, the last axis fastest.

    Raises
    ------
    ValueError
        Axes other than d, lam and G are left.
    """
    extra = [str(dim) for dim in fits.dims if dim not in _ROW]
    if extra:
        raise ValueError(
            f"fits must have no axes but {', '.join(_ROW)}, got {', '.join(extra)}: select one value"
        )
    names = [field.name for field in fields(RateFit) if field.name not in _ROW]
    shape = tuple(fits.sizes[dim] for dim in _ROW)
    for index in np.ndindex(shape):
        row = fits.isel(dict(zip(_ROW, index, strict=True)))
        yield RateFit(**{name: row[name].item() for name in (*_ROW, *names)})


def replicas_of(tree: Source, quantity: str) -> xr.DataArray:
    """Return `quantity` with N first and replica last, checked to be positive wherever it is not NaN.

    Raises
    ------
    ValueError
        As `fit_rate`.
    """
    network = _network(tree)
    if quantity not in network.data_vars:
        offered = [str(name) for name, v in network.data_vars.items() if {"N", "replica"} <= set(v.dims)]
        raise ValueError(f"quantity must be one of {', '.join(offered) or '(none stored)'}, got {quantity!r}")
    values = network[quantity]
    for axis in ("N", "replica", *_ROW):
        if axis not in values.dims:
            raise ValueError(
                f"{quantity} must have the axis {axis}, got ({', '.join(map(str, values.dims))})"
            )
    values = values.transpose("N", *_ROW, ..., "replica")
    wrong = (values <= 0) | np.isinf(values)
    if wrong.any():
        first = np.argwhere(wrong.values)[0]
        at = values[tuple(first)]
        place = ", ".join(f"{dim} = {at.coords[dim].item()}" for dim in values.dims[:-1] if dim in at.coords)
        raise ValueError(
            f"{quantity} must be positive and finite to follow a power of N, got {at.item()} at {place}"
        )
    return values


def points_of(values: xr.DataArray, index: tuple[int, ...], statistic: str) -> list[Point]:
    """Summarise the replicas of every N that has at least two, at one place of the other axes."""
    block = np.moveaxis(values.values, 0, -2)[index]
    points = []
    for N, row in zip(values.coords["N"].values, block, strict=True):
        present = row[~np.isnan(row)].astype(np.float64)
        if len(present) >= 2:
            points.append(summarise(float(N), present, statistic))
    return points


def _network(tree: Source) -> xr.Dataset:
    import xarray as xr

    if isinstance(tree, (str, os.PathLike)):
        import sweep

        tree = sweep.load(tree)
    if isinstance(tree, xr.DataTree):
        if "network" not in tree.children:
            groups = ", ".join(tree.children) or "none"
            raise ValueError(f"tree must have the group network, got the groups {groups}")
        return tree["network"].to_dataset()
    if not isinstance(tree, xr.Dataset):
        raise TypeError(
            f"tree must be a DataTree, a Dataset or the path of a store, got {type(tree).__name__}"
        )
    return tree


def _fit(points: list[Point], statistic: str) -> dict[str, Any]:
    """Variables of one row."""
    if len(points) < 2:
        return _EMPTY
    if not any(point.spread > 0 for point in points):
        raise ValueError(
            f"replicas must differ to tell an error, got equal ones at N = {points[0].N:.0f}: "
            "were they run with different seeds?"
        )
    law: PowerLaw = fit_power_law(points, statistic)
    low, high = law.interval(CONFIDENCE)
    constant = math.exp(law.log_constant)
    return {
        "exponent": law.exponent,
        "exponent_stderr": law.exponent_stderr,
        "exponent_lo": low,
        "exponent_hi": high,
        "constant": constant,
        "constant_stderr": constant * law.log_constant_stderr,
        "p_value": law.p_value,
        "n": sum(point.n for point in points),
    }


def _nothing_to_fit(values: xr.DataArray) -> str:
    """Say what the best place of the grid lacks."""
    counts = (~np.isnan(values.values)).sum(axis=-1)
    best = int((counts >= 2).sum(axis=0).max(initial=0))
    most = counts.max(initial=0)
    grid = ", ".join(str(N) for N in values.coords["N"].values)
    return (
        f"{values.name} must have 2 replicas or more at each of 2 or more N, got {best} such N at best "
        f"(N = {grid}; at most {most} replicas): add values of N, or replicas"
    )


def _describe(units: str, quantity: str, statistic: str) -> dict[str, dict[str, str]]:
    """Units and long names of the variables."""
    return {
        "exponent": {"units": "1", "long_name": f"exponent of N in the {statistic} of {quantity}"},
        "exponent_stderr": {"units": "1", "long_name": "standard error of the exponent"},
        "exponent_lo": {"units": "1", "long_name": f"lower end of the {_PERCENT} interval of the exponent"},
        "exponent_hi": {"units": "1", "long_name": f"upper end of the {_PERCENT} interval of the exponent"},
        "constant": {"units": units, "long_name": f"{statistic} of {quantity} divided by N^exponent"},
        "constant_stderr": {"units": units, "long_name": "standard error of the constant"},
        "p_value": {"units": "1", "long_name": "p-value of the lack of fit of a power of N"},
        "n": {"units": "1", "long_name": "replicas used, at all N together"},
    }
