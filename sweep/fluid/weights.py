"""Product weights: means of the survival function Ḡ over the ages of a birth cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.fluid.mesh import Mesh
from sweep.laws import Law

Floats = NDArray[np.float64]
#: A mean of Ḡ below this no longer counts: f is of the order of λ at most.
_NEGLIGIBLE = 1e-22
#: Graded cells narrower than this share of their age, and than this width, are weighed by Gauss's two points,
#: with an error below 1e-11: differences of ∫Ḡ would lose digits, and Ḡ costs less. Laws that call for a
#: graded layer are smooth but at age 0.
_NARROW, _NARROWEST = 3e-3, 0.02
_GAUSS = 0.5 / 3.0**0.5
#: Nodes whose graded cells are weighed at a time.
_BLOCK = 256


@dataclass(frozen=True)
class Weights:
    """Weights of one law on one time grid: means of Ḡ over the ages that births in a cell have at a node.

    For cells of equal width it depends on distance alone: at node n, cell j has even[even.size − n + j].
    Cells of a graded layer have rows of a table, layer[n, j]. Only the `alive` latest cells have weights
    above 0. `after` and `before` are Ḡ at t_k − t_0 from the right and from the left.
    """

    even: Floats
    layer: Floats
    alive: int
    after: Floats
    before: Floats

    @property
    def jumps(self) -> tuple[int, ...]:
        """Nodes at which Ḡ jumps: the atoms of the law that lie on the grid."""
        return tuple(int(k) for k in np.flatnonzero(self.before > self.after))

    def at_node(self, node: int) -> Floats:
        """Return the weights of birth cells 0 … node − 1 at a node."""
        graded = min(node, self.layer.shape[1])
        start = self.even.size - node
        return np.append(self.layer[node, :graded], self.even[start + graded : start + node])


def product_weights(law: Law, mesh: Mesh, halvings: int) -> Weights:
    """Return the weights of `law` on the grid `mesh` with its steps halved `halvings` times.

    The means are exact for any law, with singular densities, breakpoints inside a cell, or atoms:
    differences of ∫_0^a Ḡ, and of ∫_a^∞ Ḡ where the former nears its limit 1.
    """
    nodes = mesh.nodes(halvings)
    graded = mesh.layer * 2**halvings
    step = mesh.step / 2**halvings
    ages = _snapped(np.arange(nodes.size + 1) * step, law.breakpoints, step)
    integral = law.integral(ages)
    median = float(ages[int(np.searchsorted(integral, 0.5))]) if integral[-1] > 0.5 else np.inf
    below, above = _primitives(law, ages, median)
    # Rounding of the differences must not make completions negative: Ḡ decreases from 1 to 0.
    means = np.minimum.accumulate(_differences(below, above) / step)
    means[means < _NEGLIGIBLE] = 0.0
    alive = nodes.size if graded else int(np.count_nonzero(means))
    layer = np.zeros((nodes.size, graded))
    for start in range(1, nodes.size if graded else 1, _BLOCK):
        rows = slice(start, min(start + _BLOCK, nodes.size))
        layer[rows] = _layer_means(law, nodes[rows], nodes[: graded + 1], median)
    born = nodes[:, None] >= nodes[1 : graded + 1]
    layer = np.where(born, np.minimum.accumulate(np.where(born, layer, 1.0), axis=0), 0.0)
    if not graded:
        nodes = ages[:-1]
    return Weights(means[::-1].copy(), layer, alive, law.survival(nodes), law.survival_left(nodes))


def _primitives(law: Law, ages: Floats, median: float) -> tuple[Floats, Floats]:
    """∫_0^a Ḡ where a ≤ median and −∫_a^∞ Ḡ beyond, each with the other's values 1 away."""
    below, above = np.empty_like(ages), np.empty_like(ages)
    young = ages <= median
    below[young] = law.integral(ages[young])
    above[~young] = -law.integrated_tail(ages[~young])
    above[young] = below[young] - 1.0
    below[~young] = above[~young] + 1.0
    return below, above


def _differences(below: Floats, above: Floats) -> Floats:
    """Return ∫ Ḡ between neighbouring ages along the last axis, by whichever primitive is the smaller."""
    by_below, by_above = below[..., 1:] - below[..., :-1], above[..., 1:] - above[..., :-1]
    differences = np.where(below[..., 1:] <= -above[..., :-1], by_below, by_above)
    return np.maximum(differences, 0.0)


def _layer_means(law: Law, times: Floats, edges: Floats, median: float) -> Floats:
    """Weights of the graded cells between `edges` at some nodes, shape (node, cell); 0 where not yet born."""
    ages = np.maximum(times[:, None] - edges, 0.0)
    widths = edges[1:] - edges[:-1]
    born = times[:, None] >= edges[1:]
    means = np.zeros(born.shape)
    narrow = born & (widths < _NARROW * ages[:, :-1]) & (widths < _NARROWEST)
    middle = 0.5 * (ages[:, :-1][narrow] + ages[:, 1:][narrow])
    offset = _GAUSS * np.broadcast_to(widths, born.shape)[narrow]
    means[narrow] = 0.5 * (law.survival(middle - offset) + law.survival(middle + offset))
    wide = born & ~narrow
    needed = np.zeros(ages.shape, dtype=bool)
    needed[:, :-1] |= wide
    needed[:, 1:] |= wide
    below, above = np.zeros(ages.shape), np.zeros(ages.shape)
    below[needed], above[needed] = _primitives(law, ages[needed], median)
    differences = _differences(below[:, ::-1], above[:, ::-1])[:, ::-1]
    means[wide] = np.minimum((differences / widths)[wide], 1.0)
    return means


def _snapped(nodes: Floats, marks: tuple[float, ...], step: float) -> Floats:
    """Move nodes that are within rounding of a mark onto it, so that an atom falls on its node."""
    for mark in marks:
        nearest = round(mark / step)
        if nearest < nodes.size and abs(nodes[nearest] - mark) <= 1e-9 * step:
            nodes[nearest] = mark
    return nodes
