"""Central limit constants in equilibrium: lim N bias, lim N variance and lim √N sd, beside the exact ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analysis.constants import (
    NEEDED,
    Network,
    constant_names,
    exact_constants,
    measured_constants,
    network_of,
)
from analysis.evidence import CONFIDENCE
from analysis.large_n import extrapolate
from analysis.least_squares import Floats
from analysis.moments import LEAST_REPLICAS, Estimate
from analysis.quantities import group_of, opened
from analysis.rows import ROW, rows_of
from analysis.stores import cure_of_few

if TYPE_CHECKING:
    import xarray as xr

    from analysis.quantities import Source

METHOD = (
    "C + C2/N by weighted least squares over N, smallest N left out one by one while the lack-of-fit test "
    "rejects at 5 % and 3 or more remain; at each N: bias of time averages with the time average of S_1, "
    "whose mean is λ, as control variate, t intervals (Kenward–Roger, the fewest degrees of freedom of an "
    "N); variance of values at batch ends, weighted by relative errors (pooled over N where they agree) "
    "times the fitted curve, intervals by the cube root; errors from independent replicas alone; √N sd is "
    "the root of C of N variance, corrected for its bias"
)

_FITTED = {
    "value": "limit C of the scaled statistic as N → ∞",
    "value_stderr": "standard error of the limit",
    "value_lo": f"lower end of the {100 * CONFIDENCE:.0f} % interval of the limit",
    "value_hi": f"upper end of the {100 * CONFIDENCE:.0f} % interval of the limit",
    "freedom": "degrees of freedom of the standard error",
    "second": "C2 of C + C2/N; for √N sd that of N variance",
    "p_value": "p-value of the lack of fit of C + C2/N at the N used",
    "p_value_all": "p-value of the lack of fit of C + C2/N at all N",
    "N_min": "smallest N used",
    "dropped": "number of smaller N left out as not yet asymptotic",
    "n": "replicas used, at all N together",
    "exact": "exact limit, NaN where none is known",
    "z": "(value − exact) / value_stderr",
}
_AT_N = {"scaled": "scaled statistic at N", "scaled_stderr": "standard error of the scaled statistic at N"}
_REPLICAS = {"units": "1", "long_name": "replicas stored, at all N together"}
_WHOLE = ("n", "dropped")


@dataclass(frozen=True, kw_only=True)
class ConstantFit:
    """The limit of one scaled statistic at one (d, lam, G).

    `constant` is bias_X, bias_S2, … (lim N (E − limit)), variance_X (lim N Var) or sd_S1, … (lim √N sd).
    `exact` and `z` are NaN where no exact limit is known; `n` is 0 where nothing could be fitted. `freedom`
    are the degrees of freedom of the standard error: z follows Student's t with so many.

    Examples
    --------
    >>> print(ConstantFit(d=2, lam=0.5, G="exponential", constant="bias_X", value=0.293, value_stderr=0.003,
    ...                   value_lo=0.287, value_hi=0.299, second=0.4, p_value=0.4, N_min=32, dropped=0, n=160,
    ...                   exact=0.2914, z=0.53))
    bias_X 0.293 ± 0.003 (95 % 0.287 … 0.299), exact 0.2914, z = +0.53, 160 replicas at N ≥ 32
    """

    d: int
    lam: float
    G: str
    constant: str
    value: float
    value_stderr: float
    value_lo: float
    value_hi: float
    second: float
    p_value: float
    N_min: float
    dropped: int
    n: int
    exact: float
    z: float
    freedom: float = math.inf

    def __str__(self) -> str:
        if self.n == 0:
            return (
                f"{self.constant} not fitted: too few N with {LEAST_REPLICAS} replicas that differ, "
                "or not two standard errors above 0"
            )
        exact = "" if math.isnan(self.exact) else f", exact {self.exact:.4g}, z = {self.z:+.2f}"
        return (
            f"{self.constant} {self.value:.3g} ± {self.value_stderr:.1g} "
            f"({100 * CONFIDENCE:.0f} % {self.value_lo:.3g} … {self.value_hi:.3g}){exact}, "
            f"{self.n} replicas at N ≥ {self.N_min:.0f}"
        )


def clt_constants(tree: Source, network: Network | None = None) -> xr.Dataset:
    """Fit C + C₂/N to scaled biases, variances and standard deviations of equilibrium runs.

    Parameters
    ----------
    tree
        What `sweep.load` returns of a store of the study `equilibrium`, or its path: the groups `equilibrium`
        (X_batch, S_batch, X_end, S_end) and `invariant` (S, mean_queue).
    network
        How the network was fed and how it sampled; by default what the store's spec says. Without either no
        exact constants are given.

    Returns
    -------
    xarray.Dataset
        Over (d, lam, G, constant): `value`, `value_stderr`, `value_lo`, `value_hi`, `freedom`, `second`,
        `p_value`, `p_value_all`, `N_min`, `dropped`, `n`, and where `analysis.constants.exact_constants`
        knows it `exact`, with `z`; over (N, d, lam, G, constant): `scaled`, `scaled_stderr`, for sd_S the
        root of N Var; over (d, lam, G): `replicas` stored, used or not. The constants are bias_X, bias_S2, …
        (N (E − limit)), variance_X (N Var) and sd_S1, … (√N sd), X the jobs per server; those of X need a
        limit with a finite mean queue. What cannot be fitted is NaN with n = 0.

    Raises
    ------
    ValueError
        Groups or variables that are absent, or nothing that can be fitted: too few replicas, or equal ones.
    TypeError
        As `analysis.fit_rate`.

    Notes
    -----
    In equilibrium E S_1^(N)/N = λ for any service and any N, so the deviation of the time average of S_1
    from λ is a control variate; it takes away some 90 % of the variance of the mean queue. Batches are
    correlated and none is taken as independent: all errors come from the spread of replicas. The warm-up
    must be long enough.
    """
    source = opened(tree)
    data, limit = group_of(source, "equilibrium"), group_of(source, "invariant")
    for group, held, needed in (("equilibrium", data, NEEDED), ("invariant", limit, ("S", "mean_queue"))):
        for name in needed:
            if name not in held:
                raise ValueError(
                    f"tree must have the variable {name} in the group {group}, got "
                    f"{', '.join(map(str, held.data_vars)) or 'none'}"
                )
    network = network or network_of(source)
    names = constant_names(data.sizes["level"])
    shape = (*(data.sizes[axis] for axis in ROW), len(names))
    rows = np.empty(shape, dtype=object)
    seen = np.full((data.sizes["N"], *shape, 2), math.nan)
    for index in np.ndindex(shape[:-1]):
        here = data.isel(dict(zip(ROW, index, strict=True)))
        rows[index], seen[(slice(None), *index)] = _place(here, limit, names, network)
    stored = data[NEEDED[0]].notnull().all("batch").sum("replica")
    if not any(row["n"] for row in rows.flat):
        raise ValueError(_nothing_to_fit(stored))
    return _dataset(data, rows, seen, names).assign(replicas=stored.sum("N").assign_attrs(_REPLICAS))


def constant_table(fits: xr.Dataset) -> Iterator[ConstantFit]:
    """Yield the rows of what `clt_constants` returns, or of one network of it, constants fastest."""
    names = [field.name for field in fields(ConstantFit)]
    for row in rows_of(fits, [axis for axis in (*ROW, "constant") if axis in fits.dims]):
        yield ConstantFit(**{name: row[name].item() for name in names})


def _nothing_to_fit(stored: xr.DataArray) -> str:
    """Say what the best place lacks, from the replicas over N and the axes of a row."""
    if int((stored >= LEAST_REPLICAS).sum("N").max()) >= 2:
        return (
            "tree must hold replicas that differ at each of 2 or more N in equilibrium, got equal ones: "
            "replicas that do not differ tell no error; were they run with different seeds?"
        )
    sizes = int((stored >= 1).sum("N").max())
    return (
        f"tree must hold {LEAST_REPLICAS} replicas or more at each of 2 or more N in equilibrium, got fewer: "
        f"{cure_of_few(sizes, LEAST_REPLICAS)}"
    )


def _place(
    here: xr.Dataset, limits: xr.Dataset, names: Sequence[str], network: Network | None
) -> tuple[NDArray[Any], Floats]:
    """Rows of one (d, lam, G), one a constant, and the estimates behind them, shape (N, constant, 2)."""
    N = here.coords["N"].values
    d, lam, G = (here.coords[axis].item() for axis in ROW)
    limit = limits.sel(d=d, lam=lam, G=G)
    exact = exact_constants(d, lam, G, here.sizes["level"], network)
    rows, seen = np.empty(len(names), dtype=object), np.full((N.size, len(names), 2), math.nan)
    measured = [measured_constants(here.isel(N=i), limit) for i in range(N.size)]
    for k, name in enumerate(names):
        for i, found in enumerate(measured):
            if name in found:
                seen[i, k] = _scaled(found[name], name)
        points = {float(N[i]): found[name] for i, found in enumerate(measured) if name in found}
        rows[k] = _row(points, name, exact.get(name, math.nan))
    return rows, seen


def _row(points: dict[float, Estimate], name: str, exact: float) -> dict[str, Any]:
    """Variables of one constant; only n and dropped where it cannot be fitted."""
    fit = extrapolate(points)
    if fit is not None and name.startswith("sd_"):
        fit = fit.root()
    if fit is None or math.isnan(fit.value):
        return {"n": 0, "dropped": 0, "exact": exact}
    n = sum(one.n for N, one in points.items() if fit.N_min <= N)
    return vars(fit) | {"n": n, "exact": exact, "z": (fit.value - exact) / fit.value_stderr}


def _scaled(estimate: Estimate, name: str) -> tuple[float, float]:
    """Value and standard error at one N, as they are shown: a root for √N sd."""
    if not name.startswith("sd_"):
        return estimate.value, estimate.stderr
    root = math.sqrt(max(estimate.value, 0.0))
    return (root, estimate.stderr / (2 * root)) if root > 0 else (math.nan, math.nan)


def _dataset(data: xr.Dataset, rows: NDArray[Any], seen: Floats, names: Sequence[str]) -> xr.Dataset:
    import xarray as xr

    variables: dict[str, Any] = {}
    for name, text in _FITTED.items():
        values = [row.get(name, math.nan) for row in rows.flat]
        dtype = np.int64 if name in _WHOLE else np.float64
        column = np.array(values, dtype=dtype).reshape(rows.shape)
        variables[name] = ((*ROW, "constant"), column, {"units": "1", "long_name": text})
    for k, (name, text) in enumerate(_AT_N.items()):
        variables[name] = (("N", *ROW, "constant"), seen[..., k], {"units": "1", "long_name": text})
    coordinates: dict[str, Any] = {dim: data.coords[dim] for dim in ("N", *ROW)}
    label = "bias: N (E − limit); variance: N Var; sd: √N sd; of X or of S_ℓ"
    coordinates["constant"] = ("constant", list(names), {"units": "1", "long_name": label})
    return xr.Dataset(variables, coords=coordinates, attrs={"confidence": CONFIDENCE, "method": METHOD})


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the constants of equilibrium stores; return 0, or 2 if the input is bad."""
    from analysis.fluctuation_command import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
