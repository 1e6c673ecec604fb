"""The solution at one resolution: the marching scheme applied to one law, one start and one step."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sweep.arrivals import Profile
from sweep.cell import Limit
from sweep.fluid.kernels import march
from sweep.fluid.mesh import Mesh
from sweep.fluid.past import Past
from sweep.fluid.start import Start, start_of
from sweep.fluid.weights import Weights, product_weights

Floats = NDArray[np.float64]
#: Steps from which on the past is carried in blocks, and merged.
_LONG = 1024


@dataclass(frozen=True)
class Ages:
    """Jobs in service at one node: ∫ f_ℓ over births in each step (`cells`) and at one moment (`atoms`).

    `parts` says what became of those already in service at time 0, as in `kernels.march`.
    """

    node: int
    cells: Floats
    atoms: Floats
    born: NDArray[np.int64]
    parts: Floats


@dataclass
class Path:
    """Values at all nodes, right limits at jumps, whose left limits are in `S_before`, `D_before`."""

    nodes: Floats
    weights: Weights
    S: Floats
    D: Floats
    overflow: Floats
    S_before: dict[int, Floats] = field(default_factory=dict)
    D_before: dict[int, Floats] = field(default_factory=dict)
    ages: dict[int, Ages] = field(default_factory=dict)
    #: Birth cells, or what they were merged into, that a step deals with at most; error per birth of that.
    columns: int = 0
    merging: float = 0.0


def trace(
    limit: Limit,
    mesh: Mesh,
    halvings: int,
    levels: int,
    keep: Collection[int] = (),
    start: Start | None = None,
) -> Path:
    """Solve the hydrodynamic equations on one grid, to second order in its steps.

    Parameters
    ----------
    limit
        Parameters of the limit.
    mesh, halvings
        The base grid, and how often its steps are halved.
    levels
        Internal levels; arrivals that would pass the last are refused and counted.
    keep
        Nodes at which the jobs in service are kept by age.
    start
        The initial state, if it has been found already.
    """
    start = start or start_of(limit)
    nodes = mesh.nodes(halvings)
    count = nodes.size - 1
    weights = product_weights(limit.G, mesh, halvings)
    fresh, remaining = start.fresh(levels), start.remaining(levels, nodes)
    path = Path(
        nodes, weights, np.zeros((count + 1, levels)), np.zeros((count + 1, levels)), np.zeros(count + 1)
    )
    parts = np.eye(levels, remaining.shape[1])
    path.S[0] = fresh
    path.S[0, : parts.shape[1]] += remaining[0]
    _advance(limit, mesh, mesh.step / 2**halvings, path, start, parts, remaining, keep)
    return path


def _advance(
    limit: Limit,
    mesh: Mesh,
    step: float,
    path: Path,
    start: Start,
    parts: Floats,
    remaining: Floats,
    keep: Collection[int],
) -> None:
    """Fill a path from its row of time 0, in stretches between jumps, blocks and nodes to keep."""
    nodes, weights, levels, count = path.nodes, path.weights, path.S.shape[1], path.nodes.size - 1
    tables = (weights.even, weights.layer, weights.alive, weights.after, weights.before)
    half = 0.5 * np.diff(limit.mean_arrivals(nodes))
    if not mesh.layer and not isinstance(limit.arrivals, Profile):
        half[:] = 0.5 * limit.lam * nodes[1]  # equal to the last bit
    entering = start.entering(levels) * (nodes[1:] - nodes[:-1])
    fresh = start.fresh(levels)
    jumping = bool(weights.jumps) and fresh[0] > 0.0
    jumps = jump_nodes(weights.jumps, count) if jumping else set()
    cells = np.zeros((levels, count))
    atoms = np.zeros((levels, 1 + (len(jumps | {*keep}) if jumping else 0)))
    born = np.zeros(atoms.shape[1], dtype=np.int64)
    atoms[:, 0] = fresh
    used = int(fresh[0] > 0.0)
    work = np.zeros((4, levels))
    past = Past(limit.G, weights, step, cells, parts, remaining, merges=count >= _LONG and not keep)
    blocks = past.blocks() if count >= _LONG else range(0)
    origin, node, left = 0, 0, remaining
    for stop in sorted({*keep, *jumps, *blocks, count}):
        march(node, stop, origin, half, entering, limit.d, limit.fraction, tables, cells, atoms, born, used,
              parts, left, path.S, path.D, path.overflow, work)  # fmt: skip
        node = stop
        if jumping and node > 0:
            used = _jump(path, node, atoms, born, used)
        if node in keep:
            held, first = past.cells_at(node, parts, origin)
            path.ages[node] = Ages(node, held, atoms[:, :used].copy(), born[:used].copy(), first)
        if node in blocks:
            left = past.advance(node, parts, origin)
            parts, origin = np.eye(levels), node
    path.columns = past.columns if blocks else min(weights.alive, count)
    path.merging = past.bound * float(limit.mean_arrivals(nodes[-1:])[0])


def jump_nodes(offsets: Collection[int], count: int) -> set[int]:
    """Return the nodes in (0, count] that are sums of `offsets`: where masses leave at one moment."""
    found: set[int] = set()
    latest = {0}
    while latest:
        latest = {node + offset for node in latest for offset in offsets if node + offset <= count} - found
        found |= latest
    return found


def _jump(path: Path, node: int, atoms: Floats, born: NDArray[np.int64], used: int) -> int:
    """Complete the services that end here by an atom of the law; return the number of atoms in use."""
    ages = node - born[:used]
    mass = path.weights.before[ages] - path.weights.after[ages]
    if not np.any(mass > 0.0):
        return used
    path.S_before[node], path.D_before[node] = path.S[node].copy(), path.D[node].copy()
    done = np.zeros(atoms.shape[0])
    for i in range(used):
        done += atoms[:, i] * mass[i]
    births = np.append(done[1:], 0.0)
    path.D[node] += done
    path.S[node] += births - done
    atoms[:, used] = births
    born[used] = node
    return used + 1
