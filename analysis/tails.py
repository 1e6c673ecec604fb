"""How the tail of queue lengths decays on the levels the data can see, and what theory says of it.

`python -m analysis.tails STORE` prints the verdicts, and draws the picture on request.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from analysis.evidence import CONFIDENCE
from analysis.rows import ROW, check_rows
from analysis.tail_data import Tail, fraction_of, jackknife, opened, tail_at, tails_of
from analysis.tail_sequences import LEAST_LEVELS, POSSIBLE, Candidate, Floats, candidates
from analysis.tail_theory import NAMES, REGIMES, TailPrediction, predict_tail
from sweep.laws import Law

if TYPE_CHECKING:
    import xarray as xr

    from analysis.tail_data import Source

INCONCLUSIVE, UNKNOWN = "inconclusive", "unknown"
_DESCRIBED = {
    "regime": "regime of the tail, or inconclusive",
    "rate": "r, ρ or γ of the regime: log 1/S_ℓ ~ r^ℓ, S_ℓ ~ ρ^ℓ or S_ℓ ~ ℓ^(−γ)",
    "rate_lo": "lower end of the interval of the rate",
    "rate_hi": "upper end of the interval of the rate",
    "rate_stderr": "standard error of the rate at the deepest level, from replicas; 0 without noise",
    "depth": "levels the data can see",
    "log_S_depth": "log S_ℓ at the deepest level seen",
    "depth_needed": "levels to look at for a verdict, at least; as many as seen where there is one",
    "n": "replicas, 0 for a tail without noise",
    "predicted_regime": "regime that theory predicts",
    "predicted_rate": "rate that theory predicts",
    "agreement": "agrees, disagrees, undecided or no prediction",
    "verdict": "the verdict in a sentence",
}


@dataclass(frozen=True, kw_only=True)
class TailFit:
    """The verdict on one tail; d, lam and G are None where the data do not name them.

    `rate` is r, ρ or γ as the regime has it, NaN if `regime` is inconclusive; `rate_lo` and `rate_hi`
    bound what the levels not seen leave open, as `analysis.tail_sequences.candidates` tells, plus a 95 % t
    interval where there are replicas.
    """

    d: int | None
    lam: float | None
    G: str | None
    regime: str
    rate: float
    rate_lo: float
    rate_hi: float
    rate_stderr: float
    depth: int
    log_S_depth: float
    depth_needed: int
    n: int
    predicted_regime: str
    predicted_rate: float
    agreement: str
    verdict: str

    def __str__(self) -> str:
        return self.verdict


def classify_tail(
    source: Source,
    *,
    d: int | None = None,
    lam: float | None = None,
    G: str | Law | None = None,
    fraction: float | None = None,
    floor: float = 0.0,
) -> xr.Dataset:
    """Name the regime of every tail, with its rate, as deep as the data can see.

    Parameters
    ----------
    source
        An invariant state (`log_S` over level), equilibrium data (`S_batch`, or `S` over replica and level),
        each with any axes besides, a store's tree or path, or log S_ℓ as an array of shape (level,).
    d, lam, G
        Parameters that the source has no axis for; theory predicts nothing without all three.
    fraction
        Share p of arrivals that use d choices; None for that of the store's spec, 1 where there is none.
    floor
        Least S_ℓ the data can hold, 1/(N · time) for a simulation; levels below are not looked at.

    Returns
    -------
    xarray.Dataset
        Over the source's axes but level, replica and batch: `regime`, `rate`, `rate_lo`, `rate_hi`,
        `rate_stderr`, `depth`, `log_S_depth`, `depth_needed`, `n`, `predicted_regime`, `predicted_rate`,
        `agreement`, `verdict`.

    Raises
    ------
    ValueError
        No tail in the source, levels that do not count 1, 2, …, a single replica, log S above 0, an axis of
        time, or parameters that the source has already or that `predict_tail` refuses.
    TypeError
        A source of another type.

    Notes
    -----
    `analysis.tail_sequences.candidates` tells the sequences, their limits and the criterion. Replicas are
    averaged (batches first), and the errors of local rate and criterion taken by the jackknife over
    them; a level is seen where the mean exceeds ten standard errors, and a criterion has to hold by the t
    quantile of its own error. A verdict needs exactly one regime that passes. With p < 1 the uniform
    stream rules every tail in the end, but the levels seen may still fall as with p = 1: a double exponential
    is then no verdict.

    Examples
    --------
    >>> tail = np.log(0.7) * (2.0 ** np.arange(1, 9) - 1)  # exponential service, d = 2
    >>> fit, = tail_table(classify_tail(tail, d=2, lam=0.7, G="exponential"))
    >>> fit.regime, round(fit.rate, 9), fit.agreement
    ('double_exponential', 2.0, 'agrees')
    >>> next(tail_table(classify_tail(tail[:4]))).regime
    'inconclusive'
    """
    import xarray as xr

    source = opened(source)
    fraction = fraction_of(source) if fraction is None else fraction
    given = {"d": d, "lam": lam, "G": None if G is None else str(G)}
    values = tails_of(source, {name: value for name, value in given.items() if value is not None}, floor)
    found = [str(dim) for dim in values.dims if dim not in ("level", "replica")]
    dims = sorted(found, key=lambda dim: ROW.index(dim) if dim in ROW else len(ROW))
    values = values.transpose(*dims, ...)
    shape = tuple(values.sizes[dim] for dim in dims)
    rows = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        one = values.isel(dict(zip(dims, index, strict=True)))
        law = G if G is not None else _label(one, "G")
        choices = _label(one, "d")
        prediction = _prediction(choices, _label(one, "lam"), law, fraction)
        rows[index] = judge(tail_at(one, floor), prediction, fraction, choices or 2)
    variables = {}
    for name, long_name in _DESCRIBED.items():
        column = np.array([row[name] for row in rows.flat]).reshape(shape)
        variables[name] = (dims, column, {"units": "1", "long_name": long_name})
    attributes = {"confidence": CONFIDENCE, "fraction": fraction, "floor": floor}
    return xr.Dataset(variables, coords={dim: values.coords[dim] for dim in dims}, attrs=attributes)


def tail_table(fits: xr.Dataset) -> Iterator[TailFit]:
    """Yield the rows of what `classify_tail` returns, the last axis fastest.

    Raises
    ------
    ValueError
        Axes other than d, lam and G are left.
    """
    check_rows(fits)
    for index in np.ndindex(tuple(fits.sizes.values())):
        row = fits.isel(dict(zip(fits.sizes, index, strict=True)))
        labels = {name: _label(row, name) for name in ROW}
        named = {field.name: row[field.name].item() for field in fields(TailFit) if field.name not in ROW}
        yield TailFit(**labels, **named)


def judge(tail: Tail, prediction: TailPrediction | None, fraction: float = 1.0, d: int = 2) -> dict[str, Any]:
    """Variables of one row."""
    passed = [(one, spread, half) for one, spread, half, slack in _trial(tail, d, fraction) if slack >= 0.0]
    depth = tail.log_S.size
    row: dict[str, Any] = {
        "regime": INCONCLUSIVE, "rate": math.nan, "rate_lo": math.nan, "rate_hi": math.nan,
        "rate_stderr": math.nan, "depth": depth, "log_S_depth": float(tail.log_S[-1]) if depth else math.nan,
        "depth_needed": depth, "n": tail.n,
        "predicted_regime": prediction.regime if prediction else UNKNOWN,
        "predicted_rate": prediction.rate if prediction else math.nan,
    }  # fmt: skip
    regimes = [one.regime for one, _, _ in passed]
    early = fraction < 1.0 and regimes == ["double_exponential"]
    if len(passed) == 1 and not early:
        one, spread, half = passed[0]
        row |= {"regime": one.regime, "rate": one.rate, "rate_stderr": spread}
        row |= {"rate_lo": one.rate - half, "rate_hi": one.rate + half}
    else:
        row["depth_needed"] = _needed(depth, prediction)
    row["agreement"] = _agreement(row)
    row["verdict"] = _sentence(row, tail, prediction, early)
    return row


def _trial(tail: Tail, d: int, fraction: float) -> Iterator[tuple[Candidate, float, float, float]]:
    """Yield each candidate with the standard error and half the interval of its rate, and its slack left.

    That is the slack less what noise may explain, or less if the interval holds rates of another regime.
    """
    without = [candidates(log_S, d=d, fraction=fraction) for log_S in tail.left_out]
    quantile = _quantile(tail.n)
    for place, one in enumerate(candidates(tail.log_S, d=d, fraction=fraction)):
        spread = noise = 0.0
        if tail.n:
            # Extrapolation amplifies noise without end; what it adds is part of `error` already.
            spread = jackknife(np.array([each[place].local for each in without]))
            noise = jackknife(np.array([each[place].slack for each in without]))
        half = one.error + quantile * spread
        low, high = POSSIBLE[one.regime]
        inside = min(one.rate - half - low, high - one.rate - half)
        yield one, spread, half, min(one.slack - quantile * noise, inside)


def _quantile(n: int) -> float:
    return float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2.0)) if n else 0.0


def _needed(depth: int, prediction: TailPrediction | None) -> int:
    """Twice as deep, as drift over the deeper half measures the error; and deep enough to be tried at all."""
    regime = prediction.regime if prediction else UNKNOWN
    return max(2 * depth, LEAST_LEVELS.get(regime, min(LEAST_LEVELS.values())))


def _agreement(row: dict[str, Any]) -> str:
    if row["predicted_regime"] == UNKNOWN:
        return "no prediction"
    if row["regime"] == INCONCLUSIVE:
        return "undecided"
    within = row["rate_lo"] <= row["predicted_rate"] <= row["rate_hi"]
    return "agrees" if within and row["regime"] == row["predicted_regime"] else "disagrees"


def _sentence(row: dict[str, Any], tail: Tail, prediction: TailPrediction | None, early: bool) -> str:
    """Say the verdict as a referee would accept it."""
    depth, theory = row["depth"], f"; theory says {prediction}" if prediction else ""
    if row["regime"] == INCONCLUSIVE:
        still = ", which still fall as if every arrival used d choices" if early else ""
        return f"inconclusive on {in_levels(depth)}{still}{_beyond(tail.log_S, row['depth_needed'])}{theory}"
    symbol = REGIMES[row["regime"]][0]
    rate, low, high = rate_digits(row["rate"], row["rate_lo"], row["rate_hi"])
    seen = f"on {in_levels(depth)}, down to S = {power_of_e(row['log_S_depth'])}"
    noise = f" of {row['n']} replicas" if row["n"] else ""
    answer = f"{theory}: {row['agreement']}" if prediction else ""
    return f"{NAMES[row['regime']]} with {symbol} = {rate} ({low} … {high}) {seen}{noise}{answer}"


def _beyond(log_S: Floats, needed: int) -> str:
    """Say how deep to look, and what is there if the steps go on like 1/ℓ or like a geometric series."""
    depth = log_S.size
    if depth < 3:
        return f": look as deep as level {needed}"
    steps = -np.diff(log_S)
    slow = float(log_S[-1] - steps[-1] * depth * math.log(needed / depth))
    growth = max(float(steps[-1] / steps[-2]), 1.0)
    with np.errstate(over="ignore"):
        fast = float(log_S[-1] - steps[-1] * np.sum(growth ** np.arange(1.0, needed - depth + 1.0)))
    last, slow_S, fast_S = map(power_of_e, (float(log_S[-1]), slow, fast))
    return (
        f" (S = {last}): look as deep as level {needed}, where S is {slow_S} if it goes on as a power law, "
        f"{fast_S} if its steps go on growing as the last"
    )


def rate_digits(rate: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a rate and the ends of its interval with two digits of its width, at most nine decimals.

    Examples
    --------
    >>> rate_digits(1.5, 1.4876, 1.5124), rate_digits(2.0, 2 - 2e-9, 2 + 2e-9)
    (('1.500', '1.488', '1.512'), ('2.000000000', '1.999999998', '2.000000002'))
    """
    width = max(high - low, 1e-9 * rate)
    digits = min(max(0, 1 - math.floor(math.log10(width))), 9)
    return f"{rate:.{digits}f}", f"{low:.{digits}f}", f"{high:.{digits}f}"


def in_levels(depth: int) -> str:
    """Say how many levels were seen.

    Examples
    --------
    >>> in_levels(1), in_levels(7)
    ('1 level', '7 levels')
    """
    return f"{depth} level{'s' * (depth != 1)}"


def power_of_e(log_value: float) -> str:
    """Two digits of e^x, whatever its size; 0 for x = −∞.

    Examples
    --------
    >>> power_of_e(-1000.0), power_of_e(-1.0)
    ('5.1e-435', '0.37')
    """
    if log_value > -600.0:
        return f"{math.exp(log_value):.2g}"
    if log_value == -math.inf:
        return "0"
    exponent = math.floor(log_value / math.log(10.0))
    return f"{10.0 ** (log_value / math.log(10.0) - exponent):.1f}e{exponent}"


def _label(row: xr.Dataset | xr.DataArray, name: str) -> Any:
    return row.coords[name].item() if name in row.coords else None


def _prediction(d: Any, lam: Any, G: Any, fraction: float) -> TailPrediction | None:
    return None if None in (d, lam, G) else predict_tail(d=d, lam=lam, G=G, fraction=fraction)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how tails decay in a store; return 0, or 2 if the input is bad."""
    from analysis.tail_command import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
