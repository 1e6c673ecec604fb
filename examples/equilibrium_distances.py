"""How distances fall with N in equilibrium, on N servers drawn independently from the invariant state.

With ages of tail exponent β, d_P and d_𝕊 fall like N^{−(β−1)/(2β−1)}: for lomax(beta=1.5) like N^{−1/4}.
The norm V of residual lives falls like N^{−1/2}.

Run: python examples/equilibrium_distances.py [--figure FILE]
"""

from __future__ import annotations

import argparse

import numpy as np
import xarray as xr
from rich.console import Console

from analysis import fit_rate
from analysis.__main__ import table
from analysis.figures import rate_figure, save
from analysis.rates import rate_table
from sweep.cell import Limit
from sweep.distances import Atoms, PiecewiseLinear, level_distances, residual_norm
from sweep.fluid.invariant import solve_invariant
from sweep.fluid.state import InvariantState
from sweep.schema import dataset
from sweep.seeds import Purpose, stream

LAWS = ("exponential", "lomax(beta=1.5)")
SERVERS = (100, 1000, 10_000, 100_000, 1_000_000)
REPLICAS, LEVELS, SEED = 16, 6, 20190614
D, LAM = 2, 0.9
#: Ages between which the invariant cdf is taken as linear; the share beyond the last is below 1e-7.
AGES = np.concatenate([[0.0], np.geomspace(1e-4, 1e14, 6000), [np.inf]])


def distances(
    state: InvariantState, measures: list[PiecewiseLinear], N: int, replica: int
) -> tuple[float, float]:
    """Return d_𝕊 and V_1 between N servers drawn from the invariant state and the state itself."""
    rng = stream(SEED, state.limit.key, replica, Purpose.INITIAL)
    ages, lengths = state.draw(rng, N)
    empirical = [Atoms(ages[lengths >= level], 1.0 / N) for level in range(1, LEVELS + 1)]
    d_P = level_distances(empirical, measures)
    d_S = float(np.max(d_P / np.arange(1, LEVELS + 1)))
    return d_S, residual_norm(state.limit.G, empirical[0], measures[0]).value


def measured() -> xr.Dataset:
    """Return d_S and V (of level 1) of every replica, labelled as a sweep labels them."""
    shape = (len(SERVERS), 1, 1, len(LAWS), REPLICAS)
    d_S, V = np.empty(shape), np.empty(shape)
    for i, law in enumerate(LAWS):
        state = solve_invariant(Limit(d=D, lam=LAM, G=law), LEVELS)
        cdfs = np.maximum.accumulate(state.age_cdfs(AGES), axis=1)
        measures = [PiecewiseLinear(AGES, S * cdf) for S, cdf in zip(state.S, cdfs, strict=True)]
        for j, N in enumerate(SERVERS):
            for replica in range(REPLICAS):
                d_S[j, 0, 0, i, replica], V[j, 0, 0, i, replica] = distances(state, measures, N, replica)
    coordinates = {
        "N": np.array(SERVERS), "d": np.array([D]), "lam": np.array([LAM]), "G": np.array(LAWS),
        "replica": np.arange(REPLICAS), "snapshot": np.array([0.0]), "level": np.array([1]),
    }  # fmt: skip
    leading = ("N", "d", "lam", "G", "replica")
    arrays = {"d_S": d_S[..., None], "V": V[..., None, None]}
    return dataset("network", arrays, coordinates, leading).isel(snapshot=0, level=0)


def main() -> None:
    """Print the fitted rates, and draw d_𝕊 on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", metavar="FILE", help="also draw the picture of d_S")
    options = parser.parse_args()
    data, console = measured(), Console(highlight=False)
    for quantity in ("d_S", "V"):
        console.print(table(list(rate_table(fit_rate(data, quantity))), quantity, "mean"))
    if options.figure:
        console.print(f"figure: {save(rate_figure(data, 'd_S'), options.figure)}", soft_wrap=True)


if __name__ == "__main__":
    main()
