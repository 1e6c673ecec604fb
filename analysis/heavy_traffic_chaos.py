"""Propagation of chaos in heavy traffic: the covariance of two queues, and how it falls with N."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.heavy_traffic_data import Cell, Floats, load_tree, starts_of, time_index, walk

if TYPE_CHECKING:
    from analysis.heavy_traffic_data import Source

#: Share of the second moment that the levels not stored may hold.
_BEYOND = 1e-3
#: Replicas below which their errors are far too small for a skewed estimate.
_LEAST_REPLICAS = 8


@dataclass(frozen=True, kw_only=True)
class PairCovariance:
    """Covariance of the scaled lengths of two queues at one time, by exchangeability from all of them.

    `covariance` is unbiased; `scaled` is N times it, which tends to a constant if chaos propagates at the
    rate 1/N; `correlation` is relative to the variance of one queue, NaN if that is 0; `freedom` are the
    degrees of freedom of the standard error.
    """

    b1: float
    b0: float
    ell: int
    G: str
    m: int
    N: int
    t: float
    covariance: float
    stderr: float
    freedom: float
    correlation: float
    n: int

    @property
    def scaled(self) -> float:
        """N times the covariance."""
        return self.N * self.covariance


def pair_covariances(tree: Source, t: float | None = None) -> list[PairCovariance]:
    """Estimate the covariance of two queues, without tagging any.

    With X̄ the mean of Q/√m over N queues and Q² = Σ_ℓ (2ℓ − 1) S_ℓ that of Q²,
    E X_1 X_2 = (N E X̄² − E Q²/m)/(N − 1) by exchangeability.

    Parameters
    ----------
    tree
        As for `queue_laws`; its queues must have started alike.
    t
        Scaled time, the last stored by default.

    Returns
    -------
    list of PairCovariance
        One for each cell with 8 replicas or more, N ≥ 2, and all levels of note stored; `pairs_left_out`
        tells of the others. Standard errors by the jackknife over replicas.

    Raises
    ------
    ValueError, TypeError
        As `load_tree`; starts that differ; S not stored, or too few replicas or levels of it everywhere.
    """
    data = load_tree(tree)
    if not starts_of(data).symmetric:
        raise ValueError("tree must have exchangeable starts for the covariance of pairs, got given ones")
    network = data["network"].to_dataset()
    if "S" not in network:
        raise ValueError('tree must hold S for the covariance of pairs, got none: leave out keep = "errors"')
    index = time_index(network.t.values, t)
    levels = network.level.values.astype(np.float64)
    stacked = network["S"].isel(t=index)
    most = max((len(cell.values) for cell in walk(stacked)), default=0)
    if most < _LEAST_REPLICAS:
        raise ValueError(
            f"tree must hold {_LEAST_REPLICAS} replicas or more for the covariance of pairs, got {most}"
        )
    X = {(cell.row, cell.m, cell.N): cell.values for cell in walk(network["X"].isel(t=index))}
    rows = []
    for cell in walk(stacked):
        if not _lacking(cell, levels):
            means, squares = X[cell.row, cell.m, cell.N], _squares(cell, levels)
            rows.append(_covariance(cell, means, squares / cell.m, float(network.t.values[index])))
    if not rows:
        raise ValueError(
            f"levels must hold nearly all queues for the covariance of pairs, got {int(levels[-1])}: "
            f"{_enough_levels(levels, walk(stacked))}"
        )
    return rows


def pairs_left_out(tree: Source, t: float | None = None) -> str:
    """Say how many cells `pair_covariances` leaves out, and what would let them in; nothing if all are there.

    Parameters
    ----------
    tree, t
        As for `pair_covariances`, which must not raise.
    """
    network = load_tree(tree)["network"].to_dataset()
    cells = list(walk(network["S"].isel(t=time_index(network.t.values, t))))
    levels = network.level.values.astype(np.float64)
    lacks = [_lacking(cell, levels) for cell in cells]
    shallow = [cell for cell, lack in zip(cells, lacks, strict=True) if lack == "levels"]
    cures = {
        "levels": _enough_levels(levels, shallow),
        "replicas": f"give each {_LEAST_REPLICAS} replicas or more",
        "servers": "a pair takes N of 2 or more",
    }
    told = [cure for lack, cure in cures.items() if lack in lacks]
    many = len(cells) - lacks.count("")
    count = f"{many} of {len(cells)} cells {'is' if many == 1 else 'are'} left out"
    return f"{count}: {'; '.join(told)}" if told else ""


def _lacking(cell: Cell, levels: Floats) -> str:
    """Name what a cell has too few of for an estimate; nothing if it has enough."""
    if len(cell.values) < _LEAST_REPLICAS:
        return "replicas"
    if cell.N < 2:
        return "servers"
    last = float(np.mean(cell.values[:, -1])) * (2.0 * levels[-1] + 1.0) * math.sqrt(cell.m)
    return "levels" if last > _BEYOND * float(np.mean(_squares(cell, levels))) else ""


def _squares(cell: Cell, levels: Floats) -> Floats:
    """Mean of Q² over the queues of each replica, shape (replica,)."""
    return np.asarray(cell.values @ (2.0 * levels - 1.0))


def _enough_levels(levels: Floats, cells: Iterable[Cell]) -> str:
    """Say how many levels would do for cells that have too few: 8√m, or twice as many as did not."""
    m = max((cell.m for cell in cells), default=1)
    about = math.ceil(8.0 * math.sqrt(m))
    if about > levels.size:
        return f"store about 8√m levels, {about} for m = {m}"
    return f"store more than 8√m levels, about {2 * levels.size} for m = {m}"


def _covariance(cell: Cell, means: Floats, squares: Floats, t: float) -> PairCovariance:
    N, n = cell.N, len(means)

    def covariance(kept: list[int]) -> tuple[float, float]:
        mean, product = np.mean(means[kept]), np.mean(N * means[kept] ** 2 - squares[kept]) / (N - 1)
        # mean² exceeds the square of the expectation by its own variance.
        own = np.var(means[kept], ddof=1) / len(kept) if len(kept) > 1 else 0.0
        return float(product - mean**2 + own), float(np.mean(squares[kept]) - mean**2)

    everyone = list(range(n))
    value, variance = covariance(everyone)
    left_out = np.array([covariance(everyone[:k] + everyone[k + 1 :])[0] for k in range(n)])
    stderr = math.sqrt((n - 1) / n * float(np.sum((left_out - np.mean(left_out)) ** 2)))
    correlation = value / variance if variance > 0.0 else math.nan  # queues that are all alike, as at t = 0
    return PairCovariance(
        **cell.labels, t=t, covariance=value, stderr=stderr, freedom=n - 1.0, correlation=correlation, n=n
    )
