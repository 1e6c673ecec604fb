"""Laws under test and independent references for them: scipy.stats, sums of exponentials, counting."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from scipy import stats

from sweep.laws import LAWS, Law, PhaseType, Trace, parse_law


class FromSurvival:
    """A law given by its survival function alone."""

    def logsf(self, x: Any) -> Any:
        return np.log(self.sf(x))

    def isf(self, q: Any) -> Any:
        low, high = np.zeros_like(q), np.full_like(q, 1e9)
        for _ in range(200):
            middle = (low + high) / 2.0
            above = self.sf(middle) > q
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return high


@dataclass(frozen=True)
class BalancedMixture(FromSurvival):
    """Two exponentials of rates 2p and 2(1−p), mixed p : 1−p, from their moments alone."""

    scv: float

    @property
    def parts(self) -> list[tuple[float, Any]]:
        # E S² = 2 [p/(2p)² + q/(2q)²] = 1/(2pq), and pq = 1/(2(1 + scv)).
        p = (1.0 + math.sqrt(1.0 - 2.0 / (1.0 + self.scv))) / 2.0
        return [(share, stats.expon(scale=1.0 / (2.0 * share))) for share in (p, 1.0 - p)]

    def sf(self, x: Any) -> Any:
        return sum(share * part.sf(x) for share, part in self.parts)

    def pdf(self, x: Any) -> Any:
        return sum(share * part.pdf(x) for share, part in self.parts)

    def var(self) -> float:
        return sum(share * part.moment(2) for share, part in self.parts) - 1.0


@dataclass(frozen=True)
class TwoInSuccession(FromSurvival):
    """Sum of two independent exponentials of rates `slow` < `fast`."""

    slow: float
    fast: float

    def sf(self, x: Any) -> Any:
        gap = self.fast - self.slow
        return np.exp(-self.slow * x) * (1.0 - self.slow / gap * np.expm1(-gap * x))

    def pdf(self, x: Any) -> Any:
        gap = self.fast - self.slow
        return -self.slow * self.fast / gap * np.exp(-self.slow * x) * np.expm1(-gap * x)

    def var(self) -> float:
        return self.slow**-2 + self.fast**-2


def _weibull(shape: float) -> Any:
    return stats.weibull_min(shape, scale=1.0 / math.gamma(1.0 + 1.0 / shape))


def _lognormal(sigma: float) -> Any:
    return stats.lognorm(sigma, scale=math.exp(-(sigma**2) / 2.0))


#: Law text → the same law from scipy.stats, which has none for `deterministic`.
REFERENCES: dict[str, Any] = {
    "exponential": stats.expon(),
    **{f"erlang(k={k})": stats.erlang(k, scale=1.0 / k) for k in (1, 2, 4, 200)},
    **{f"gamma(shape={k:g})": stats.gamma(k, scale=1.0 / k) for k in (0.05, 0.5, 1.5, 2.5)},
    **{f"hyperexponential(scv={c})": BalancedMixture(c) for c in (1, 4, 10, 1000)},
    **{f"lomax(beta={b:g})": stats.lomax(b, scale=b - 1.0) for b in (1.01, 1.5, 2.0, 2.5, 30.0)},
    **{f"pareto(beta={b:g})": stats.pareto(b, scale=(b - 1.0) / b) for b in (1.01, 1.5, 2.0, 2.5, 30.0)},
    **{f"weibull(shape={k:g})": _weibull(k) for k in (0.2, 0.5, 1.5, 3.0)},
    **{f"lognormal(sigma={s:g})": _lognormal(s) for s in (0.25, 1.0, 1.5, 3.0)},
    **{f"uniform(width={w:g})": stats.uniform(1.0 - w / 2.0, w) for w in (0.5, 1.0, 2.0)},
    "phase_type(alpha=[1, 0, 0, 0], T=[[-4, 4, 0, 0], [0, -4, 4, 0], [0, 0, -4, 4], [0, 0, 0, -4]])": (
        stats.erlang(4, scale=0.25)
    ),
    # p = 0.9 is scv = 41/9, and one phase is reached from the start alone.
    "phase_type(alpha=[0.9, 0.1], T=[[-1.8, 0], [0, -0.2]])": BalancedMixture(41.0 / 9.0),
    "phase_type(alpha=[0, 1], T=[[-5, 0], [1.25, -1.25]])": TwoInSuccession(1.25, 5.0),
    # Rounds of two phases, half of them the last: Ḡ'(0) = 0, and T has the eigenvalues −4 ± √8.
    "phase_type(alpha=[1, 0], T=[[-4, 4], [2, -4]])": TwoInSuccession(
        4.0 - math.sqrt(8.0), 4.0 + math.sqrt(8.0)
    ),
}
TIMES = Path(__file__).parent / "reference" / "service_times.txt"
TRACE = f"trace({TIMES})"
TEXTS = (*REFERENCES, "deterministic", TRACE)
LAW_OF: dict[str, Law] = {text: parse_law(text) for text in TEXTS}
#: Law text → P(S > x), independently.
SURVIVAL: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{text: reference.sf for text, reference in REFERENCES.items()},
    "deterministic": lambda y: np.where(y < 1.0, 1.0, 0.0),
    TRACE: lambda y: (np.loadtxt(TIMES) / 10.0 > np.asarray(y)[..., None]).mean(axis=-1),
}

#: Upper-tail probabilities at whose quantiles laws are compared.
LEVELS = np.array([0.999, 0.95, 0.8, 0.5, 0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-4])
#: Ages over twelve decades, and a rule for smooth cells.
AGES = np.concatenate(
    [[0.0], np.geomspace(1e-8, 1e-2, 13), np.linspace(0.05, 3.0, 60), np.geomspace(3.5, 1e6, 25)]
)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


_FILES = tempfile.TemporaryDirectory()


def trace_of(numbers: list[float]) -> Trace:
    """The law of these numbers, written to a file."""
    text = "\n".join(map(repr, numbers))
    path = Path(_FILES.name) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"
    path.write_text(text)
    return Trace(path=str(path))


def _phase_type(rates: list[float], zeros: list[bool]) -> PhaseType:
    """Phases that all lead on to the next, the last to completion, with more ways where `zeros` allows."""
    size = math.isqrt(len(rates))
    free = np.where(np.reshape(zeros, (size, size)), 0.0, np.reshape(rates, (size, size)))
    ahead = np.eye(size, k=1) * np.reshape(rates, (size, size))
    T = np.where(np.eye(size, dtype=bool), 0.0, np.maximum(free, ahead))
    exits = np.diag(free).copy()
    exits[-1] = rates[-1]
    T -= np.diag(T.sum(axis=1) + exits)
    alpha = np.full(size, 1.0 / size)
    T *= alpha @ np.linalg.solve(-T, np.ones(size))
    rounded = np.array([[float(f"{rate:.12g}") for rate in row] for row in T.tolist()])
    # Twelve digits cannot hold completions much rarer than jumps.
    assume(abs(alpha @ np.linalg.solve(-rounded, np.ones(size)) - 1.0) < 1e-7)
    return PhaseType(alpha=alpha, T=T)


def phase_types() -> st.SearchStrategy[PhaseType]:
    """One to four phases, rates over six decades."""
    return st.sampled_from([1, 4, 9, 16]).flatmap(
        lambda size: st.builds(
            _phase_type,
            st.lists(st.floats(1e-3, 1e3), min_size=size, max_size=size),
            st.lists(st.booleans(), min_size=size, max_size=size),
        )
    )


def traces() -> st.SearchStrategy[Trace]:
    """Up to twenty numbers over six decades."""
    return st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20).map(trace_of)


def laws() -> st.SearchStrategy[Law]:
    """Any law of the table with any parameters it admits."""

    def build(law: type[Law]) -> st.SearchStrategy[Law]:
        numbers = {
            name: st.integers(int(allowed.least), int(allowed.most))
            if allowed.whole
            else st.floats(allowed.least + (1e-9 if allowed.open_least else 0.0), allowed.most)
            for name, allowed in law.ranges.items()
        }
        return st.fixed_dictionaries(numbers).map(lambda values: law(**values))

    special = {"phase_type": phase_types, "trace": traces}
    return st.sampled_from(sorted(LAWS)).flatmap(
        lambda name: special[name]() if name in special else build(LAWS[name])
    )
