"""Empirical laws: the numbers of a file, each as likely as the others, rescaled to mean 1."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from sweep.arguments import check_path
from sweep.laws.base import FloatArray, Law, elementwise
from sweep.laws.trace_file import read_numbers
from sweep.wording import shown


class _Steps(NamedTuple):
    """Step function Ḡ and its integrals at each knot: 0, then the distinct values; all of shape (knot,)."""

    knot: FloatArray
    above: FloatArray
    integral: FloatArray
    double: FloatArray
    tail: FloatArray


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Trace(Law):
    r"""Law of a number drawn from those of a file (`path`), each divided by their mean.

    The file holds positive numbers, at most a million: text, one a line, where blank lines and all from `#`
    on are skipped, or an .npy array. It is read when the law is made; the numbers then travel with the law,
    8 bytes each. Equality, hash and `identity` are those of the numbers, whatever their order and the path.
    The text keeps the path, as seen from the working directory. Samples and functions of age cost the same
    for many numbers as for few, but `atoms` and `breakpoints` list every distinct one, and what treats jumps
    one by one is slow then.

    Raises
    ------
    TypeError
        A path that is neither text nor a path.
    ValueError
        A path with parentheses, quotes or line ends; a file that is missing or holds other than such numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     file.write("1\n1\n4  # seconds\n") and file.flush()
    ...     law = Trace(path=file.name)
    >>> law.atoms, law.variance
    (((0.5, 0.6666666666666666), (2.0, 0.3333333333333333)), 0.5)
    """

    name: ClassVar[str] = "trace"
    path: str
    values: FloatArray = field(init=False, repr=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _check_path(self.path))
        numbers = read_numbers(self.path)
        mean = math.fsum(numbers.tolist()) / numbers.size
        values = np.sort(numbers / mean)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "digest", hashlib.sha256(values.astype("<f8").tobytes()).hexdigest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash((self.name, self.digest))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is computed from the numbers."""
        return {name: self.__dict__[name] for name in ("path", "values", "digest")}

    @classmethod
    def form(cls) -> str:
        """Return how the law is written, without values."""
        return "trace(path)"

    @classmethod
    def usage(cls) -> str:
        """Return how the law is written, and what the file holds."""
        return "trace(path) with path a file of positive numbers, one a line, or .npy, without parentheses"

    def _arguments(self) -> str:
        return self.path if self.path.strip() == self.path and self.path[0] not in "'\"" else f'"{self.path}"'

    @property
    def identity(self) -> str:
        """The text that stands for the law in keys: a hash of its numbers."""
        return f"trace(sha256:{self.digest})"

    # ---- shape ------------------------------------------------------------------------------------------

    @cached_property
    def _counts(self) -> tuple[FloatArray, FloatArray]:
        """Distinct values, increasing, and how many numbers have each."""
        ages, counts = np.unique(self.values, return_counts=True)
        return ages, counts.astype(np.float64)

    @cached_property
    def _steps(self) -> _Steps:
        ages, counts = self._counts
        knot = np.concatenate([[0.0], ages])
        above = (self.values.size - np.concatenate([[0.0], np.cumsum(counts)])) / self.values.size
        width = np.diff(knot)
        cells = width * above[:-1]
        integral = _running_sums(cells.tolist())
        double = _running_sums((width * integral[:-1] + width * cells / 2.0).tolist())
        return _Steps(knot, above, integral, double, _running_sums(cells[::-1].tolist())[::-1])

    @property
    def variance(self) -> float:
        """Var S = Σ (x − 1)²/n."""
        return math.fsum(((self.values - 1.0) * (self.values - 1.0)).tolist()) / self.values.size

    @property
    def support_end(self) -> float:
        """The largest value."""
        return float(self.values[-1])

    @cached_property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """The distinct values, each with its share of the numbers."""
        ages, counts = self._counts
        return tuple(zip(ages.tolist(), (counts / self.values.size).tolist(), strict=True))

    @cached_property
    def breakpoints(self) -> tuple[float, ...]:
        """The distinct values."""
        return tuple(self._counts[0].tolist())

    # ---- functions of age -------------------------------------------------------------------------------

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times, shape (size,)."""
        return self.values[rng.integers(0, self.values.size, size)]

    def _survival(self, x: FloatArray) -> FloatArray:
        return self._above(np.searchsorted(self.values, x, side="right"))

    def _survival_left(self, x: FloatArray) -> FloatArray:
        return self._above(np.searchsorted(self.values, x, side="left"))

    def _above(self, passed: Any) -> FloatArray:
        return np.asarray((self.values.size - passed) / self.values.size, dtype=np.float64)

    def _log_survival(self, x: FloatArray) -> FloatArray:
        size = float(self.values.size)
        passed = np.searchsorted(self.values, x, side="right").astype(np.float64)
        return elementwise(
            lambda below: (
                math.log1p(-below / size)
                if below < size / 2.0
                else math.log((size - below) / size)
                if below < size
                else -math.inf
            ),
            passed,
        )

    def _density(self, x: FloatArray) -> FloatArray:
        return np.zeros_like(x)

    def _cell(self, x: FloatArray) -> tuple[_Steps, FloatArray]:
        """Return the steps at the last knot up to each age, and how far the age is past it."""
        index = np.searchsorted(self._steps.knot, x, side="right") - 1
        at = _Steps(*(part[index] for part in self._steps))
        return at, x - at.knot

    def _integral(self, x: FloatArray) -> FloatArray:
        at, past = self._cell(x)
        return at.integral + past * at.above

    def _double_integral(self, x: FloatArray) -> FloatArray:
        at, past = self._cell(x)
        return at.double + past * (at.integral + past * at.above / 2.0)

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        # From the next knot down: nothing cancels just before the last value.
        steps = self._steps
        following = np.searchsorted(steps.knot, x, side="right")
        inside = following < steps.knot.size
        following = np.minimum(following, steps.knot.size - 1)
        left = (steps.knot[following] - x) * steps.above[following - 1]
        return np.where(inside, steps.tail[following] + left, 0.0)

    def _transform(self, s: FloatArray) -> FloatArray:
        ages, counts = (part.tolist() for part in self._counts)
        return elementwise(
            lambda rate: (
                math.fsum(count * math.exp(-rate * age) for age, count in zip(ages, counts, strict=True))
                / self.values.size
            ),
            s,
        )


def _check_path(path: Any) -> str:
    text = check_path("path", path)
    if not text.strip() or any(character in '()\n\r"' for character in text):
        raise ValueError(
            f"path must name a file, without parentheses, quotes and line ends, got {shown(text)}"
        )
    return text


def _running_sums(terms: Iterable[float]) -> FloatArray:
    """Return the sums of the first 0, 1, 2, … terms, what additions round off carried along (Neumaier)."""
    total, lost, sums = 0.0, 0.0, [0.0]
    for term in terms:
        larger = total + term
        lost += (total - larger) + term if total >= term else (term - larger) + total
        total = larger
        sums.append(total + lost)
    return np.array(sums)
