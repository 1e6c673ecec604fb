"""Tails of known regime: invariant states, exact ones, and samples of queues drawn from them."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from analysis.tails import TailFit, classify_tail, tail_table
from sweep.cell import Limit
from sweep.fluid.invariant import solve_invariant
from sweep.laws import as_law

LAM = 0.7
Floats = NDArray[np.float64]
#: (d, law, fraction, levels, regime by theory).
STATES = (
    (2, "lomax(beta=1.5)", 1.0, 400, "power"),
    (2, "lomax(beta=1.75)", 1.0, 400, "power"),
    (2, "lomax(beta=1.95)", 1.0, 200, "power"),
    (2, "lomax(beta=2.0)", 1.0, 60, "geometric"),
    (2, "pareto(beta=2.0)", 1.0, 40, "geometric"),
    (2, "lomax(beta=2.05)", 1.0, 60, "double_exponential"),
    (2, "lomax(beta=2.5)", 1.0, 18, "double_exponential"),
    (2, "lomax(beta=3.5)", 1.0, 11, "double_exponential"),
    (2, "exponential", 1.0, 12, "double_exponential"),
    (2, "deterministic", 1.0, 12, "double_exponential"),
    (2, "weibull(shape=0.5)", 1.0, 16, "double_exponential"),
    (2, "lognormal(sigma=1.5)", 1.0, 22, "double_exponential"),
    (2, "exponential", 0.5, 40, "geometric"),
    (2, "deterministic", 0.5, 30, "geometric"),
    (2, "lomax(beta=1.5)", 0.5, 400, "power"),
    (2, "lomax(beta=2.5)", 0.5, 400, "power"),
    (2, "lognormal(sigma=1.5)", 0.5, 100, "between"),
    (2, "weibull(shape=0.5)", 0.5, 100, "between"),
    (1, "exponential", 1.0, 40, "geometric"),
    (3, "lomax(beta=1.25)", 1.0, 400, "power"),
    (3, "lomax(beta=1.5)", 1.0, 40, "geometric"),
    (3, "lomax(beta=1.75)", 1.0, 11, "double_exponential"),
    (3, "exponential", 1.0, 10, "double_exponential"),
)
_solved: dict[tuple[int, str, float, int, float], Floats] = {}


def log_tail(d: int, law: str, fraction: float, levels: int, lam: float = LAM) -> Floats:
    """log S_ℓ of an invariant state, solved once."""
    key = d, law, fraction, levels, lam
    if key not in _solved:
        limit = Limit(d=d, lam=lam, G=as_law(law), fraction=fraction)
        _solved[key] = solve_invariant(limit, levels).log_S
    return _solved[key]


def fit_of(log_S: Floats, **parameters: object) -> TailFit:
    """Classify one tail."""
    (fit,) = tail_table(classify_tail(log_S, **parameters))  # type: ignore[arg-type]
    return fit


def exponential_tail(levels: int) -> Floats:
    """log S_ℓ = (2^ℓ − 1) log λ, exact for exponential service and d = 2."""
    return np.asarray(math.log(LAM) * (2.0 ** np.arange(1, levels + 1) - 1.0), dtype=np.float64)


def replicas_of(log_S: Floats, N: int, count: int, seed: int = 20130614) -> xr.Dataset:
    """Tails of `count` samples of N independent queues each."""
    S = np.array([1.0, *np.exp(log_S), 0.0])
    lengths = np.random.default_rng(seed).multinomial(N, -np.diff(S) / S[0], size=count)
    tails = np.cumsum(lengths[:, ::-1], axis=1)[:, ::-1][:, 1:] / N
    return xr.Dataset({"S": (("replica", "level"), tails)}, {"level": np.arange(1, log_S.size + 1)})


def over(*dims: str, name: str = "S", value: float = 0.5, **labels: list[object]) -> xr.Dataset:
    """Data of two entries on each axis."""
    return xr.Dataset({name: (dims, np.full((2,) * len(dims), value))}, labels)
