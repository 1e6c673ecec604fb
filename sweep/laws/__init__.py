"""Service and inter-arrival laws of mean 1, written as text such as `lomax(beta=1.5)`."""

from sweep.laws.base import Law
from sweep.laws.bounded import Deterministic, Uniform
from sweep.laws.exponential import Exponential, Hyperexponential
from sweep.laws.gamma import Erlang, Gamma
from sweep.laws.parse import LAWS, as_law, parse_law
from sweep.laws.phase import PhaseType
from sweep.laws.power import Lomax, Pareto
from sweep.laws.stretched import Lognormal, Weibull
from sweep.laws.trace import Trace

__all__ = [
    "LAWS",
    "Deterministic",
    "Erlang",
    "Exponential",
    "Gamma",
    "Hyperexponential",
    "Law",
    "Lognormal",
    "Lomax",
    "Pareto",
    "PhaseType",
    "Trace",
    "Uniform",
    "Weibull",
    "as_law",
    "parse_law",
]
