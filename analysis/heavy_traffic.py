"""`python -m analysis.heavy_traffic STORE`: how critical networks approach their diffusion limit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from analysis.command import drawn, run_command, store_parser
from analysis.command_tables import NONE, concise, plain, score, with_error
from analysis.heavy_traffic_chaos import PairCovariance, pair_covariances, pairs_left_out
from analysis.heavy_traffic_data import load_tree
from analysis.heavy_traffic_queues import QueueLaw, TwoTimes, queue_laws, two_times
from analysis.heavy_traffic_scales import DISTANCES, DistanceFit, MeanFit, extrapolate_mean, fit_distance
from analysis.stores import opened_for
from sweep.errors import AccuracyError

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

    from analysis.command import Part

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


_MODULE = "analysis.heavy_traffic"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of a store of the study heavy-traffic; return 0, or 2 if the input is bad."""
    return run_command(_MODULE, _parser(), arguments, _answer)


def _answer(options: argparse.Namespace) -> Iterator[Part]:
    tree = load_tree(opened_for(_MODULE, options.store))
    for part in _tables(tree, options.quantity, options.time):
        yield part
        yield ""
    from analysis.heavy_traffic_figures import heavy_traffic_figure

    yield from drawn(options.figure, lambda: heavy_traffic_figure(tree, options.quantity, options.time))


def _tables(tree: xr.DataTree, quantity: str, t: float | None) -> Iterator[Part]:
    """Yield what the store can tell; of the rest, say why it cannot, once for each reason."""
    yield distance_table(fit_distance(tree, quantity, t), quantity)
    parts: dict[str, Callable[[], Table]] = {
        "mean of Q/√m": lambda: mean_table(extrapolate_mean(tree, t)),
        "law of one queue": lambda: law_table(queue_laws(tree, t)),
        "one queue at two times": lambda: two_times_table(two_times(tree, None, t)),
        "covariance of two queues": lambda: chaos_table(pair_covariances(tree, t), pairs_left_out(tree, t)),
    }
    left_out: dict[str, list[str]] = {}
    for name, part in parts.items():
        try:
            yield part()
        except (ValueError, AccuracyError) as error:
            left_out.setdefault(str(error), []).append(name)
    for reason, names in left_out.items():
        yield f"left out ({', '.join(names)}): {reason}"


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
        powers = [concise(power.exponent, power.stderr) for power in (fit.in_m, fit.in_N)]
        constants = (NONE, NONE, NONE)
        if (one := fit.squares) is not None:
            misfit = f"{100 * one.misfit:.0f} %"
            constants = concise(one.a, one.a_stderr), concise(one.b, one.b_stderr), misfit
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
            with_error(fit.value, fit.stderr),
            plain(fit.limit),
            score(fit.z),
            plain(fit.stationary),
        )
    return layout


def law_table(laws: Iterable[QueueLaw]) -> Table:
    """Lay out how far the law of single queues is from that of the limit."""
    layout = _layout(
        "law of one queue: distance from the limit, and what as many draws of it would show",
        ("m", "N", "X_0", "distance", "of noise", "n"),
    )
    for law in laws:
        numbers = plain(law.distance, 3), plain(law.noise, 3), str(law.n)
        layout.add_row(*_row(law), str(law.m), str(law.N), law.start, *numbers)
    return layout


def two_times_table(rows: Sequence[TwoTimes]) -> Table:
    """Lay out the joint law of a queue at two times."""
    times = f"s = {rows[0].s:g}, t = {rows[0].t:g}" if rows else ""
    layout = _layout(
        f"one queue at two times: P(X_s > x, X_t > y), {times}",
        ("m", "N", "seen", "limit", "z", "if forgetful"),
    )
    for row in rows:
        seen = with_error(row.share, row.stderr)
        numbers = seen, plain(row.limit, 3), score(row.z), plain(row.forgetful, 3)
        layout.add_row(*_row(row), str(row.m), str(row.N), *numbers)
    return layout


def chaos_table(rows: Iterable[PairCovariance], left_out: str = "") -> Table:
    """Lay out covariances of pairs of queues, above what `pairs_left_out` says of the others."""
    layout = _layout("chaos: covariance of two queues", ("m", "N", "covariance", "N · covariance", "n"))
    for row in rows:
        scaled = with_error(row.scaled, row.N * row.stderr)
        layout.add_row(*_row(row), str(row.m), str(row.N), f"{row.covariance:+.1e}", scaled, str(row.n))
    layout.caption, layout.caption_justify = left_out or None, "left"
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


def _parser() -> argparse.ArgumentParser:
    parser = store_parser(
        _MODULE, "How networks of a heavy-traffic sweep approach their limit, in m and in N."
    )
    parser.add_argument("--quantity", default="W1", choices=DISTANCES, help="distance (default: W1)")
    parser.add_argument("--time", type=float, help="scaled time, the last stored by default")
    return parser


if __name__ == "__main__":
    sys.exit(main())
