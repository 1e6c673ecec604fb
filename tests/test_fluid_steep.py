"""The solver from fresh ages with laws that are steep at early ages: atoms, and slopes next to nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import sweep
from sweep.cell import Limit
from sweep.fluid.mesh import layer_power, was_graded
from sweep.laws import parse_law

Floats = NDArray[np.float64]
#: So few arrivals that servers only empty themselves.
NONE = 1e-9
FEW = [0.005] * 8 + [0.055] * 2 + [1.985] * 10


def trace_of(values: list[float] | Floats, folder: Path) -> str:
    path = folder / "values.npy"
    np.save(path, np.asarray(values, dtype=np.float64))
    return f"trace({path})"


def emptying(law: str, times: list[float]) -> Floats:
    """Return P(X_1 + X_2 > t) and P(X_1 > t), shape (t, 2): S_1 and S_2 from two jobs each."""
    values: Floats = parse_law(law).values  # type: ignore[attr-defined]

    def above(x: Floats) -> Floats:
        return 1.0 - np.searchsorted(values, x, side="right") / values.size

    return np.array([[above(t - values).mean(), above(np.array(t))] for t in times])


def test_services_that_end_early_at_once_do_so_at_their_ages(tmp_path: Path) -> None:
    law, times = trace_of(FEW, tmp_path), [0.004, 0.0075, 0.0125]
    fluid = sweep.solve_fluid(d=2, lam=NONE, G=law, initial="lengths(2: 1)", times=times, levels=2)
    assert np.abs(fluid.S.values - emptying(law, times)).max() <= 1e-8


@pytest.mark.parametrize("count", [300, 3000])
def test_the_error_stated_for_a_steep_trace_holds(count: int, tmp_path: Path) -> None:
    law = trace_of(np.random.default_rng(2).gamma(0.3, 1.0, count), tmp_path)
    times = [0.02, 0.06, 0.3, 2.0]
    fluid = sweep.solve_fluid(
        d=2, lam=NONE, G=law, initial="lengths(2: 1)", times=times, levels=2, tolerance=0.01
    )
    assert np.abs(fluid.S.values - emptying(law, times)).max() <= fluid.S_error.values.max() <= 0.01


def test_a_law_without_mass_between_two_early_ages_is_solved(tmp_path: Path) -> None:
    law, times = trace_of([0.001] * 9 + [10.0], tmp_path), [0.0005, 0.0015, 0.0025]
    fluid = sweep.solve_fluid(d=2, lam=NONE, G=law, initial="lengths(2: 1)", times=times, levels=2)
    assert fluid.S.values == pytest.approx(emptying(law, times), abs=1e-8)


def test_a_law_that_is_flat_to_rounding_has_the_highest_power() -> None:
    # G(0.1) − G(0.01) = 1e-20: most jobs take a time of 1e-9, and 1e-9 of them one of 1e9.
    law = "phase_type(alpha=[0.999999999, 0.000000001], T=[[-1000000000, 0], [0, -0.000000001000000001]])"
    limit = Limit(d=2, lam=0.5, G=law, initial="lengths(1: 1)")
    assert layer_power(limit) == 60
    assert not was_graded(limit)


@pytest.mark.parametrize(
    ("values", "initial", "graded"),
    [
        (FEW, "lengths(2: 1)", True),
        ([0.001] * 9 + [10.0], "lengths(2: 1)", True),
        (FEW, "empty", False),
        (FEW, "lengths(2: 1, ages=equilibrium)", False),
        ([1.0, 2.0], "lengths(2: 1)", False),
    ],
)
def test_laws_with_atoms_are_never_graded_and_known_if_they_were(
    values: list[float], initial: str, graded: bool, tmp_path: Path
) -> None:
    limit = Limit(d=2, lam=0.5, G=trace_of(values, tmp_path), initial=initial)
    assert layer_power(limit) == 1
    assert was_graded(limit) is graded


def test_no_law_without_atoms_was_wrong() -> None:
    for law in ("gamma(shape=0.5)", "lomax(beta=1.01)", "uniform(width=1)", "deterministic"):
        assert not was_graded(Limit(d=2, lam=0.5, G=law, initial="lengths(1: 1)"))
