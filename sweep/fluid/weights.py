"""Product weights: means of the survival function Ḡ over the ages of a birth cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.fluid.mesh import Mesh
from sweep.laws import Law

Floats = NDArray[np.float64]
#: A mean of Ḡ below this no longer counts: f is at most of the order of λ, and ages are some thousands of cells.
_NEGLIGIBLE = 1e-22
#: Cells narrower than this share of their age take Ḡ at their middle: differences of ∫Ḡ would lose its digits.
_NARROW = 1e-5


@dataclass(frozen=True)
class Weights:
    """Weights of one law on one time grid.

    `means` holds the mean of Ḡ over the ages that births in a cell have at a node. On a uniform grid, where it
    depends on their distance alone, it has one row, shape (1, step + 1), such that cell j has the weight
    means[0, count − n + 1 + j] at node n; on a graded grid it has shape (node, step). `after` and `before` are Ḡ at
    t_k − t_0 from the right and from the left, shape (node + 1,). Only the `alive` latest cells have weights > 0.
    """

    means: Floats
    alive: int
    after: Floats
    before: Floats

    @property
    def jumps(self) -> tuple[int, ...]:
        """Nodes at which Ḡ jumps: the atoms of the law that lie on the grid."""
        return tuple(int(k) for k in np.flatnonzero(self.before > self.after))

    def at_node(self, node: int) -> Floats:
        """Return the weights of birth cells 0 … node − 1 at a node."""
        if self.means.shape[0] > 1:
            return self.means[node, :node]
        start = self.means.shape[1] - node
        return self.means[0, start : start + node]


def product_weights(law: Law, mesh: Mesh, halvings: int) -> Weights:
    """Return the weights of `law` on the grid `mesh` with its steps halved `halvings` times.

    The means are exact for any law, with singular densities, breakpoints inside a cell, or atoms: differences of
    ∫_0^a Ḡ, and of ∫_a^∞ Ḡ where the former nears its limit 1.
    """
    nodes = mesh.nodes(halvings)
    if mesh.layer:
        means = _graded_means(law, nodes, mesh.layer * 2**halvings)
        return Weights(means, nodes.size - 1, law.survival(nodes), law.survival_left(nodes))
    step = float(nodes[1])
    ages = _snapped(np.append(nodes, nodes[-1] + step), law.breakpoints, step)
    # Rounding of the differences must not make completions negative: Ḡ decreases from 1 to 0.
    means = np.minimum.accumulate(_means(law, ages[:-1], ages[1:], step))
    means[means < _NEGLIGIBLE] = 0.0
    alive = int(np.count_nonzero(means))
    return Weights(means[::-1][None, :].copy(), alive, law.survival(ages), law.survival_left(ages))


def _means(law: Law, low: Floats, high: Floats, width: Floats | float) -> Floats:
    """Mean of Ḡ on each [low, high], whose width is given to its full precision."""
    lower, upper = law.integral(low), law.integral(high)
    means = np.where(upper <= 0.5, upper - lower, law.integrated_tail(low) - law.integrated_tail(high)) / width
    return np.clip(means, 0.0, 1.0)


def _graded_means(law: Law, nodes: Floats, layer: int) -> Floats:
    """Means on a grid whose first `layer` cells are graded and whose others are all alike."""
    count = nodes.size - 1
    means = np.zeros((count + 1, count))
    alike = count - layer
    step = (nodes[-1] - nodes[layer]) / alike
    ages = np.arange(alike + 1) * step
    uniform = _means(law, ages[:-1], ages[1:], step)
    widths = nodes[1:] - nodes[:-1]
    for node in range(1, count + 1):
        born = min(node, layer)
        low, high = nodes[node] - nodes[1 : born + 1], nodes[node] - nodes[:born]
        narrow = widths[:born] < _NARROW * high
        row = np.empty(born)
        row[narrow] = law.survival(0.5 * (low[narrow] + high[narrow]))
        wide = ~narrow
        row[wide] = _means(law, low[wide], high[wide], widths[:born][wide])
        older = min(born, node - 1)
        row[:older] = np.minimum(row[:older], means[node - 1, :older])
        means[node, :born] = row
        if node > layer:
            means[node, layer:node] = uniform[: node - layer][::-1]
    return means


def _snapped(nodes: Floats, marks: tuple[float, ...], step: float) -> Floats:
    """Return `nodes` with those within rounding of a mark moved onto it, so that an atom falls on its node."""
    for mark in marks:
        nearest = round(mark / step)
        if nearest < nodes.size and abs(nodes[nearest] - mark) <= 1e-9 * step:
            nodes[nearest] = mark
    return nodes
