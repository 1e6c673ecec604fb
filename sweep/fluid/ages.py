"""The age distribution ν_ℓ[0, a] of jobs in service, from the birth cells of one node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweep.fluid.path import Path
from sweep.fluid.start import Start
from sweep.laws import Law

Floats = NDArray[np.float64]
#: Relative distance of an age from a node below which it is one.
_SAME = 1e-9


def age_distribution(law: Law, path: Path, node: int, ages: Floats, start: Start) -> Floats:
    """Return ν_ℓ[0, a] at a node whose `path.ages` are kept, for each age, shape (level, age).

    Whole cells count with their product weights. In the cell that holds a, f is taken linear with a limited
    slope from the neighbouring cells, so that the error is O(step²) at ages that are differences of nodes,
    and regular in the step, with O(step³) added at others.
    """
    held = path.ages[node]
    births = held.cells[:, ::-1]  # by age, youngest first
    edges = (path.nodes[node] - path.nodes[: node + 1])[::-1]
    means = path.weights.at_node(node)[::-1]
    cumulative = np.zeros((births.shape[0], node + 1))
    for k in range(node):
        cumulative[:, k + 1] = cumulative[:, k] + births[:, k] * means[k]
    result = np.zeros((births.shape[0], ages.size))
    for index, age in enumerate(ages.tolist()):
        cell = int(np.searchsorted(edges, age * (1.0 + _SAME), side="right")) - 1
        result[:, index] = cumulative[:, cell]
        if cell < node and age > edges[cell] * (1.0 + _SAME):
            result[:, index] += _within_cell(law, births, edges, cell, age)
        for i in range(held.atoms.shape[1]):
            born = node - int(held.born[i])
            if path.nodes[born] <= age * (1.0 + _SAME):
                result[:, index] += held.atoms[:, i] * path.weights.after[born]
    _add_older(held.parts, start, float(path.nodes[node]), ages, result)
    return result


def _add_older(parts: Floats, start: Start, time: float, ages: Floats, result: Floats) -> None:
    """Add jobs that were in service at time 0, whose ages are above `time`."""
    many = parts.shape[1]
    older = np.flatnonzero(ages > time)
    if many and older.size:
        left = start.younger(many, time, ages[older] - time)
        for m in range(many):
            result[:, older] += parts[:, m, None] * left[m]


def _within_cell(law: Law, births: Floats, edges: Floats, cell: int, age: float) -> Floats:
    """Mass of ages from the lower edge of a cell to `age`, f being linear with the smaller of two slopes."""
    width = edges[1:] - edges[:-1]
    share = float(law.integral(age) - law.integral(edges[cell])) / width[cell]
    own = births[:, cell]
    younger, older = max(cell - 1, 0), min(cell + 1, width.size - 1)
    f, f_younger, f_older = (
        own / width[cell],
        births[:, younger] / width[younger],
        births[:, older] / width[older],
    )
    # Of the youngest and of the oldest cell one side is missing.
    down = 2.0 * (f - f_younger) / (width[cell] + width[younger]) if cell > younger else None
    up = 2.0 * (f_older - f) / (width[cell] + width[older]) if cell < older else None
    slope = _smaller(down, up) if down is not None and up is not None else down if up is None else up
    if slope is None:
        return np.asarray(own * share)
    # ∫ slope (a' − middle) da' from the lower edge, with Ḡ at its mean there.
    return np.asarray(own * share + 0.5 * slope * width[cell] * share * (age - edges[cell + 1]))


def _smaller(down: Floats, up: Floats) -> Floats:
    """Return the smaller of two slopes of one sign, 0 of two: f may jump where the births do."""
    return np.asarray(np.where(down * up > 0.0, np.where(np.abs(down) < np.abs(up), down, up), 0.0))
