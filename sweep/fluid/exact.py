"""Independent oracles of the limit: phase-type services as ODEs, and the time before any completion.

A phase-type law is the time that a Markov chain with start α and sub-generator T takes to leave. With x_ℓ
the vector of queues of length ≥ ℓ by the phase of their job in service, t⁰ = −T 1 the rates of completion
and S_ℓ = Σ_i x_{ℓ,i}, the equations of the limit are the finite system

    x_ℓ' = c_ℓ (x_{ℓ−1} − x_ℓ) + x_ℓ T + (x_{ℓ+1} t⁰ + 1{ℓ=1} λ(1 − φ(S_1))) α,      no c_1 term,
    D_ℓ' = x_ℓ t⁰,      c_ℓ = λ (φ(S_{ℓ−1}) − φ(S_ℓ)) / (S_{ℓ−1} − S_ℓ),

which for exponential services is S_ℓ' = λ(φ(S_{ℓ−1}) − φ(S_ℓ)) − (S_ℓ − S_{ℓ+1}), λ being λ(t) where arrivals
follow a profile. It shares no code with the
solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.age_profile import AgeProfile
from sweep.arrivals import Profile
from sweep.cell import Limit
from sweep.errors import AccuracyError
from sweep.initial import Invariant, Lengths
from sweep.laws import Erlang, Exponential, Hyperexponential, Law
from sweep.laws import PhaseType as PhaseTypeLaw

Floats = NDArray[np.float64]
#: Relative error that a step of the Runge–Kutta method may make.
_FINEST = 1e-12


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


def solve_phase_type(
    limit: Limit, times: Floats, levels: int, accuracy: float = _FINEST
) -> dict[str, Floats]:
    """Return S, D and R, shape (t, level), at `times` by an eighth-order Runge–Kutta method.

    R_ℓ = −x_ℓ T⁻¹ 1 is the mean work left in service.

    Parameters
    ----------
    limit
        Parameters, with a law that `phase_type` takes.
    times
        Increasing, from 0 on, shape (t,).
    levels
        Levels of the truncated system: enough that S at the last is negligible.
    accuracy
        Relative error allowed in one step.

    Examples
    --------
    >>> limit = Limit(d=1, lam=0.5, G="exponential")
    >>> solve_phase_type(limit, np.array([300.0]), 40)["S"][0, :3].round(9).tolist()  # M/M/1: λ^ℓ
    [0.5, 0.25, 0.125]
    """
    phases = phase_type(limit.G)
    x0 = _start(limit, phases, levels)
    state = np.concatenate([x0, np.zeros((levels, 1))], axis=1)
    path = _integrate(limit, lambda lam, y: _derivative(limit, lam, phases, y), state, times, 0.0, accuracy)
    lives = np.linalg.solve(-phases.generator, np.ones(phases.start.size))
    return {"S": path[:, :, :-1].sum(axis=2), "D": path[:, :, -1], "R": path[:, :, :-1] @ lives}


def solve_phase_type_ages(limit: Limit, time: float, ages: Floats, levels: int) -> Floats:
    """Return ν_ℓ[0, a] at one time, shape (level, age), for ages in (0, time).

    Jobs younger than a at `time` are those that began after time − a: from then on they are followed beside
    all.
    """
    phases = phase_type(limit.G)
    width = phases.start.size
    young = np.empty((levels, ages.size))
    for index, age in enumerate(ages.tolist()):
        state = _start(limit, phases, levels)
        state = np.concatenate([state, np.zeros((levels, 1))], axis=1)
        state = _integrate(
            limit, lambda lam, y: _derivative(limit, lam, phases, y), state, np.array([time - age])
        )[0]
        both = np.concatenate([state, np.zeros((levels, width))], axis=1)

        def follow(lam: float, y: Floats) -> Floats:
            part, own = _derivative(limit, lam, phases, y[:, : width + 1]), y[:, width + 1 :]
            births = _births(limit, lam, phases, y[:, :width])
            change = own @ phases.generator + np.outer(births, phases.start)
            change[1:] += _joining(limit, lam, y[:, :width])[:, None] * (own[:-1] - own[1:])
            return np.concatenate([part, change], axis=1)

        late = _integrate(limit, follow, both, np.array([time]), time - age)[0]
        young[:, index] = late[:, width + 1 :].sum(axis=1)
    return young


def solve_without_completions(limit: Limit, times: Floats, levels: int) -> Floats:
    """Return S from `empty`, shape (t, level), at times before the law's least value, when D = 0.

    S_ℓ' = λ(φ(S_{ℓ−1}) − φ(S_ℓ)) whatever the law.
    """

    def derivative(lam: float, S: Floats) -> Floats:
        shares = _phi(limit, np.concatenate([[1.0], S]))
        return np.asarray(lam * (shares[:-1] - shares[1:]))

    return _integrate(limit, derivative, np.zeros(levels), times)


def _start(limit: Limit, phases: PhaseType, levels: int) -> Floats:
    """Queues of each length by phase at time 0, shape (level, phase)."""
    if isinstance(limit.initial, Lengths):
        begun = phases.start
        if limit.initial.ages != "fresh":  # π = α (−T)⁻¹, of sum 1: the mean
            begun = np.asarray(np.linalg.solve(-phases.generator.T, phases.start))
        return np.outer(limit.initial.tails(levels), begun)
    if isinstance(limit.initial, AgeProfile) and phases.start.size == 1:
        return limit.initial.tails(levels)[:, None]
    if isinstance(limit.initial, Invariant) and phases.start.size == 1 and limit.lam < 1.0:
        # One phase: the invariant rates of completion are λφ(S_{ℓ−1}) = S_ℓ.
        S = [limit.lam]
        while len(S) < levels:
            S.append(limit.lam * float(_phi(limit, np.array(S[-1]))))
        return np.array(S)[:, None]
    raise ValueError(
        f"initial must be empty or lengths(…) for {limit.G} by its phases, got {limit.initial}: "
        'take method="characteristics"'
    )


def mean_waits(limit: Limit, S: Floats, R: Floats) -> Floats:
    """Return the mean virtual waiting time, shape (t,), from S and R, shape (t, level).

    An arrival joins a queue of length k with probability φ(S_k) − φ(S_{k+1}), where the mean work left in
    service is (R_k − R_{k+1})/(S_k − S_{k+1}) and k − 1 jobs wait.
    """
    ending = np.zeros((S.shape[0], 1))
    S, R = np.hstack([S, ending]), np.hstack([R, ending])
    joined, equal = _phi(limit, S[:, :-1]) - _phi(limit, S[:, 1:]), S[:, :-1] - S[:, 1:]
    work = np.divide(R[:, :-1] - R[:, 1:], equal, out=np.zeros_like(equal), where=equal > 1e-200)
    waits = joined * (np.arange(S.shape[1] - 1) + work)
    return np.asarray(waits.sum(axis=1))


def _phi(limit: Limit, x: Floats) -> Floats:
    return np.asarray((1.0 - limit.fraction) * x + limit.fraction * x**limit.d)


def _joining(limit: Limit, lam: float, x: Floats) -> Floats:
    """c_ℓ for ℓ ≥ 2, the quotient of differences written as a sum."""
    S = x.sum(axis=1)
    powers = sum(S[:-1] ** m * S[1:] ** (limit.d - 1 - m) for m in range(limit.d))
    return np.asarray(lam * (1.0 - limit.fraction + limit.fraction * powers))


def _births(limit: Limit, lam: float, phases: PhaseType, x: Floats) -> Floats:
    births = np.append((x @ phases.exits)[1:], 0.0)
    births[0] += lam * (1.0 - _phi(limit, x[0].sum()))
    return births


def _derivative(limit: Limit, lam: float, phases: PhaseType, y: Floats) -> Floats:
    x = y[:, :-1]
    change = x @ phases.generator + np.outer(_births(limit, lam, phases, x), phases.start)
    change[1:] += _joining(limit, lam, x)[:, None] * (x[:-1] - x[1:])
    return np.concatenate([change, (x @ phases.exits)[:, None]], axis=1)


def _integrate(
    limit: Limit,
    derivative: Callable[[float, Floats], Floats],
    state: Floats,
    times: Floats,
    begin: float = 0.0,
    accuracy: float = _FINEST,
) -> Floats:
    """Return the states at `times` of y' = derivative(λ(t), y), which starts from `state` at `begin`.

    Raises
    ------
    AccuracyError
        Steps became too small.
    """
    from scipy.integrate import solve_ivp

    profile = limit.arrivals if isinstance(limit.arrivals, Profile) else None
    jumps = profile.breakpoints(float(times[-1])) if profile else ()
    rows, now, y = {}, begin, state.ravel()
    # One run for each stretch: the dense output between steps is less accurate than the steps, and steps must
    # not reach across a jump of the rate.
    for time in sorted({*times.tolist(), *(jump for jump in jumps if jump > begin)}):
        if time > now:
            lam = limit.lam * (float(profile.rate(0.5 * (now + time))) if profile else 1.0)

            def slope(_: float, flat: Floats, lam: float = lam) -> Floats:
                return derivative(lam, flat.reshape(state.shape)).ravel()

            run = solve_ivp(slope, (now, time), y, method="DOP853", rtol=accuracy, atol=1e-3 * accuracy)
            if not run.success:
                raise AccuracyError(
                    f"accuracy must be within reach up to t = {time:g}, got {accuracy:g}: {run.message} "
                    f"At t = {run.t[-1]:g}; ask for a larger one or a shorter horizon",
                    math.inf,
                )
            y, now = run.y[:, -1], time
        rows[time] = y.reshape(state.shape)
    return np.array([rows[time] for time in times.tolist()])
