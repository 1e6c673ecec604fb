"""Richardson extrapolation in the step, with the exponents that the law's density at age 0 calls for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Limit
from sweep.fluid.mesh import layer_power

Floats = NDArray[np.float64]
#: Exponents beyond this one are not worth eliminating.
_HIGHEST = 6.0


#: The estimate is the larger of these multiples of the last change within its row and along the diagonal.
_OF_ROW, _OF_DIAGONAL = 2.0, 0.125


@dataclass(frozen=True)
class Extrapolated:
    """The last diagonal entry of the tableau of extrapolations and an estimate of its error."""

    value: Floats
    error: Floats


def error_exponents(limit: Limit) -> tuple[float, ...]:
    """Return the increasing exponents e of the error expansion Σ c_e h^e.

    With Ḡ(a) = 1 − c a^k + … at age 0: 2, 4, 6 for whole k. Otherwise cells of age next to 0 add 2 + k, 2 +
    2k, … and one more, each; and from a start with fresh ages, where D ~ t^k, m completions within the first
    step add sums i + j k of at least two terms, the first of them 2k and 1 + k.

    Examples
    --------
    >>> error_exponents(Limit(d=2, lam=0.9, G="lomax(beta=1.5)"))
    (2.0, 4.0, 6.0)
    >>> error_exponents(Limit(d=2, lam=0.9, G="gamma(shape=0.5)"))[:4]
    (2.0, 2.5, 3.0, 3.5)
    """
    k = limit.G.origin_exponent
    even = {2.0, 4.0, 6.0}
    if float(k).is_integer():
        return tuple(sorted(even))
    fewest = 0 if limit.initial.fresh and layer_power(limit) == 1 else 2
    fractional = {
        round(i + j * k, 9)
        for i in range(fewest, 7)
        for j in range(1, 9)
        if i + j >= 2 and i + j * k <= _HIGHEST
    }
    return tuple(sorted(even | fractional))


def extrapolate(values: Sequence[Floats], exponents: Sequence[float], regular: bool = True) -> Extrapolated:
    """Eliminate one exponent for each resolution after the first.

    Parameters
    ----------
    values
        Results with steps h, h/2, h/4, …, of one shape, at least two.
    exponents
        Those of `error_exponents`, in increasing order.
    regular
        Whether the errors expand in these exponents. If they only decrease, as with breakpoints inside
        cells, the estimate is the whole change along the diagonal.
    """
    diagonal = [values[0]]
    row = [values[0]]
    for value in values[1:]:
        fresh = [value]
        for column, older in enumerate(row[: len(exponents)]):
            factor = 2.0 ** exponents[column] - 1.0
            fresh.append(fresh[column] + (fresh[column] - older) / factor)
        row = fresh
        diagonal.append(row[-1])
    along = np.abs(diagonal[-1] - diagonal[-2])
    if regular:
        along = np.maximum(_OF_ROW * np.abs(row[-1] - row[-2]), _OF_DIAGONAL * along)
    return Extrapolated(diagonal[-1], along)
