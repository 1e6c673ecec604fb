"""`python -m analysis.results STORE`: a page of Markdown with exponents and constants of a transient store.

Beside them stand the tails of the invariant states of the same laws, which need no simulation.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.bias import separate_errors
from analysis.command import run_command, store_parser
from analysis.rates import RateFit, fit_rate, rate_table
from analysis.report_text import NONE, between, signed
from analysis.rows import labels_of, stored_rows
from analysis.stores import opened_for, run_of
from analysis.tail_theory import NAMES, predict_tail
from analysis.tails import INCONCLUSIVE, classify_tail, tail_table

if TYPE_CHECKING:
    import xarray as xr

_RATES = """# Results

Made by `python -m analysis.results` from a store of {title}.
No rate of convergence is published for general service: outside exponential service these exponents and
constants are measured here, not known. ± is one standard error; intervals are 95 %.

## The sup distance

The mean over replicas of S_sup, the largest |S^(N)_ℓ(t)/N − S_ℓ(t)| over stored t and ℓ from the start
`{start}`, fitted as constant · N^exponent. p is that of the lack of fit; `√N S_sup` is the mean at the
largest N.

| d | λ | G | exponent | interval | constant | √N S_sup | p |
|---|---|---|---|---|---|---|---|"""

_BIAS = """
## Bias and fluctuation of the mean queue

The mean number of jobs per queue X at the last stored time, t = {t:g}: its bias, mean minus limit, and its
standard deviation over replicas, each fitted as constant · N^exponent. N · bias is that at the smallest N,
√N · deviation that at the largest. A dash: no bias is seen at any N with these replicas (p ≥ .05; one row
in twenty shows one by chance).

| d | λ | G | bias exponent | N · bias | deviation exponent | √N · deviation |
|---|---|---|---|---|---|---|"""

_TAILS = """
## Tails of the invariant states

By `analysis.classify_tail` on levels of the invariant state; for d = 1 queues are M/G/1. A double-
exponential tail has log 1/S_ℓ ~ C r^ℓ, a power law S_ℓ ~ C ℓ^−γ, a geometric one S_ℓ ~ C ρ^ℓ; measured
is r, γ or ρ. Nothing is random here: the interval bounds what extrapolation in ℓ leaves open.

| d | λ | G | regime | measured | interval | theory |
|---|---|---|---|---|---|---|"""

#: Levels looked at: as many as need no ages whose probability doubles cannot hold.
_DOUBLE_EXPONENTIAL, _GEOMETRIC, _POWER = {2: 12, 3: 7}, 200, 400


def page(tree: xr.DataTree) -> Iterator[str]:
    """Yield the lines of the page for a transient store.

    Raises
    ------
    ValueError
        Results that no rate, or no bias and deviation, can be fitted to.
    """
    run, title = run_of(tree) or {}, tree.attrs.get("title")
    start = run.get("initial", "empty")
    yield _RATES.format(title=f"the sweep “{title}”" if title else "a sweep without a name", start=start)
    network = tree["network"].to_dataset()
    for row in rate_table(fit_rate(tree)):
        yield f"| {_place(row)} | {_rate(row, network)} |"
    apart = separate_errors(tree, "X").isel(t=-1)
    yield _BIAS.format(t=apart.t.item())
    for errors in stored_rows(apart):
        yield f"| {_place(errors)} | {_errors(errors)} |"
    yield _TAILS
    for errors in stored_rows(apart):
        yield f"| {_place(errors)} | {_tail(errors, run.get('fraction', 1.0))} |"


def _place(row: Any) -> str:
    d, lam, G = labels_of(row).values()
    return f"{d} | {lam:g} | {G}"


def _rate(row: RateFit, network: xr.Dataset) -> str:
    if row.n == 0:
        return " | ".join([NONE] * 5)
    largest = network.N.values[-1]
    scaled = math.sqrt(largest) * float(network.S_sup.sel(N=largest, d=row.d, lam=row.lam, G=row.G).mean())
    fitted = f"{signed(row.exponent)} ± {row.exponent_stderr:.3f}"
    constant = f"{row.constant:.2f} ± {row.constant_stderr:.2f}"
    interval = between(row.exponent_lo, row.exponent_hi)
    p = NONE if math.isnan(row.p_value) else f"{row.p_value:.2g}"
    return f"{fitted} | {interval} | {constant} | {signed(scaled, 2)} | {p}"


def _errors(row: xr.Dataset) -> str:
    if not row.n.item():
        return " | ".join([NONE] * 4)
    stored = row.isel(N=np.isfinite(row.sd.values))
    first, last = stored.isel(N=0), stored.isel(N=-1)
    smallest, largest = float(first.N), float(last.N)
    bias = f"{signed(smallest * float(first.bias))} ± {smallest * float(first.bias_stderr):.3f}"
    found = float(row.bias_exponent)
    interval = between(float(row.bias_exponent_lo), float(row.bias_exponent_hi))
    exponent = NONE if math.isnan(found) else f"{signed(found)} ({interval})"
    spread = f"{signed(float(row.sd_exponent))} ± {float(row.sd_exponent_stderr):.3f}"
    return f"{exponent} | {bias} | {spread} | {math.sqrt(largest) * float(last.sd):.2f}"


def _tail(row: xr.Dataset, fraction: float) -> str:
    """Classify the tail of one invariant state; an overloaded network has none."""
    import sweep

    place = labels_of(row)
    if place["lam"] >= 1.0:
        return f"no invariant state | {NONE} | {NONE} | {NONE}"
    theory = predict_tail(**place, fraction=fraction)
    levels = _POWER if theory.regime == "power" else _GEOMETRIC
    if theory.regime == "double_exponential":
        levels = _DOUBLE_EXPONENTIAL.get(place["d"], 5)
    state = sweep.invariant_state(**place, levels=levels, fraction=fraction)
    (fit,) = tail_table(classify_tail(state, **place, fraction=fraction))
    rate = f"{NAMES[theory.regime]}, {signed(theory.rate)}"
    if fit.regime == INCONCLUSIVE:
        return f"inconclusive at level {fit.depth} | {NONE} | {NONE} | {rate}"
    return f"{NAMES[fit.regime]} | {fit.rate:.3f} | {between(fit.rate_lo, fit.rate_hi)} | {rate}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page of a store; return 0, or 2 if the input is bad."""
    parser = store_parser("analysis.results", str(__doc__), figure=False)
    return run_command("analysis.results", parser, arguments, _answer)


def _answer(options: argparse.Namespace) -> Iterator[str]:
    return page(opened_for("analysis.results", options.store))


if __name__ == "__main__":
    raise SystemExit(main())
