"""Product weights of a service law on a uniform grid of ages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.laws import Law

Floats = NDArray[np.float64]
#: Below this share of unity a mean of Ḡ no longer counts: no f exceeds λ, and ages are at most a few thousand cells.
_NEGLIGIBLE = 1e-22


@dataclass(frozen=True)
class Weights:
    """Means and values of Ḡ on the age cells [k h, (k+1) h], k = 0 … count.

    `mean` holds (1/h) ∫ Ḡ over a cell, `fall` its decrease to the next cell, `after` and `before` hold Ḡ at the
    nodes k h from the right and from the left; from cell `alive` on, the means are 0.
    """

    mean: Floats
    fall: Floats
    after: Floats
    before: Floats
    alive: int

    @property
    def jumps(self) -> tuple[int, ...]:
        """Nodes at which Ḡ jumps: the atoms of the law that lie on the grid."""
        return tuple(int(k) for k in np.flatnonzero(self.before > self.after))


def age_weights(law: Law, step: float, count: int) -> Weights:
    """Return the weights of `count` + 1 age cells of width `step`.

    The mean of Ḡ over a cell is exact for any law, with singular densities, breakpoints inside the cell and atoms:
    it is a difference of ∫_0^a Ḡ up to the median of ∫Ḡ and of ∫_a^∞ Ḡ beyond, where the former nears 1.
    """
    nodes = snapped(np.arange(count + 2) * step, law.breakpoints, step)
    integral = law.integral(nodes)
    tail = law.integrated_tail(nodes)
    mean = np.where(integral[1:] <= 0.5, integral[1:] - integral[:-1], tail[:-1] - tail[1:]) / step
    # Rounding of the differences must not make completions negative: Ḡ decreases from 1 to 0.
    mean = np.minimum.accumulate(np.clip(mean, 0.0, 1.0))
    mean[mean < _NEGLIGIBLE] = 0.0
    fall = np.append(mean[:-1] - mean[1:], mean[-1])
    alive = int(np.count_nonzero(mean))
    after, before = law.survival(nodes), law.survival_left(nodes)
    return Weights(mean, fall, after, before, alive)


def snapped(nodes: Floats, marks: tuple[float, ...], step: float) -> Floats:
    """Return `nodes` with those within rounding of a mark moved onto it, so that an atom falls on its node."""
    for mark in marks:
        nearest = round(mark / step)
        if nearest < nodes.size and abs(nodes[nearest] - mark) <= 1e-9 * step:
            nodes[nearest] = mark
    return nodes
