"""What a sweep of heavy traffic stored: replicas by cell, times, and how its queues started."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from analysis.quantities import opened
from analysis.stores import run_of

if TYPE_CHECKING:
    import xarray as xr

    Source: TypeAlias = xr.DataTree | str | os.PathLike[str]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Replicas of one network: its limit's parameters, scale and size, and values, shape (replica, …)."""

    b1: float
    b0: float
    ell: int
    G: str
    m: int
    N: int
    values: Floats

    @property
    def row(self) -> tuple[float, float, int, str]:
        """Parameters of the limit."""
        return self.b1, self.b0, self.ell, self.G

    @property
    def labels(self) -> dict[str, Any]:
        """Where the cell is on the grid, by axis."""
        return {name: getattr(self, name) for name in ("b1", "b0", "ell", "G", "m", "N")}


@dataclass(frozen=True, kw_only=True)
class Starts:
    """How queues started: the law of X_0, whether independently from it, and given positions of the first.

    Otherwise queue i of N started at the quantile of order (i + ½)/N.
    """

    initial: str = "empty"
    exchangeable: bool = True
    fixed: tuple[float, ...] = ()

    @property
    def symmetric(self) -> bool:
        """Whether all queues have one law, and any two of them one joint law."""
        return not self.fixed and (self.exchangeable or self.initial == "empty")


def load_tree(tree: Source) -> xr.DataTree:
    """Return the results of a store, checked to be of the study heavy-traffic.

    Raises
    ------
    ValueError
        Results without the groups network and diffusion, or of another study.
    TypeError
        Neither results nor a path.
    """
    import xarray as xr

    source = opened(tree)
    if not isinstance(source, xr.DataTree):
        raise TypeError(f"tree must be a DataTree or the path of a store, got {type(source).__name__}")
    for group, axis in (("network", "m"), ("diffusion", "b1")):
        if group not in source.children or axis not in source[group].dims:
            raise ValueError(
                f'tree must be of the study "heavy-traffic", with the group {group} over {axis}, '
                f"got the groups {', '.join(source.children) or 'none'}"
            )
    return source


def cells_of(tree: xr.DataTree, quantity: str, t: float | None = None) -> list[Cell]:
    """Return the cells with at least one replica of `quantity` at time `t`, the last stored by default.

    Raises
    ------
    ValueError
        An unknown quantity, or a time that is not stored.
    """
    network = tree["network"].to_dataset()
    known = [str(name) for name, values in network.data_vars.items() if values.dims[-1:] == ("t",)]
    if quantity not in known:
        raise ValueError(f"quantity must be one of {', '.join(known) or '(none stored)'}, got {quantity!r}")
    values = network[quantity].isel(t=time_index(network.t.values, t))
    return list(walk(values))


def walk(values: xr.DataArray) -> Iterator[Cell]:
    """Yield the replicas that are there at each place of the grid, G slowest, N fastest.

    What axes `values` has beyond the grid's and replica stay behind the replicas.
    """
    axes = ("G", "b1", "b0", "ell", "m", "N")
    ordered = values.transpose(*axes, "replica", ...)
    coordinates = [ordered[axis].values.tolist() for axis in axes]
    for place in itertools.product(*(range(len(column)) for column in coordinates)):
        block = np.asarray(ordered.values[place], dtype=np.float64)
        present = block[~np.isnan(block.reshape(len(block), -1)).any(axis=1)]
        if len(present):
            G, b1, b0, ell, m, N = (column[i] for column, i in zip(coordinates, place, strict=True))
            yield Cell(b1=b1, b0=b0, ell=int(ell), G=str(G), m=int(m), N=int(N), values=present)


def time_index(times: Floats, t: float | None) -> int:
    """Return where `t` is among the stored times, the last of them for None.

    Raises
    ------
    ValueError
        It is not.
    """
    if t is None:
        return len(times) - 1
    near = np.flatnonzero(np.abs(times - t) <= 1e-9 * max(1.0, abs(t)))
    if near.size == 0:
        raise ValueError(f"t must be one of the stored times {times.tolist()}, got {t:g}")
    return int(near[0])


def starts_of(tree: xr.DataTree) -> Starts:
    """Return how queues started, from the spec that the results carry; empty where there is none."""
    run = run_of(tree) or {}
    return Starts(
        initial=run.get("initial", "empty"),
        exchangeable=run.get("exchangeable", True),
        fixed=tuple(float(x) for x in run.get("fixed", ())),
    )
