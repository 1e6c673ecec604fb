"""Distances between finite measures on the line: Prohorov, d_𝕊, residual-life norm, Kolmogorov, Wasserstein, sup."""

from sweep.distances.cdfs import kolmogorov, sup_distance, wasserstein
from sweep.distances.measures import Atoms, Measure, PiecewiseLinear
from sweep.distances.prohorov import (
    level_distances,
    prohorov,
    prohorov_between,
    prohorov_to_cdf,
    state_distance,
)
from sweep.distances.residual import ResidualNorm, residual_norm

__all__ = [
    "Atoms",
    "Measure",
    "PiecewiseLinear",
    "ResidualNorm",
    "kolmogorov",
    "level_distances",
    "prohorov",
    "prohorov_between",
    "prohorov_to_cdf",
    "residual_norm",
    "state_distance",
    "sup_distance",
    "wasserstein",
]
