"""Convergence to the heavy-traffic limit: distances against m and N, and means extrapolated in m^{−1/2}."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.heavy_traffic_data import Cell, cells_of, load_tree, time_index
from analysis.large_n import with_least_freedom
from analysis.least_squares import fit_linear
from analysis.regression import Point, fit_power_law, summarise

if TYPE_CHECKING:
    import xarray as xr

    from analysis.heavy_traffic_data import Source

#: Distances of a replica from the limit.
DISTANCES = ("W1", "KS", "d_P")
#: How parts of a distance may add up -> power in which they do.
RULES = {"sum": 1, "squares": 2}
#: Rounds of reweighting by the fitted distance, of which each gains about two digits.
_ROUNDS = 8


@dataclass(frozen=True, kw_only=True)
class Power:
    """A fitted exponent with its standard error, and how many scales or sizes it is from; 0 for none."""

    exponent: float = math.nan
    stderr: float = math.nan
    points: int = 0


@dataclass(frozen=True, kw_only=True)
class Joint:
    """Distance ≈ a m^{−1/2} + b N^{−1/2} ("sum"), or the root of a²/m + b²/N ("squares").

    `misfit` is the root mean square of relative residuals: each cell counts alike, as the formula is no
    theorem. Errors are those of the replicas alone.
    """

    rule: str
    a: float
    a_stderr: float
    b: float
    b_stderr: float
    misfit: float
    points: int


@dataclass(frozen=True, kw_only=True)
class DistanceFit:
    """How a distance of one (b1, b0, ell, G) falls: in m at the largest N, in N at the largest m, jointly."""

    b1: float
    b0: float
    ell: int
    G: str
    in_m: Power
    in_N: Power
    largest_N: int
    largest_m: int
    joint: tuple[Joint, ...]

    @property
    def squares(self) -> Joint | None:
        """The joint fit by squares, None without scales and sizes enough."""
        return next((one for one in self.joint if one.rule == "squares"), None)


@dataclass(frozen=True, kw_only=True)
class MeanFit:
    """Mean of X = Q/√m extrapolated to m = ∞ at one N, beside the limit at that time and in equilibrium.

    `slope` is the coefficient of m^{−1/2}; `p_value` that of the lack of fit, NaN without a scale to spare;
    `freedom` are the degrees of freedom of the standard error, the fewest of a scale.
    """

    b1: float
    b0: float
    ell: int
    G: str
    N: int
    value: float
    stderr: float
    freedom: float
    slope: float
    p_value: float
    scales: tuple[int, ...]
    limit: float
    stationary: float

    @property
    def z(self) -> float:
        """Deviation from the limit in standard errors."""
        return (self.value - self.limit) / self.stderr if self.stderr > 0.0 else math.nan


def fit_distance(tree: Source, quantity: str = "W1", t: float | None = None) -> list[DistanceFit]:
    """Fit how a distance from the limit falls with m and with N, separately and jointly.

    Parameters
    ----------
    tree
        What `sweep.load` returns for a sweep of the study heavy-traffic, or the path of its store.
    quantity
        "W1", "KS" or "d_P".
    t
        Scaled time, the last stored by default.

    Returns
    -------
    list of DistanceFit
        One for each (b1, b0, ell, G) with a cell of two replicas or more. Exponents are fitted to means over
        replicas (`analysis.regression.fit_power_law`), the joint formulas by weighted least squares.

    Raises
    ------
    ValueError, TypeError
        As `load_tree` and `cells_of`; no cell with two replicas.

    Notes
    -----
    At fixed m the distance tends to that of the network at that m as N → ∞, which falls like m^{−1/2}: the
    exponent in N is −1/2 only as far as N is small beside m.
    """
    data = load_tree(tree)
    groups: dict[tuple[float, float, int, str], list[Cell]] = {}
    for cell in cells_of(data, quantity, t):
        if len(cell.values) >= 2 and np.ptp(cell.values) > 0.0:
            groups.setdefault(cell.row, []).append(cell)
    if not groups:
        raise ValueError(f"{quantity} must have a cell with 2 replicas that differ, got none")
    return [_fit_row(cells) for cells in groups.values()]


def _fit_row(cells: Sequence[Cell]) -> DistanceFit:
    N, m = max(cell.N for cell in cells), max(cell.m for cell in cells)
    in_m = [summarise(cell.m, cell.values, "mean") for cell in cells if cell.N == N]
    in_N = [summarise(cell.N, cell.values, "mean") for cell in cells if cell.m == m]
    b1, b0, ell, G = cells[0].row
    joint = tuple(fit_joint(cells, rule) for rule in RULES) if _spans_both(cells) else ()
    return DistanceFit(
        b1=b1,
        b0=b0,
        ell=ell,
        G=G,
        in_m=_power(in_m),
        in_N=_power(in_N),
        largest_N=N,
        largest_m=m,
        joint=joint,
    )


def _spans_both(cells: Sequence[Cell]) -> bool:
    return len({cell.N for cell in cells}) > 1 and len({cell.m for cell in cells}) > 1 and len(cells) > 2


def _power(points: Sequence[Point]) -> Power:
    if len(points) < 2:
        return Power(points=len(points))
    law = fit_power_law(points, "mean")
    return Power(exponent=law.exponent, stderr=law.exponent_stderr, points=len(points))


def fit_joint(cells: Sequence[Cell], rule: str) -> Joint:
    """Fit distance^p = (a m^{−1/2})^p + (b N^{−1/2})^p, p = 1 for "sum" and 2 for "squares".

    Parameters
    ----------
    cells
        Three or more, of two scales and two sizes at least, each with two replicas or more.
    rule
        A key of `RULES`.

    Raises
    ------
    ValueError
        Another rule.

    Examples
    --------
    >>> cells = [Cell(b1=-1, b0=0, ell=2, G="exponential", m=m, N=N,
    ...               values=math.sqrt(4 / m + 9 / N) * np.array([0.999, 1.001]))
    ...          for m in (25, 100) for N in (100, 10_000)]
    >>> joint = fit_joint(cells, "squares")
    >>> round(joint.a, 3), round(joint.b, 3)
    (2.0, 3.0)
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    p = RULES[rule]
    powers = [cell.values**p for cell in cells]
    seen = np.array([float(np.mean(power)) for power in powers])
    variance = np.array([float(np.var(power, ddof=1)) / len(power) for power in powers])
    design = np.array([[cell.m ** (-p / 2), cell.N ** (-p / 2)] for cell in cells])
    curve = seen
    for _ in range(_ROUNDS):
        scaled = design / curve[:, None]
        solve = np.linalg.pinv(scaled)
        estimate = solve @ (seen / curve)
        fitted = design @ estimate
        curve = np.where(fitted > 0.1 * seen, fitted, seen)
    covariance = solve @ np.diag(variance / curve**2) @ solve.T
    a, b = (math.pow(max(value, 0.0), 1 / p) for value in estimate)
    # d(c^{1/p}) = c^{1/p − 1}/p dc
    a_stderr, b_stderr = (
        math.sqrt(covariance[k, k]) / (p * value ** (p - 1)) if value > 0.0 else math.nan
        for k, value in enumerate((a, b))
    )
    residual = np.power(np.maximum(fitted, 0.0) / seen, 1 / p) - 1.0
    misfit = math.sqrt(float(np.mean(residual**2)))
    return Joint(rule=rule, a=a, a_stderr=a_stderr, b=b, b_stderr=b_stderr, misfit=misfit, points=len(cells))


def extrapolate_mean(tree: Source, t: float | None = None) -> list[MeanFit]:
    """Extrapolate the mean scaled queue length to m = ∞, by regression on powers of m^{−1/2}.

    Parameters
    ----------
    tree, t
        As for `fit_distance`. At a late time the limit's mean is that of equilibrium.

    Returns
    -------
    list of MeanFit
        One for each (b1, b0, ell, G) and N with two scales or more: a line in m^{−1/2} for two scales, a
        parabola for three or more. Standard errors are those of the replicas; a bias of order m^{−1} or
        m^{−3/2}, and one of order 1/N, remain.

    Raises
    ------
    ValueError, TypeError
        As `load_tree` and `cells_of`; no N with two scales of two replicas each.
    """
    data = load_tree(tree)
    groups: dict[tuple[tuple[float, float, int, str], int], list[Cell]] = {}
    for cell in cells_of(data, "X", t):
        if len(cell.values) >= 2 and np.ptp(cell.values) > 0.0:
            groups.setdefault((cell.row, cell.N), []).append(cell)
    fits = [_fit_mean(data, cells, t) for cells in groups.values() if len(cells) >= 2]
    if not fits:
        raise ValueError("X must have 2 replicas at each of 2 scales m for some N, got none: add values of m")
    return fits


def _fit_mean(tree: xr.DataTree, cells: Sequence[Cell], t: float | None) -> MeanFit:
    scales = np.array([float(cell.m) for cell in cells])
    degree = min(2, len(cells) - 1)
    freedom = np.array([len(cell.values) - 1.0 for cell in cells])
    fit = fit_linear(
        np.column_stack([scales ** (-k / 2) for k in range(degree + 1)]),
        np.array([float(np.mean(cell.values)) for cell in cells]),
        np.array([float(np.var(cell.values, ddof=1)) / len(cell.values) for cell in cells]),
        freedom,
        pooled=False,
    )
    fit = with_least_freedom(fit, freedom)
    b1, b0, ell, G = cells[0].row
    diffusion = tree["diffusion"].to_dataset().sel(b1=b1, b0=b0, ell=ell, G=G)
    limit = diffusion["mean"].isel(t=time_index(diffusion.t.values, t))
    return MeanFit(
        b1=b1,
        b0=b0,
        ell=ell,
        G=G,
        N=cells[0].N,
        value=float(fit.estimate[0]),
        stderr=float(fit.stderr[0]),
        freedom=float(fit.freedom[0]),
        slope=float(fit.estimate[1]),
        p_value=fit.p_value,
        scales=tuple(cell.m for cell in cells),
        limit=float(limit),
        stationary=float(diffusion["mean_stationary"]),
    )
