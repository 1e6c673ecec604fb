"""Initial states given by arrays of ages, and the limit that starts from them."""

from __future__ import annotations

import numpy as np
import pytest

import sweep
from sweep.age_profile import AgeProfile
from sweep.cell import Limit
from sweep.fluid.invariant import solve_invariant
from sweep.laws import parse_law

#: Half the servers busy with jobs of ages up to 2, one tenth with jobs of age 0 or 0.5.
STATE = AgeProfile(
    ages=(0.0, 1.0, 2.0),
    cdf=((0.0, 0.3, 0.4), (0.0, 0.1, 0.2), (0.0, 0.0, 0.05)),
    atoms=((0.0, (0.05, 0.05, 0.0)), (0.5, (0.05, 0.0, 0.0))),
)


def no_arrivals(law: str, state: AgeProfile, times: list[float]) -> np.ndarray:
    """S_1 of single jobs without arrivals: every job is left with probability Ḡ(a + t)/Ḡ(a)."""
    G = parse_law(law)
    total = np.zeros(len(times))
    t = np.array(times)
    for young, old, mass in zip(state.ages, state.ages[1:], state.masses[0], strict=False):
        whole = G.integral(old) - G.integral(young)
        total += mass * (G.integral(old + t) - G.integral(young + t)) / whole
    for (age, _), mass in zip(state.atoms, state.atom_masses[0], strict=True):
        total += mass * G.survival(age + t) / G.survival(age)
    return total


@pytest.mark.parametrize("law", ["exponential", "gamma(shape=0.5)", "lomax(beta=1.5)", "erlang(k=3)"])
def test_without_arrivals_every_job_has_its_residual_life(law: str) -> None:
    state = AgeProfile(STATE.ages, STATE.cdf[:1], tuple((age, masses[:1]) for age, masses in STATE.atoms))
    times = [0.0, 0.3, 1.0, 2.37, 6.0]
    fluid = sweep.solve_fluid(d=2, lam=1e-12, G=law, times=times, initial=state, levels=2)
    assert fluid.S.values[:, 0] == pytest.approx(no_arrivals(law, state, times), abs=1e-8)
    assert fluid.D.values[:, 0] == pytest.approx(0.5 - no_arrivals(law, state, times), abs=1e-8)
    assert fluid.X.values == pytest.approx(no_arrivals(law, state, times), abs=1e-8)


@pytest.mark.parametrize("law", ["uniform(width=1)", "deterministic"])
def test_jobs_near_the_end_of_their_service_leave_at_a_kink(law: str) -> None:
    state = AgeProfile((0.25, 0.5, 0.75), ((0.0, 0.4, 0.6),))
    times = [0.1, 0.25, 0.4, 0.5, 0.6, 1.1]
    fluid = sweep.solve_fluid(d=2, lam=1e-12, G=law, times=times, initial=state)
    assert fluid.S.values[:, 0] == pytest.approx(no_arrivals(law, state, times), abs=1e-8)


@pytest.mark.parametrize("arrivals", ["exponential", "profile(0: 1, 2: 0.5)"])
def test_ages_do_not_matter_to_exponential_services(arrivals: str) -> None:
    common = {"d": 2, "lam": 0.9, "G": "exponential", "times": [0.5, 2.0, 8.0], "arrivals": arrivals}
    fluid = sweep.solve_fluid(**common, initial=STATE, levels=5)
    exact = sweep.solve_fluid(**common, initial=STATE, levels=5, method="ode")
    lengths = sweep.solve_fluid(**common, initial="lengths(1: 0.25, 2: 0.2, 3: 0.05)", levels=5, method="ode")
    assert np.abs(exact.S - lengths.S).max() <= 1e-12
    assert np.abs(fluid.S - exact.S).max() <= 1e-8
    assert np.abs(fluid.D - exact.D).max() <= 1e-8
    assert fluid.virtual_wait.values == pytest.approx(exact.virtual_wait.values, abs=1e-8)


@pytest.mark.parametrize("law", ["gamma(shape=0.5)", "deterministic", "lomax(beta=1.5)"])
def test_atoms_at_age_0_are_fresh_lengths(law: str) -> None:
    common = {"d": 2, "lam": 0.9, "G": law, "times": [0.5, 1.0, 3.3], "levels": 4}
    fresh = AgeProfile((), ((), (), ()), ((0.0, (0.9, 0.9, 0.7)),))
    lengths = sweep.solve_fluid(**common, initial="lengths(2: 0.2, 3: 0.7)")
    fluid = sweep.solve_fluid(**common, initial=fresh)
    assert np.abs(fluid.S - lengths.S).max() <= 1e-12
    assert fluid.virtual_wait.values == pytest.approx(lengths.virtual_wait.values, abs=1e-12)


def test_a_path_resumes_from_its_own_ages() -> None:
    # Ages kept at t = 2 on cells of width h change later values by O(h²).
    common = {"d": 2, "lam": 0.9, "G": "erlang(k=3)", "levels": 5}
    whole = sweep.solve_fluid(**common, times=[5.0])
    errors = []
    for cells in (16, 32, 64, 128):
        ages = np.linspace(0.0, 2.0, cells + 1)
        first = sweep.solve_fluid(**common, times=[2.0], snapshots=[2.0], ages=ages)
        cdf = first.nu_cdf.values[0, :, :-1]
        state = AgeProfile(tuple(ages), tuple(map(tuple, cdf)))
        rest = sweep.solve_fluid(**common, times=[3.0], initial=state)
        errors.append(np.abs(rest.S.values - whole.S.values).max())
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert orders == pytest.approx(2.0, abs=0.2)


def test_the_invariant_state_as_arrays_is_nearly_the_invariant_state() -> None:
    # Deterministic services: f_1 is constant, others nearly so on cells of width 1/64.
    limit = Limit(d=2, lam=0.9, G="deterministic")
    ages = np.linspace(0.0, 1.0, 65)
    invariant = solve_invariant(limit, 8)
    cdf = invariant.age_cdfs(ages) * invariant.S[:, None]
    state = AgeProfile(tuple(ages), tuple(map(tuple, cdf)))
    fluid = sweep.solve_fluid(
        d=2, lam=0.9, G="deterministic", times=[0.5, 2.0], initial=state, levels=4, tolerance=1e-6,
        snapshots=[0.5], ages=[0.25, 0.75],
    )  # fmt: skip
    assert np.abs(fluid.S.values - invariant.S[:4]).max() <= 2e-5
    exact = invariant.age_cdfs(np.array([0.25, 0.75]))[:4] * invariant.S[:4, None]
    assert np.abs(fluid.nu_cdf.values[0, :, :2] - exact).max() <= 2e-5
    assert fluid.virtual_wait.values == pytest.approx(invariant.mean_virtual_waiting_time, abs=1e-4)


def test_a_state_is_a_value_with_a_key() -> None:
    again = AgeProfile(np.array(STATE.ages), [list(row) for row in STATE.cdf], STATE.atoms)
    assert again == STATE
    assert hash(again) == hash(STATE)
    other = AgeProfile(STATE.ages, STATE.cdf)
    keys = {Limit(d=2, lam=0.9, G="exponential", initial=state).key for state in (STATE, again, other)}
    assert len(keys) == 2
    assert str(STATE).startswith("ages(3 ages, 3 levels, ")
    zeros, negative = (AgeProfile((zero, 1.0), ((zero, 0.5),), ((zero, (0.1,)),)) for zero in (0.0, -0.0))
    assert zeros == negative
    assert str(zeros) == str(negative)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ((0.0, 0.0), ((0.0, 0.1),)),
            r"initial must have ages that increase from 0 or above, got \[0.0, 0.0\]",
        ),
        (((0.0, float("inf")), ((0.0, 0.1),)), "initial must have ages that increase"),
        (((0.0, 1.0), ((0.0, 0.1, 0.2),)), "initial must have a cdf of 2 values, one an age, got 3"),
        (((0.0, 1.0), ((0.1, 0.2),)), "initial must have a cdf of 0 at the first age, got 0.1: put"),
        (
            ((0.0, 1.0, 2.0), ((0.0, 0.3, 0.2),)),
            "initial must have a cdf that increases with age, got a mass of",
        ),
        (((0.0, 1.0), ((0.0, 0.1), (0.0, 0.2))), "initial must have masses that decrease with the level"),
        (((0.0, 1.0), ((0.0, 1.1),)), "initial must have masses that sum to at most 1, got 1.1"),
        (((), ((),), ((1.0, (0.1, 0.1)),)), "initial must have atoms of 1 masses, one a level, got 2"),
        (((), ((),), ((1.0, (0.1,)), (0.5, (0.1,)))), "initial must have ages of atoms that increase"),
    ],
)
def test_an_impossible_state_is_refused(arguments: tuple[object, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        AgeProfile(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("law", "state", "text"),
    [
        (
            "uniform(width=1)",
            AgeProfile((0.0, 2.0), ((0.0, 0.5),)),
            "initial must have ages that uniform.* 2$",
        ),
        (
            "deterministic",
            AgeProfile((), ((),), ((1.0, (0.5,)),)),
            "initial must have ages that deterministic",
        ),
        (
            "deterministic",
            AgeProfile((), ((),), ((0.5, (0.5,)),)),
            "initial must have atoms at age 0 alone for",
        ),
    ],
)
def test_ages_out_of_reach_of_the_law_are_refused(law: str, state: AgeProfile, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sweep.solve_fluid(d=2, lam=0.9, G=law, times=[1.0], initial=state)
