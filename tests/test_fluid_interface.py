"""What `solve_fluid` returns and refuses, its bits, and the small functions it stands on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweep
from sweep.errors import AccuracyError
from sweep.fluid.exact import phase_type
from sweep.fluid.kernels import solve_level
from sweep.fluid.mesh import common_step
from sweep.laws import parse_law
from sweep.routing import phi
from tests.processors import NATIVE, UNCOMPILED, WITHOUT_AVX512, printed


def test_a_dataset_has_the_names_and_units_of_the_schema() -> None:
    fluid = sweep.solve_fluid(d=2, lam=0.9, G="exponential", times=[0.0, 1.0], snapshots=[1.0], ages=[0.5])
    assert dict(fluid.sizes) == {"t": 2, "level": 4, "snapshot": 1, "age": 2}
    assert set(fluid.data_vars) == {"S", "S_error", "D", "X", "E", "virtual_wait", "nu_cdf"}
    assert all({"units", "long_name"} <= set(fluid[name].attrs) for name in fluid.variables)
    assert fluid.E.values.tolist() == [0.0, 0.9]
    assert fluid.S.sel(t=0.0).values.tolist() == [0.0] * 4


def test_levels_beyond_the_internal_ones_are_zero_within_the_closure() -> None:
    fluid = sweep.solve_fluid(d=5, lam=0.9, G="exponential", times=[1.0], levels=9)
    assert fluid.S.values[0, 6:].tolist() == [0.0, 0.0, 0.0]
    assert np.all(fluid.S_error.values[0, 6:] == 1e-11)


def test_the_state_at_time_0_alone_is_the_initial_state() -> None:
    fluid = sweep.solve_fluid(d=2, lam=0.9, G="gamma(shape=0.5)", times=[0.0], initial="lengths(2: 0.5)")
    assert fluid.S.values.tolist() == [[0.5, 0.5]]
    assert fluid.X.values.tolist() == [1.0]


@given(st.floats(0.0, 2.0), st.floats(0.0, 1.0), st.integers(1, 20), st.floats(0.0, 1.0))
def test_the_scalar_equation_of_a_level_is_solved_to_rounding(
    right: float, weight: float, d: int, fraction: float
) -> None:
    x = solve_level(right, weight, d, fraction)
    assert 0.0 <= x <= right
    assert x + weight * phi(x, d, fraction) == pytest.approx(right, rel=1e-14, abs=1e-300)


def test_a_common_step_is_found_where_there_is_one() -> None:
    assert common_step([0.615, 1.385, 0.1]) == pytest.approx(0.005, rel=1e-12)
    assert common_step([1.0, 2.0**0.5]) < 1e-6
    assert common_step([]) == 0.0


_BITS = """
import numpy as np
from sweep.cell import Limit
from sweep.fluid.transient import solve
for law in ("gamma(shape=0.5)", "lognormal(sigma=1)", "weibull(shape=0.5)", "uniform(width=1)"):
    for initial in ("empty", "lengths(2: 0.5)", "invariant"):
        fluid = solve(
            Limit(d=3, lam=0.9, G=law, initial=initial), times=np.array([0.3, 1.01, 1.5]), levels=5,
            snapshots=np.array([0.7]), ages=np.array([0.1, 0.33, np.inf]), tolerance=1e-4,
        )
        print(law, initial, [(name, fluid[name].tobytes().hex()) for name in sorted(fluid)])
"""


def test_vector_units_do_not_change_a_bit() -> None:
    native = printed(_BITS)
    assert native.count("nu_cdf") == 12
    assert printed(_BITS, environment=WITHOUT_AVX512) == native


def test_compiled_and_interpreted_kernels_agree() -> None:
    from sweep.fluid import kernels

    code = (
        "import numpy as np\n"
        "from sweep.cell import Limit\n"
        "from sweep.fluid.mesh import Mesh\n"
        "from sweep.fluid.path import trace\n"
        "limit = Limit(d=3, lam=0.9, G='gamma(shape=0.5)', initial='lengths(2: 0.5)', fraction=0.5)\n"
        "print(trace(limit, Mesh(0.125, 20, (), 8, 4), 0, 4).S.tolist())\n"
    )
    compiled, interpreted = (
        np.array(json.loads(printed(code, environment=environment))) for environment in (NATIVE, UNCOMPILED)
    )
    assert np.abs(compiled - interpreted).max() <= 1e-15
    assert kernels.march.py_func is not None


def test_a_tolerance_out_of_reach_is_an_error_with_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep.fluid.transient._WORK", 1e7)
    text = r"tolerance must be at least .* got 1e-12: the estimate after"
    with pytest.raises(AccuracyError, match=text) as caught:
        sweep.solve_fluid(
            d=2, lam=0.9, G="uniform(width=0.7718281)", times=[5.0], initial="lengths(2: 1)", tolerance=1e-12
        )
    assert 1e-12 < caught.value.reached < 1e-2


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"tolerance": 0.0}, ValueError, r"tolerance must lie in \[1e-12, 1\), got 0.0"),
        ({"tolerance": float("nan")}, ValueError, r"tolerance must lie in \[1e-12, 1\), got nan"),
        ({"tolerance": "small"}, TypeError, "tolerance must be a number, got 'small'"),
        ({"tolerance": True}, TypeError, "tolerance must be a number, got True"),
        ({"times": []}, ValueError, "times must not be empty"),
        ({"snapshots": [2.0]}, ValueError, "snapshots must not be later than the last stored time"),
        ({"ages": [1.0, 0.5], "snapshots": [1.0]}, ValueError, "ages must increase"),
        ({"levels": 0}, ValueError, "levels must be at least 1"),
        ({"lam": -1.0}, ValueError, "lam must be positive"),
        ({"G": "nonsense"}, ValueError, "G must"),
    ],
)
def test_a_bad_argument_is_named_with_its_value(
    arguments: dict[str, object], error: type[Exception], text: str
) -> None:
    good = {"d": 2, "lam": 0.9, "G": "exponential", "times": [1.0]}
    with pytest.raises(error, match=text):
        sweep.solve_fluid(**{**good, **arguments})


def test_a_law_without_phases_is_refused_by_the_oracle() -> None:
    text = r"law must be exponential, erlang, hyperexponential or phase_type, got lomax\(beta=1.5\)"
    with pytest.raises(TypeError, match=text):
        phase_type(parse_law("lomax(beta=1.5)"))
