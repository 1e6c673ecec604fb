"""Tests of what the invariant state is built from: panels, the solver of one level, bits, labels."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.polynomial import legendre

from sweep.cell import Limit
from sweep.fluid import invariant_kernels
from sweep.fluid.invariant import invariant_state, solve_invariant
from sweep.fluid.mean_length import tail_power
from sweep.fluid.panels import DEGREE, Panels, gauss_legendre
from tests.laws_table import LAW_OF, TEXTS
from tests.processors import WITHOUT_AVX512, printed


@pytest.mark.parametrize("decay", [0.0, 1e-9, 0.1, 1.0, 30.0, 1e6])
def test_the_level_equation_is_solved_to_rounding(decay: float) -> None:
    # below ≡ 1, u(0) = 2: u = r + (2 − r) e^{−decay a} with r = feed/decay.
    edges = np.concatenate([[0.0], np.geomspace(1e-3, 10.0, 80)])
    below = np.zeros((80, DEGREE + 1))
    below[:, 0] = 1.0
    coefficients, ends = np.empty_like(below), np.empty(80)
    invariant_kernels.advance(
        below, np.diff(edges), decay, 3.0, 2.0, coefficients, ends, np.empty(DEGREE + 1)
    )
    a = edges[1:]
    exact = 2.0 + 3.0 * a if decay == 0.0 else 2.0 * np.exp(-decay * a) - 3.0 * np.expm1(-decay * a) / decay
    stiff = decay * (edges[1:] - edges[:-1]) > 4.0  # the transient is shorter than a panel, and damped
    np.testing.assert_allclose(ends[~stiff], exact[~stiff], rtol=1e-12)
    np.testing.assert_allclose(ends[-1], exact[-1], rtol=1e-12)


@pytest.mark.parametrize("text", TEXTS)
def test_moments_of_survival_sum_to_the_mean_of_the_law(text: str) -> None:
    law = LAW_OF[text]
    panels = Panels.start(law, 0.5, 1.0).extended(64.0)
    total = math.fsum(panels.moments[:, 0].tolist())
    assert total == pytest.approx(float(law.integral(panels.end)), abs=1e-13)
    # a P_0 + P_1: ∫ a Ḡ da over the panels, in closed form from the double integral.
    middle, half = (panels.edges[1:] + panels.edges[:-1]) / 2.0, np.diff(panels.edges) / 2.0
    first = math.fsum((middle * panels.moments[:, 0] + half * panels.moments[:, 1]).tolist())
    exact = panels.end * float(law.integral(panels.end)) - float(law.double_integral(panels.end))
    assert first == pytest.approx(exact, rel=1e-11, abs=1e-12)


def test_gauss_rule_is_numpys() -> None:
    for mine, theirs in zip(gauss_legendre(20), legendre.leggauss(20), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-13, atol=1e-16)


def test_tail_powers_of_the_regimes() -> None:
    assert tail_power(Limit(d=2, lam=0.7, G="lomax(beta=1.75)")) == pytest.approx(3.0)
    assert tail_power(Limit(d=2, lam=0.7, G="lomax(beta=2)")) is None
    assert tail_power(Limit(d=2, lam=0.7, G="lomax(beta=2)", fraction=0.5)) == 1.0
    assert tail_power(Limit(d=2, lam=0.7, G="exponential")) is None


def test_labels_say_what_is_held() -> None:
    state = invariant_state(d=2, lam=0.9, G="lomax(beta=2.5)", levels=4)
    assert dict(state.sizes) == {"level": 4, "age": 39}
    assert all(
        variable.attrs["units"] and variable.attrs["long_name"] for variable in state.variables.values()
    )
    np.testing.assert_allclose(state.age_cdf.isel(age=-1), 1.0, atol=1e-13)
    assert float(state.mean_time_in_system) == float(state.mean_queue) / 0.9
    assert float(state.mean_virtual_waiting_time) == pytest.approx(
        float(state.mean_time_in_system) - 1.0, abs=1e-14
    )


_BITS = """
import hashlib
from sweep.cell import Limit
from sweep.fluid.invariant import solve_invariant
from sweep.laws import parse_law
digest = hashlib.sha256()
texts = "exponential", "gamma(shape=0.5)", "lomax(beta=1.75)", "lognormal(sigma=1.5)", "uniform(width=1)"
for text in texts:
    state = solve_invariant(Limit(d=2, lam=0.8, G=parse_law(text)))
    parts = state.log_S, state.coefficients, state.age_cdfs([0.5, 2.0]), state.quantile(2, [0.3])
    for part in parts:
        digest.update(part.tobytes())
    digest.update(repr(state.length).encode())
print(digest.hexdigest())
"""


def test_bits_do_not_depend_on_vector_units() -> None:
    assert printed(_BITS, environment=WITHOUT_AVX512) == printed(_BITS)


def test_a_state_is_frozen() -> None:
    state = solve_invariant(Limit(d=2, lam=0.5, G="exponential"), 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.levels_held = 3  # type: ignore[attr-defined]
