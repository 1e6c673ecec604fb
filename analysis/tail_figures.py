"""Pictures of tails: S_ℓ against ℓ on axes that make each regime a straight line, with theory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.drawing import STYLES, dress, legend_below, legend_labels, short_names
from analysis.rows import ROW, name_of
from analysis.tail_data import Tail, tail_at, tails_of
from analysis.tail_sequences import Floats
from analysis.tail_theory import REGIMES
from analysis.tails import INCONCLUSIVE, TailFit, classify_tail, in_levels, rate_digits, tail_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.tail_data import Source
    from sweep.laws import Law

#: log10 S_ℓ below which panels of S_ℓ end, lest a double exponential flatten the others.
_LOWEST = -20.0
_TEN = math.log(10.0)
#: Inches.
_WIDTH, _HEIGHT, _LEGEND_ROW, _MARGIN = 10.5, 3.6, 0.23, 0.2
_THEORY: dict[str, Any] = {"color": "#999999", "linewidth": 4.5, "solid_capstyle": "butt"}


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """Axes on which one regime is a straight line.

    `drawn` turns log S_ℓ into the ordinate; `theory` makes it of levels, log S at the last and the rate.
    """

    regime: str
    title: str
    ordinate: str
    drawn: Callable[[Floats], Floats]
    theory: Callable[[Floats, float, float], Floats]


_PANELS = (
    _Panel(
        regime="power",
        title="power law",
        ordinate=r"$\log_{10} S_\ell$",
        drawn=lambda log_S: log_S / _TEN,
        theory=lambda levels, log_last, gamma: log_last - gamma * np.log(levels / levels[-1]),
    ),
    _Panel(
        regime="geometric",
        title="geometric",
        ordinate=r"$\log_{10} S_\ell$",
        drawn=lambda log_S: log_S / _TEN,
        theory=lambda levels, log_last, rho: log_last + (levels - levels[-1]) * math.log(rho),
    ),
    _Panel(
        regime="double_exponential",
        title="double exponential",
        ordinate=r"$\log_{10}\,\ln\,1/S_\ell$",
        drawn=lambda log_S: np.log10(-log_S),
        theory=lambda levels, log_last, r: log_last * r ** (levels - levels[-1]),
    ),
)


def tail_figure(
    source: Source,
    *,
    d: int | None = None,
    lam: float | None = None,
    G: str | Law | None = None,
    fraction: float | None = None,
    floor: float = 0.0,
) -> Figure:
    """Draw every tail on three pairs of axes, on each of which one regime is a straight line.

    A grey line over the deeper half of the levels has the slope that theory predicts, in the panel of the
    regime it predicts, through the deepest level. Bars are standard errors over replicas. The legend gives
    the rate found with its interval.

    Parameters
    ----------
    source, d, lam, G, fraction, floor
        As `analysis.classify_tail`.

    Raises
    ------
    ValueError, TypeError
        As `analysis.classify_tail`; more tails than styles, axes other than d, lam and G, or no level seen.

    Examples
    --------
    >>> tail = np.log(0.7) * (2.0 ** np.arange(1, 9) - 1)
    >>> figure = tail_figure(tail, d=2, lam=0.7, G="exponential")
    >>> [axes.get_title() for axes in figure.axes[:3]]
    ['power law', 'geometric', 'double exponential']
    """
    from matplotlib.figure import Figure

    fits = list(tail_table(classify_tail(source, d=d, lam=lam, G=G, fraction=fraction, floor=floor)))
    tails = _tails(source, {"d": d, "lam": lam, "G": None if G is None else str(G)}, floor)
    shown = [(fit, tail) for fit, tail in zip(fits, tails, strict=True) if fit.depth]
    if not 0 < len(shown) <= len(STYLES):
        raise ValueError(f"source must hold 1 to {len(STYLES)} tails to draw, got {len(shown)}: select some")
    varying = [axis for axis in ROW if len({getattr(fit, axis) for fit, _ in shown}) > 1]
    below = _LEGEND_ROW * (len(shown) + 2.0)
    figure = Figure(figsize=(_WIDTH, _HEIGHT + below), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=[_HEIGHT, below])
    for column, panel in enumerate(_PANELS):
        axes = figure.add_subplot(grid[0, column])
        for (fit, tail), style in zip(shown, STYLES, strict=False):
            _draw(axes, panel, fit, tail, style)
        of_regime = [fit.depth for fit, _ in shown if panel.regime in (fit.regime, fit.predicted_regime)]
        _dress(axes, panel, max(of_regime or [fit.depth for fit, _ in shown]))
    _legend(figure.add_subplot(grid[1, :]), shown, varying)
    fixed = [axis for axis in ROW if axis not in varying and getattr(shown[0][0], axis) is not None]
    title = name_of(shown[0][0], fixed)
    figure.suptitle(short_names([title], _WIDTH - _MARGIN, 11)[title], fontsize=11)
    return figure


def _tails(source: Source, given: dict[str, Any], floor: float) -> list[Tail]:
    """Tails in the order of `classify_tail`'s rows."""
    values = tails_of(source, {name: value for name, value in given.items() if value is not None}, floor)
    axes = [axis for axis in ROW if axis in values.dims]
    shape = tuple(values.sizes[axis] for axis in axes)
    return [tail_at(values.isel(dict(zip(axes, i, strict=True))), floor) for i in np.ndindex(shape)]


def _draw(axes: Axes, panel: _Panel, fit: TailFit, tail: Tail, style: Any) -> None:
    colour, marker, _ = style
    levels, log_S = np.arange(1.0, fit.depth + 1.0), tail.log_S
    stderr = tail.log_stderr()
    if tail.n:
        low, high = panel.drawn(log_S - stderr), panel.drawn(np.minimum(log_S + stderr, -1e-12))
        bars = np.abs(np.vstack([low, high]) - panel.drawn(log_S))
        axes.errorbar(levels, panel.drawn(log_S), yerr=bars, fmt="none", ecolor=colour, capsize=3)
    marked = np.unique(np.geomspace(1, fit.depth, 24).astype(int)) - 1 if fit.depth > 40 else slice(None)
    axes.plot(levels, panel.drawn(log_S), color=colour, linewidth=0.8)
    axes.plot(
        levels[marked], panel.drawn(log_S)[marked], linestyle="none", marker=marker, color=colour,
        markersize=5, markerfacecolor="white", markeredgewidth=1.3,
    )  # fmt: skip
    if panel.regime == fit.predicted_regime:
        half = levels[(levels.size - 1) // 2 :]
        line = panel.theory(half, float(log_S[-1]), fit.predicted_rate)
        axes.plot(half, panel.drawn(line), zorder=1, **_THEORY)


def _dress(axes: Axes, panel: _Panel, depth: int) -> None:
    """Label one panel; linear axes of levels end where the tails of its own regime do."""
    from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter

    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(r"queue length $\ell$", fontsize=10)
    axes.set_ylabel(panel.ordinate, fontsize=10)
    if panel.regime == "power":
        axes.set_xscale("log")
        ticks = [digit * 10**power for power in range(4) for digit in (1, 2, 5)]
        axes.set_xticks([tick for tick in ticks if tick <= depth], minor=False)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(0.0, 1.05 * depth)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if panel.regime != "double_exponential":
        low, _ = axes.get_ylim()
        axes.set_ylim(max(low, _LOWEST), 0.0)
    dress(axes, 9)


def _legend(blank: Axes, shown: Sequence[tuple[TailFit, Tail]], varying: Sequence[str]) -> None:
    """List the tails below the panels, with the rates found."""
    named = [(name_of(fit, varying), _found(fit)) for fit, _ in shown]
    labels = legend_labels(named, _WIDTH - _MARGIN, 9)
    for label, (colour, marker, _) in zip(labels, STYLES, strict=False):
        blank.plot(
            [],
            [],
            color=colour,
            marker=marker,
            linewidth=0.8,
            markersize=5,
            markerfacecolor="white",
            label=label,
        )
    if any(panel.regime == fit.predicted_regime for panel in _PANELS for fit, _ in shown):
        blank.plot([], [], label="slope by theory", **_THEORY)
    legend_below(blank, blank, 9)


def _found(fit: TailFit) -> str:
    if fit.regime == INCONCLUSIVE:
        return f"inconclusive on {in_levels(fit.depth)}"
    symbol, title = REGIMES[fit.regime][0], next(p.title for p in _PANELS if p.regime == fit.regime)
    rate, low, high = rate_digits(fit.rate, fit.rate_lo, fit.rate_hi)
    theory = f"; theory {fit.predicted_rate:.6g}" if math.isfinite(fit.predicted_rate) else ""
    return f"{title}, {symbol} = {rate} ({low} … {high}{theory})"
