"""Propagation of chaos: how fast the joint law of tagged queues becomes a product as N grows.

`python -m analysis.chaos STORE` prints the table, and draws the picture on request.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from analysis.evidence import CONFIDENCE, LEAST_N, SEEN, SIGNIFICANT, is_far
from analysis.expansion import fisher, fit_inverse_powers, fit_leading_power
from analysis.joint import TAGGED
from analysis.least_squares import Floats, LinearFit
from analysis.norms import NORMS
from analysis.rows import ROW, large_sizes, stored_rows
from analysis.stores import FEW_SIZES, cure_of_few

if TYPE_CHECKING:
    import xarray as xr

#: An interval of at most this half-width that holds −1 excludes −1/2 and −3/2; a wider one tells no rate.
WIDEST = 0.25
#: Replicas at each N below which covariances are too skewed for a test of independence to be trusted.
FEWEST = 500
#: Replicas at each N from which there is an estimate, for two queues or three.
_ENOUGH = max(TAGGED) + 2
#: Standard errors of joint probabilities that are rounding.
_ROUNDING = 1e-13

_LONG_NAMES = {
    "exponent": "exponent p of a N^p (1 + b/N)",
    "exponent_stderr": "standard error of the exponent",
    "exponent_lo": "lower end of the 95 % interval of the exponent",
    "exponent_hi": "upper end of the 95 % interval of the exponent",
    "power": "exponent of a single power of N",
    "power_stderr": "standard error of that exponent",
    "first": "a of a/N + b/N²",
    "first_stderr": "standard error of a",
    "second": "b of a/N + b/N²",
    "second_stderr": "standard error of b",
    "p_value": "p-value of the lack of fit of a/N + b/N²",
    "p_zero": "p-value of independence at every N",
    "signal": "smallest norm over N in standard errors",
    "n": "replicas, at all N together",
    "least_n": "replicas at the N with fewest",
}
#: What is fitted, NaN where it cannot be told.
FITTED = tuple(_LONG_NAMES)[:11]

_ROUNDS = 4  # of reweighting; each gains about two digits
_Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ChaosFit:
    """How the norm of joint law minus product falls with N, for one (d, lam, G).

    `exponent` is that of a N^p (1 + b/N), `exponent_lo` and `exponent_hi` its 95 % interval, `power` the
    exponent of a single power; `first` and `second` are a and b of a/N + b/N². `p_value` is that of the lack
    of fit of a/N + b/N², `p_zero` that of independence at every N (Fisher), `signal` the smallest norm in
    standard errors. `n` counts replicas, 0 where fewer than two N have enough, `least_n` those of the N with
    fewest, 0 where fewer than two N have any, `replicas` those stored, used or not. NaN: not to be told.
    """

    d: int
    lam: float
    G: str
    exponent: float
    exponent_stderr: float
    exponent_lo: float
    exponent_hi: float
    power: float
    power_stderr: float
    first: float
    first_stderr: float
    second: float
    second_stderr: float
    p_value: float
    p_zero: float
    signal: float
    n: int
    least_n: int
    replicas: int = 0

    @property
    def verdict(self) -> str:
        """What a careful reader may conclude.

        Examples
        --------
        >>> ChaosFit(d=1, lam=0.8, G="exponential", p_zero=0.43, signal=0.7, n=50_000, least_n=10_000,
        ...          **dict.fromkeys(FITTED, math.nan)).verdict
        'independent within error at every N (p = 0.43)'
        """
        if self.n == 0:
            few = f"{self.least_n} replicas at an N are too few" if self.least_n else FEW_SIZES
            return f"nothing to fit: {few}: {cure_of_few(2 if self.least_n else 0, _ENOUGH)}"
        if math.isnan(self.exponent):
            return self._unresolved()
        ends = self.exponent_lo, self.exponent_hi
        interval = f"{ends[0]:.3f} … {ends[1]:.3f}".replace("-", "−")
        misfit = self.p_value < SIGNIFICANT
        if not ends[0] <= -1.0 <= ends[1]:
            near = not is_far(self.exponent, self.exponent_stderr, ends, -1.0)
            text = f"{'perhaps ' if near else ''}not like 1/N: {interval} excludes −1"
            text += ", as one row in twenty does by chance" if near else ""
            return text + ("; a/N + b/N² does not fit" if misfit else "")
        if self.too_wide:
            return f"dependent, but too wide to tell 1/N: {interval} contains −1 and more: add replicas"
        if misfit:
            return f"no rate to be told: {interval} contains −1, but a/N + b/N² does not fit"
        return f"like 1/N: {interval} contains −1"

    @property
    def too_wide(self) -> bool:
        """Whether there is an exponent, but with an interval that tells no rate."""
        return (self.exponent_hi - self.exponent_lo) / 2 > WIDEST

    def _unresolved(self) -> str:
        if self.p_zero > SIGNIFICANT:
            return f"independent within error at every N (p = {self.p_zero:.2g})"
        if self.least_n < FEWEST:
            return f"perhaps dependent: with fewer than {FEWEST} replicas at an N its p cannot be trusted"
        if self.signal >= SEEN:
            return "dependent, but two N tell no exponent with its correction: add values of N"
        return "dependent, but too noisy at some N for an exponent: add replicas"


def fit_chaos(measured: xr.Dataset, norm: str = "frobenius", least_N: int = LEAST_N) -> xr.Dataset:
    """Fit how the difference between joint law and product falls with N, for every (d, lam, G).

    Parameters
    ----------
    measured
        What `analysis.tagged.measure_chaos` returns.
    norm
        A key of `analysis.norms.NORMS`.
    least_N
        Smaller N are left out.

    Returns
    -------
    xarray.Dataset
        Over (d, lam, G) the fields of `ChaosFit`, and `replicas` stored at any N; and over the axes of
        `difference` its `limit`, lim N · difference, unbiased and signed, by a fit a/N + b/N², with
        `limit_stderr`. NaN: not to be told.

    Raises
    ------
    ValueError
        An unknown norm, or fewer than two N ≥ `least_N`.

    Notes
    -----
    Weighted least squares with jackknife variances and Student's intervals (`analysis.least_squares`). The
    exponent is that of a N^p (1 + b/N), fitted to logarithms, given only where the norm exceeds `SEEN`
    standard errors at every N ≥ `least_N`; no N is dropped for its value.

    Examples
    --------
    >>> import xarray as xr
    >>> from analysis.tagged import GRID, measure_chaos
    >>> rng = np.random.default_rng(1)
    >>> S = np.array([rng.binomial(N, 0.5, size=1000) / N for N in (50, 100)])  # independent queues
    >>> S = S[:, None, None, None, :, None, None]
    >>> tree = xr.Dataset({"S": ((*GRID, "replica", "t", "level"), S)}, coords={"N": [50, 100], "t": [1.0],
    ...     "d": [2], "lam": [0.9], "G": ["exponential"], "level": [1]})
    >>> next(chaos_table(fit_chaos(measure_chaos(tree)))).verdict
    'independent within error at every N (p = ...)'
    """
    import xarray as xr

    if norm not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}, got {norm!r}")
    used = large_sizes(measured, max(least_N, measured.attrs["k"]), "analysis.chaos").sel(norm=norm)
    table = np.empty([used.sizes[axis] for axis in ROW], dtype=object)
    limits = np.full((2, *used.difference.shape[1:]), math.nan)
    for index in np.ndindex(table.shape):
        place = used.isel(dict(zip(ROW, index, strict=True)))
        stored = place.replicas.values[place.replicas.values > 0]
        place = place.isel(N=place.n.values > 0)
        table[index] = _fitted(place, int(stored.min()) if stored.size >= 2 else 0)
        if place.sizes["N"] >= 2:
            limits[:, *index] = _limits(place)
    variables: dict[str, Any] = {}
    for name, long_name in _LONG_NAMES.items():
        values = np.array([row[name] for row in table.flat]).reshape(table.shape)
        variables[name] = (ROW, values, {"units": "1", "long_name": long_name})
    variables["replicas"] = measured.replicas.sum("N").assign_attrs(measured.replicas.attrs)
    dims = used.difference.dims[1:]
    variables["limit"] = (dims, limits[0], {"units": "1", "long_name": "lim N (joint law − product)"})
    variables["limit_stderr"] = (dims, limits[1], {"units": "1", "long_name": "standard error of the limit"})
    coords = {dim: used.coords[dim] for dim in dims}
    return xr.Dataset(variables, coords=coords, attrs={**measured.attrs, "norm": norm, "least_N": least_N})


def chaos_table(fits: xr.Dataset) -> Iterator[ChaosFit]:
    """Yield the rows of what `fit_chaos` returns that have replicas, the last axis fastest."""
    for row in stored_rows(fits):
        yield ChaosFit(**{field.name: row[field.name].item() for field in fields(ChaosFit)})


def _fitted(place: xr.Dataset, least_n: int) -> _Row:
    """Fields of a row from the norms of its N, `least_n` where they are too few."""
    N, value, stderr, n = (
        place[name].values.astype(np.float64) for name in ("N", "norm_value", "norm_stderr", "n")
    )
    row: _Row = {**dict.fromkeys(FITTED, math.nan), "p_zero": fisher(place.p_zero.values)}
    row |= {"signal": math.nan, "n": 0, "least_n": least_n}
    if len(N) < 2:
        return row
    row |= {"n": int(n.sum()), "least_n": int(n.min())}
    if not (stderr > _ROUNDING).all():
        return row
    row["signal"] = float(np.min(value / stderr))
    if row["signal"] < SEEN:
        return row
    terms = _two_terms(N, value, stderr, n)
    row["first"], row["second"] = terms.estimate.tolist()
    row["first_stderr"], row["second_stderr"] = terms.stderr.tolist()
    row["p_value"] = terms.p_value
    single = fit_leading_power(N, value, stderr, n, corrected=False)
    row["power"], row["power_stderr"] = float(single.estimate[0]), float(single.stderr[0])
    if len(N) >= 3:
        leading = fit_leading_power(N, value, stderr, n)
        row["exponent"], row["exponent_stderr"] = float(leading.estimate[0]), float(leading.stderr[0])
        row["exponent_lo"], row["exponent_hi"] = (float(end[0]) for end in leading.interval(CONFIDENCE))
    return row


def _two_terms(N: Floats, value: Floats, stderr: Floats, n: Floats) -> LinearFit:
    """Fit a/N + b/N² to norms, weighted by the relative error of each and the fitted curve.

    Errors of a norm grow with it: weights by the values seen would favour those that happen to be small.
    """
    fit = fit_inverse_powers(N, value, stderr, n)
    for _ in range(_ROUNDS):
        curve = fit.estimate[0] / N + fit.estimate[1] / N**2
        near = (curve > value / 2) & (curve < 2 * value)  # elsewhere the curve is no measure of errors
        fit = fit_inverse_powers(N, value, stderr / value * np.where(near, curve, value), n)
    return fit


def _limits(place: xr.Dataset) -> Floats:
    """Fit a/N + b/N² to every entry: a and its standard error, shape (2, …)."""
    values, stderr = place.difference.values, place.difference_stderr.values
    limits = np.full((2, *values.shape[1:]), math.nan)
    for entry in np.ndindex(values.shape[1:]):
        at = (slice(None), *entry)
        if (stderr[at] > _ROUNDING).all():
            fit = fit_inverse_powers(place.N.values, values[at], stderr[at], place.n.values)
            limits[:, *entry] = fit.estimate[0], fit.stderr[0]
    return limits


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how dependence falls with N in a store; return 0, or 2 if the input is bad."""
    from analysis.chaos_command import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
