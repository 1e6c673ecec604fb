"""Single queues in heavy traffic: the law of their paths against both invariance principles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.heavy_traffic_data import Cell, Floats, Starts, load_tree, starts_of, time_index, walk

if TYPE_CHECKING:
    import xarray as xr

    from analysis.heavy_traffic_data import Source

#: E sup |B| of a Brownian bridge: √n times the mean Kolmogorov distance of n draws from a continuous law.
_BRIDGE = 0.8687
#: Accuracy asked of the limit law of one queue.
_TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True)
class QueueLaw:
    """The law of a queue's Q/√m at one time, over replicas, beside its limit.

    `position` is where the queue started, NaN for one drawn from the law of X_0, whose limit is the
    McKean–Vlasov SDE. `distance` is sup_x |P̂(X_t > x) − P(X_t > x)| over the stored x; n draws of the limit
    itself would be about `noise` away.
    """

    b1: float
    b0: float
    ell: int
    G: str
    m: int
    N: int
    t: float
    position: float
    distance: float
    noise: float
    n: int

    @property
    def start(self) -> str:
        """Where the queue started, in words."""
        return "drawn" if math.isnan(self.position) else f"{self.position:g}"


@dataclass(frozen=True, kw_only=True)
class TwoTimes:
    """P(X_s > x, X_t > y) of one queue, at the limit's medians x and y.

    `share` is that seen, with its standard error over replicas on `freedom` degrees of freedom, `limit` that
    of the McKean–Vlasov process, `forgetful` what independence of X_s and X_t would give.
    """

    b1: float
    b0: float
    ell: int
    G: str
    m: int
    N: int
    s: float
    t: float
    x: float
    y: float
    share: float
    stderr: float
    freedom: float
    limit: float
    forgetful: float
    n: int

    @property
    def z(self) -> float:
        """Deviation from the limit in standard errors."""
        return (self.share - self.limit) / self.stderr if self.stderr > 0.0 else math.nan


def queue_laws(tree: Source, t: float | None = None) -> list[QueueLaw]:
    """Compare the law of tagged queues with the limit law of one queue.

    Parameters
    ----------
    tree
        What `sweep.load` returns for a sweep of the study heavy-traffic, or the path of its store.
    t
        Scaled time, the last stored by default.

    Returns
    -------
    list of QueueLaw
        From exchangeable starts one for each cell, all tagged queues and replicas together: the first
        invariance principle of R. Atar and G. Wolansky. From given starts one for each tagged queue, against
        the law of dX = (b1 + b0 ell v(X, t)^{ell−1}) dt + σ dW + dL from where that queue started, with v of
        the PDE: the second.

    Raises
    ------
    ValueError, TypeError
        As `load_tree`; no tagged queues stored.
    """
    data = load_tree(tree)
    network, starts = _tagged(data), starts_of(data)
    index, x = time_index(network.t.values, t), network.x.values
    time = float(network.t.values[index])
    rows = []
    for cell in walk(network["tagged"].isel(t=index)):
        for position, queues in _queues(cell, starts):
            sample = queues.ravel()
            limit = _limit_tail(data, cell, starts, time, index, position, x)
            seen = np.array([float(np.mean(sample > at)) for at in x])
            rows.append(
                QueueLaw(
                    **cell.labels,
                    t=time,
                    position=position,
                    distance=float(np.max(np.abs(seen - limit))),
                    noise=_BRIDGE / math.sqrt(sample.size),
                    n=sample.size,
                )
            )
    return rows


def two_times(tree: Source, s: float | None = None, t: float | None = None) -> list[TwoTimes]:
    """Compare the joint law of a tagged queue at two times with that of the McKean–Vlasov process.

    Parameters
    ----------
    tree
        As for `queue_laws`; its queues must have started alike.
    s, t
        Scaled times 0 < s < t; by default t is the last stored, and s the one nearest to ¾ t.

    Raises
    ------
    ValueError, TypeError
        As `queue_laws`; starts that differ; times that are not two positive stored ones.
    """
    from sweep.diffusion.tagged import joint_tail

    data = load_tree(tree)
    network, starts = _tagged(data), starts_of(data)
    if not starts.symmetric:
        raise ValueError("tree must have exchangeable starts for the joint law at two times, got given ones")
    times = network.t.values
    j = time_index(times, t)
    i = int(np.argmin(np.abs(times[: max(j, 1)] - 0.75 * times[j]))) if s is None else time_index(times, s)
    if not 0.0 < times[i] < times[j]:
        raise ValueError(f"s and t must increase from above 0, got {times[i]:g} and {times[j]:g}")

    @cache
    def limit(row: tuple[float, float, int, str]) -> tuple[float, float, float]:
        v = _diffusion(data, row)["v"].values
        x, y = (_median(network.x.values, v[k]) for k in (i, j))
        joint = joint_tail(
            **_model(row),
            times=[times[i], times[j]],
            x=x,
            y=[y],
            initial=starts.initial,
            tolerance=_TOLERANCE,
        )
        return x, y, float(joint.v[0, 0])

    return [
        _two_times(cell, float(times[i]), float(times[j]), *limit(cell.row))
        for cell in walk(network["tagged"].isel(t=[i, j]))
        if len(cell.values) >= 2
    ]


def _two_times(cell: Cell, s: float, t: float, x: float, y: float, limit: float) -> TwoTimes:
    before, after = cell.values[:, 0] > x, cell.values[:, 1] > y
    # Queues of one replica depend on each other a little: errors are those of replicas.
    shares = np.mean(before & after, axis=1)
    return TwoTimes(
        **cell.labels,
        s=s,
        t=t,
        x=x,
        y=y,
        share=float(np.mean(shares)),
        stderr=float(np.std(shares, ddof=1)) / math.sqrt(len(shares)),
        freedom=len(shares) - 1.0,
        limit=limit,
        forgetful=float(np.mean(before)) * float(np.mean(after)),
        n=before.size,
    )


def _tagged(tree: xr.DataTree) -> xr.Dataset:
    network = tree["network"].to_dataset()
    if "tagged" not in network:
        raise ValueError('tree must hold tagged queues, got none: set tagged, or leave out keep = "errors"')
    return network


def _queues(cell: Cell, starts: Starts) -> Iterator[tuple[float, Floats]]:
    """Yield positions at the start, NaN for drawn ones, and lengths, shape (replica, queue)."""
    from sweep.diffusion.start import as_start

    if starts.symmetric:
        yield math.nan, cell.values
        return
    law = as_start(starts.initial, model=_diffusion_model(cell.row))
    given = len(starts.fixed)
    for server in range(cell.values.shape[1]):
        if server < given:
            yield starts.fixed[server], cell.values[:, server]
        elif not starts.exchangeable:
            yield law.quantile((server + 0.5) / cell.N), cell.values[:, server]
    if starts.exchangeable and given < cell.values.shape[1]:
        yield math.nan, cell.values[:, given:]


def _limit_tail(
    tree: xr.DataTree, cell: Cell, starts: Starts, t: float, index: int, position: float, x: Floats
) -> Floats:
    from sweep.diffusion.tagged import tagged_tail

    if math.isnan(position):
        return np.asarray(_diffusion(tree, cell.row)["v"].values[index])
    row = tagged_tail(
        **_model(cell.row), times=[t], position=position, x=x, initial=starts.initial, tolerance=_TOLERANCE
    )
    return np.asarray(row.v[0])


def _diffusion(tree: xr.DataTree, row: tuple[float, float, int, str]) -> xr.Dataset:
    return tree["diffusion"].to_dataset().sel(dict(zip(("b1", "b0", "ell", "G"), row, strict=True)))


def _model(row: tuple[float, float, int, str]) -> dict[str, Any]:
    from sweep.diffusion.model import sigma2_of

    b1, b0, ell, G = row
    return {"b1": b1, "b0": b0, "ell": ell, "sigma2": sigma2_of(G)}


def _diffusion_model(row: tuple[float, float, int, str]) -> Any:
    from sweep.diffusion.model import Diffusion

    return Diffusion(**_model(row))


def _median(x: Floats, v: Floats) -> float:
    """Return the stored position where v is closest to ½."""
    return float(x[int(np.argmin(np.abs(v - 0.5)))])
