"""`python -m analysis.heavy_traffic STORE`: how critical networks approach their diffusion limit."""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from analysis.heavy_traffic_chaos import PairCovariance, pair_covariances
from analysis.heavy_traffic_data import load_tree, starts_of
from analysis.heavy_traffic_queues import QueueLaw, TwoTimes, queue_laws, two_times
from analysis.heavy_traffic_scales import DISTANCES, DistanceFit, MeanFit, extrapolate_mean, fit_distance

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

__all__ = [
    "DistanceFit",
    "MeanFit",
    "PairCovariance",
    "QueueLaw",
    "TwoTimes",
    "extrapolate_mean",
    "fit_distance",
    "pair_covariances",
    "queue_laws",
    "two_times",
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of a store of the study heavy-traffic; return 0, or 2 if the input is bad."""
    from rich.console import Console

    from sweep.errors import AccuracyError, StoreError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a σ must not end it on a terminal of another encoding
    options = _parser().parse_args(arguments)
    console = Console(highlight=False)
    try:
        tree = load_tree(options.store)
        for table in _tables(tree, options.quantity, options.time):
            console.print(table)
            console.print()
        if options.figure:
            from analysis.figures import save
            from analysis.heavy_traffic_figures import heavy_traffic_figure

            picture = save(heavy_traffic_figure(tree, options.quantity, options.time), options.figure)
            console.print(f"figure: {picture}", soft_wrap=True)
    except (ValueError, OSError, StoreError, AccuracyError) as error:
        Console(stderr=True, highlight=False).print(f"analysis: {error}", markup=False, soft_wrap=True)
        return 2
    return 0


def _tables(tree: xr.DataTree, quantity: str, t: float | None) -> Iterable[Table | str]:
    """Yield what the store can tell; of the rest, say why it cannot."""
    yield distance_table(fit_distance(tree, quantity, t), quantity)
    parts: list[Callable[[], Table]] = [
        lambda: mean_table(extrapolate_mean(tree, t)),
        lambda: law_table(queue_laws(tree, t)),
    ]
    if starts_of(tree).symmetric:
        parts += [
            lambda: two_times_table(two_times(tree, None, t)),
            lambda: chaos_table(pair_covariances(tree, t)),
        ]
    for part in parts:
        try:
            yield part()
        except ValueError as error:
            yield f"left out: {error}"


def distance_table(fits: Iterable[DistanceFit], quantity: str) -> Table:
    """Lay out how a distance falls with m and with N.

    Examples
    --------
    >>> from analysis.heavy_traffic_scales import Power
    >>> fit = DistanceFit(b1=-2, b0=1, ell=2, G="exponential", in_m=Power(), in_N=Power(), largest_N=10,
    ...                   largest_m=100, joint=())
    >>> distance_table([fit], "W1").row_count
    1
    """
    layout = _layout(
        f"{quantity}: power of m (largest N), of N (largest m); √(a²/m + b²/N)",
        ("power of m", "power of N", "a", "b", "misfit"),
    )
    for fit in fits:
        powers = [
            _concise(power.exponent, power.stderr) if power.points > 1 else "-"
            for power in (fit.in_m, fit.in_N)
        ]
        joint = [one for one in fit.joint if one.rule == "squares"]
        constants = ("-", "-", "-")
        if joint:
            (one,) = joint
            constants = (
                _concise(one.a, one.a_stderr),
                _concise(one.b, one.b_stderr),
                f"{100 * one.misfit:.0f} %",
            )
        layout.add_row(*_row(fit), *powers, *constants)
    return layout


def mean_table(fits: Iterable[MeanFit]) -> Table:
    """Lay out means extrapolated to m = ∞ beside the limit."""
    layout = _layout("mean of Q/√m, extrapolated in 1/√m", ("N", "m", "m = ∞", "limit", "z", "t = ∞"))
    for fit in fits:
        layout.add_row(
            *_row(fit),
            str(fit.N),
            " ".join(map(str, fit.scales)),
            _pm(fit.value, fit.stderr),
            f"{fit.limit:.4f}",
            f"{fit.z:+.1f}",
            "-" if math.isnan(fit.stationary) else f"{fit.stationary:.4f}",
        )
    return layout


def law_table(laws: Iterable[QueueLaw]) -> Table:
    """Lay out how far the law of single queues is from that of the limit."""
    layout = _layout(
        "law of one queue: distance from the limit, and what as many draws of it would show",
        ("m", "N", "X_0", "distance", "of noise", "n"),
    )
    for law in laws:
        start = "drawn" if math.isnan(law.position) else f"{law.position:g}"
        numbers = f"{law.distance:.3f}", f"{law.noise:.3f}", str(law.n)
        layout.add_row(*_row(law), str(law.m), str(law.N), start, *numbers)
    return layout


def two_times_table(rows: Sequence[TwoTimes]) -> Table:
    """Lay out the joint law of a queue at two times."""
    times = f"s = {rows[0].s:g}, t = {rows[0].t:g}" if rows else ""
    layout = _layout(
        f"one queue at two times: P(X_s > x, X_t > y), {times}",
        ("m", "N", "seen", "limit", "z", "if forgetful"),
    )
    for row in rows:
        seen = _pm(row.share, row.stderr)
        numbers = seen, f"{row.limit:.3f}", f"{row.z:+.1f}", f"{row.forgetful:.3f}"
        layout.add_row(*_row(row), str(row.m), str(row.N), *numbers)
    return layout


def chaos_table(rows: Iterable[PairCovariance]) -> Table:
    """Lay out covariances of pairs of queues."""
    layout = _layout("chaos: covariance of two queues", ("m", "N", "covariance", "N · covariance", "n"))
    for row in rows:
        scaled = _pm(row.scaled, row.N * row.stderr)
        layout.add_row(*_row(row), str(row.m), str(row.N), f"{row.covariance:+.1e}", scaled, str(row.n))
    return layout


def _layout(title: str, headers: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    layout = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    layout.add_column("b1 b0 ℓ", no_wrap=True)
    layout.add_column("G", overflow="fold", min_width=11)
    for header in headers:
        layout.add_column(header, justify="right", no_wrap=True)
    return layout


def _row(item: Any) -> tuple[str, str]:
    return f"{item.b1:g} {item.b0:g} {item.ell}", item.G


def _pm(value: float, error: float) -> str:
    """Value ± error with two digits of the error."""
    if not (math.isfinite(error) and error > 0.0):
        return f"{value:.3g}"
    decimals = min(max(1 - math.floor(math.log10(error)), 0), 3)
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def _concise(value: float, error: float) -> str:
    """Value with the error of its last digits in parentheses: -0.495(7) is −0.495 ± 0.007.

    Examples
    --------
    >>> _concise(-0.4953, 0.0071), _concise(1.26, 0.18), _concise(12.3, 4.0)
    ('-0.495(7)', '1.3(2)', '12(4)')
    """
    if not (math.isfinite(error) and error > 0.0):
        return f"{value:.3g}"
    decimals = max(-math.floor(math.log10(error)), 0)
    return f"{value:.{decimals}f}({round(error * 10**decimals)})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.heavy_traffic",
        description="How networks of a heavy-traffic sweep approach their limit, in m and in N.",
    )
    parser.add_argument("store", metavar="STORE", help="folder that `sweep run` wrote")
    parser.add_argument("--figure", metavar="FILE", help="also draw the picture: .png, .svg or .pdf")
    parser.add_argument("--quantity", default="W1", choices=DISTANCES, help="distance (default: W1)")
    parser.add_argument("--time", type=float, help="scaled time, the last stored by default")
    return parser


if __name__ == "__main__":
    sys.exit(main())
