"""Times that kernels draw in place of NumPy: normal layers by their area, gamma times by their law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sweep.laws import parse_law
from sweep.network.gamma_kernels import next_at_edge, next_normal
from sweep.network.gamma_layers import normal_layers
from sweep.network.supply import make_source, sampler


def test_layers_have_one_area_and_the_known_tail() -> None:
    """256 layers of area 0.00492867323399, the tail from 3.6541528853610088 (Marsaglia and Tsang, 2000)."""
    layers = normal_layers()
    assert layers.ends[1] == pytest.approx(3.6541528853610088, rel=1e-12)
    areas = layers.ends[1:-1] * np.diff(layers.heights[1:])
    np.testing.assert_allclose(areas, 0.00492867323399, rtol=1e-10)
    assert layers.ends[0] * layers.heights[1] == pytest.approx(0.00492867323399, rel=1e-10)
    assert layers.heights[-1] == 1.0


def score(times: np.ndarray, ages: list[float], above: list[float]) -> float:
    """Largest |z| of the shares beyond some ages."""
    n = times.size
    worst: float = max(
        abs((times > a).mean() - p) / math.sqrt(p * (1 - p) / n) for a, p in zip(ages, above, strict=True)
    )
    return worst


def test_normal_numbers_have_their_law() -> None:
    """Tails on both sides, from the middle to far beyond the lowest layer; 1 % too wide is found out."""
    source, layers = make_source(np.random.Generator(np.random.PCG64(5))), normal_layers()
    with np.errstate(over="ignore"):
        numbers = np.array([next_normal(source, layers) for _ in range(400_000)])
        tail = np.array([next_at_edge(source, layers, 0, 4.0) for _ in range(20_000)])
    ages = [-3.0, -2.0, -1.0, -0.3, -0.01, 0.0, 0.01, 0.3, 1.0, 2.0, 3.0]
    above = [0.5 * math.erfc(a / math.sqrt(2.0)) for a in ages]
    assert score(numbers, ages, above) <= 4.0
    assert score(numbers * 1.01, ages, above) > 4.0
    end = float(layers.ends[1])
    given = [math.erfc(a / math.sqrt(2.0)) / math.erfc(end / math.sqrt(2.0)) for a in (end + 0.1, end + 0.4)]
    assert (tail >= end).all()
    assert score(tail, [end + 0.1, end + 0.4], given) <= 4.0
    assert score(end + (tail - end) * 1.05, [end + 0.1, end + 0.4], given) > 4.0


@pytest.mark.parametrize(
    "text", ["gamma(shape=0.05)", "gamma(shape=0.5)", "gamma(shape=1.7)", "erlang(k=4)", "gamma(shape=30)"]
)
def test_gamma_times_have_their_law(text: str) -> None:
    """Shares beyond ten quantiles; times 1 % too long are found out, but for shape 0.05: 5 %."""
    law, n = parse_law(text), 1_000_000
    fill, times = sampler(law, np.random.Generator(np.random.PCG64(9))), np.empty(n)
    fill(times)
    ages = np.sort(law.sample(np.random.Generator(np.random.PCG64(10)), 11))[:10]
    above = law.survival(ages)
    kept = (above > 1e-3) & (above < 1.0 - 1e-3)
    shown = (ages[kept].tolist(), above[kept].tolist())
    assert score(times, *shown) <= 4.0
    assert score(times * (1.05 if text.endswith("(shape=0.05)") else 1.01), *shown) > 4.0


def test_gamma_times_do_not_depend_on_the_sizes_drawn() -> None:
    for text in ("gamma(shape=0.5)", "erlang(k=3)"):
        whole, parts = np.empty(1000), np.empty(1000)
        sampler(parse_law(text), np.random.Generator(np.random.PCG64(2)))(whole)
        fill = sampler(parse_law(text), np.random.Generator(np.random.PCG64(2)))
        for start, end in ((0, 1), (1, 300), (300, 999), (999, 1000)):
            fill(parts[start:end])
        assert np.array_equal(whole, parts)
