"""Phase-type laws: the time that a finite Markov chain takes to leave its phases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from sweep.laws.base import FloatArray, Law
from sweep.laws.parameters import Brackets, number_text
from sweep.laws.semigroup import Decimals, Semigroup, State, precise, scaled, solve

Vector = tuple[float, ...]
Matrix = tuple[Vector, ...]

#: What sums of entries to twelve digits may be off, relative to the diagonal.
_ROUNDING = 1e-9
_MEAN_TOLERANCE = 1e-6
_PHASES = 50
_LEAST, _MOST = 1e-9, 1e9


@final
@dataclass(frozen=True, kw_only=True)
class PhaseType(Law):
    """Time to leave a Markov chain with start probabilities α (`alpha`) and sub-generator T (`T`).

    Ḡ(x) = α e^{Tx} 1, g(x) = α e^{Tx} t⁰ with the rates of completion t⁰ = −T 1. α sums to 1: a mass at
    age 0 is refused. Entries of α and row sums of T within 1e-9 of 1 and of 0, relative to the diagonal, are
    rounding and count as 1 and 0. The mean −α T⁻¹ 1 must be 1 to 1e-6; T is then multiplied by it, so that
    the law computed with has mean 1. `alpha` and `T` themselves stay as given, to twelve digits, which are
    too few where completions are much rarer than jumps. Functions of age are right to 1e-13 of their values,
    in far tails too, and cost about (phases)² operations for each binary digit of the age; the first of them
    takes time in proportion to (phases)³ once in a process.

    Raises
    ------
    TypeError
        `alpha` or `T` that are no sequences of numbers, or nested otherwise.
    ValueError
        More than 50 phases, shapes that do not fit, entries out of range, rates that do not sum to 0 or less,
        phases that are not reached or have no way out, another mean than 1.

    Examples
    --------
    >>> PhaseType(alpha=[0.5, 0.5], T=[[-2, 0], [0, -1]])
    Traceback (most recent call last):
    ...
    ValueError: T must give mean 1, got mean 0.75: multiply T by 0.75
    >>> law = PhaseType(alpha=[1, 0], T=[[-2, 2], [0, -2]])
    >>> str(law), law.variance, law.origin_exponent
    ('phase_type(alpha=[1, 0], T=[[-2, 2], [0, -2]])', 0.5, 2.0)
    """

    name: ClassVar[str] = "phase_type"
    ranges: ClassVar[Mapping[str, Brackets]] = MappingProxyType(
        {"alpha": Brackets(depth=1, most=_PHASES), "T": Brackets(depth=2, most=_PHASES)}
    )
    alpha: Vector
    T: Matrix

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_entries(self.alpha, self.T)
        _check_paths(self.alpha, self.T)
        mean = float(_chain(self.alpha, self.T).mean)
        if not abs(mean - 1.0) <= _MEAN_TOLERANCE:
            text = number_text(float(f"{mean:.12g}"))
            raise ValueError(f"T must give mean 1, got mean {text}: multiply T by {text}")

    # ---- the chain of mean 1 ------------------------------------------------------------------------------

    @property
    def start(self) -> FloatArray:
        """Start probabilities, summing to 1, shape (phase,)."""
        return _chain(self.alpha, self.T).start.astype(np.float64)

    @property
    def generator(self) -> FloatArray:
        """Sub-generator T of the law of mean 1, shape (phase, phase)."""
        return _chain(self.alpha, self.T).generator.astype(np.float64)

    @property
    def exits(self) -> FloatArray:
        """Rates of completion t⁰ of the law of mean 1, shape (phase,)."""
        return _chain(self.alpha, self.T).exits.astype(np.float64)

    # ---- shape ------------------------------------------------------------------------------------------

    @property
    def variance(self) -> float:
        """Var S = 2 α T⁻² 1 − 1."""
        chain = _chain(self.alpha, self.T)
        with precise():
            residual = solve(-chain.generator, chain.residual)
            return float(2 * (chain.start @ residual) - 1)

    @property
    def origin_exponent(self) -> float:
        """The least number of phases k that a job visits: Ḡ(a) = 1 − c a^k + …."""
        distance = _distances(_exits(self.T), self.T)
        return float(min(distance[i] for i, share in enumerate(self.alpha) if share > 0.0))

    # ---- functions of age -------------------------------------------------------------------------------

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times, shape (size,), by following the chain phase after phase."""
        from sweep.laws.kernels import sample_phases

        times = np.empty(size)
        sample_phases(rng, *_jumps(self.alpha, self.T), times)
        return times

    def _at(self, x: FloatArray) -> State:
        return _semigroup(self.alpha, self.T).at(x)

    def _survival(self, x: FloatArray) -> FloatArray:
        state = self._at(x)
        return np.where(state.gone < 0.5, 1.0 - state.gone, self._value(state, np.ones(len(self.alpha))))

    def _log_survival(self, x: FloatArray) -> FloatArray:
        state = self._at(x)
        left = state.weigh(np.ones(len(self.alpha)))
        values = (
            math.log1p(-gone) if gone < 0.5 else math.log(mass) + exponent * math.log(2.0)
            for gone, mass, exponent in zip(
                state.gone.tolist(), left.tolist(), state.exponent.tolist(), strict=True
            )
        )
        return np.fromiter(values, dtype=np.float64, count=x.size)

    def _density(self, x: FloatArray) -> FloatArray:
        return self._value(self._at(x), self.exits)

    def _integral(self, x: FloatArray) -> FloatArray:
        state = self._at(x)
        tail = self._tail(state)
        return np.where(tail < 0.5, 1.0 - tail, state.integral)

    def _double_integral(self, x: FloatArray) -> FloatArray:
        state = self._at(x)
        # Where all mass is gone the sums have lost what lies between J and x: J = x − E S²/2.
        far = self._tail(state) == 0.0
        near = np.minimum(state.double, x * np.minimum(state.integral, 1.0))
        return np.where(far, x - (self.variance + 1.0) / 2.0, near)

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        return self._tail(self._at(x))

    def _tail(self, state: State) -> FloatArray:
        return self._value(state, _chain(self.alpha, self.T).residual.astype(np.float64))

    def _value(self, state: State, weights: FloatArray) -> FloatArray:
        return scaled(state.weigh(weights), state.exponent)

    def _transform(self, s: FloatArray) -> FloatArray:
        """E e^{−sS} = α (s − T)⁻¹ t⁰."""
        chain = _chain(self.alpha, self.T)
        with precise():
            values = []
            for rate in s.tolist():
                matrix = -chain.generator
                np.fill_diagonal(matrix, matrix.diagonal() + Decimal(rate))
                values.append(float(chain.start @ solve(matrix, chain.exits)))
        return np.array(values)


# ---- the chain ------------------------------------------------------------------------------------------


class _Chain(NamedTuple):
    """Start, sub-generator and completion rates at mean 1; the given mean; mean time left by phase."""

    start: Decimals
    generator: Decimals
    exits: Decimals
    mean: Decimal
    residual: Decimals


@lru_cache(maxsize=64)
def _chain(alpha: Vector, T: Matrix) -> _Chain:
    with precise():
        start = _decimals(alpha)
        start = start / sum(start)
        generator, exits = _decimals(T), _decimals(_exits(T))
        # The diagonal from the other entries, so that rows sum to minus the completion rates exactly.
        np.fill_diagonal(generator, Decimal(0))
        np.fill_diagonal(generator, -(generator.sum(axis=1) + exits))
        ones = np.array([Decimal(1)] * len(alpha), dtype=object)
        residual = solve(-generator, ones)
        mean: Decimal = sum(start * residual, Decimal(0))
        return _Chain(start, generator * mean, exits * mean, mean, residual / mean)


@lru_cache(maxsize=64)
def _semigroup(alpha: Vector, T: Matrix) -> Semigroup:
    chain = _chain(alpha, T)
    return Semigroup(chain.start, chain.generator, chain.exits)


@lru_cache(maxsize=64)
def _jumps(alpha: Vector, T: Matrix) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return cumulative start probabilities, mean times by phase, and cumulative jump probabilities by phase.

    The last column of the jumps is completion. Each row ends in infs, from the last destination possible on,
    so that no draw falls through a rounded sum.
    """
    chain = _chain(alpha, T)
    with precise():
        means = -1 / chain.generator.diagonal()
        others = chain.generator.copy()
        np.fill_diagonal(others, Decimal(0))
        shares = np.concatenate([others, chain.exits[:, None]], axis=1) * means[:, None]
        start, jumps = np.cumsum(chain.start), np.cumsum(shares, axis=1)
        rows = [(start, chain.start), *zip(jumps, shares, strict=True)]
        for sums, parts in rows:
            sums[np.flatnonzero(parts)[-1] :] = math.inf
    return start.astype(np.float64), means.astype(np.float64), jumps.astype(np.float64)


def _decimals(values: Any) -> Decimals:
    """Twelve significant digits are what the text says; the nearest double is not."""
    rows = np.array(values, dtype=object)
    exact = [Decimal(number_text(float(value))) for value in rows.ravel()]
    return np.array(exact, dtype=object).reshape(rows.shape)


def _exits(T: Matrix) -> Vector:
    """Rates of completion −T 1, 0 where they are rounding."""
    sums = [-math.fsum(row) for row in T]
    return tuple(rate if rate > -_ROUNDING * T[i][i] else 0.0 for i, rate in enumerate(sums))


def _distances(exits: Vector, T: Matrix) -> list[float]:
    """Return the least number of phases visited until completion, by the phase of the start; inf if never."""
    distance = [1.0 if rate > 0.0 else math.inf for rate in exits]
    for _ in exits:
        for i, row in enumerate(T):
            ways = [distance[k] + 1.0 for k, rate in enumerate(row) if k != i and rate > 0.0]
            distance[i] = min([distance[i], *ways])
    return distance


# ---- checks ---------------------------------------------------------------------------------------------


def _check_entries(alpha: Vector, T: Matrix) -> None:
    size = len(alpha)
    if len(T) != size or len(T[0]) != size:
        raise ValueError(
            f"T must have a row and a column for each entry of alpha, got {len(T)} × {len(T[0])} with {size}"
        )
    for share in alpha:
        if share != 0.0 and not 1e-12 <= share <= 1.0:
            raise ValueError(f"alpha must have entries 0 or from 1e-12 to 1, got {share!r}")
    total = math.fsum(alpha)
    if abs(total - 1.0) > _ROUNDING:
        raise ValueError(f"alpha must sum to 1 (no mass at age 0), got sum {total:.12g}")
    for i, row in enumerate(T):
        for k, rate in enumerate(row):
            if i == k and not _LEAST <= -rate <= _MOST:
                raise ValueError(f"T must have a diagonal from -1e9 to -1e-9, got {rate!r} in row {i + 1}")
            if i != k and rate != 0.0 and not _LEAST <= rate <= _MOST:
                raise ValueError(
                    f"T must be 0 or from 1e-9 to 1e9 off the diagonal, got {rate!r} in row {i + 1}"
                )
        if math.fsum(row) > -_ROUNDING * row[i]:
            raise ValueError(f"T must have row sums of at most 0, got {math.fsum(row):.12g} in row {i + 1}")


def _check_paths(alpha: Vector, T: Matrix) -> None:
    distance = _distances(_exits(T), T)
    reached = {i for i, share in enumerate(alpha) if share > 0.0}
    for _ in alpha:
        reached |= {k for i in reached for k, rate in enumerate(T[i]) if k != i and rate > 0.0}
    for i, steps in enumerate(distance):
        if steps == math.inf:
            raise ValueError(f"T must lead from every phase to completion, got no way out of phase {i + 1}")
        if i not in reached:
            raise ValueError(f"alpha and T must reach every phase, got phase {i + 1} unreached: leave it out")
