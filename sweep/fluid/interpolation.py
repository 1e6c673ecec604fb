"""Values between nodes: Lagrange stencils that do not reach across a kink of the solution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.fluid.mesh import Mesh

Floats = NDArray[np.float64]
#: Distance from a node, in steps, below which a time is that node.
_ON_NODE = 1e-7


@dataclass(frozen=True)
class Stencil:
    """Nodes and Lagrange weights of one time; the node `end`, if among them, counts by its left limit."""

    nodes: tuple[int, ...]
    weights: tuple[float, ...]
    end: int = -1

    def apply(self, values: Floats, before: Mapping[int, Floats]) -> Floats:
        """Return Σ weight · value, with the left limit (from `before`) at the end of the smooth piece."""
        total = np.zeros(values.shape[1:])
        for node, weight in zip(self.nodes, self.weights, strict=True):
            value = before[node] if node == self.end and node in before else values[node]
            total += weight * value
        return total


def stencil(time: float, mesh: Mesh, halvings: int, points: int) -> Stencil:
    """Return the stencil of the nodes nearest to `time` in its smooth piece, of one node if it is a node.

    Parameters
    ----------
    time
        In [0, mesh.horizon].
    mesh, halvings
        The grid whose nodes are used; kinks part it into pieces.
    points
        Nodes wanted; short pieces have fewer. The error is O(step^points).
    """
    parts = 2**halvings
    position = mesh.position(time) * parts
    nearest = round(position)
    if abs(position - nearest) <= _ON_NODE:
        return Stencil((nearest,), (1.0,))
    count = mesh.count * parts
    left, right = 0.0, float(count)
    for kink in mesh.kinks:
        if kink <= time:
            left = mesh.position(kink) * parts
        else:
            right = min(right, mesh.position(kink) * parts)
            break
    lowest, highest = math.ceil(left - _ON_NODE), math.floor(right + _ON_NODE)
    if highest - lowest < 1:
        lowest, highest = 0, count
    points = min(points, highest - lowest + 1)
    start = min(max(math.floor(position) - (points - 1) // 2, lowest), highest - points + 1)
    nodes = tuple(range(start, start + points))
    end = highest if abs(right - highest) <= _ON_NODE else -1
    return Stencil(nodes, _lagrange(position - start, points), end)


def _lagrange(x: float, points: int) -> tuple[float, ...]:
    """Weights of nodes 0 … points − 1 at x."""
    weights = []
    for i in range(points):
        weight = 1.0
        for j in range(points):
            if j != i:
                weight *= (x - j) / (i - j)
        weights.append(weight)
    return tuple(weights)
