"""What a report says of propagation of chaos: how two queues become independent as N grows."""

from __future__ import annotations

import math
import tomllib
from typing import TYPE_CHECKING

from analysis.chaos import LEAST_N, SIGNIFICANT, ChaosFit, chaos_table, fit_chaos
from analysis.report_page import AGREES, INCONCLUSIVE, MEASURED, Answer, Draft, Grid, Topic, compared
from analysis.report_text import between, p_value, place, with_error

if TYPE_CHECKING:
    import xarray as xr

#: An exponent known no better than this is no answer, whatever its interval holds.
WIDEST = 0.5


def independence(tree: xr.DataTree, draft: Draft) -> None:
    """Answer how fast the joint law of two queues becomes a product."""
    from analysis.chaos_figures import chaos_figure
    from analysis.tagged import measure_chaos

    draft.method = (
        "The difference between the joint law of two queues' lengths and the product of their laws is "
        "estimated without bias, entry by entry, from all queues by exchangeability; its Frobenius norm "
        f"is fitted with a N^p (1 + b/N) at N ≥ {LEAST_N}. Expected is p = −1; with one choice and Poisson "
        "arrivals queues that start empty are independent at every N."
    )
    measured = measure_chaos(tree)
    fits = fit_chaos(measured)
    rows = [row for row in chaos_table(fits) if row.n]
    if not rows:
        raise ValueError(f"two N ≥ {LEAST_N} of four replicas or more are needed: add values of N")
    split = _split_at_random(tree)
    draft.answers += [_judged(row, row.d == 1 and split) for row in rows]
    draft.shorten(
        lambda answers: (
            "Dependence falls like 1/N, or is not there, in "
            f"{sum(one.standing == AGREES for one in answers)} of {len(answers)} rows."
        )
    )
    draft.draw(
        "chaos",
        lambda: chaos_figure(measured, fits),
        f"Dependence of two queues, {measured.attrs['source']}: norm of joint law minus product against N "
        "beside a line of slope −1 (left), and N times the covariance of two lengths, where 0 is "
        "independence (right).",
        "Two plots against N: the norm of joint law minus product on logarithmic axes, and N times a "
        "covariance. " + " ".join(f"{one.part}: {one.text}" for one in draft.answers if one.part),
    )
    header = ("network", "exponent", "95 % interval", "lim N · norm", "p of lack of fit",
              "p of independence", "replicas")  # fmt: skip
    cells = [
        (
            place(row),
            with_error(row.exponent, row.exponent_stderr),
            between(row.exponent_lo, row.exponent_hi),
            with_error(row.first, row.first_stderr),
            p_value(row.p_value),
            p_value(row.p_zero),
            str(row.n),
        )
        for row in rows
    ]
    caption = f"Joint law of two queues minus product, {measured.attrs['source']}."
    draft.grids.append(Grid(caption=caption, header=header, rows=cells))


def _split_at_random(tree: xr.DataTree) -> bool:
    """Whether arrivals are Poisson and sample their queues: with d = 1 each queue then has its own."""
    run = tomllib.loads(tree.attrs.get("spec", "")).get("run", {})
    rules = run.get("arrivals", "exponential"), run.get("routing", "sampled")
    return rules == ("exponential", "sampled")


def _judged(row: ChaosFit, independent: bool) -> Answer:
    """Take the verdict of the fit, unless its interval is too wide; `independent` tells what is expected."""
    where, text = place(row), f"{row.verdict}."
    if math.isnan(row.exponent):
        seen = row.p_zero <= SIGNIFICANT
        if not (seen or independent):
            text = f"no dependence is seen, which more replicas may show (p = {p_value(row.p_zero)})."
        return Answer(text=text, standing=INCONCLUSIVE if seen or not independent else AGREES, part=where)
    if (row.exponent_hi - row.exponent_lo) / 2 > WIDEST:
        interval = between(row.exponent_lo, row.exponent_hi)
        text = f"dependent; the interval of the exponent, {interval}, is too wide to tell 1/N."
        return Answer(text=text, standing=INCONCLUSIVE, part=where)
    if row.p_value < SIGNIFICANT:
        return Answer(text=text, standing=MEASURED, part=where)
    ends = row.exponent_lo, row.exponent_hi
    standing = compared(row.exponent, row.exponent_stderr, ends, -1.0)
    return Answer(text=text, standing=standing, part=where)


CHAOS = Topic(name="chaos", question="Do queues become independent?", answer=independence)
