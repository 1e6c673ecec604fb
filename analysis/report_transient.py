"""What a report says of the study transient: rates of distances, and bias beside fluctuation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from analysis.evidence import SIGNIFICANT
from analysis.moments import LEAST_REPLICAS
from analysis.quantities import group_of
from analysis.rates import RateFit, fit_rate, rate_table
from analysis.report_chaos import CHAOS
from analysis.report_page import Answer, Draft, Grid, Standing, Topic, compared
from analysis.report_text import NONE, between, clause, listed, p_value, signed, with_error
from analysis.rows import name_of, stored_rows

if TYPE_CHECKING:
    import xarray as xr

#: The exponent of a central limit theorem, and the nearest others that a study would care about.
EXPECTED, OTHERS = -0.5, {-1 / 3: "−1/3", -2 / 3: "−2/3"}
#: Distances of snapshots: name, symbol, and what it is.
DISTANCES = {
    "d_S": ("d_𝕊", "the metric of the state space, lengths and ages of jobs in service together"),
    "d_P": ("d_P", "the Prohorov distance of the ages of jobs in service, queue length by queue length"),
    "V": ("V_ℓ", "the norm of residual lives, queue length by queue length"),
}


def paths(tree: xr.DataTree, draft: Draft) -> None:
    """Answer how fast the paths of S approach their limit."""
    draft.method = (
        "S_sup is the largest difference, over stored times and queue lengths ℓ, between the share of queues "
        "of length at least ℓ and its limit. A power of N is fitted to its mean over replicas. No theorem "
        "gives a rate for general service; −1/2 is the exponent of a central limit theorem."
    )
    fits = fit_rate(tree)
    rows = list(rate_table(fits))
    for row in rows:
        draft.answers.append(_rate_answer(row))
    draft.shorten(
        "The 95 % interval of the exponent holds −1/2, and neither −1/3 nor −2/3, in {agree} of {rows} rows; "
        "about one in twenty would miss it by chance."
    )
    N = listed(group_of(tree, "network").N.values.tolist())

    def make() -> Any:
        from analysis.figures import rate_figure

        return rate_figure(tree)

    draft.draw(
        "rates",
        make,
        "Mean over replicas of the largest distance S_sup against the number of servers, with standard "
        "errors and fitted powers of N; the grey line has slope −1/2.",
        f"Logarithmic plot of the mean of S_sup against N = {N}. It falls along a nearly straight line in "
        f"each of {sum(row.n > 0 for row in rows)} series; fitted exponents: {_exponents(rows)}.",
    )
    draft.grids.append(_rate_grid("Mean of S_sup = constant · N^exponent.", fits))


def _rate_answer(row: RateFit) -> Answer:
    """Judge one fitted exponent against −1/2."""
    where = name_of(row)
    if not row.n:
        return Answer(
            text="too few N with two replicas or more for a fit.", standing=Standing.INCONCLUSIVE, part=where
        )
    number = f"S_sup falls like N^({with_error(row.exponent, row.exponent_stderr)})"
    interval = f"95 % {between(row.exponent_lo, row.exponent_hi)}"
    if row.p_value < SIGNIFICANT:
        text = f"no single power of N fits ({clause(row.p_value)}); forced, {number} ({interval})."
        return Answer(text=text, standing=Standing.INCONCLUSIVE, part=where)
    if row.exponent_lo <= EXPECTED <= row.exponent_hi:
        if others := _others(row.exponent_lo, row.exponent_hi):
            text = f"{number} ({interval}), too wide to tell −1/2 from {others}."
            return Answer(text=text, standing=Standing.INCONCLUSIVE, part=where)
        return Answer(text=f"{number} ({interval}), which holds −1/2.", standing=Standing.AGREES, part=where)
    ends = row.exponent_lo, row.exponent_hi
    standing = compared(row.exponent, row.exponent_stderr, ends, EXPECTED)
    far = abs(row.exponent - EXPECTED) / row.exponent_stderr
    text = f"{number} ({interval}), which excludes −1/2, {far:.1f} standard errors away"
    chance = "" if standing == Standing.DIFFERS else ": one row in twenty does so by chance"
    return Answer(text=f"{text}{chance}.", standing=standing, part=where)


def _others(low: float, high: float) -> str:
    """Name the other exponents in an interval."""
    return " and ".join(name for other, name in OTHERS.items() if low <= other <= high)


def _exponents(rows: Sequence[RateFit]) -> str:
    fitted = [f"{name_of(row)}: {with_error(row.exponent, row.exponent_stderr)}" for row in rows if row.n]
    without = len(rows) - len(fitted)
    return ("; ".join(fitted) or "none") + (f"; without a fit: {without}" if without else "")


def _rate_grid(caption: str, fits: xr.Dataset) -> Grid:
    header = ("network", "exponent", "95 % interval", "constant", "p of lack of fit", "replicas")
    cells = [
        (
            name_of(row),
            with_error(row.exponent, row.exponent_stderr),
            between(row.exponent_lo, row.exponent_hi),
            with_error(row.constant, row.constant_stderr),
            p_value(row.p_value),
            str(row.n or stored.replicas.item()),
        )
        for row, stored in zip(rate_table(fits), stored_rows(fits), strict=True)
    ]
    return Grid(caption=caption, header=header, rows=cells)


def ages(tree: xr.DataTree, draft: Draft) -> None:
    """Answer how fast ages of jobs in service approach their limit, in every distance that is stored.

    Raises
    ------
    ValueError
        No distance that can be fitted.
    """
    network = group_of(tree, "network")
    stored = [name for name in DISTANCES if name in network]
    parts = "; ".join(f"{DISTANCES[name][0]} is {DISTANCES[name][1]}" for name in stored)
    draft.method = (
        f"At t = {listed(network.snapshot.values.tolist())}: {parts}. Where ages are unbounded "
        "these distances may fall more slowly than N^(−1/2): their exponents are measured, not tested."
    )
    for name in stored:
        draft.try_to(DISTANCES[name][0], lambda name=name: _distance(tree, name, draft))  # type: ignore[misc]
    if not draft.answers:
        raise ValueError("no distance of snapshots can be fitted")


def _distance(tree: xr.DataTree, name: str, draft: Draft) -> None:
    from analysis.figures import replicas_figure
    from analysis.quantities import replicas_of

    symbol, _ = DISTANCES[name]
    stored = group_of(tree, "network")[[name]].isel(snapshot=-1)
    moment = stored.snapshot.item()
    at = f"t = {moment:g}" + (", ℓ = 1" if "level" in stored.dims else "")
    # Deep levels may be empty in limit and network alike, at distance 0: no power of N.
    shown = replicas_of(stored.isel(level=0) if "level" in stored.dims else stored, name)
    fits = fit_rate(shown.to_dataset(name=name), name)
    rows = list(rate_table(fits))
    fitted = [row for row in rows if row.n]
    low, high = min(fitted, key=lambda row: row.exponent), max(fitted, key=lambda row: row.exponent)
    spread = (
        f"from {with_error(low.exponent, low.exponent_stderr)} ({name_of(low)}) "
        f"to {with_error(high.exponent, high.exponent_stderr)} ({name_of(high)})"
    )
    if len(fitted) == 1:
        spread = with_error(low.exponent, low.exponent_stderr)
    poor = sum(row.p_value < SIGNIFICANT for row in fitted)
    doubt = f"; no single power fits in {poor} of {len(fitted)} rows" if poor else ""
    standing = Standing.INCONCLUSIVE if poor == len(fitted) else Standing.MEASURED
    draft.say(f"at {at} the exponent of N is {spread}{doubt}.", standing, part=symbol)
    if name == "d_S":
        draft.draw(
            name,
            lambda: replicas_figure(shown, "mean"),
            f"Mean over replicas of the distance {symbol} at {at} against N.",
            f"Logarithmic plot of the mean of {symbol} against N; fitted exponents: {_exponents(rows)}.",
        )
    draft.grids.append(_rate_grid(f"Mean of {symbol} at {at} = constant · N^exponent.", fits))


def errors(tree: xr.DataTree, draft: Draft) -> None:
    """Answer whether the error of the mean queue is bias or fluctuation."""
    from analysis.bias import separate_errors
    from analysis.bias_figures import errors_figure

    last = tree.to_dict()
    last = {name: data.isel(t=[-1]) if "t" in data.dims else data for name, data in last.items()}
    found = separate_errors(type(tree).from_dict(last), "X").isel(t=0)
    moment = found.t.item()
    draft.method = (
        f"X is the number of jobs per server, at t = {moment:g}. Its mean square deviation from the limit is "
        "the square of its bias, the mean deviation, and its variance over replicas; each has its own power "
        "of N. Expected, though no theorem says so for general service, are N^(−1/2) for the standard "
        "deviation and N^(−1) for the bias."
    )
    rows = list(stored_rows(found))
    for row in rows:
        draft.answers.append(_error_answer(row))
    draft.shorten("Standard deviation and bias of X fall as expected in {agree} of {rows} rows.")
    draft.draw(
        "errors",
        lambda: errors_figure(found),
        f"Absolute bias and standard deviation of jobs per server at t = {moment:g} against N, with fitted "
        "powers; a bias within two standard errors of zero is pale.",
        "Two logarithmic plots against N, of the absolute bias and of the standard deviation of X. "
        + " ".join(f"{one.part}: {one.text}" for one in draft.answers if one.part),
        series=len(rows),
    )
    header = ("network", "sd exponent", "95 % interval", "bias exponent", "95 % interval", "p of no bias",
              "bias² in RMS², largest N")  # fmt: skip
    caption = (
        f"Bias and fluctuation of X at t = {moment:g}; the share of bias² is estimated without bias and may "
        "come out below zero."
    )
    draft.grids.append(Grid(caption=caption, header=header, rows=[*map(_cells, rows)]))


def _error_answer(row: xr.Dataset) -> Answer:
    where = name_of(row)
    numbers = {name: row[name].item() for name in row.data_vars if row[name].ndim == 0}
    if not numbers["n"]:
        text = f"too few N with {LEAST_REPLICAS} replicas or more that differ for a fit."
        return Answer(text=text, standing=Standing.INCONCLUSIVE, part=where)
    sd = f"the standard deviation falls like N^({_pm(numbers, 'sd')})"
    ends = numbers["sd_exponent_lo"], numbers["sd_exponent_hi"]
    standing = compared(numbers["sd_exponent"], numbers["sd_exponent_stderr"], ends, EXPECTED)
    if standing == Standing.AGREES and (others := _others(*ends)):
        standing, sd = Standing.INCONCLUSIVE, f"{sd}, too rough to tell −1/2 from {others}"
    if math.isnan(numbers["bias_exponent"]):
        text = f"{sd}; no bias is seen at any N ({clause(numbers['bias_p_zero'])})."
        return Answer(text=text, standing=standing, part=where)
    low, high = numbers["bias_exponent_lo"], numbers["bias_exponent_hi"]
    bias = f"the bias like N^({_pm(numbers, 'bias')}) (95 % {between(low, high, 2)})"
    of_bias = compared(numbers["bias_exponent"], numbers["bias_exponent_stderr"], (low, high), -1.0)
    if Standing.DIFFERS in (standing, of_bias) or of_bias != Standing.AGREES:
        standing = Standing.DIFFERS if Standing.DIFFERS in (standing, of_bias) else Standing.INCONCLUSIVE
    elif not high - low < 1.0:
        standing, bias = Standing.INCONCLUSIVE, f"{bias}, which tells little"
    return Answer(text=f"{sd}, {bias}.", standing=standing, part=where)


def _cells(row: xr.Dataset) -> tuple[str, ...]:
    numbers = {name: row[name].item() for name in row.data_vars if row[name].ndim == 0}
    # Of a row without a fit the share of bias² at its largest N is known, unless no N has two replicas.
    shares = (row.bias2 / row.rms2).dropna("N").values
    unseen = "not seen" if numbers["n"] else NONE
    return (
        name_of(row),
        _pm(numbers, "sd"),
        between(numbers["sd_exponent_lo"], numbers["sd_exponent_hi"]),
        _pm(numbers, "bias") if math.isfinite(numbers["bias_exponent"]) else unseen,
        between(numbers["bias_exponent_lo"], numbers["bias_exponent_hi"], 2),
        p_value(numbers["bias_p_zero"]),
        f"{signed(100 * shares[-1], 0)} %" if shares.size else NONE,
    )


def _pm(numbers: dict[Any, float], name: str) -> str:
    return with_error(numbers[f"{name}_exponent"], numbers[f"{name}_exponent_stderr"])


TOPICS = (
    Topic(
        name="rate",
        question="How fast do queue lengths approach their limit?",
        answer=paths,
        needs=("network/S_sup",),
    ),
    Topic(
        name="ages",
        question="How fast do ages of jobs in service approach theirs?",
        answer=ages,
        needs=("network/d_S",),
    ),
    Topic(
        name="bias",
        question="Is the error bias or fluctuation?",
        answer=errors,
        needs=("network/X", "fluid/X"),
    ),
    replace(CHAOS, needs=("network/S",)),
)
