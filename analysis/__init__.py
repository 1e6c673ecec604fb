"""Reads what the sweep stored and says how fast the network approaches its limit, and how its tail decays."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.bias import separate_errors as separate_errors
    from analysis.fluctuations import ConstantFit as ConstantFit
    from analysis.fluctuations import clt_constants as clt_constants
    from analysis.fluctuations import constant_table as constant_table
    from analysis.mean_field import MeanFieldConstants as MeanFieldConstants
    from analysis.mean_field import mean_field_constants as mean_field_constants
    from analysis.rates import RateFit as RateFit
    from analysis.rates import fit_rate as fit_rate
    from analysis.rates import rate_table as rate_table
    from analysis.tail_theory import TailPrediction as TailPrediction
    from analysis.tail_theory import predict_tail as predict_tail
    from analysis.tails import TailFit as TailFit
    from analysis.tails import classify_tail as classify_tail
    from analysis.tails import tail_table as tail_table

# Public name -> module: resolved at first use, so that a module of this package may also run as a command.
_HOMES = {
    "ConstantFit": "analysis.fluctuations",
    "MeanFieldConstants": "analysis.mean_field",
    "RateFit": "analysis.rates",
    "TailFit": "analysis.tails",
    "TailPrediction": "analysis.tail_theory",
    "classify_tail": "analysis.tails",
    "clt_constants": "analysis.fluctuations",
    "constant_table": "analysis.fluctuations",
    "fit_rate": "analysis.rates",
    "mean_field_constants": "analysis.mean_field",
    "predict_tail": "analysis.tail_theory",
    "rate_table": "analysis.rates",
    "separate_errors": "analysis.bias",
    "tail_table": "analysis.tails",
}
__all__ = [
    "ConstantFit",
    "MeanFieldConstants",
    "RateFit",
    "TailFit",
    "TailPrediction",
    "classify_tail",
    "clt_constants",
    "constant_table",
    "fit_rate",
    "mean_field_constants",
    "predict_tail",
    "rate_table",
    "separate_errors",
    "tail_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'analysis' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
