"""What a report says of the study heavy-traffic: critical networks beside their diffusion limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.evidence import far
from analysis.heavy_traffic_chaos import PairCovariance, pair_covariances, pairs_left_out
from analysis.heavy_traffic_data import load_tree
from analysis.heavy_traffic_figures import heavy_traffic_figure
from analysis.heavy_traffic_queues import QueueLaw, TwoTimes, queue_laws, two_times
from analysis.heavy_traffic_scales import DISTANCES, DistanceFit, MeanFit, extrapolate_mean, fit_distance
from analysis.report_page import Answer, Draft, Grid, Standing, Topic
from analysis.report_text import NONE, p_value, scaled_place, signed, with_error

if TYPE_CHECKING:
    import xarray as xr

#: Standard errors from the limit within which a result agrees with it.
NEAR = 2.0
#: A mean with a larger relative error than this tests little.
ROUGH = 0.1
#: Rows that have a picture of their own.
_PICTURES = 3
_NAMES = {"W1": "Wasserstein-1", "KS": "Kolmogorov", "d_P": "Prohorov"}


def distances(tree: xr.DataTree, draft: Draft) -> None:
    """Answer how the distance from the diffusion falls with the scale m and the number of servers N."""
    last = float(load_tree(tree)["network"].t.values[-1])
    draft.method = (
        f"At scaled time t = {last:g} the law of Q/√m over the queues of a network is compared with that "
        "of the limit, in distances W1 (Wasserstein), KS (Kolmogorov) and d_P (Prohorov). Powers are "
        "fitted along m at the largest N and along N at the largest m, and √(a²/m + b²/N) to all. The "
        "bias at finite m and the noise at finite N both enter: a power along one axis is cut short by "
        "the other."
    )
    fits = {name: fit_distance(tree, name) for name in DISTANCES}
    for fit in fits["W1"]:
        draft.answers.append(_distance(fit))
    draft.shorten("Powers of m and N are in the table, for {rows} limits.")
    for k, fit in enumerate(fits["W1"][:_PICTURES]):
        row = (fit.b1, fit.b0, fit.ell, fit.G)
        draft.draw(
            f"heavy-traffic-{k + 1}",
            lambda row=row: heavy_traffic_figure(tree, "W1", None, row),  # type: ignore[misc]
            f"{scaled_place(fit)}: distance W1 against m and N, mean against m^(−1/2) with the limit's, "
            "and tails v beside the limit.",
            f"Four plots. W1 against m and against N, beside lines of slope −1/2: {_distance(fit).text} "
            "The mean of Q/√m against m^(−1/2), with a star for the limit. Shares of queues above x, "
            "beside the limit.",
        )
    if len(fits["W1"]) > _PICTURES:
        draft.notes.append(f"{len(fits['W1']) - _PICTURES} more limits have no figure here.")
    header = ("limit, distance", "power of m", "power of N", "a", "b", "misfit")
    cells = [_distance_cells(fit, name) for name, found in fits.items() for fit in found]
    draft.grids.append(Grid(caption=f"Distances from the limit at t = {last:g}.", header=header, rows=cells))


def _distance(fit: DistanceFit) -> Answer:
    parts = []
    if fit.in_m.points > 1:
        power = with_error(fit.in_m.exponent, fit.in_m.stderr)
        parts.append(f"W1 goes like m^({power}) at N = {fit.largest_N}")
    if fit.in_N.points > 1:
        power = with_error(fit.in_N.exponent, fit.in_N.stderr)
        parts.append(f"{'like' if parts else 'W1 goes like'} N^({power}) at m = {fit.largest_m}")
    if (one := fit.squares) is not None:
        parts.append(f"jointly like √(a²/m + b²/N) with a misfit of {100 * one.misfit:.0f} %")
    if not parts:
        return Answer(
            text="one m and one N tell no power.", standing=Standing.INCONCLUSIVE, part=scaled_place(fit)
        )
    seen = any(abs(power.exponent) > NEAR * power.stderr for power in (fit.in_m, fit.in_N))
    standing = Standing.MEASURED if seen else Standing.INCONCLUSIVE
    return Answer(text=f"{', '.join(parts)}.", standing=standing, part=scaled_place(fit))


def _distance_cells(fit: DistanceFit, name: str) -> tuple[str, ...]:
    powers = [
        with_error(power.exponent, power.stderr) if power.points > 1 else NONE
        for power in (fit.in_m, fit.in_N)
    ]
    fitted = (NONE, NONE, NONE)
    if (one := fit.squares) is not None:
        misfit = f"{100 * one.misfit:.0f} %"
        fitted = with_error(one.a, one.a_stderr), with_error(one.b, one.b_stderr), misfit
    return (f"{scaled_place(fit)}, {name} ({_NAMES[name]})", *powers, *fitted)


def means(tree: xr.DataTree, draft: Draft) -> None:
    """Answer whether mean queues extrapolate to that of the limit."""
    draft.method = (
        "The mean of Q/√m at the last time is fitted by powers of m^(−1/2), a line for two scales and a "
        "parabola for three or more, and extrapolated to m = ∞. A bias of higher order in m^(−1/2) "
        "remains."
    )
    fits = extrapolate_mean(tree)
    largest = {row: max(fit.N for fit in fits if _row(fit) == row) for row in map(_row, fits)}
    draft.answers += [_mean(fit) for fit in fits if largest[_row(fit)] == fit.N]
    draft.shorten("Means agree with the limit's in {agree} of {rows} rows.")
    header = ("limit", "N", "scales m", "mean at m = ∞", "limit's mean", "deviation in s.e.",
              "p of lack of fit", "limit's mean at t = ∞")  # fmt: skip
    cells = [
        (
            scaled_place(fit), str(fit.N), ", ".join(map(str, fit.scales)), with_error(fit.value, fit.stderr),
            signed(fit.limit, 4), signed(fit.z, 1), p_value(fit.p_value), signed(fit.stationary, 4),
        )
        for fit in fits
    ]  # fmt: skip
    draft.grids.append(Grid(caption="Mean of Q/√m, extrapolated to m = ∞.", header=header, rows=cells))


def _row(fit: MeanFit | QueueLaw | TwoTimes | PairCovariance) -> tuple[float, float, int, str]:
    return fit.b1, fit.b0, fit.ell, fit.G


def _mean(fit: MeanFit) -> Answer:
    text = f"with N = {fit.N} the mean extrapolates to {with_error(fit.value, fit.stderr)}"
    where = scaled_place(fit)
    if math.isnan(fit.z):
        text = f"{text}, with no limit or no error to compare it by."
        return Answer(text=text, standing=Standing.INCONCLUSIVE, part=where)
    text = f"{text}, {abs(fit.z):.1f} standard errors from the limit's {fit.limit:.4f}"
    if abs(fit.z) > far(fit.freedom):
        return Answer(text=f"{text}.", standing=Standing.DIFFERS, part=where)
    if not fit.stderr < ROUGH * abs(fit.limit):
        text = f"{text}; the error is too large to test it."
        return Answer(text=text, standing=Standing.INCONCLUSIVE, part=where)
    standing = Standing.AGREES if abs(fit.z) <= NEAR else Standing.INCONCLUSIVE
    return Answer(text=f"{text}.", standing=standing, part=where)


def queues(tree: xr.DataTree, draft: Draft) -> None:
    """Answer whether single queues follow the limit process."""
    draft.method = (
        "The lengths of tagged queues over all replicas are compared with the law that the limit gives "
        "one queue, by the largest difference of their tails; as many independent draws of the limit "
        "itself would be about “of noise” away. At two times their joint law is compared with that of the "
        "McKean–Vlasov process, at its medians."
    )
    laws = queue_laws(tree)
    for row in dict.fromkeys(map(_row, laws)):
        draft.answers.append(_law([law for law in laws if _row(law) == row]))
    draft.shorten("Laws of single queues of {rows} limits are in the table.")
    header = ("limit", "m", "N", "start", "distance", "of noise", "queues")
    cells = [
        (
            scaled_place(law), str(law.m), str(law.N), law.start, signed(law.distance), signed(law.noise),
            str(law.n),
        )
        for law in laws
    ]  # fmt: skip
    draft.grids.append(Grid(caption="Law of one queue at the last time.", header=header, rows=cells))
    draft.try_to("The joint law at two times", lambda: _two_times(tree, draft))


def _law(laws: Sequence[QueueLaw]) -> Answer:
    """Judge the laws at the largest m and N."""
    m = max(law.m for law in laws)
    N = max(law.N for law in laws if law.m == m)
    last = [law for law in laws if (law.m, law.N) == (m, N)]
    worst = max(last, key=lambda law: law.distance / law.noise)
    text = (
        f"at m = {m}, N = {N} the law of one queue is {worst.distance:.3f} from the limit's, where "
        f"{worst.n} draws of the limit would be about {worst.noise:.3f} away"
    )
    near = worst.distance <= NEAR * worst.noise
    standing = Standing.MEASURED
    if near:
        standing = Standing.AGREES if worst.noise <= ROUGH else Standing.INCONCLUSIVE
    ending = "" if near else "; at finite m a difference of order m^(−1/2) is expected"
    return Answer(text=f"{text}{ending}.", standing=standing, part=scaled_place(last[0]))


def _two_times(tree: xr.DataTree, draft: Draft) -> None:
    rows = two_times(tree)
    header = ("limit", "m", "N", "seen", "limit's", "deviation in s.e.", "if forgetful")
    cells = [
        (
            scaled_place(row), str(row.m), str(row.N), with_error(row.share, row.stderr), signed(row.limit),
            signed(row.z, 1), signed(row.forgetful),
        )
        for row in rows
    ]  # fmt: skip
    times = f"s = {rows[0].s:g}, t = {rows[0].t:g}" if rows else ""
    for place in dict.fromkeys(map(_row, rows)):
        one = max((row for row in rows if _row(row) == place), key=lambda row: (row.m, row.N))
        standing = Standing.DIFFERS if abs(one.z) > far(one.freedom) else Standing.INCONCLUSIVE
        if abs(one.z) <= NEAR and one.stderr < ROUGH * one.limit:
            standing = Standing.AGREES
        draft.say(
            f"at m = {one.m}, N = {one.N} the joint probability at {times} is "
            f"{with_error(one.share, one.stderr)}; the limit has {one.limit:.3f}.",
            standing,
            part=scaled_place(one),
        )
    caption = f"P(X_s > x, X_t > y) of one queue at the limit's medians, {times}."
    draft.grids.append(Grid(caption=caption, header=header, rows=cells))


def covariances(tree: xr.DataTree, draft: Draft) -> None:
    """Answer whether two queues become independent."""
    draft.method = (
        "The covariance of the scaled lengths of two queues at the last time, by exchangeability from all "
        "queues; N times it tends to a constant if chaos propagates at the rate 1/N."
    )
    rows = pair_covariances(tree)
    for row in dict.fromkeys(map(_row, rows)):
        members = [one for one in rows if _row(one) == row]
        seen = [one for one in members if abs(one.covariance) > far(one.freedom) * one.stderr]
        largest = max(members, key=lambda one: (one.N, one.m))
        text = (
            f"a covariance is seen (four standard errors, by Student's t) in {len(seen)} of {len(members)} "
            "networks; "
            f"at N = {largest.N}, m = {largest.m} N times it is "
            f"{with_error(largest.scaled, largest.N * largest.stderr)}, the correlation "
            f"{signed(largest.correlation, 5)}"
        )
        standing = Standing.MEASURED if 2 * len(seen) > len(members) else Standing.INCONCLUSIVE
        draft.say(f"{text}.", standing, part=scaled_place(largest))
    header = ("limit", "m", "N", "N · covariance", "correlation", "replicas")
    cells = [
        (
            scaled_place(one), str(one.m), str(one.N), with_error(one.scaled, one.N * one.stderr),
            signed(one.correlation, 5), str(one.n),
        )
        for one in rows
    ]  # fmt: skip
    draft.grids.append(Grid(caption="Covariance of two queues at the last time.", header=header, rows=cells))
    if left_out := pairs_left_out(tree):
        draft.notes.append(f"{left_out}.")


TOPICS = (
    Topic(name="distance", question="How do distances from the diffusion limit fall?", answer=distances),
    Topic(name="mean", question="Do mean queues extrapolate to the limit's?", answer=means),
    Topic(
        name="queues",
        question="Do single queues follow the limit process?",
        answer=queues,
        needs=("network/tagged",),
    ),
    Topic(
        name="chaos",
        question="Do queues become independent?",
        answer=covariances,
        needs=("network/S",),
    ),
)
