"""Distances between finite measures on the line, and between states of the network and its limit."""

from sweep.distances.cdfs import kolmogorov, sup_distance, wasserstein
from sweep.distances.measures import Atoms, Measure, PiecewiseLinear
from sweep.distances.prohorov import (
    grid_error,
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
    "grid_error",
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
