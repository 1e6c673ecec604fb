"""What a report says of propagation of chaos: how two queues become independent as N grows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.chaos import ChaosFit, chaos_table, fit_chaos
from analysis.evidence import LEAST_N, SIGNIFICANT
from analysis.report_page import Answer, Draft, Grid, Standing, Topic, compared
from analysis.report_text import NONE, between, p_value, with_error
from analysis.rows import name_of
from analysis.stores import run_of

if TYPE_CHECKING:
    import xarray as xr


def independence(tree: xr.DataTree, draft: Draft) -> None:
    """Answer how fast the joint law of two queues becomes a product.

    Raises
    ------
    ValueError
        Fewer than two N that are large enough, or as `analysis.tagged.measure_chaos`.
    """
    from analysis.chaos_figures import chaos_figure, has_norm
    from analysis.tagged import measure_chaos

    draft.method = (
        "The difference between the joint law of two queues' lengths and the product of their laws is "
        "estimated without bias, entry by entry, from all queues by exchangeability; its Frobenius norm "
        f"is fitted with a N^p (1 + b/N) at N ≥ {LEAST_N}. Expected is p = −1; with one choice and Poisson "
        "arrivals queues that start independently remain so at every N. “Independent within error” means "
        f"that the p-value of independence exceeds {SIGNIFICANT:g}, not 0.05, as a table tests many rows."
    )
    measured = measure_chaos(tree)
    fits = fit_chaos(measured)
    rows = list(chaos_table(fits))
    if not any(row.n for row in rows):
        raise ValueError(rows[0].verdict if rows else "no replicas are stored yet")
    split = _split_at_random(tree)
    draft.answers += [_judged(row, row.d == 1 and split) for row in rows]
    draft.shorten("Dependence falls like 1/N, or is not there, in {agree} of {rows} rows.")
    shown = f"{_signed(measured)} with fits a + b/N, where 0 is independence"
    panels = "A plot against N: N times a covariance. "
    if any(map(has_norm, rows)):
        shown = (
            "first the norm of joint law minus product against N, with fits a/N + b/N² and a line of slope "
            f"−1, then {shown}; an exponent in the legend is p of a N^p (1 + b/N)"
        )
        panels = (
            "Two plots against N: the norm of joint law minus product on logarithmic axes, and N times a "
            "covariance. "
        )
    draft.draw(
        "chaos",
        lambda: chaos_figure(measured, fits),
        f"Dependence of two queues, {measured.attrs['source']}: {shown}.",
        panels + " ".join(f"{one.part}: {one.text}" for one in draft.answers if one.part),
        series=len(rows),
    )
    header = ("network", "exponent", "95 % interval", "lim N · norm", "p of lack of fit",
              "p of independence", "replicas")  # fmt: skip
    cells = [
        (
            name_of(row),
            with_error(row.exponent, row.exponent_stderr),
            between(row.exponent_lo, row.exponent_hi),
            with_error(row.first, row.first_stderr),
            p_value(row.p_value),
            p_value(row.p_zero) if row.n else NONE,
            str(row.n or row.replicas),
        )
        for row in rows
    ]
    caption = f"Joint law of two queues minus product, {measured.attrs['source']}."
    draft.grids.append(Grid(caption=caption, header=header, rows=cells))


def _signed(measured: xr.Dataset) -> str:
    """Name what the figure draws N times, with the symbols on its axis."""
    if "queue_covariance" not in measured:
        return "N times joint law minus product for the first event"
    top = int(measured.level.values[-1])
    return (
        "N times the covariance of X¹ and X², the lengths of two tagged queues, each cut at "
        f"{top} (X ∧ {top} is the smaller of X and {top}),"
    )


def _split_at_random(tree: xr.DataTree) -> bool:
    """Whether queues start independently and arrivals are Poisson and sampled: with d = 1 they stay so."""
    run = run_of(tree) or {}
    rules = run.get("arrivals", "exponential"), run.get("routing", "sampled")
    # Lengths in exact proportions make queues dependent from the first.
    return rules == ("exponential", "sampled") and run.get("initial", "empty") in ("empty", "invariant")


def _judged(row: ChaosFit, independent: bool) -> Answer:
    """Take the verdict of the fit, with its standing; `independent` tells what is expected."""
    where, text = name_of(row), f"{row.verdict}."
    if not row.n:
        return Answer(text=text, standing=Standing.INCONCLUSIVE, part=where)
    if math.isnan(row.exponent):
        seen = row.p_zero <= SIGNIFICANT
        if not (seen or independent):
            text = f"{row.verdict}; more replicas may show a dependence."
        standing = Standing.INCONCLUSIVE if seen or not independent else Standing.AGREES
        return Answer(text=text, standing=standing, part=where)
    ends = row.exponent_lo, row.exponent_hi
    standing = compared(row.exponent, row.exponent_stderr, ends, -1.0)
    if standing == Standing.AGREES and row.too_wide:
        standing = Standing.INCONCLUSIVE
    elif row.p_value < SIGNIFICANT:
        standing = Standing.MEASURED
    return Answer(text=text, standing=standing, part=where)


CHAOS = Topic(name="chaos", question="Do queues become independent?", answer=independence)
