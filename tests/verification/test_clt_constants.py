"""Simulated networks in equilibrium have the exact central limit constants, however queues are sampled."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import sweep
from analysis.constants import Network
from analysis.fluctuations import clt_constants
from analysis.mean_field import mean_field_constants

SIZES, REPLICAS = (32, 64, 128), 32
# Batches of 15, a few relaxation times (2.3 at d = 2, λ = .5), each seen ten times for its averages.
WARM_UP, BATCH, BATCHES, SEEN, LEVELS = 45.0, 15.0, 500, 10, 3
CASES = [(2, 0.5, True), (2, 0.5, False), (3, 0.7, False)]


def equilibrium(d: int, lam: float, replacement: bool) -> xr.DataTree:
    """Batches of simulated networks, averages taken over equally spaced times, beside the invariant state."""
    steps = np.arange(BATCHES * SEEN + 1) * (BATCH / SEEN)
    found: dict[str, list[list[NDArray[np.float64]]]] = {
        name: [] for name in ("X_batch", "S_batch", "X_end", "S_end")
    }
    for N in SIZES:
        rows: dict[str, list[NDArray[np.float64]]] = {name: [] for name in found}
        for replica in range(REPLICAS):
            path = sweep.simulate(
                N=N, d=d, lam=lam, G="exponential", times=WARM_UP + steps, seed=20190614, replica=replica,
                levels=LEVELS, replacement=replacement,
            ).isel(t=slice(1, None))  # fmt: skip
            X = path.X.values.reshape(BATCHES, SEEN)
            S = path.S.values.reshape(BATCHES, SEEN, LEVELS)
            rows["X_batch"].append(X.mean(axis=1))
            rows["S_batch"].append(S.mean(axis=1))
            rows["X_end"].append(X[:, -1])
            rows["S_end"].append(S[:, -1])
        for name, values in rows.items():
            found[name].append(values)
    row = {"d": [d], "lam": [lam], "G": ["exponential"]}
    axes = ("N", *row, "replica", "batch")
    variables = {
        name: ((*axes, "level") if name[0] == "S" else axes, np.array(values)[:, None, None, None])
        for name, values in found.items()
    }
    level = np.arange(1, LEVELS + 1)
    state = sweep.invariant_state(d=d, lam=lam, G="exponential", levels=LEVELS)
    limit = state[["S", "mean_queue"]].expand_dims(row)
    return xr.DataTree.from_dict(
        {"equilibrium": xr.Dataset(variables, {"N": list(SIZES), **row, "level": level}), "invariant": limit}
    )


@pytest.mark.parametrize(("d", "lam", "replacement"), CASES)
def test_simulated_constants_are_the_exact_ones(d: int, lam: float, replacement: bool) -> None:
    fits = clt_constants(equilibrium(d, lam, replacement), Network(replacement=replacement)).isel(
        d=0, lam=0, G=0
    )
    fits = fits.set_index(constant="constant")
    assert (fits.n > 0).all()
    # t with some 60 degrees of freedom exceeds 4 with probability 2e-4.
    assert (abs(fits.z) <= 4).all()
    assert (fits.value_stderr / fits.value).sel(constant=["variance_X", "sd_S1", "sd_S2"]).max() < 0.06
    # Twins: the other convention of sampling, and the variance at an arrival rate that is 5 % larger.
    other = mean_field_constants(d=d, lam=lam, replacement=not replacement)
    bias, variance = fits.sel(constant="bias_X"), fits.sel(constant="variance_X")
    assert abs(bias.value - other.mean_queue_bias) > 4 * bias.value_stderr
    busier = mean_field_constants(d=d, lam=1.05 * lam)
    assert abs(variance.value - busier.mean_queue_variance) > 4 * variance.value_stderr
