"""The solver from starts other than empty queues and fresh ages."""

from __future__ import annotations

import numpy as np
import pytest

import sweep
from sweep.cell import Cell, Limit
from sweep.fluid.exact import solve_phase_type
from sweep.fluid.invariant import solve_invariant
from sweep.fluid.transient import solve
from sweep.initial import Invariant, parse_initial

LAWS = (
    "exponential",
    "erlang(k=4)",
    "hyperexponential(scv=10)",
    "gamma(shape=0.5)",
    "lomax(beta=1.5)",
    "pareto(beta=1.5)",
    "lognormal(sigma=1)",
    "uniform(width=1)",
    "deterministic",
)


@pytest.mark.parametrize("law", LAWS)
def test_the_invariant_state_stays_as_it_is(law: str) -> None:
    fluid = sweep.solve_fluid(
        d=2, lam=0.9, G=law, times=[0.0, 0.37, 5.0, 10.0], levels=8, initial="invariant",
        snapshots=[0.0, 0.37, 5.0], ages=[0.1, 0.5, 1.0, 5.0, 6.0, 20.0],
    )  # fmt: skip
    state = solve_invariant(Limit(d=2, lam=0.9, G=law), 8)
    assert np.abs(fluid.S.values - state.S).max() <= 1e-9
    assert np.all(np.abs(fluid.S.values - state.S) <= 3.0 * fluid.S_error.values + 1e-11)
    ages = state.age_cdfs(fluid.age.values) * state.S[:, None]
    assert np.abs(fluid.nu_cdf.values[0] - ages).max() <= 1e-14
    assert np.abs(fluid.nu_cdf.values - ages).max() <= 5e-8
    # What passes a level is what arrives at it: D_ℓ = λφ(S_{ℓ−1}) t.
    below = np.append(1.0, state.S[:-1])
    assert np.abs(fluid.D.values - np.outer(fluid.t.values, 0.9 * below**2)).max() <= 1e-8
    assert fluid.X.values == pytest.approx(state.length.value, rel=1e-9)
    # Infinite if the mean queue is, as for β = 3/2 at d = 2.
    assert fluid.virtual_wait.values == pytest.approx(state.mean_virtual_waiting_time, rel=1e-8)


@pytest.mark.parametrize(("d", "fraction"), [(1, 1.0), (3, 0.5)])
def test_other_choices_leave_their_invariant_state_alone_too(d: int, fraction: float) -> None:
    limit = {"d": d, "lam": 0.7, "G": "uniform(width=0.77)", "fraction": fraction}
    fluid = sweep.solve_fluid(**limit, times=[1.0, 3.3], initial="invariant")
    state = solve_invariant(Limit(**limit), fluid.sizes["level"])
    assert np.abs(fluid.S.values - state.S).max() <= 1e-9


def test_the_invariant_state_of_another_rate_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    # The state of λ = 0.5 under λ = 0.9, by levels, against the ODE; a state held still would fail.
    other = solve_invariant(Limit(d=2, lam=0.5, G="exponential"), 12)
    monkeypatch.setattr("sweep.fluid.start.solve_invariant", lambda limit, levels=None: other)
    limit = Limit(d=2, lam=0.9, G="exponential", initial="invariant")
    shares = dict(enumerate((other.S - np.append(other.S[1:], 0.0)).tolist(), 1))
    lengths = "lengths(" + ", ".join(f"{n}: {share!r}" for n, share in shares.items()) + ")"
    times = np.array([0.5, 2.0, 7.0])
    exact = solve_phase_type(Limit(d=2, lam=0.9, G="exponential", initial=lengths), times, 12)
    fluid = solve(
        limit, times=times, levels=12, snapshots=np.empty(0), ages=np.array([np.inf]), tolerance=1e-8
    )
    assert np.abs(fluid["S"] - exact["S"]).max() <= 1e-8
    assert np.abs(fluid["D"] - exact["D"]).max() <= 1e-8


def test_no_invariant_state_is_a_clear_error() -> None:
    with pytest.raises(
        ValueError, match="initial must not be invariant where no invariant state exists, got"
    ):
        sweep.solve_fluid(d=2, lam=1.0, G="exponential", times=[1.0], initial="invariant")


def test_invariant_is_a_state_of_its_own_for_the_limit_alone() -> None:
    assert parse_initial(" invariant ") == Invariant()
    assert (
        Limit(d=2, lam=0.9, G="exponential", initial="invariant").key
        != Limit(d=2, lam=0.9, G="exponential").key
    )
    with pytest.raises(
        ValueError, match=r"initial must be empty or lengths\(…\) for N servers, got invariant"
    ):
        Cell(N=10, d=2, lam=0.9, G="exponential", initial="invariant")
