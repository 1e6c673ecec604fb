"""The solver from starts other than empty queues and fresh ages."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest

import sweep
from sweep.cell import Cell, Limit
from sweep.errors import AccuracyError
from sweep.explicit import Explicit
from sweep.fluid import aged, start
from sweep.fluid.aged import AgedStart
from sweep.fluid.exact import solve_phase_type
from sweep.fluid.invariant import solve_invariant
from sweep.fluid.mean_length import Estimate
from sweep.fluid.transient import solve
from sweep.initial import Invariant, parse_initial
from sweep.laws import parse_law

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


@pytest.mark.parametrize("arrivals", ["exponential", "profile(0: 1, 2: 0.8)"])
def test_levels_whose_share_underflows_are_empty(arrivals: str) -> None:
    # S_ℓ = λ^((d^ℓ − 1)/(d − 1)): log S_10 = −6e10, and log S_11 < −1e12 is out of reach of its equation.
    fluid = sweep.solve_fluid(
        d=20,
        lam=0.9,
        G="exponential",
        times=[0.0, 1.0, 3.0],
        levels=12,
        initial="invariant",
        arrivals=arrivals,
    )
    exact = np.array([0.9, 0.9**21, 0.9**421, *([0.0] * 9)])
    assert fluid.S.values[:2] == pytest.approx(np.array([exact, exact]), rel=1e-9, abs=1e-300)
    assert np.all(fluid.S.values[:, 3:] == 0.0)
    # D_ℓ = λ S_{ℓ−1}^d t while the rate is λ.
    assert fluid.D.values[1] == pytest.approx(0.9 * np.append(1.0, exact[:-1]) ** 20, rel=1e-7, abs=1e-300)
    few = sweep.solve_fluid(
        d=20,
        lam=0.9,
        G="exponential",
        times=[0.0, 1.0, 3.0],
        levels=3,
        initial="invariant",
        arrivals=arrivals,
    )
    assert np.abs(few.S.values - fluid.S.values[:, :3]).max() <= 1e-9
    assert fluid.virtual_wait.values == pytest.approx(few.virtual_wait.values, abs=1e-9)


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


def test_invariant_is_a_state_of_its_own() -> None:
    assert parse_initial(" invariant ") == Invariant()
    limit = Limit(d=2, lam=0.9, G="exponential", initial="invariant")
    assert limit.key != Limit(d=2, lam=0.9, G="exponential").key
    assert Cell(N=10, d=2, lam=0.9, G="exponential", initial="invariant").limit == limit


def test_a_start_of_queues_alone_is_refused_by_the_limit() -> None:
    with pytest.raises(ValueError, match=r"initial must be empty, .* scaled\(empty, m=4\): only N servers"):
        sweep.solve_fluid(d=2, lam=0.9, G="exponential", times=[1.0], initial="scaled(empty, m=4)")


LENGTHS = "lengths(1: 0.3, 3: 0.4, ages=equilibrium)"


@pytest.mark.parametrize("G", ["exponential", "erlang(k=3)", "hyperexponential(scv=4)"])
def test_lengths_with_equilibrium_ages_agree_with_the_equations_of_the_phases(G: str) -> None:
    """From phases in the ratio α (−T)⁻¹ the differential equations give the same path and waits."""
    common: dict[str, Any] = {"d": 2, "lam": 0.8, "G": G, "times": [0.0, 0.5, 2.0, 5.0], "levels": 4}
    path = sweep.solve_fluid(**common, initial=LENGTHS)
    exact = sweep.solve_fluid(**common, initial=LENGTHS, method="ode")
    for name in ("S", "D", "virtual_wait"):
        assert float(abs(path[name] - exact[name]).max()) < 1e-9
    fresh = sweep.solve_fluid(**common, initial=LENGTHS.replace(", ages=equilibrium", ""))
    assert (float(abs(path.S - fresh.S).max()) < 1e-9) == (G == "exponential")


def test_deterministic_services_of_equilibrium_ages_end_at_rate_one() -> None:
    """Without arrivals, queues of length ≥ 3 lose a share 1 − t of theirs by t < 1."""
    path = sweep.solve_fluid(
        d=2,
        lam=1e-9,
        G="deterministic",
        times=[0.0, 0.25, 0.5],
        initial=LENGTHS,
        levels=3,
        snapshots=[0.0],
        ages=[0.25, 0.5, 1.0],
    )
    assert np.allclose(path.S.sel(level=3), [0.4, 0.3, 0.2], atol=1e-8)
    assert np.allclose(path.nu_cdf[0, 0], [0.175, 0.35, 0.7, 0.7], atol=1e-6)


def test_waits_behind_services_of_infinite_variance_in_equilibrium_are_infinite() -> None:
    path = sweep.solve_fluid(d=2, lam=0.5, G="lomax(beta=1.5)", times=[0.0, 1.0], initial=LENGTHS)
    assert np.isinf(path.virtual_wait).all()
    assert np.isfinite(path.S).all()


def test_snapshots_by_the_phases_need_fresh_ages() -> None:
    with pytest.raises(ValueError, match="initial must be empty or of fresh ages for snapshots"):
        sweep.solve_fluid(
            d=2, lam=0.5, G="exponential", times=[1.0], initial=LENGTHS, snapshots=[1.0], method="ode"
        )


@pytest.mark.parametrize("error", [4e-3, np.inf])
def test_jobs_of_an_invariant_state_known_too_badly_are_an_error(
    error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # For lognormal(sigma=3) at λ = 1/2 it is 4e-3, for want of levels; inf with one level.
    arguments = {"d": 2, "lam": 0.5, "G": "exponential", "initial": "invariant"}
    state = dataclasses.replace(solve_invariant(Limit(**arguments)), length=Estimate(33.5, error))
    monkeypatch.setattr(start, "solve_invariant", lambda *_, **__: state)
    if error < np.inf:
        assert sweep.solve_fluid(**arguments, times=[0.0], tolerance=0.005).X.item() == 33.5
    with pytest.raises(
        AccuracyError, match=r"tolerance must be at least .* of the jobs at time 0"
    ) as refused:
        sweep.solve_fluid(**arguments, times=[0.0])
    assert refused.value.reached == error


def test_many_ages_are_weighed_in_blocks_with_equal_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    profile = Explicit(rng.integers(1, 4, 2000), rng.random(2000)).profile()
    aged_start, times = AgedStart(parse_law("uniform(width=2)"), profile), np.linspace(0.0, 2.0, 300)
    whole = aged_start.remaining(3, times), aged_start.younger(3, 0.5, times)
    # Without arrivals, ages a ≤ 1 of Ḡ = 1 − a/2 survive with probability (1 − (a + t)/2)⁺/(1 − a/2).
    left = np.maximum(1.0 - (np.array([age for age, _ in profile.atoms]) + 0.5) / 2.0, 0.0)
    share = left / (1.0 - np.array([age for age, _ in profile.atoms]) / 2.0)
    assert whole[1][0, -1] == pytest.approx(share.mean(), rel=1e-12)
    monkeypatch.setattr(aged, "_BLOCK", 2**13)
    tracemalloc.start()
    parts = aged_start.remaining(3, times), aged_start.younger(3, 0.5, times)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(whole[0], parts[0])
    assert np.array_equal(whole[1], parts[1])
    assert peak < 2e6  # 8 · 300 · 2000 bytes are 4.8e6
