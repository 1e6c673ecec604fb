"""How fast the N-server network approaches its limit: powers of N fitted to replicas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analysis.evidence import CONFIDENCE
from analysis.quantities import points_of, replicas_of
from analysis.rate_models import MODELS, SIZES, fit_row
from analysis.regression import STATISTICS
from analysis.rows import ROW, check_rows, stored_rows
from analysis.stores import cure_of_few

if TYPE_CHECKING:
    import xarray as xr

    from analysis.quantities import Source

__all__ = ["CONFIDENCE", "RateFit", "fit_rate", "fit_replicas", "rate_table", "signed"]

METHOD = (
    "{model} by weighted least squares{of_logarithms}, corrected "
    "for bias, with delta-method variances; relative variances pooled over N (t interval and F test, as "
    "many degrees of freedom as replicas less values of N) unless Bartlett's test, corrected for kurtosis, "
    "rejects their equality at 1 %, then one variance per N (Kenward–Roger interval, Johansen's Welch–James "
    "test){selection}"
)

_MODEL_TEXT = {
    "power": ("statistic over replicas = constant · N^exponent", " of its logarithms"),
    "two-term": ("statistic over replicas = sum of coefficient · N^term", ""),
}
_SELECTION = "; smallest N left out one by one while the lack-of-fit test rejects at 5 % and 3 or more remain"
_PERCENT = f"{100 * CONFIDENCE:.0f} %"
_WHOLE = ("n", "dropped")


@dataclass(frozen=True, kw_only=True)
class RateFit:
    """The fitted power law of one (d, lam, G): statistic = constant · N^exponent.

    `exponent_lo` and `exponent_hi` bound the 95 % interval, `p_value` is that of the lack of fit (NaN with
    two N, which any line fits), `n` counts the replicas used at all N, of which `N_min` is the smallest after
    `dropped` were left out. Where nothing could be fitted n is 0.

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
    N_min: float = math.nan
    dropped: int = 0

    def __str__(self) -> str:
        if self.n == 0:
            return "no fit: fewer than two N with two replicas each"
        interval = f"{_PERCENT} {signed(self.exponent_lo)} … {signed(self.exponent_hi)}"
        return (
            f"exponent {signed(self.exponent)} ± {self.exponent_stderr:.3f} ({interval}), "
            f"{self._lack_of_fit()}, {self.n} replicas{self._selection()}"
        )

    def _selection(self) -> str:
        return f", N ≥ {self.N_min:.0f} ({self.dropped} smaller left out)" if self.dropped else ""

    def _lack_of_fit(self) -> str:
        if math.isnan(self.p_value):
            return "lack of fit not testable with two N"
        return "lack of fit p < 0.001" if self.p_value < 0.001 else f"lack of fit p = {self.p_value:.2g}"


def signed(value: float) -> str:
    """Three decimals with a typographic minus sign."""
    return f"{value:.3f}".replace("-", "−")


def fit_rate(
    tree: Source,
    quantity: str = "S_sup",
    statistic: str = "mean",
    *,
    model: str = "power",
    sizes: str = "all",
    terms: Sequence[float] = (-0.5, -1.0),
) -> xr.Dataset:
    """Fit a power of N, or a sum of two, to a distance from the limit for every (d, lam, G).

    Parameters
    ----------
    tree
        What `sweep.load` returns, its network group, or the path of a store.
    quantity
        A distance stored in the network group (S_sup, d_S, d_P, V, …), positive; S, D, X or E for the
        distance from the limit at every stored t, and S_sup_t, D_sup_t, X_sup_t, E_sup_t for its largest
        over t.
    statistic
        "mean" or "rms" over the replicas of each N.
    model
        "power": constant · N^exponent. "two-term": a N^{p_1} + b N^{p_2} with the exponents `terms`.
    sizes
        "all" values of N, or "asymptotic": the smallest are left out one by one while the test of lack of fit
        rejects at 5 % and three or more remain.
    terms
        Exponents p_1, p_2 of the model of two terms.

    Returns
    -------
    xarray.Dataset
        Over (d, lam, G) and what other axes the quantity has: `exponent`, `exponent_stderr`, `exponent_lo`,
        `exponent_hi` (dimensionless), `constant`, `constant_stderr` (units of the quantity), `p_value` of the
        lack of fit, `n` replicas used, `N_min` the smallest N used, `dropped` how many N were left out,
        `p_value_all` of the fit to all N, `replicas` stored, used or not. With two terms, instead of exponent
        and constant, `coefficient`, `coefficient_stderr`, `coefficient_lo`, `coefficient_hi` over term, and
        `covariance` over term and other_term. A row with fewer than two N of two replicas, or with no spread
        at all, is NaN with n = 0.

    Raises
    ------
    ValueError
        An unknown quantity, statistic, model or choice of sizes, terms that are not two, a quantity without
        one of the axes N, d, lam, G and replica, values that are not positive, replicas that are all equal, a
        limit that is needed and absent, or no row that can be fitted.
    TypeError
        A tree that is none of the three.

    Notes
    -----
    With x̄ the mean and s² the variance of n replicas, Var log x̄ ≈ s²/(n x̄²) and E log x̄ lies s²/(2 n x̄²) low;
    with y = x² and ȳ its mean, Var log rms ≈ s_y²/(4 n ȳ²) and the bias is as large. Relative variances are
    pooled over N where they agree. See `analysis.least_squares` for interval and test. With lognormal noise
    of equal relative spread, up to about .3, the 95 % interval covers 94 to 95 % of the time for 2 to 32
    replicas (with a spread of 1 that of the mean .89 to .93, of rms about .8); with spreads that differ it
    needs about 32 replicas at each N. Leaving out N by a test makes `p_value` what
    the search stopped at, no longer uniform under a right model; `p_value_all` is.

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
    _check("statistic", statistic, tuple(STATISTICS))
    _check("model", model, MODELS)
    _check("sizes", sizes, SIZES)
    if len(terms) != 2 or terms[0] == terms[1]:
        raise ValueError(f"terms must be two different exponents of N, got {tuple(terms)}")
    values = replicas_of(tree, quantity)
    return fit_replicas(values, statistic, model=model, sizes=sizes, terms=terms)


def fit_replicas(
    values: xr.DataArray,
    statistic: str,
    *,
    model: str = "power",
    sizes: str = "all",
    terms: Sequence[float] = (-0.5, -1.0),
) -> xr.Dataset:
    """Fit what `analysis.quantities.replicas_of` returns; arguments are as of `fit_rate`, checked already.

    Raises
    ------
    ValueError
        No row that can be fitted, or replicas that are all equal.
    """
    import xarray as xr

    dims = values.dims[1:-1]
    rows = np.empty(values.shape[1:-1], dtype=object)
    for index in np.ndindex(rows.shape):
        rows[index] = fit_row(points_of(values, index, statistic), statistic, model, sizes, terms)
    if rows.size == 0 or not any(row["n"] for row in rows.flat):
        raise ValueError(_nothing_to_fit(values, statistic))
    described = _describe(values.attrs.get("units", "1"), str(values.name), statistic)
    variables = {}
    for name in next(row for row in rows.flat if row["n"]):
        own, labels = described[name]
        variables[name] = ((*dims, *own), _column(rows, name, len(own)), labels)
    stored = (~np.isnan(values.values)).sum(axis=(0, -1))
    variables["replicas"] = (dims, stored, {"units": "1", "long_name": "replicas stored, at all N together"})
    coordinates: dict[str, Any] = {str(dim): values.coords[dim] for dim in dims}
    if model == "two-term":
        exponents = {"units": "1", "long_name": "exponent of N that a coefficient belongs to"}
        coordinates |= {dim: (dim, list(terms), exponents) for dim in ("term", "other_term")}
    method = METHOD.format(
        model=_MODEL_TEXT[model][0],
        of_logarithms=_MODEL_TEXT[model][1],
        selection=_SELECTION if sizes == "asymptotic" else "",
    )
    attributes = {"quantity": str(values.name), "statistic": statistic, "model": model, "sizes": sizes}
    return xr.Dataset(
        variables, coords=coordinates, attrs=attributes | {"confidence": CONFIDENCE, "method": method}
    )


def _column(rows: NDArray[Any], name: str, axes: int) -> NDArray[Any]:
    """One variable of every row, NaN where a row has none; `axes` of its own have two values each."""
    missing = np.full((2,) * axes, math.nan)
    values = [row.get(name, missing) for row in rows.flat]
    dtype = np.int64 if name in _WHOLE else np.float64
    return np.array(values, dtype=dtype).reshape(rows.shape + missing.shape)


def rate_table(fits: xr.Dataset) -> Iterator[RateFit]:
    """Yield the rows of what `fit_rate` returns that have replicas, the last axis fastest.

    Raises
    ------
    ValueError
        Axes other than d, lam and G are left.
    """
    check_rows(fits)
    names = [field.name for field in fields(RateFit) if field.name not in ROW]
    for row in stored_rows(fits):
        yield RateFit(**{name: row[name].item() for name in (*ROW, *names)})


def _check(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def _nothing_to_fit(values: xr.DataArray, statistic: str) -> str:
    """Say what the best place of the grid lacks."""
    counts = (~np.isnan(values.values)).sum(axis=-1)
    best = int((counts >= 2).sum(axis=0).max(initial=0))
    if best >= 2:
        for index in np.ndindex(values.shape[1:-1]):
            if len(points := points_of(values, index, statistic)) >= 2:
                return (
                    f"replicas must differ to tell an error, got equal ones at N = {points[0].N:.0f}: "
                    "were they run with different seeds?"
                )
        return (
            f"{values.name} must be above 0 at each of 2 or more N to follow a power of N, got 0 in every "
            "replica of an N, as at t = 0: take later times"
        )
    most = counts.max(initial=0)
    grid = ", ".join(str(N) for N in values.coords["N"].values)
    sizes = int((counts >= 1).sum(axis=0).max(initial=0))
    return (
        f"{values.name} must have 2 replicas or more at each of 2 or more N, got {best} such N at best "
        f"(N = {grid}; at most {most} replicas): {cure_of_few(sizes, 2)}"
    )


def _describe(units: str, quantity: str, statistic: str) -> dict[str, tuple[tuple[str, ...], dict[str, str]]]:
    """Axes of their own, units and long names of the variables."""
    table = {
        "exponent": ("1", f"exponent of N in the {statistic} of {quantity}"),
        "exponent_stderr": ("1", "standard error of the exponent"),
        "exponent_lo": ("1", f"lower end of the {_PERCENT} interval of the exponent"),
        "exponent_hi": ("1", f"upper end of the {_PERCENT} interval of the exponent"),
        "constant": (units, f"{statistic} of {quantity} divided by N^exponent"),
        "constant_stderr": (units, "standard error of the constant"),
        "coefficient": (units, f"coefficient of N^term in the {statistic} of {quantity}"),
        "coefficient_stderr": (units, "standard error of the coefficient"),
        "coefficient_lo": (units, f"lower end of the {_PERCENT} interval of the coefficient"),
        "coefficient_hi": (units, f"upper end of the {_PERCENT} interval of the coefficient"),
        "covariance": ("1" if units == "1" else f"({units})^2", "covariance of two coefficients' errors"),
        "p_value": ("1", "p-value of the lack of fit of the model, at the N used"),
        "n": ("1", "replicas used, at all N together"),
        "N_min": ("1", "smallest N used"),
        "dropped": ("1", "number of smaller N left out as not yet asymptotic"),
        "p_value_all": ("1", "p-value of the lack of fit of the model at all N"),
    }
    own: dict[str, tuple[str, ...]] = {name: ("term",) for name in table if name.startswith("coefficient")}
    own["covariance"] = ("term", "other_term")
    return {
        name: (own.get(name, ()), {"units": units, "long_name": text})
        for name, (units, text) in table.items()
    }
