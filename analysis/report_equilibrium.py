"""What a report says of the study equilibrium: stationary networks beside the invariant state, and its tail."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.equilibrium_bias import LEAST_N, SIGNIFICANT, fit_bias
from analysis.quantities import ROW, group_of
from analysis.report_chaos import CHAOS
from analysis.report_page import AGREES, DIFFERS, INCONCLUSIVE, MEASURED, Answer, Draft, Grid, Topic
from analysis.report_text import NONE, p_value, place, signed, with_error

if TYPE_CHECKING:
    import xarray as xr

    from analysis.fluctuations import ConstantFit
    from analysis.tails import TailFit

#: Constants with a larger relative error than this test little.
ROUGH = 0.1
#: Most series of one picture.
_MOST = 7


def limit_of_equilibria(tree: xr.DataTree, draft: Draft) -> None:
    """Answer whether stationary networks approach the invariant state."""
    from analysis.equilibrium import compare_equilibrium
    from analysis.equilibrium_figures import equilibrium_figure

    draft.method = (
        f"Time averages of the share of queues of length at least ℓ are compared with the invariant S_ℓ at N ≥ "
        f"{LEAST_N}: C + C₂/N is fitted to N times the difference, and what remains of the difference at N = ∞ "
        "is tested. That stationary networks converge is proved for decreasing hazard rates and a conjecture "
        "otherwise. Errors are those of independent replicas; E S_1 = λ exactly in equilibrium tests the "
        "warm-up."
    )
    compared = compare_equilibrium(tree)
    fits = fit_bias(compared)
    rows = [row for row in _rows(fits) if row.n.item()]
    if not rows:
        raise ValueError(f"two N ≥ {LEAST_N} with replicas are needed: add values of N")
    draft.answers += [_judged(row) for row in rows]
    draft.shorten(
        lambda answers: (
            "No difference from the invariant state remains at N = ∞ within error in "
            f"{sum(one.standing == AGREES for one in answers)} of {len(answers)} rows."
        )
    )
    draft.draw(
        "equilibrium",
        lambda: equilibrium_figure(compared, fits),
        "N times the difference between the mean share of queues of length at least ℓ and its limit, against N, "
        "with standard errors and the fits C + C₂/N; stars are exact limits, where known.",
        f"A panel for each of {len(rows)} networks: N times the bias of S_ℓ against N on a logarithmic axis, a "
        "series for each ℓ. The table below holds the fitted constants.",
    )
    cells = [
        (
            f"{_place(row)}, {one.quantity.item()}",
            with_error(float(one.constant), float(one.constant_stderr)),
            signed(float(one.constant_exact), 4),
            with_error(float(one.remainder), float(one.remainder_stderr)),
            p_value(float(one.remainder_p)),
            p_value(float(one.fit_p)),
        )
        for row in rows
        for one in (row.sel(quantity=name) for name in row.quantity.values)
        if math.isfinite(float(one.constant))
    ]
    header = ("network", "lim N · bias", "exact", "left at N = ∞", "p of nothing left", "p of lack of fit")
    caption = "Bias of networks in equilibrium: its limit times N, and the difference left at N = ∞."
    draft.grids.append(Grid(caption=caption, header=header, rows=cells))


def _judged(row: xr.Dataset) -> Answer:
    """Take the verdict of the fit, with its standing."""
    verdict = row.verdict.item()
    standing = AGREES
    if math.isfinite(float(row.busy_p)) and float(row.busy_p) < SIGNIFICANT:
        standing = INCONCLUSIVE
    elif np.isnan(row.remainder_p.values[:-1]).all():
        standing = INCONCLUSIVE
    elif "is off its limit" in verdict:
        standing = DIFFERS
    return Answer(text=f"{verdict}.", standing=standing, part=_place(row))


def constants(tree: xr.DataTree, draft: Draft) -> None:
    """Answer what the constants of bias and fluctuation are, beside the exact ones for exponential service."""
    from analysis.fluctuation_figures import constants_figure
    from analysis.fluctuations import clt_constants, constant_table

    draft.method = (
        "Limits for large N of N times the bias and N times the variance of the mean queue X, and of √N times "
        "the standard deviation of S_ℓ; C + C₂/N is fitted, with S_1, whose mean is λ, as control variate. "
        "Exact limits, by the linearised drift at the fixed point, are known for exponential service and "
        "Poisson arrivals. Laws of infinite variance are left out: their variances need not exist."
    )
    part = _of_finite_variance(tree)
    fits = clt_constants(part)
    rows = [row for row in constant_table(fits) if row.n and math.isfinite(row.value)]
    for where in dict.fromkeys(place(row) for row in rows):
        draft.answers.append(_compared([row for row in rows if place(row) == where], where))
    draft.shorten(
        lambda answers: f"Constants are in the table, for {len(answers)} networks; exact ones agree in "
        f"{sum(one.standing == AGREES for one in answers)}."
    )
    draft.draw(
        "constants",
        lambda: constants_figure(fits),
        "N times the bias and N times the variance of the mean queue against 1/N, with the fits C + C₂/N and "
        "their limits at 1/N = 0; crosses are exact limits.",
        "Two plots against 1/N of N times bias and N times variance of the mean queue, nearly straight lines to "
        "the limits: " + "; ".join(_constant(row) for row in rows if row.constant in ("bias_X", "variance_X")),
    )
    header = ("network, constant", "limit", "exact", "deviation in s.e.", "p of lack of fit", "replicas")
    cells = [
        (
            f"{place(row)}, {_symbol(row.constant)}",
            with_error(row.value, row.value_stderr),
            signed(row.exact, 4),
            NONE if math.isnan(row.z) else f"{row.z:+.1f}".replace("-", "−"),
            p_value(row.p_value),
            f"{row.n} at N ≥ {row.N_min:.0f}",
        )
        for row in rows
    ]
    draft.grids.append(Grid(caption="Limits of scaled bias and fluctuation.", header=header, rows=cells))


def _compared(rows: list[ConstantFit], where: str) -> Answer:
    """Compare the constants of one network with the exact ones."""
    exact = [row for row in rows if math.isfinite(row.z)]
    if not exact:
        mean = [_constant(row) for row in rows if row.constant in ("bias_X", "variance_X")]
        return Answer(text=f"{'; '.join(mean) or 'see the table'}; no exact limits are known.",
                      standing=MEASURED, part=where)  # fmt: skip
    worst = max(exact, key=lambda row: abs(row.z))
    errors = [row.value_stderr / abs(row.exact) for row in exact if row.exact]
    text = (
        f"of {len(exact)} exact limits the farthest, {_symbol(worst.constant)}, is {abs(worst.z):.1f} standard "
        f"errors off; relative errors are {100 * min(errors):.2g} to {100 * max(errors):.2g} %"
    )
    if abs(worst.z) > 4.0:
        return Answer(text=f"{text}.", standing=DIFFERS, part=where)
    rough = float(np.median(errors)) > ROUGH
    ending = ", so that they test little." if rough else "."
    return Answer(text=text + ending, standing=INCONCLUSIVE if rough else AGREES, part=where)


def _of_finite_variance(tree: xr.DataTree) -> xr.DataTree:
    """Return the groups that constants need, of the laws of finite variance."""
    import xarray as xr

    from sweep.laws import parse_law

    names = [str(G) for G in tree["equilibrium"].G.values]
    kept = [G for G in names if math.isfinite(parse_law(G).variance)]
    if not kept:
        raise ValueError("no law of finite variance is stored")
    groups = {
        name: tree[name].to_dataset().isel(G=[names.index(G) for G in kept])
        for name in ("equilibrium", "invariant")
    }
    made = xr.DataTree.from_dict(groups)
    made.attrs = tree.attrs
    return made


def _symbol(constant: str) -> str:
    """Write out the name of a constant."""
    kind, _, of = constant.partition("_")
    share = "X" if of == "X" else f"S_{of[1:]}"
    return {"bias": f"N · bias of {share}", "variance": f"N · variance of {share}"}.get(kind, f"√N · sd of {share}")


def _constant(row: ConstantFit) -> str:
    return f"{_symbol(row.constant)} → {with_error(row.value, row.value_stderr)}"


def tails(tree: xr.DataTree, draft: Draft) -> None:
    """Answer how the tail of queue lengths decays."""
    from analysis.tail_figures import tail_figure
    from analysis.tails import classify_tail, tail_table

    limit = group_of(tree, "invariant")
    draft.method = (
        "The invariant S_ℓ is tried as a power law, as geometric and as double exponential in ℓ, on the levels "
        f"stored ({limit.sizes['level']}), extrapolated in ℓ; a verdict needs that exactly one passes. Local "
        "rates converge slowly: more levels cost little with sweep.invariant_state."
    )
    fraction = _fraction(tree)
    rows = [row for row in tail_table(classify_tail(limit, fraction=fraction)) if row.depth]
    draft.answers += [_tail(row) for row in rows]
    draft.shorten(
        lambda answers: (
            f"The regime is named in {sum(one.standing != INCONCLUSIVE for one in answers)} of {len(answers)} "
            "rows, as in the table."
        )
    )
    if len(rows) > _MOST:
        draft.notes.append(f"The figure would hold {len(rows)} tails, more than can be told apart.")
    else:
        draft.draw(
            "tails",
            lambda: tail_figure(limit, fraction=fraction),
            "The invariant S_ℓ against ℓ on axes that make a power law, a geometric and a double exponential "
            "tail a straight line; grey lines have the slope that theory predicts.",
            "Three plots of the invariant tails. " + " ".join(f"{place(row)}: {_verdict(row)}" for row in rows),
        )
    header = ("network", "regime", "rate", "between", "theory", "levels seen")
    cells = [
        (
            place(row),
            row.regime.replace("_", " "),
            signed(row.rate, 4),
            NONE if math.isnan(row.rate) else f"{row.rate_lo:.4g} … {row.rate_hi:.4g}",
            f"{row.predicted_regime.replace('_', ' ')} {signed(row.predicted_rate, 4)}",
            str(row.depth),
        )
        for row in rows
    ]
    draft.grids.append(Grid(caption="Tails of the invariant states.", header=header, rows=cells))


def _tail(row: TailFit) -> Answer:
    standing = {"agrees": AGREES, "disagrees": DIFFERS, "undecided": INCONCLUSIVE}.get(row.agreement, MEASURED)
    if row.regime == INCONCLUSIVE:
        standing = INCONCLUSIVE
    return Answer(text=_verdict(row), standing=standing, part=place(row))


def _verdict(row: TailFit) -> str:
    return f"{row.verdict.replace('_', ' ')}."


def _fraction(tree: xr.DataTree) -> float:
    from analysis.constants import network_of

    network = network_of(tree)
    return network.fraction if network is not None else 1.0


def times(tree: xr.DataTree, draft: Draft) -> None:
    """Answer how long jobs stay, beside the limit."""
    runs, limit = group_of(tree, "equilibrium"), group_of(tree, "invariant")
    draft.method = (
        "Mean time in system by Little's law, jobs per server divided by λ, in mean service times; N-server "
        "networks with standard errors over replicas, and the invariant state."
    )
    means = runs["time_in_system"].mean("batch")
    count = means.notnull().sum("replica")
    average, error = means.mean("replica"), means.std("replica", ddof=1) / np.sqrt(np.maximum(count, 1))
    N = runs.N.values.tolist()
    rows = []
    for index in np.ndindex(tuple(limit.sizes[axis] for axis in ROW)):
        at = dict(zip(ROW, index, strict=True))
        if not count.isel(at).any():
            continue
        one = limit.mean_time_in_system.isel(at)
        held = zip(average.isel(at).values.tolist(), error.isel(at).values.tolist(), strict=True)
        rows.append((_place(one), *(with_error(value, spread) for value, spread in held),
                     with_error(one.item(), math.nan) if math.isfinite(one.item()) else "infinite"))  # fmt: skip
    if not rows:
        raise ValueError("no replicas are stored yet")
    draft.say(f"mean times in system of {len(rows)} networks are in the table.", MEASURED)
    header = ("network", *(f"N = {size}" for size in N), "limit")
    draft.grids.append(Grid(caption="Mean time in system, in mean service times.", header=header, rows=rows))


def _rows(fits: xr.Dataset) -> list[xr.Dataset]:
    shape = tuple(fits.sizes[axis] for axis in ROW)
    return [fits.isel(dict(zip(ROW, index, strict=True))) for index in np.ndindex(shape)]


def _place(row: Any) -> str:
    return f"d = {row.d.item()}, λ = {row.lam.item():g}, {row.G.item()}"


TOPICS = (
    Topic(
        name="limit",
        question="Do stationary networks approach the invariant state?",
        answer=limit_of_equilibria,
    ),
    Topic(name="constants", question="How large are bias and fluctuation?", answer=constants),
    Topic(name="tails", question="How does the tail of queue lengths decay?", answer=tails),
    CHAOS,
    Topic(name="times", question="How long do jobs stay?", answer=times),
)
