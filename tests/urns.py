"""Pólya urns: exchangeable queues whose joint law is known exactly, in the shape of a store."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GRID = ("N", "d", "lam", "G")
#: P(length = 0), …, P(length = 3) of the urns below.
LENGTHS = (0.3, 0.4, 0.2, 0.1)
TAILS = np.array([0.7, 0.3, 0.1])
SERVERS = (30, 60, 120, 240, 480, 960)


def urn(N: int, dependence_: float, n: int, rng: np.random.Generator) -> Floats:
    """S_ℓ/N of n Pólya urns, shape (n, 3): queues are independent given a Dirichlet law with parameters α·p,
    α + 1 = 1/dependence_, so that the covariance of {X¹ ≥ ℓ} and {X² ≥ m} is dependence_ · (S_max − S_ℓ S_m).
    """
    alpha = (1.0 / dependence_ - 1.0) * np.array(LENGTHS)
    counts = rng.multinomial(N, rng.dirichlet(alpha, size=n))
    return np.asarray(counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:] / N)


def tree(samples: list[Floats], servers: tuple[int, ...] = SERVERS) -> xr.DataTree:
    """Label shares (replica, level), N by N, as the network group of a store with one stored time."""
    most = max(map(len, samples))
    S = np.full((len(servers), 1, 1, 1, most, 1, samples[0].shape[1]), math.nan)
    for row, one in zip(S, samples, strict=True):
        row[0, 0, 0, : len(one), 0] = one
    coords = {
        "N": list(servers), "d": [2], "lam": [0.9], "G": ["exponential"], "replica": range(most),
        "t": [2.0], "level": range(1, S.shape[-1] + 1),
    }  # fmt: skip
    data = xr.Dataset({"S": ((*GRID, "replica", "t", "level"), S)}, coords=coords)
    return xr.DataTree.from_dict({"network": data})


def urns(
    law: Callable[[int], float], n: int, seed: int = 5, servers: tuple[int, ...] = SERVERS
) -> xr.DataTree:
    rng = np.random.default_rng(seed)
    return tree([urn(N, law(N), n, rng) for N in servers], servers)


def few() -> xr.DataTree:
    return urns(inverse, 50)


def inverse(N: int) -> float:
    return 0.5 / N
