"""The mean virtual waiting time against closed forms, the invariant state, and Pollaczek–Khinchine."""

from __future__ import annotations

import numpy as np
import pytest

import sweep
from sweep.routing import phi


@pytest.mark.parametrize(("d", "fraction"), [(1, 1.0), (2, 1.0), (3, 0.4)])
def test_exponential_services_are_all_alike(d: int, fraction: float) -> None:
    # Every job ahead takes 1 on average: W = Σ_{ℓ≥1} φ(S_ℓ).
    fluid = sweep.solve_fluid(
        d=d, lam=0.8, G="exponential", times=[0.0, 0.5, 4.0], initial="lengths(2: 0.5)", levels=60,
        fraction=fraction,
    )  # fmt: skip
    exact = [sum(phi(x, d, fraction) for x in row) for row in fluid.S.values.tolist()]
    assert fluid.virtual_wait.values == pytest.approx(exact, abs=1e-7)


def test_deterministic_services_are_followed_through_their_first_end() -> None:
    # One choice, all queues of 2 at time 0, hardly an arrival: 2 − t jobs' work is left, to 1 and then to 0.
    fluid = sweep.solve_fluid(
        d=1,
        lam=1e-12,
        G="deterministic",
        times=[0.0, 0.5, 0.999, 1.0, 1.25, 2.0, 2.5],
        initial="lengths(2: 1)",
    )
    assert fluid.virtual_wait.values == pytest.approx([2.0, 1.5, 1.001, 1.0, 0.75, 0.0, 0.0], abs=1e-8)


@pytest.mark.parametrize("law", ["erlang(k=3)", "uniform(width=1)", "gamma(shape=0.5)", "deterministic"])
def test_one_choice_tends_to_the_pollaczek_khinchine_wait(law: str) -> None:
    rho = 0.1
    fluid = sweep.solve_fluid(d=1, lam=rho, G=law, times=[60.0])
    variance = sweep.laws.parse_law(law).variance
    assert fluid.virtual_wait.item() == pytest.approx(rho * (1.0 + variance) / (2.0 * (1.0 - rho)), abs=1e-7)


def test_waits_of_infinite_variance_are_finite_in_finite_time_and_grow() -> None:
    fluid = sweep.solve_fluid(
        d=2, lam=0.5, G="lomax(beta=1.5)", times=[1.0, 5.0, 40.0, 200.0], tolerance=1e-6
    )
    waits = fluid.virtual_wait.values
    assert np.all(np.isfinite(waits))
    assert np.all(np.diff(waits) > 0.0)
    # β = 1.7 at d = 2 has an infinite variance and a finite mean queue: the wait of its invariant state.
    state = sweep.invariant_state(d=2, lam=0.5, G="lomax(beta=1.7)")
    held = sweep.solve_fluid(d=2, lam=0.5, G="lomax(beta=1.7)", times=[2.0], initial="invariant", levels=4)
    assert held.virtual_wait.item() == pytest.approx(state.mean_virtual_waiting_time.item(), rel=1e-8)
