"""The scaled statistics of equilibrium runs: their names, their estimates at one N, their exact limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from analysis.least_squares import Floats
from analysis.mean_field import mean_field_constants
from analysis.moments import LEAST_REPLICAS, ROUNDING, Estimate, controlled_mean, stationary_variance
from analysis.stores import run_of

if TYPE_CHECKING:
    import xarray as xr

#: Variables of the group equilibrium that are needed.
NEEDED = ("X_batch", "S_batch", "X_end", "S_end")


@dataclass(frozen=True, kw_only=True)
class Network:
    """What of a network is no axis of its results: how it samples and how it is fed.

    Examples
    --------
    >>> Network(replacement=False).sampling
    'without'
    """

    replacement: bool = True
    fraction: float = 1.0
    arrivals: str = "exponential"
    routing: str = "sampled"

    @property
    def sampling(self) -> str:
        """With or without replacement, in a word."""
        return "with" if self.replacement else "without"

    @property
    def poisson(self) -> bool:
        """Whether arrivals are Poisson and sample queues."""
        return (self.arrivals, self.routing) == ("exponential", "sampled")

    def one_choice(self, d: int) -> bool:
        """Whether every arrival joins one uniform queue."""
        return d == 1 or self.fraction == 0.0


def network_of(tree: xr.DataTree | xr.Dataset) -> Network | None:
    """Read the network of a store from the spec kept with its results; None if they have none."""
    run = run_of(tree)
    if run is None:
        return None
    return Network(**{field.name: run[field.name] for field in fields(Network) if field.name in run})


def constant_names(levels: int) -> list[str]:
    """Name the constants that ℓ = 1 … `levels` give; S_1 has no bias.

    Examples
    --------
    >>> constant_names(2)
    ['bias_X', 'bias_S2', 'variance_X', 'sd_S1', 'sd_S2']
    """
    biases = [f"bias_S{level}" for level in range(2, levels + 1)]
    return ["bias_X", *biases, "variance_X", *(f"sd_S{level}" for level in range(1, levels + 1))]


def exact_constants(d: int, lam: float, G: str, levels: int, network: Network | None) -> dict[str, float]:
    """Return the exact limits that are known for Poisson arrivals, by the constants' names.

    With one choice queues are M/G/1 without a bias at any N, for any service law, and for exponential service
    independent with S_ℓ = λ^ℓ. With more choices and exponential service the limits are those of
    `analysis.mean_field.mean_field_constants`, unless it would need too many levels.

    Parameters
    ----------
    d, lam, G
        Queues sampled, arrivals per server and mean service time, service law.
    levels
        Largest ℓ.
    network
        How it is fed and how it samples; nothing is known where that is None.

    Examples
    --------
    >>> round(exact_constants(2, 0.9, "exponential", 2, Network())["bias_X"], 4)
    3.9864
    >>> exact_constants(1, 0.9, "lomax(beta=2.5)", 1, Network())
    {'bias_S1': 0.0, 'bias_X': 0.0}
    """
    if network is None or not network.poisson:
        return {}
    tail = range(1, levels + 1)
    if network.one_choice(d):
        found = {f"bias_S{level}": 0.0 for level in tail}
        if has_variance(G):  # or the mean queue is infinite
            found["bias_X"] = 0.0
        if G == "exponential":
            found["variance_X"] = lam / (1 - lam) ** 2
            found |= {f"sd_S{level}": math.sqrt(lam**level * (1 - lam**level)) for level in tail}
        return found
    if G != "exponential":
        return {}
    try:
        exact = mean_field_constants(d=d, lam=lam, replacement=network.replacement, fraction=network.fraction)
    except ValueError:  # more levels than its dense equations hold
        return {}
    found = {"bias_X": exact.mean_queue_bias, "variance_X": exact.mean_queue_variance}
    for level in tail:
        inside = level <= exact.S.size
        found[f"bias_S{level}"] = float(exact.bias[level - 1]) if inside else 0.0
        found[f"sd_S{level}"] = float(exact.sd[level - 1]) if inside else 0.0
    return found


def has_variance(G: str) -> bool:
    """Whether a law is known to have a second moment; that of a trace whose file is elsewhere is not.

    Examples
    --------
    >>> [has_variance(G) for G in ("lomax(beta=2.5)", "lomax(beta=1.5)", "trace(nowhere.txt)")]
    [True, False, False]
    """
    from sweep.laws import parse_law

    try:
        return math.isfinite(parse_law(G).variance)
    except ValueError:
        return False


def measured_constants(cell: xr.Dataset, limit: xr.Dataset) -> dict[str, Estimate]:
    """Estimate N · bias and N · variance at one place of the grid; what shows no spread is left out.

    Where the mean queue of the limit is infinite X has neither. The bias of a level is left out where most
    replicas never reach it: errors of so skewed numbers tell nothing.

    Parameters
    ----------
    cell
        `NEEDED` over (replica, batch[, level]) and the scalar coordinates N and lam.
    limit
        `S` (level) and `mean_queue` of the invariant state.

    Returns
    -------
    dict
        By the constants' names; a "sd_…" holds the estimate of N · variance.
    """
    N, lam = float(cell.coords["N"]), float(cell.coords["lam"])
    X, S, X_end, S_end = (_present(cell[name]) for name in NEEDED)
    found: dict[str, Estimate] = {}
    if min(len(values) for values in (X, S, X_end, S_end)) < LEAST_REPLICAS:
        return found
    levels, means = S.shape[2], np.mean(S, axis=1)
    control = means[:, 0] - lam  # E S_1 = λ in equilibrium, for any service and any N
    if math.isfinite(mean := float(limit["mean_queue"])):
        found["bias_X"] = controlled_mean(N * (np.mean(X, axis=1) - mean), control)
        found["variance_X"] = _scaled(stationary_variance(X_end), N)
    for level in range(2, levels + 1):
        reached = means[:, level - 1]
        if np.count_nonzero(reached) >= max(LEAST_REPLICAS, len(reached) / 2):
            found[f"bias_S{level}"] = controlled_mean(N * (reached - _share(limit, level)), control)
    for level in range(1, levels + 1):
        found[f"sd_S{level}"] = _scaled(stationary_variance(S_end[:, :, level - 1]), N)
    # Rounding alone is no error.
    return {
        name: one
        for name, one in found.items()
        if math.isfinite(one.value) and one.variance > (ROUNDING * one.value) ** 2
    }


def _present(values: xr.DataArray) -> Floats:
    """Shape (replica, batch[, level]) of the replicas that are there."""
    dims = ("replica", "batch", *(["level"] if "level" in values.dims else []))
    block = values.transpose(*dims).values.astype(np.float64)
    kept: Floats = block[~np.isnan(block).any(axis=tuple(range(1, block.ndim)))]
    return kept


def _share(limit: xr.Dataset, level: int) -> float:
    """S_ℓ of the limit, 0 at levels that it does not reach."""
    known = limit["S"].sel(level=level) if level in limit.coords["level"].values else np.nan
    return float(np.nan_to_num(known))


def _scaled(estimate: Estimate, N: float) -> Estimate:
    return replace(estimate, value=N * estimate.value, variance=N**2 * estimate.variance)
