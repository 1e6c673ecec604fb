"""What a report says of the study equilibrium: networks beside the invariant state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from analysis.equilibrium_bias import fit_bias, largest_remainder
from analysis.evidence import LEAST_N, SIGNIFICANT
from analysis.least_squares import Floats
from analysis.quantities import group_of
from analysis.report_chaos import CHAOS
from analysis.report_constants import CONSTANTS
from analysis.report_page import Answer, Draft, Grid, Standing, Topic
from analysis.report_tails import TAILS
from analysis.report_text import NONE, p_value, signed, with_error
from analysis.rows import ROW, labels_of, name_of, stored_rows

if TYPE_CHECKING:
    import xarray as xr

#: A difference at N = ∞ that could be larger than this share of S_2 is not ruled out.
ROUGH = 0.1


def limit_of_equilibria(tree: xr.DataTree, draft: Draft) -> None:
    """Answer whether stationary networks approach the invariant state.

    Raises
    ------
    ValueError
        Fewer than two N that are large enough, or as `analysis.equilibrium.compare_equilibrium`.
    """
    from analysis.equilibrium import compare_equilibrium
    from analysis.equilibrium_figures import equilibrium_figure

    draft.method = (
        "Time averages of the share of queues of length at least ℓ are compared with the invariant S_ℓ at "
        f"N ≥ {LEAST_N}: C + C₂/N is fitted to N times the difference, and what remains of the difference "
        "at N = ∞ is tested. That stationary networks converge is proved for Poisson arrivals with "
        "decreasing hazard rates or one choice, which leaves no bias at any N, and a conjecture otherwise. "
        "Errors are those of independent replicas; E S_1 = λ exactly in equilibrium tests the warm-up."
    )
    compared = compare_equilibrium(tree)
    fits = fit_bias(compared)
    stored = list(stored_rows(fits))
    rows = [row for row in stored if row.n.item()]
    if not rows:
        raise ValueError(stored[0].verdict.item() if stored else "no replicas are stored yet")
    draft.answers += [_judged(row, compared.invariant.sel(labels_of(row)).values) for row in rows]
    draft.shorten(
        "No difference from the invariant state remains at N = ∞ within error in {agree} of {rows} rows."
    )
    draft.draw(
        "equilibrium",
        lambda: equilibrium_figure(compared, fits),
        "N times the difference between the mean share of queues of length at least ℓ and its limit, "
        "against N, with standard errors and the fits C + C₂/N; stars are exact limits, where known.",
        f"A panel for each of {len(rows)} networks: N times the bias of S_ℓ against N on a logarithmic "
        "axis, a series for each ℓ. The table below holds the fitted constants.",
    )
    cells = [
        (
            f"{name_of(row)}, {one.quantity.item()}",
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


def _judged(row: xr.Dataset, invariant: Floats) -> Answer:
    """Take the verdict of the fit, with its standing; `invariant` is S_ℓ of the limit, shape (level,)."""
    verdict, where = row.verdict.item(), name_of(row)
    remainder, half = row.remainder.values[:-1], row.remainder_half.values[:-1]
    if float(row.busy_p) < SIGNIFICANT or np.isnan(half).all():
        return Answer(text=f"{verdict}.", standing=Standing.INCONCLUSIVE, part=where)
    if float(row.limit_p) < SIGNIFICANT:
        return Answer(text=f"{verdict}.", standing=Standing.DIFFERS, part=where)
    # E S_1 = λ whatever the network does: only deeper levels tell.
    if not largest_remainder(remainder, half) <= ROUGH * np.max(invariant[1:], initial=0.0):
        text = f"{verdict}; one of {100 * ROUGH:.0f} % of S_2 is not ruled out."
        return Answer(text=text, standing=Standing.INCONCLUSIVE, part=where)
    return Answer(text=f"{verdict}.", standing=Standing.AGREES, part=where)


def times(tree: xr.DataTree, draft: Draft) -> None:
    """Answer how long jobs stay, beside the limit.

    Raises
    ------
    ValueError
        No replicas.
    """
    runs = group_of(tree, "equilibrium")
    limit = group_of(tree, "invariant").mean_time_in_system if "invariant" in tree.children else None
    draft.method = (
        "Mean time in system by Little's law, jobs per server divided by λ, in mean service times; N-server "
        "networks with standard errors over replicas, and the invariant state where there is one."
    )
    means = runs["time_in_system"].mean("batch")
    count = means.notnull().sum("replica")
    average, error = means.mean("replica"), means.std("replica", ddof=1) / np.sqrt(np.maximum(count, 1))
    N = runs.N.values.tolist()
    rows = []
    for index in np.ndindex(tuple(runs.sizes[axis] for axis in ROW)):
        at = dict(zip(ROW, index, strict=True))
        here, spread = average.isel(at), error.isel(at)
        if count.isel(at).any():
            held = zip(here.values.tolist(), spread.values.tolist(), strict=True)
            rows.append((name_of(here), *(with_error(*pair) for pair in held), _limiting(limit, at)))
    if not rows:
        raise ValueError("no replicas are stored yet")
    draft.say(f"mean times in system of {len(rows)} networks are in the table.", Standing.MEASURED)
    header = ("network", *(f"N = {size}" for size in N), "limit")
    draft.grids.append(Grid(caption="Mean time in system, in mean service times.", header=header, rows=rows))


def _limiting(limit: xr.DataArray | None, at: dict[str, int]) -> str:
    if limit is None:
        return NONE
    value = limit.isel(at).item()
    return f"{value:.4g}" if math.isfinite(value) else "infinite"


TOPICS = (
    Topic(
        name="limit",
        question="Do stationary networks approach the invariant state?",
        answer=limit_of_equilibria,
        needs=("invariant/S",),
    ),
    CONSTANTS,
    TAILS,
    CHAOS,
    Topic(name="times", question="How long do jobs stay?", answer=times),
)
