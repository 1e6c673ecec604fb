"""The semigroup e^{Tx} of a sub-generator T, applied to a start to full relative accuracy at every age.

Writing x = r + Σ 2^j h over the binary digits of ⌊x/h⌋, a start α is carried over r by uniformisation and
over each 2^j h by one product with e^{T 2^j h}. Those matrices come from repeated squaring in decimal
arithmetic of `_DIGITS` digits, so that errors which double with the age stay far below a double's, and are
rounded once. All sums have non-negative terms: with a = α e^{Tx}, F = 1 − a 1, I = ∫_0^x Ḡ and J = ∫_0^x I,

    F(x + y) = F(x) + a f(y),   I(x + y) = I(x) + a u(y),   J(x + y) = J(x) + y I(x) + a w(y),

where f, u and w are F, I and J at y by the phase of the start. Nothing cancels at 0 or in the far tail.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, InvalidOperation, localcontext
from itertools import count
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
#: Vectors and matrices of `Decimal`, as NumPy object arrays.
Decimals = NDArray[Any]

_DIGITS = 60
#: Terms of e^z, z ≤ 1/2, to `_DIGITS` digits and to those of a double.
_TERMS, _FLOAT_TERMS = 45, 18
#: Binary exponents of e^{T 2^j h}: below the first its entries may be too far apart for doubles, below the
#: second the decay is a power to eighteen digits of its logarithm.
_DEEP, _LAST = -(2**16), -(2**62)
#: Steps after which an age is taken by its quotient alone, so that none overflows.
_MOST = 2.0**1000


@contextmanager
def precise() -> Iterator[None]:
    """Decimal arithmetic of `_DIGITS` digits and without underflow inside the block."""
    context = Context(prec=_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[DivisionByZero, InvalidOperation])
    with localcontext(context):
        yield


def solve(matrix: Decimals, right: Decimals) -> Decimals:
    """Return x with matrix x = right, by elimination without pivots, which suits −T and s − T."""
    rows = np.concatenate([matrix, right[:, None]], axis=1)
    size = len(right)
    for i in range(size):
        for k in range(i + 1, size):
            if rows[k, i]:
                rows[k, i:] = rows[k, i:] - rows[i, i:] * (rows[k, i] / rows[i, i])
    x = np.array([Decimal(0)] * size, dtype=object)
    for i in range(size - 1, -1, -1):
        x[i] = (rows[i, -1] - rows[i, i + 1 : -1] @ x[i + 1 :]) / rows[i, i]
    return x


class State(NamedTuple):
    """Where a start has come after each age: phases a = `mass` × 2^`exponent`, F, ∫Ḡ and ∫∫Ḡ.

    `mass` has shape (age, phase), its largest entry a row between 1/2 and 1; the others shape (age,).
    """

    mass: FloatArray
    exponent: FloatArray
    gone: FloatArray
    integral: FloatArray
    double: FloatArray

    def weigh(self, weights: FloatArray) -> FloatArray:
        """Return Σ_i a_i weights_i by age, without the factor 2^`exponent`."""
        return weigh(self.mass, weights)


def weigh(mass: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Σ_i mass_{·,i} weights_i: the sum in this order has the same bits on every processor."""
    total = np.zeros(len(mass))
    for i, weight in enumerate(weights.tolist()):
        total += mass[:, i] * weight
    return total


def scaled(value: FloatArray, exponent: FloatArray) -> FloatArray:
    """Return value × 2^exponent, 0 where that underflows."""
    return np.ldexp(value, np.maximum(exponent, -3000.0).astype(np.int32))


class _Precise(NamedTuple):
    matrix: Decimals
    gone: Decimals
    integral: Decimals
    double: Decimals


@final
@dataclass(frozen=True)
class _Level:
    """e^{Ty} = 2^`exponent` × `matrix` for y = `width`, and F, ∫Ḡ, ∫∫Ḡ at y by the phase of the start."""

    width: float
    exponent: int
    matrix: FloatArray
    gone: FloatArray
    integral: FloatArray
    double: FloatArray
    exact: _Precise

    def doubled(self) -> _Level:
        with precise():
            unscaled, width = Decimal(2) ** max(self.exponent, -(2**40)), Decimal(self.width)
            matrix, gone, integral, double = self.exact

            def later(vector: Decimals) -> Decimals:
                product: Decimals = (matrix @ vector) * unscaled
                return product

            return _level(
                2.0 * self.width,
                2 * self.exponent,
                _Precise(
                    matrix @ matrix,
                    gone + later(gone),
                    integral + later(integral),
                    double + width * integral + later(double),
                ),
            )


def _level(width: float, exponent: int, exact: _Precise) -> _Level:
    shift = _magnitude(exact.matrix)
    exact = exact._replace(matrix=exact.matrix / Decimal(2) ** shift)
    matrix, gone, integral, double = (part.astype(np.float64) for part in exact)
    return _Level(width, exponent + shift, matrix, gone, integral, double, exact)


@final
class Semigroup:
    """e^{Tx} for a start α and a sub-generator T with completion rates t⁰.

    Parameters
    ----------
    start
        Probabilities α, shape (phase,).
    generator
        T, shape (phase, phase).
    exits
        Rates of completion t⁰ ≥ 0, shape (phase,), with T 1 = −t⁰.
    """

    def __init__(self, start: Decimals, generator: Decimals, exits: Decimals) -> None:
        with precise():
            size = len(start)
            self._rate = max(-generator.diagonal())
            self._width = 2.0 ** math.floor(-1.0 - math.log2(float(self._rate)))
            jumps = generator / self._rate + _identity(size)
            powers = [_identity(size)]
            for _ in range(_TERMS + size):
                powers.append(powers[-1] @ jumps)
            ones = np.array([Decimal(1)] * size, dtype=object)
            stays = [power @ ones for power in powers]
            leaves = [power @ exits / self._rate for power in powers]
            columns = (_sums(leaves), _sums(stays, self._rate), _sums(_sums(stays, self._rate), self._rate))
            self._levels = [self._first(powers, columns)]
            terms = range(_FLOAT_TERMS + size)
            factorials = [Decimal(math.factorial(k)) for k in terms]
            self._mass = np.array([start @ powers[k] / factorials[k] for k in terms]).astype(np.float64)
            self._near = np.array(
                [[start @ column[k] / factorials[k] for k in terms] for column in columns]
            ).astype(np.float64)

    def _first(self, powers: Sequence[Decimals], columns: tuple[Sequence[Decimals], ...]) -> _Level:
        step = Decimal(self._width) * self._rate
        weights = [(-step).exp()]
        for k in range(1, len(powers)):
            weights.append(weights[-1] * step / k)
        parts = (
            sum(weight * term for weight, term in zip(weights, terms, strict=True))
            for terms in (powers, *columns)
        )
        return _level(self._width, 0, _Precise(*parts))

    def level(self, j: int) -> _Level:
        """Return e^{Ty} for y = 2^j h."""
        levels = self._levels
        while len(levels) <= j:
            levels = [*levels, levels[-1].doubled()]
        # A new list each time: two threads may both find a level, neither may append it twice.
        self._levels = levels
        return levels[j]

    def at(self, x: FloatArray) -> State:
        """Return the state after each of finite ages x ≥ 0, shape (age,)."""
        steps = np.floor(np.minimum(x / self._width, _MOST))
        state = self._start(np.minimum(x - steps * self._width, self._width))
        for j in count():
            if not steps.any():
                return state
            level = self.level(j)
            if level.exponent <= _DEEP:
                state.double[:] += steps * level.width * state.integral
                self._follow(state, x, steps, j)
                return state
            half = np.floor(steps / 2.0)
            _advance(state, np.flatnonzero(steps != 2.0 * half), level)
            steps = half
        raise AssertionError("unreachable")

    def _follow(self, state: State, x: FloatArray, steps: FloatArray, j: int) -> None:
        """Carry masses over `steps` steps of level `j` in decimal arithmetic, in place.

        Phases of one rate keep masses in ratios like powers of the age, which all count in later steps and
        may be further apart than doubles are.
        """
        for index in np.flatnonzero(steps).tolist():
            with precise():
                mass, left, last = np.array([*map(Decimal, state.mass[index].tolist())]), int(steps[index]), j
                exponent = 0
                while left:
                    level = self.level(last)
                    if left % 2 or level.exponent <= _LAST:
                        mass = mass @ level.exact.matrix
                        shift = _magnitude(mass)
                        mass, exponent = mass / Decimal(2) ** shift, exponent + level.exponent + shift
                    if level.exponent <= _LAST:
                        exponent += (left - 1) * level.exponent
                        break
                    left, last = left // 2, last + 1
            excess = max(x[index] / _MOST / self._width, 1.0)
            state.gone[index] = state.integral[index] = 1.0
            state.mass[index] = mass.astype(np.float64)
            state.exponent[index] = (state.exponent[index] + float(exponent)) * excess

    def _start(self, x: FloatArray) -> State:
        z = x * float(self._rate)
        decay = np.fromiter((math.exp(-value) for value in z.tolist()), dtype=np.float64, count=z.size)
        mass = _polynomial(self._mass, z[:, None]) * decay[:, None]
        gone, integral, double = (_polynomial(column, z) * decay for column in self._near)
        return State(mass, np.zeros_like(x), gone, integral, double)


def _advance(state: State, index: NDArray[np.intp], level: _Level) -> None:
    """Let the ages of `index` grow by one step of `level`, in place."""
    mass, exponent = state.mass[index], state.exponent[index]
    state.double[index] += level.width * state.integral[index] + scaled(weigh(mass, level.double), exponent)
    state.integral[index] += scaled(weigh(mass, level.integral), exponent)
    state.gone[index] += scaled(weigh(mass, level.gone), exponent)
    moved = np.zeros_like(mass)
    for i, row in enumerate(level.matrix):
        moved += mass[:, i, None] * row
    # Powers of two are exact, and no entry underflows however deep the tail.
    shift = np.frexp(moved.max(axis=1, initial=0.0))[1]
    state.mass[index] = np.ldexp(moved, -shift[:, None])
    state.exponent[index] = exponent + (float(level.exponent) + shift)


def _polynomial(coefficients: FloatArray, z: FloatArray) -> FloatArray:
    total: FloatArray = coefficients[-1] + np.zeros_like(z)
    for coefficient in coefficients[-2::-1]:
        total = total * z + coefficient
    return total


def _magnitude(values: Decimals) -> int:
    """Return the binary exponent of the largest value, to within 4."""
    largest: Decimal = max(values.ravel())
    return math.floor(largest.adjusted() * math.log2(10.0))


def _identity(size: int) -> Decimals:
    return np.array([[Decimal(int(i == k)) for k in range(size)] for i in range(size)], dtype=object)


def _sums(terms: Sequence[Decimals], rate: Decimal = Decimal(1)) -> list[Decimals]:
    """Return Σ_{i<k} terms_i / rate for each k."""
    sums = [terms[0] * 0]
    for term in terms[:-1]:
        sums.append(sums[-1] + term / rate)
    return sums
