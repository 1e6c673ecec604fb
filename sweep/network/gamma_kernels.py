"""Compiled gamma times, from normal numbers by layers of equal area."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sweep.network.random_kernels import fill_words
from sweep.network.state import Source

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_LAYER, _SIGN, _REST = np.uint64(255), np.uint64(256), np.uint64(11)
_UNIT = 2.0**-53


class Layers(NamedTuple):
    """256 layers of equal area under e^{−x²/2}, x > 0: the lowest holds the tail."""

    ends: NDArray[np.float64]  # right ends, falling to 0, shape (257,); the first is the width of the lowest
    heights: NDArray[np.float64]  # e^{−x²/2} there


class Gamma(NamedTuple):
    """A law of gamma times of mean 1."""

    shape: float
    d: float  # (shape or shape + 1) − 1/3
    c: float  # 1/√(9 d)


@njit(**_OPTIONS, forceinline=True)
def next_word(source: Source) -> Any:
    """Return the next word of a source."""
    if source.used[0] == source.words.size:
        fill_words(source.state, source.words)
        source.used[0] = 0
    word = source.words[source.used[0]]
    source.used[0] += 1
    return word


@njit(**_OPTIONS, forceinline=True)
def next_uniform(source: Source) -> float:
    """Return a uniform number on the multiples of 2⁻⁵³ in (0, 1]."""
    return float((np.float64(next_word(source) >> _REST) + 1.0) * _UNIT)


@njit(**_OPTIONS)
def next_at_edge(source: Source, layers: Layers, layer: Any, x: float) -> float:
    """Return x if it is under the curve at the edge of its layer, one of the tail, or −1 to try again."""
    if layer > 0:
        low, high = layers.heights[layer], layers.heights[layer + 1]
        under = low + next_uniform(source) * (high - low) < math.exp(-0.5 * x * x)
        return x if under else -1.0
    end = layers.ends[1]
    while True:
        beyond = -math.log(next_uniform(source)) / end
        if -2.0 * math.log(next_uniform(source)) > beyond * beyond:
            return float(end + beyond)


@njit(**_OPTIONS, forceinline=True)
def next_normal(source: Source, layers: Layers) -> float:
    """Return a standard normal number (G. Marsaglia and W. W. Tsang, The ziggurat method, 2000)."""
    while True:
        word = next_word(source)
        layer = np.int64(word & _LAYER)
        x = np.float64(word >> _REST) * _UNIT * layers.ends[layer]
        if x >= layers.ends[layer + 1]:
            x = next_at_edge(source, layers, layer, x)
            if x < 0.0:
                continue
        return float(-x if word & _SIGN else x)


@njit(**_OPTIONS)
def gamma_times(source: Source, layers: Layers, law: Gamma, times: NDArray[np.float64]) -> None:
    """Fill `times` with gamma times of mean 1; where shape < 1 it must hold exponential times.

    With x normal and v = (1 + c x)³, d v is a gamma time of shape d + 1/3 if
    log u < x²/2 + d (1 − v + log v), which u < 1 − 0.0331 x⁴ implies; a time of
    shape k < 1 is one of shape k + 1 times u^{1/k} (G. Marsaglia and W. W. Tsang, A simple method for
    generating gamma variables, 2000).
    """
    for k in range(times.size):
        while True:
            x = next_normal(source, layers)
            v = 1.0 + law.c * x
            if v <= 0.0:
                continue
            v = v * v * v
            u, square = next_uniform(source), x * x
            if u < 1.0 - 0.0331 * square * square:
                break
            if math.log(u) < 0.5 * square + law.d * (1.0 - v + math.log(v)):
                break
        time = law.d * v / law.shape
        times[k] = time * math.exp(-times[k] / law.shape) if law.shape < 1.0 else time
