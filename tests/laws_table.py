"""Laws under test and independent references for them, from scipy.stats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from sweep.laws import LAWS, Law, parse_law


@dataclass(frozen=True)
class BalancedMixture:
    """Two exponentials of rates 2p and 2(1−p), mixed p : 1−p, from their moments alone."""

    scv: float

    @property
    def parts(self) -> list[tuple[float, Any]]:
        # E S² = 2 [p/(2p)² + q/(2q)²] = 1/(2pq), and pq = 1/(2(1 + scv)).
        p = (1.0 + math.sqrt(1.0 - 2.0 / (1.0 + self.scv))) / 2.0
        return [(share, stats.expon(scale=1.0 / (2.0 * share))) for share in (p, 1.0 - p)]

    def sf(self, x: Any) -> Any:
        return sum(share * part.sf(x) for share, part in self.parts)

    def logsf(self, x: Any) -> Any:
        return np.log(self.sf(x))

    def pdf(self, x: Any) -> Any:
        return sum(share * part.pdf(x) for share, part in self.parts)

    def var(self) -> float:
        return sum(share * part.moment(2) for share, part in self.parts) - 1.0

    def isf(self, q: Any) -> Any:
        low, high = np.zeros_like(q), np.full_like(q, 1e9)
        for _ in range(200):
            middle = (low + high) / 2.0
            above = self.sf(middle) > q
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return high


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
}
TEXTS = (*REFERENCES, "deterministic")
LAW_OF: dict[str, Law] = {text: parse_law(text) for text in TEXTS}

#: Upper-tail probabilities at whose quantiles laws are compared.
LEVELS = np.array([0.999, 0.95, 0.8, 0.5, 0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-4])
#: Ages over twelve decades, and a rule for smooth cells.
AGES = np.concatenate(
    [[0.0], np.geomspace(1e-8, 1e-2, 13), np.linspace(0.05, 3.0, 60), np.geomspace(3.5, 1e6, 25)]
)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


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

    return st.sampled_from(sorted(LAWS)).flatmap(lambda name: build(LAWS[name]))
