"""Bias of N-server networks in equilibrium: N times it at N → ∞, what remains there, and a verdict."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.constants import exact_constants, network_of
from analysis.evidence import CONFIDENCE, LEAST_N, SEEN, SIGNIFICANT
from analysis.expansion import fisher, fit_inverse_powers, fit_leading_power, two_sided
from analysis.large_n import with_least_freedom
from analysis.least_squares import Floats
from analysis.moments import ROUNDING
from analysis.rows import ROW, large_sizes
from analysis.stores import FEW_SIZES, cure_of_few

if TYPE_CHECKING:
    import xarray as xr

#: Levels whose limit is rarer are not fitted: at such N their bias is no longer a few powers of 1/N.
LEAST_SHARE = 1e-3

_LONG_NAMES = {
    "constant": "lim N (E S_ℓ^(N)/N − S_ℓ), the C of C + C₂/N",
    "constant_stderr": "standard error of that limit",
    "constant_lo": "lower end of its 95 % interval",
    "constant_hi": "upper end of its 95 % interval",
    "constant_exact": "that limit, exact, where it is known",
    "constant_next": "C₂ of C + C₂/N",
    "fit_p": "p-value of the lack of fit of C + C₂/N",
    "remainder": "difference from S_ℓ extrapolated to N = ∞",
    "remainder_stderr": "standard error of that difference",
    "remainder_half": "half-width of its 95 % interval",
    "remainder_p": "p-value of no such difference",
    "exponent": "exponent of N in the norm of the difference",
    "exponent_lo": "lower end of its 95 % interval",
    "exponent_hi": "upper end of its 95 % interval",
    "p_zero": "p-value of no difference at any N",
    "limit_p": "p-value of no level's difference left at N = ∞",
    "busy_p": "p-value of E S_1 = λ at every N",
    "start_p": "p-value of agreement with starts from empty",
    "n": "replicas, at all N together",
    "verdict": "what a careful reader may conclude",
}
#: Variables over the quantities: the levels and the mean queue length.
_BY_QUANTITY = tuple(_LONG_NAMES)[:11]
_Row: TypeAlias = dict[str, Any]


def fit_bias(compared: xr.Dataset, least_N: int = LEAST_N) -> xr.Dataset:
    """Fit the difference between networks in equilibrium and the invariant state, for every (d, lam, G).

    Parameters
    ----------
    compared
        What `analysis.equilibrium.compare_equilibrium` returns.
    least_N
        Smaller N are left out.

    Returns
    -------
    xarray.Dataset
        Over (d, lam, G, quantity), quantity "S_1", "S_2", … and "mean queue": `constant`, lim N · difference
        by a fit C + C₂/N, its standard error and 95 % interval, `fit_p` of the lack of fit, `constant_exact`
        where `analysis.constants.exact_constants` knows it; `remainder`, what is left of the difference at
        N = ∞ by a fit with a constant term beside 1/N and, with four N or more, 1/N², its error and p-value.
        Over (d, lam, G): `exponent` of the norm of the difference with its 95 % interval, `p_zero`,
        `limit_p`, `busy_p`, `start_p`, `n` used and all `replicas`, and a `verdict`.
        NaN: not to be told.

    Raises
    ------
    ValueError
        Fewer than two N ≥ `least_N`.

    Notes
    -----
    Weighted least squares with Student's intervals, `analysis.least_squares`, those of `constant` and
    `remainder` with the fewest degrees of freedom of an N; levels with S_ℓ ≤ 1e-3 in the limit are not
    fitted. p-values of several N are combined by Fisher's method, of several levels by Bonferroni's.
    """
    import xarray as xr

    used = large_sizes(compared, least_N, "analysis.equilibrium")
    table = np.empty([used.sizes[axis] for axis in ROW], dtype=object)
    for index in np.ndindex(table.shape):
        place = used.isel(dict(zip(ROW, index, strict=True)))
        table[index] = _fitted(place.isel(N=place.n.values > 0))
    quantities = [*(f"S_{level}" for level in compared.level.values), "mean queue"]
    variables = {}
    for name, long_name in _LONG_NAMES.items():
        tail = [len(quantities)] if name in _BY_QUANTITY else []
        values = np.array([row[name] for row in table.flat]).reshape(*table.shape, *tail)
        dims = (*ROW, "quantity") if name in _BY_QUANTITY else ROW
        variables[name] = (dims, values, {"units": "1", "long_name": long_name})
    stored = {"units": "1", "long_name": "replicas stored, at all N together"}
    variables["replicas"] = compared.n.sum("N").assign_attrs(stored)
    coords: dict[str, Any] = {axis: used.coords[axis].variable for axis in ROW}
    return xr.Dataset(variables, coords=coords | {"quantity": quantities}, attrs={"least_N": least_N})


def has_decreasing_hazard(G: str) -> bool:
    """Whether log Ḡ is convex, as seen on a grid of ages; near 0, whether the hazard rate falls.

    Examples
    --------
    >>> laws = ("lomax(beta=1.5)", "exponential", "erlang(k=2)", "pareto(beta=3)", "deterministic",
    ...         "lognormal(sigma=4)", "gamma(shape=0.5)", "hyperexponential(scv=4)")
    >>> [has_decreasing_hazard(G) for G in laws]
    [True, True, False, False, False, False, True, True]
    """
    from sweep.laws import parse_law

    try:
        law = parse_law(G)
    except ValueError:  # a trace whose file is elsewhere
        return False
    ages = np.concatenate([[0.0], np.geomspace(1e-4, 1e2, 400)])
    log_survival = law.log_survival(ages)
    if law.atoms or not np.isfinite(log_survival).all():
        return False
    young = np.geomspace(1e-300, ages[1], 1000)
    hazard = law.density(young) / np.exp(law.log_survival(young))
    if not (np.diff(hazard) <= 1e-9 * hazard[1:]).all():
        return False
    slopes = np.diff(log_survival) / np.diff(ages)
    return bool((np.diff(slopes) >= -1e-6 * np.abs(slopes[1:]) - 1e-9).all())


def _fitted(stored: xr.Dataset) -> _Row:
    """Variables of one row, from the N that have replicas."""
    control = stored.attrs["control"]
    # A single replica has the freedom of its batches, but no regression on a control.
    freedom = stored.n.values - 2.0 if control else stored.freedom.values
    place, n = stored.isel(N=freedom >= 1), freedom[freedom >= 1] + 1.0
    values = np.column_stack([place.scaled.values, place.mean_queue_scaled.values])
    stderr = np.column_stack([place.scaled_stderr.values, place.mean_queue_scaled_stderr.values])
    width, N = values.shape[1], place.N.values.astype(np.float64)
    row: _Row = {name: np.full(width, math.nan) for name in _BY_QUANTITY}
    row |= {"constant_exact": _exact(place), "n": int(place.n.sum())}
    seen = np.append(place.invariant.values > LEAST_SHARE, True)
    for k in np.flatnonzero(seen):
        if len(N) >= 2 and np.isfinite(values[:, k]).all() and (stderr[:, k] > 0.0).all():
            for name, value in _extrapolated(N, values[:, k], stderr[:, k], n).items():
                row[name][k] = value
    row |= _exponent(N, place.gap.values, place.gap_stderr.values, n)
    row["p_zero"] = fisher(place.p_zero.values)
    row["limit_p"] = _least_p(row["remainder_p"][:-1])
    row["busy_p"] = fisher(two_sided(place.busy_z.values, place.freedom.values))
    row["start_p"] = _start_p(place)
    fitted = np.isfinite(row["constant"]).any()
    row["verdict"] = _verdict(_is_proved(place), row) if fitted else _nothing(stored.n.values, 2 + control)
    return row


def _start_p(place: xr.Dataset) -> float:
    """p-value of one law from both starts: Fisher over N at each level, Bonferroni over levels."""
    error = place.start_stderr.values  # rounding alone at levels that never differ, which tell nothing
    differs = error > ROUNDING * np.abs(place.S.values)
    score = place.start_difference.values / np.where(differs, error, math.nan)
    return _least_p(np.array([fisher(p) for p in two_sided(score, place.start_freedom.values[:, None]).T]))


def _least_p(by_level: Floats) -> float:
    """p-value of the level that is off most, by Bonferroni over those that are tested; NaN of none."""
    tested = by_level[np.isfinite(by_level)]
    return min(float(tested.min()) * tested.size, 1.0) if tested.size else math.nan


def _extrapolated(N: Floats, scaled: Floats, stderr: Floats, n: Floats) -> dict[str, float]:
    """C of N · difference = C + C₂/N, and the constant term beside 1/N [and 1/N²] of the difference."""
    fit = with_least_freedom(fit_inverse_powers(N, scaled, stderr, n, (0, 1)), n - 1.0)
    low, high = fit.interval(CONFIDENCE)
    found = {
        "constant": float(fit.estimate[0]), "constant_stderr": float(fit.stderr[0]),
        "constant_lo": float(low[0]), "constant_hi": float(high[0]),
        "constant_next": float(fit.estimate[1]), "fit_p": fit.p_value,
    }  # fmt: skip
    if len(N) >= 3:
        powers = (0, 1, 2) if len(N) >= 4 else (0, 1)
        free = with_least_freedom(fit_inverse_powers(N, scaled / N, stderr / N, n, powers), n - 1.0)
        remainder, error, freedom = (float(x[0]) for x in (free.estimate, free.stderr, free.freedom))
        found |= {
            "remainder": remainder, "remainder_stderr": error,
            "remainder_half": error * float(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2)),
            "remainder_p": float(two_sided(remainder / error, freedom)),
        }  # fmt: skip
    return found


def _exponent(N: Floats, gap: Floats, stderr: Floats, n: Floats) -> _Row:
    """Exponent of a N^p (1 + b/N) and its interval, where the norm is seen at every N."""
    found = dict.fromkeys(("exponent", "exponent_lo", "exponent_hi"), math.nan)
    if len(N) >= 3 and (stderr > 0.0).all() and (gap >= SEEN * stderr).all():
        leading = fit_leading_power(N, gap, stderr, n)
        low, high = leading.interval(CONFIDENCE)
        ends = {"exponent_lo": float(low[0]), "exponent_hi": float(high[0])}
        found = {"exponent": float(leading.estimate[0])} | ends
    return found


def _exact(place: xr.Dataset) -> Floats:
    """Exact limits, NaN where none is known."""
    d, lam, G = (place[axis].item() for axis in ROW)
    levels = place.level.values.tolist()
    known = exact_constants(d, lam, G, levels[-1], network_of(place))
    return np.array([known.get(name, math.nan) for name in [*(f"bias_S{k}" for k in levels), "bias_X"]])


def _is_proved(place: xr.Dataset) -> bool:
    """Whether stationary networks are known to converge: Poisson arrivals, one choice or decreasing hazard.

    With one choice E S_ℓ^(N)/N = S_ℓ at every N; the theorem for d choices is that of M. Bramson, Y. Lu and
    B. Prabhakar (2012).
    """
    network = network_of(place)
    if network is None or not network.poisson:
        return False
    usual = network.fraction == 1.0 and has_decreasing_hazard(str(place.G.item()))
    return network.one_choice(int(place.d)) or usual


def _verdict(proved: bool, row: _Row) -> str:
    """Say what is known of this network, whether the runs were in equilibrium, and what is seen."""
    if row["busy_p"] < SIGNIFICANT:
        return f"not in equilibrium: S_1 is off λ (p = {row['busy_p']:.2g}): lengthen the warm-up"
    parts = ["convergence is proved" if proved else "convergence is a conjecture"]
    if math.isnan(row["limit_p"]):
        parts.append("fewer than three N tell no remainder at N = ∞")
    elif row["limit_p"] < SIGNIFICANT:
        worst = int(np.nanargmin(row["remainder_p"][:-1]))
        size, error = row["remainder"][worst], row["remainder_stderr"][worst]
        parts.append(f"a level is off its limit at N = ∞, by {size:.2g} ± {error:.1g}".replace("-", "−"))
    else:
        most = largest_remainder(row["remainder"][:-1], row["remainder_half"][:-1])
        parts.append(f"no difference at N = ∞ beyond {most:.2g} at any level")
    if math.isfinite(row["exponent"]):
        interval = f"{row['exponent_lo']:.2f} … {row['exponent_hi']:.2f}"
        parts.append(f"bias ~ N^{row['exponent']:.2f} ({interval})".replace("-", "−"))
    if row["start_p"] < SIGNIFICANT:
        parts.append("starts from empty still differ")
    return "; ".join(parts)


def _nothing(n: NDArray[np.int64], enough: int) -> str:
    """Say why no constant is fitted, and the cure, from the replicas of every N that has any."""
    if n.size < 2:
        return f"nothing to fit: {FEW_SIZES}: {cure_of_few(n.size, enough)}"
    if n.min() < enough:
        few = "1 replica at an N is" if n.min() == 1 else f"{n.min()} replicas at an N are"
        return f"nothing to fit: {few} too few: {cure_of_few(n.size, enough)}"
    return "nothing to fit: replicas that do not differ tell no error"


def largest_remainder(remainder: Floats, half: Floats) -> float:
    """Return how large a difference at N = ∞ the 95 % intervals of the levels leave open, one at a time.

    Parameters
    ----------
    remainder, half
        Differences and half-widths of their intervals, shape (level,); NaN where there is none.

    Examples
    --------
    >>> largest_remainder(np.array([-0.01, math.nan]), np.array([0.02, math.nan]))
    0.03
    """
    return float(np.nanmax(np.abs(remainder) + half))
