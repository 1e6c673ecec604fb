"""Layers of equal area under the normal curve, from which normal numbers are drawn."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sweep.network.gamma_kernels import Gamma, Layers

_COUNT = 256


@lru_cache(maxsize=1)
def normal_layers() -> Layers:
    """Return the layers, found by bisecting where the tail begins."""
    low, high = 3.0, 4.0
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        # A tail that begins too late leaves too small an area: the layers do not reach the top.
        if _ends(middle)[-1] > 0.0:
            high = middle
        else:
            low = middle
    ends = np.array([*_ends(high)[:-1], 0.0])
    return Layers(ends=ends, heights=np.array([_height(x) for x in ends.tolist()]))


def gamma_law(shape: float) -> Gamma:
    """Return the constants of a law of gamma times."""
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    return Gamma(shape=shape, d=d, c=1.0 / math.sqrt(9.0 * d))


def _height(x: float) -> float:
    return math.exp(-0.5 * x * x)


def _ends(tail: float) -> list[float]:
    """Right ends of the layers if the tail begins at `tail`; 0 from where they are above the top."""
    area = tail * _height(tail) + math.sqrt(math.pi / 2.0) * math.erfc(tail / math.sqrt(2.0))
    ends = [area / _height(tail), tail]
    while len(ends) <= _COUNT:
        height = area / ends[-1] + _height(ends[-1]) if ends[-1] > 0.0 else 1.0
        ends.append(math.sqrt(-2.0 * math.log(height)) if height < 1.0 else 0.0)
    return ends
