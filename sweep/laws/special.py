"""Special functions of SciPy, imported at first use; scalar loops, so bits do not depend on AVX-512."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def lower_gamma(shape: float, z: FloatArray) -> FloatArray:
    """Return P(k, z) = ∫_0^z u^{k−1} e^{−u} du / Γ(k)."""
    from scipy.special import gammainc

    return np.asarray(gammainc(shape, z), dtype=np.float64)


def upper_gamma(shape: float, z: FloatArray) -> FloatArray:
    """Return Q(k, z) = 1 − P(k, z), to relative accuracy."""
    from scipy.special import gammaincc

    return np.asarray(gammaincc(shape, z), dtype=np.float64)


def normal_cdf(y: FloatArray) -> FloatArray:
    """Return Φ(y), to relative accuracy on the left."""
    from scipy.special import ndtr

    return np.asarray(ndtr(y), dtype=np.float64)


def log_normal_cdf(y: FloatArray) -> FloatArray:
    """Return log Φ(y)."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(y), dtype=np.float64)


def scaled_erfc(y: FloatArray) -> FloatArray:
    """Return e^{y²} erfc(y)."""
    from scipy.special import erfcx

    return np.asarray(erfcx(y), dtype=np.float64)
