"""Pictures of tails: theory on the data, noise as bars, and what is too much."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.axes import Axes

from analysis.tail_figures import tail_figure
from tests.tail_samples import LAM, exponential_tail, over, replicas_of


def legend_of(axes: Axes) -> list[str]:
    """Texts of a legend."""
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_theory_lies_on_the_data_in_the_panel_of_its_regime() -> None:
    figure = tail_figure(exponential_tail(10), d=2, lam=LAM, G="exponential")
    power, geometric, double, legend = figure.axes
    assert [len(axes.lines) for axes in (power, geometric, double)] == [2, 2, 3]
    line = next(line for line in double.lines if line.get_linewidth() > 4.0)
    levels, drawn = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    # log 1/S_10 = 1023 log 1/λ at the last level, and slope log10 2.
    deepest = math.log10(-1023 * math.log(LAM))
    assert drawn == pytest.approx(deepest + (levels - 10) * math.log10(2), rel=1e-12)
    assert legend_of(legend) == [
        "double exponential, r = 2.000000000 (1.999999998 … 2.000000002; theory 2)",
        "slope by theory",
    ]
    assert figure.get_suptitle() == "d = 2, λ = 0.7, exponential"


def test_noise_has_bars_and_shallow_tails_are_called_inconclusive() -> None:
    figure = tail_figure(replicas_of(exponential_tail(4), 10**5, 8))
    assert all(axes.containers for axes in figure.axes[:3])
    assert legend_of(figure.axes[3]) == ["inconclusive on 4 levels"]


def test_more_tails_than_styles_are_refused() -> None:
    data = over("lam", "level", value=0.5, level=[1, 2], lam=[0.5, 0.7]).isel(lam=[0] * 8)
    with pytest.raises(ValueError, match="source must hold 1 to 7 tails to draw, got 8: select some"):
        tail_figure(data.assign_coords(lam=np.arange(8) / 10))
