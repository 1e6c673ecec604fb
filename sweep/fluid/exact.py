"""Independent oracles of the limit: phase-type services as ODEs, and the time before any completion.

A phase-type law is the time that a Markov chain with start α and sub-generator T takes to leave. With x_ℓ
the vector of queues of length ≥ ℓ by the phase of their job in service, t⁰ = −T 1 the rates of completion
and S_ℓ = Σ_i x_{ℓ,i}, the equations of the limit are the finite system

    x_ℓ' = c_ℓ (x_{ℓ−1} − x_ℓ) + x_ℓ T + (x_{ℓ+1} t⁰ + 1{ℓ=1} λ(1 − φ(S_1))) α,      no c_1 term,
    D_ℓ' = x_ℓ t⁰,      c_ℓ = λ (φ(S_{ℓ−1}) − φ(S_ℓ)) / (S_{ℓ−1} − S_ℓ),

which for exponential services is S_ℓ' = λ(φ(S_{ℓ−1}) − φ(S_ℓ)) − (S_ℓ − S_{ℓ+1}). It shares no code with the
solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Limit
from sweep.laws import Erlang, Exponential, Hyperexponential, Law
from sweep.laws import PhaseType as PhaseTypeLaw

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PhaseType:
    """Start probabilities `start`, shape (phase,), and sub-generator `generator`, shape (phase, phase)."""

    start: Floats
    generator: Floats

    @property
    def exits(self) -> Floats:
        """Rates of completion t⁰ by phase."""
        return np.asarray(-self.generator.sum(axis=1))


def phase_type(law: Law) -> PhaseType:
    """Return a law as phases.

    Raises
    ------
    TypeError
        The law has no finite number of phases here.

    Examples
    --------
    >>> from sweep.laws import parse_law
    >>> phase_type(parse_law("erlang(k=2)")).generator.tolist()
    [[-2.0, 2.0], [0.0, -2.0]]
    """
    if isinstance(law, Exponential):
        return PhaseType(np.ones(1), -np.ones((1, 1)))
    if isinstance(law, Erlang):
        k = int(law.k)
        return PhaseType(np.eye(k)[0], k * (np.eye(k, k=1) - np.eye(k)))
    if isinstance(law, Hyperexponential):
        # Balanced means: rates 2p and 2q with p + q = 1 and E S² = 1/(2pq) = 1 + scv.
        p = 0.5 + math.sqrt(0.25 - 0.5 / (1.0 + law.scv))
        return PhaseType(np.array([p, 1.0 - p]), np.diag([-2.0 * p, -2.0 * (1.0 - p)]))
    if isinstance(law, PhaseTypeLaw):
        start, generator = np.array(law.alpha, dtype=np.float64), np.array(law.T, dtype=np.float64)
        mean = float(-start @ np.linalg.solve(generator, np.ones(start.size)))
        return PhaseType(start / start.sum(), mean * generator)
    raise TypeError(f"law must be exponential, erlang, hyperexponential or phase_type, got {law}")


def solve_phase_type(limit: Limit, times: Floats, levels: int) -> dict[str, Floats]:
    """Return S and D, shape (t, level), at `times` by an eighth-order Runge–Kutta method at 1e-12.

    Parameters
    ----------
    limit
        Parameters, with a law that `phase_type` takes.
    times
        Increasing, from 0 on, shape (t,).
    levels
        Levels of the truncated system: enough that S at the last is negligible.

    Examples
    --------
    >>> limit = Limit(d=1, lam=0.5, G="exponential")
    >>> solve_phase_type(limit, np.array([300.0]), 40)["S"][0, :3].round(9).tolist()  # M/M/1: λ^ℓ
    [0.5, 0.25, 0.125]
    """
    phases = phase_type(limit.G)
    x0 = np.outer(limit.initial.tails(levels), phases.start)
    state = np.concatenate([x0, np.zeros((levels, 1))], axis=1)
    path = _integrate(lambda y: _derivative(limit, phases, y), state, times)
    return {"S": path[:, :, :-1].sum(axis=2), "D": path[:, :, -1]}


def solve_phase_type_ages(limit: Limit, time: float, ages: Floats, levels: int) -> Floats:
    """Return ν_ℓ[0, a] at one time, shape (level, age), for ages in (0, time).

    Jobs younger than a at `time` are those that began after time − a: from then on they are followed beside
    all.
    """
    phases = phase_type(limit.G)
    width = phases.start.size
    young = np.empty((levels, ages.size))
    for index, age in enumerate(ages.tolist()):
        state = np.outer(limit.initial.tails(levels), phases.start)
        state = np.concatenate([state, np.zeros((levels, 1))], axis=1)
        state = _integrate(lambda y: _derivative(limit, phases, y), state, np.array([time - age]))[0]
        both = np.concatenate([state, np.zeros((levels, width))], axis=1)

        def follow(y: Floats) -> Floats:
            part, own = _derivative(limit, phases, y[:, : width + 1]), y[:, width + 1 :]
            change = own @ phases.generator + np.outer(_births(limit, phases, y[:, :width]), phases.start)
            change[1:] += _joining(limit, y[:, :width])[:, None] * (own[:-1] - own[1:])
            return np.concatenate([part, change], axis=1)

        young[:, index] = _integrate(follow, both, np.array([age]))[0][:, width + 1 :].sum(axis=1)
    return young


def solve_without_completions(limit: Limit, times: Floats, levels: int) -> Floats:
    """Return S from `empty`, shape (t, level), at times before the law's least value, when D = 0.

    S_ℓ' = λ(φ(S_{ℓ−1}) − φ(S_ℓ)) whatever the law.
    """

    def derivative(S: Floats) -> Floats:
        shares = _phi(limit, np.concatenate([[1.0], S]))
        return np.asarray(limit.lam * (shares[:-1] - shares[1:]))

    return _integrate(derivative, np.zeros(levels), times)


def _phi(limit: Limit, x: Floats) -> Floats:
    return np.asarray((1.0 - limit.fraction) * x + limit.fraction * x**limit.d)


def _joining(limit: Limit, x: Floats) -> Floats:
    """c_ℓ for ℓ ≥ 2, the quotient of differences written as a sum."""
    S = x.sum(axis=1)
    powers = sum(S[:-1] ** m * S[1:] ** (limit.d - 1 - m) for m in range(limit.d))
    return np.asarray(limit.lam * (1.0 - limit.fraction + limit.fraction * powers))


def _births(limit: Limit, phases: PhaseType, x: Floats) -> Floats:
    births = np.append((x @ phases.exits)[1:], 0.0)
    births[0] += limit.lam * (1.0 - _phi(limit, x[0].sum()))
    return births


def _derivative(limit: Limit, phases: PhaseType, y: Floats) -> Floats:
    x = y[:, :-1]
    change = x @ phases.generator + np.outer(_births(limit, phases, x), phases.start)
    change[1:] += _joining(limit, x)[:, None] * (x[:-1] - x[1:])
    return np.concatenate([change, (x @ phases.exits)[:, None]], axis=1)


def _integrate(derivative: Callable[[Floats], Floats], state: Floats, times: Floats) -> Floats:
    """Return the states at `times` of an autonomous system that starts from `state` at time 0."""
    from scipy.integrate import solve_ivp

    rows, now, y = [], 0.0, state.ravel()
    for time in times.tolist():
        # One run for each stretch: the dense output between steps is less accurate than the steps.
        if time > now:
            y = solve_ivp(
                lambda _, flat: derivative(flat.reshape(state.shape)).ravel(),
                (now, time),
                y,
                method="DOP853",
                rtol=1e-12,
                atol=1e-15,
            ).y[:, -1]
            now = time
        rows.append(y.reshape(state.shape))
    return np.array(rows)
