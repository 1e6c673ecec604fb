"""What a report says of the tail of queue lengths in the limit, beside theory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.quantities import group_of
from analysis.report_page import Answer, Draft, Grid, Standing, Topic
from analysis.report_text import NONE
from analysis.rows import name_of
from analysis.tail_data import fraction_of
from analysis.tail_theory import NAMES
from analysis.tails import INCONCLUSIVE, rate_digits

if TYPE_CHECKING:
    import xarray as xr

    from analysis.tails import TailFit


def tails(tree: xr.DataTree, draft: Draft) -> None:
    """Answer how the tail of queue lengths decays."""
    from analysis.tail_figures import tail_figure
    from analysis.tails import classify_tail, tail_table

    limit = group_of(tree, "invariant")
    draft.method = (
        "The invariant S_ℓ is tried as a power law, as geometric and as double exponential in ℓ, on the "
        f"levels stored ({limit.sizes['level']}), extrapolated in ℓ; a verdict needs that exactly one "
        "passes. Local rates converge slowly: more levels cost little with sweep.invariant_state."
    )
    fraction = fraction_of(tree)
    rows = [row for row in tail_table(classify_tail(limit, fraction=fraction)) if row.depth]
    draft.answers += [_tail(row) for row in rows]
    draft.shorten("The regime is named in {decided} of {rows} rows, as in the table.")
    draft.draw(
        "tails",
        lambda: tail_figure(limit, fraction=fraction),
        "The invariant S_ℓ against ℓ on axes that make a power law, a geometric and a double exponential "
        "tail a straight line; grey lines have the slope that theory predicts.",
        "Three plots of the invariant tails. " + " ".join(f"{name_of(row)}: {_verdict(row)}" for row in rows),
        series=len(rows),
    )
    header = ("network", "regime", "rate", "between", "theory", "levels seen")
    cells = [
        (
            name_of(row),
            NAMES.get(row.regime, row.regime),
            *_rate(row),
            f"{NAMES.get(row.predicted_regime, row.predicted_regime)} {_predicted(row)}",
            str(row.depth),
        )
        for row in rows
    ]
    draft.grids.append(Grid(caption="Tails of the invariant states.", header=header, rows=cells))


def _tail(row: TailFit) -> Answer:
    known = {"agrees": Standing.AGREES, "disagrees": Standing.DIFFERS}
    standing = known.get(row.agreement, Standing.MEASURED)
    if row.regime == INCONCLUSIVE:
        standing = Standing.INCONCLUSIVE
    return Answer(text=_verdict(row), standing=standing, part=name_of(row))


def _verdict(row: TailFit) -> str:
    return f"{row.verdict}."


def _rate(row: TailFit) -> tuple[str, str]:
    """Return the rate and its interval, with the digits that the verdict gives them."""
    if math.isnan(row.rate):
        return NONE, NONE
    rate, low, high = rate_digits(row.rate, row.rate_lo, row.rate_hi)
    return rate, f"{low} … {high}"


def _predicted(row: TailFit) -> str:
    return NONE if math.isnan(row.predicted_rate) else f"{row.predicted_rate:.6g}"


TAILS = Topic(
    name="tails",
    question="How does the tail of queue lengths decay?",
    answer=tails,
    needs=("invariant/S",),
)
