"""Reads what the sweep stored and says how fast the network approaches its limit, and how its tail decays."""

from __future__ import annotations

from analysis.rates import RateFit, fit_rate, rate_table
from analysis.tail_theory import TailPrediction, predict_tail
from analysis.tails import TailFit, classify_tail, tail_table

__all__ = [
    "RateFit",
    "TailFit",
    "TailPrediction",
    "classify_tail",
    "fit_rate",
    "predict_tail",
    "rate_table",
    "tail_table",
]
