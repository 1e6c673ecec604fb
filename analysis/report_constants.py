"""What a report says of bias and fluctuation in equilibrium: central limit constants, beside exact ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from analysis.constants import has_variance
from analysis.evidence import far
from analysis.report_page import Answer, Draft, Grid, Standing, Topic
from analysis.report_text import NONE, p_value, signed, with_error
from analysis.rows import name_of

if TYPE_CHECKING:
    import xarray as xr

    from analysis.fluctuations import ConstantFit

#: Constants with a larger relative error than this test little.
ROUGH = 0.1


def constants(tree: xr.DataTree, draft: Draft) -> None:
    """Answer what the constants of bias and fluctuation are, beside exact ones for exponential service."""
    from analysis.fluctuation_figures import constants_figure
    from analysis.fluctuations import clt_constants, constant_table

    draft.method = (
        "Limits for large N of N times the bias and N times the variance of the mean queue X, and of √N "
        "times the standard deviation of S_ℓ; C + C₂/N is fitted, with S_1, whose mean is λ, as control "
        "variate. Exact limits, by the linearised drift at the fixed point, are known for exponential "
        "service and Poisson arrivals; with one choice and Poisson arrivals there is no bias, for any "
        "service. Laws of infinite variance are left out, as variances need not exist, and so are traces "
        "whose file is elsewhere."
    )
    part = _of_finite_variance(tree)
    fits = clt_constants(part)
    rows = [row for row in constant_table(fits) if row.n and math.isfinite(row.value)]
    places = list(dict.fromkeys(name_of(row) for row in rows))
    for where in places:
        draft.answers.append(_compared([row for row in rows if name_of(row) == where], where))
    draft.shorten("Constants are in the table, for {rows} networks; exact ones agree in {agree}.")
    draft.draw(
        "constants",
        lambda: constants_figure(fits),
        "N times the bias and N times the variance of the mean queue against 1/N, with the fits C + C₂/N and "
        "their limits at 1/N = 0; crosses are exact limits.",
        "Two plots against 1/N of N times bias and N times variance of the mean queue, nearly straight "
        "lines to the limits: "
        + "; ".join(
            f"{name_of(row)}, {_constant(row)}" for row in rows if row.constant in ("bias_X", "variance_X")
        )
        + ".",
        series=len(places),
    )
    header = ("network, constant", "limit", "exact", "deviation in s.e.", "p of lack of fit", "replicas")
    cells = [
        (
            f"{name_of(row)}, {_symbol(row.constant)}",
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
                      standing=Standing.MEASURED, part=where)  # fmt: skip
    worst = max(exact, key=lambda row: abs(row.z) / far(row.freedom))
    errors = [row.value_stderr / abs(row.exact) for row in exact if row.exact]
    text = (
        f"of {len(exact)} exact limits the farthest, {_symbol(worst.constant)}, is {abs(worst.z):.1f} "
        "standard errors off"
    )
    if errors:
        low, high = (float(f"{100 * error:.2g}") for error in (min(errors), max(errors)))
        text += f"; relative errors are {low:g} to {high:g} %"
    if abs(worst.z) > far(worst.freedom):
        return Answer(text=f"{text}.", standing=Standing.DIFFERS, part=where)
    rough = bool(errors) and float(np.median(errors)) > ROUGH
    ending = ", so that they test little." if rough else "."
    standing = Standing.INCONCLUSIVE if rough else Standing.AGREES
    return Answer(text=text + ending, standing=standing, part=where)


def _of_finite_variance(tree: xr.DataTree) -> xr.DataTree:
    """Return the groups that constants need, of the laws known to have a finite variance."""
    import xarray as xr

    names = [str(G) for G in tree["equilibrium"].G.values]
    kept = [G for G in names if has_variance(G)]
    if not kept:
        raise ValueError("no law that is known to have a finite variance is stored")
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
    return {"bias": f"N · bias of {share}", "variance": f"N · variance of {share}"}.get(
        kind, f"√N · sd of {share}"
    )


def _constant(row: ConstantFit) -> str:
    return f"{_symbol(row.constant)} → {with_error(row.value, row.value_stderr)}"


CONSTANTS = Topic(
    name="constants",
    question="How large are bias and fluctuation?",
    answer=constants,
    needs=("invariant/S",),
)
