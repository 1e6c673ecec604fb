"""`python -m analysis.results STORE`: a page of Markdown with exponents and constants of a transient store.

Beside them stand the tails of the invariant states of the same laws, which need no simulation.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from analysis.bias import separate_errors
from analysis.rates import fit_rate, rate_table, signed
from analysis.tail_theory import predict_tail
from analysis.tails import classify_tail, tail_table

if TYPE_CHECKING:
    import xarray as xr

_RATES = """# Results

Made by `python -m analysis.results` from a store of `examples/results.toml`. No rate of convergence is
published for general service: outside exponential service these exponents and constants are measured
here, not known. ± is one standard error; intervals are 95 %.

## The sup distance

The mean over replicas of S_sup, the largest |S^(N)_ℓ(t)/N − S_ℓ(t)| over stored t and ℓ from empty,
fitted as constant · N^exponent. p is that of the lack of fit; `√N S_sup` is the mean at the largest N.

| d | λ | G | exponent | interval | constant | √N S_sup | p |
|---|---|---|---|---|---|---|---|"""

_BIAS = """
## Bias and fluctuation of the mean queue

The mean number of jobs per queue X at the last stored time: its bias, mean minus limit, and its standard
deviation over replicas, each fitted as constant · N^exponent. N · bias is that at the smallest N, √N ·
deviation that at the largest. A dash: no bias is seen at any N with these replicas (p ≥ .05; one row in
twenty shows one by chance).

| d | λ | G | bias exponent | N · bias | deviation exponent | √N · deviation |
|---|---|---|---|---|---|---|"""

_TAILS = """
## Tails of the invariant states

By `analysis.classify_tail` on levels of the invariant state; for d = 1 queues are M/G/1. A double-
exponential tail has log 1/S_ℓ ~ C r^ℓ, a power law S_ℓ ~ C ℓ^−γ, a geometric one S_ℓ ~ C ρ^ℓ; measured
is r, γ or ρ.

| d | λ | G | regime | measured | interval | theory |
|---|---|---|---|---|---|---|"""

#: Levels looked at: as many as need no ages whose probability doubles cannot hold.
_DOUBLE_EXPONENTIAL, _GEOMETRIC, _POWER = {2: 12, 3: 7}, 200, 400


def page(tree: xr.DataTree) -> Iterator[str]:
    """Yield the lines of the page for a transient store."""
    yield _RATES
    fits = fit_rate(tree)
    network = tree["network"].dataset
    for row in rate_table(fits):
        place = {"d": row.d, "lam": row.lam, "G": row.G}
        largest = network.N.values[-1]
        scaled = math.sqrt(largest) * float(network.S_sup.sel(N=largest, **place).mean())
        interval = f"{signed(row.exponent_lo)} … {signed(row.exponent_hi)}"
        fitted = f"{signed(row.exponent)} ± {row.exponent_stderr:.3f} | {interval}"
        constant = f"{row.constant:.2f} ± {row.constant_stderr:.2f}"
        yield f"| {_place(row)} | {fitted} | {constant} | {scaled:.2f} | {row.p_value:.2g} |"
    yield _BIAS
    apart = separate_errors(tree, "X").isel(t=-1)
    for index in _points(apart):
        yield f"| {_place(index)} | {_errors(apart.sel(index))} |"
    yield _TAILS
    for index in _points(apart):
        yield f"| {_place(index)} | {_tail(index)} |"


def _points(data: xr.Dataset) -> Iterator[dict[str, Any]]:
    for d in data.d.values.tolist():
        for lam in data.lam.values.tolist():
            for G in data.G.values.tolist():
                yield {"d": d, "lam": lam, "G": G}


def _place(row: Any) -> str:
    values = row if isinstance(row, dict) else {name: getattr(row, name) for name in ("d", "lam", "G")}
    return f"{values['d']} | {values['lam']:g} | {values['G']}"


def _errors(row: xr.Dataset) -> str:
    first, last = row.isel(N=0), row.isel(N=-1)
    smallest, largest = float(first.N), float(last.N)
    bias = f"{signed(smallest * float(first.bias))} ± {smallest * float(first.bias_stderr):.3f}"
    found = float(row.bias_exponent)
    low, high = float(row.bias_exponent_lo), float(row.bias_exponent_hi)
    exponent = "–" if math.isnan(found) else f"{signed(found)} ({signed(low)} … {signed(high)})"
    spread = f"{signed(float(row.sd_exponent))} ± {float(row.sd_exponent_stderr):.3f}"
    return f"{exponent} | {bias} | {spread} | {math.sqrt(largest) * float(last.sd):.2f}"


def _tail(place: dict[str, Any]) -> str:
    import sweep

    regime = predict_tail(**place).regime
    levels = _POWER if regime == "power" else _GEOMETRIC
    if regime == "double_exponential":
        levels = _DOUBLE_EXPONENTIAL.get(place["d"], 5)
    (fit,) = tail_table(classify_tail(sweep.invariant_state(**place, levels=levels), **place))
    if fit.regime == "inconclusive":
        return f"inconclusive at level {fit.depth} | – | – | {_theory(fit)}"
    return f"{_named(fit.regime)} | {fit.rate:.3f} | {fit.rate_lo:.3f} … {fit.rate_hi:.3f} | {_theory(fit)}"


def _theory(fit: Any) -> str:
    return f"{_named(fit.predicted_regime)}, {fit.predicted_rate:.3f}"


def _named(regime: str) -> str:
    return regime.replace("_", " ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page of a store; return 0, or 2 if the input is bad."""
    from sweep import load
    from sweep.errors import StoreError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    parser = argparse.ArgumentParser(prog="python -m analysis.results", description=__doc__)
    parser.add_argument("store", help="store directory or exported file of a transient sweep")
    options = parser.parse_args(arguments)
    try:
        for line in page(load(options.store)):
            sys.stdout.write(line + "\n")
    except (ValueError, OSError, StoreError) as error:
        sys.stderr.write(f"analysis: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
