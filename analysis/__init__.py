"""Reads what the sweep stored and says how fast the network approaches its limit."""

from __future__ import annotations

from analysis.rates import RateFit, fit_rate

__all__ = ["RateFit", "fit_rate"]
