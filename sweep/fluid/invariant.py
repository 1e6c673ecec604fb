"""The invariant state of the hydrodynamic equations, for any service law."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.arguments import check_count
from sweep.cell import Limit
from sweep.errors import AccuracyError
from sweep.fluid.ladder import Ladder
from sweep.fluid.mean_length import Estimate, mean_length
from sweep.fluid.state import InvariantState
from sweep.laws import Law, as_law
from sweep.routing import limit_phi
from sweep.schema import dataset

if TYPE_CHECKING:
    import xarray as xr

#: Levels output at most when their number is left open, and levels solved at most for the sake of the means,
#: which those beyond enter by extrapolation.
OPEN_LEVELS, MOST_LEVELS = 400, 1600
#: log S_ℓ below which a level is not output of its own accord (1e-10), adds nothing to means, and is 0.
_NEGLIGIBLE, _NOTHING, _ZERO = -23.02585092994046, -45.0, -746.0
#: Most levels that may be asked for, and what more would cost.
_MOST_ASKED, _COST = 20_000, "each takes up to 50 kB and 5 ms, more the higher it is"
#: Widths of panels, as shares of their left ends, tried in turn.
_GROWTHS = (0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625)
#: Ages of the labelled output: 0, then 2^{k/2} for these k, then inf.
_HALF_OCTAVES = range(-12, 25)


def solve_invariant(limit: Limit, levels: int | None = None, *, vanishing: bool = False) -> InvariantState:
    """Solve for the invariant state at the level of arrays.

    Parameters
    ----------
    limit
        d, λ < 1, G and the fraction; the initial state and the law of arrivals do not matter.
    levels
        How many levels to hold; None for those with S_ℓ ≥ 1e-10, at most 400.
    vanishing
        Whether fewer do where S_ℓ = 0 in double precision for those that are out of reach.

    Raises
    ------
    ValueError
        λ ≥ 1: queues grow for ever.
    AccuracyError
        A level out of reach of double precision.
    """
    if limit.lam >= 1.0:
        raise ValueError(f"lam must be below 1 for an invariant state to exist, got {limit.lam:g}")
    for growth in _GROWTHS:
        ladder = Ladder(limit, growth)
        length = _climb(ladder, levels, vanishing)
        if ladder.fine:
            break
    else:
        raise AccuracyError(
            f"levels must be resolved by panels of relative width {_GROWTHS[-1]:g}, got level "
            f"{ladder.levels} of {limit.G}, which is not: ask for fewer levels",
            math.inf,
        )
    open_levels = max(1, min(sum(step.log_S >= _NEGLIGIBLE for step in ladder.steps), OPEN_LEVELS))
    held = levels or open_levels
    return InvariantState(
        limit=limit,
        log_S=np.array([step.log_S for step in ladder.steps[:held]]),
        panels=ladder.panels,
        coefficients=np.stack(ladder.coefficients[:held]),
        length=length,
    )


def _climb(ladder: Ladder, levels: int | None, vanishing: bool) -> Estimate:
    """Climb to the levels asked for and to those the mean needs, as long as the panels are fine enough."""
    while levels is not None and ladder.levels < levels and ladder.fine:
        try:
            ladder.climb()
        except AccuracyError:
            if not (vanishing and ladder.steps[-1].log_S < _ZERO):
                raise
            break
    length = mean_length(ladder)
    while ladder.fine and ladder.levels < MOST_LEVELS and ladder.steps[-1].log_S >= _NOTHING:
        enough = levels is not None or ladder.levels >= OPEN_LEVELS or ladder.steps[-1].log_S < _NEGLIGIBLE
        if length.settled and enough:
            break
        try:
            _climb_to(ladder, min(ladder.levels + 1 + ladder.levels // 8, MOST_LEVELS))
        except AccuracyError:
            return mean_length(ladder)  # nobody asked for that level; the error tells what it may hold
        length = mean_length(ladder)
    return length


def _climb_to(ladder: Ladder, levels: int) -> None:
    """Climb to a level, or as far as queues that long exist at all."""
    while ladder.fine and ladder.levels < levels and ladder.steps[-1].log_S >= _NOTHING:
        ladder.climb()


def invariant_state(
    *,
    d: int,
    lam: float,
    G: str | Law,
    levels: int | None = None,
    fraction: float = 1.0,
    routing: str = "sampled",
) -> xr.Dataset:
    """Solve for the invariant state of the N → ∞ limit of SQ(d), level by level.

    Parameters
    ----------
    d
        Queues sampled by an arrival.
    lam
        Arrival rate per server λ < 1, in 1 / mean service time.
    G
        Service law of mean 1.
    levels
        How many levels to output; None for those with S_ℓ ≥ 1e-10, at most 400. The means count all levels.
    fraction
        Share p of arrivals that use d choices, the others joining one uniform queue.
    routing
        Rule by which arrivals choose; limits of other rules than "sampled" are not implemented.

    Returns
    -------
    xarray.Dataset
        `S`, `log_S` (level), `age_cdf` (level, age), `mean_queue` with `mean_queue_error`,
        `mean_time_in_system`, `mean_virtual_waiting_time`; means are inf where the tail is too heavy.

    Raises
    ------
    TypeError, ValueError
        A parameter of the wrong type or value; λ ≥ 1; a routing rule without a limit.
    AccuracyError
        A level out of reach: it needs ages whose probability doubles cannot hold.

    Notes
    -----
    The invariant equations of Aghajani & Ramanan's limit: f_ℓ' = c_ℓ (f_{ℓ−1} − f_ℓ) in age, with
    c_ℓ = λ(φ(S_{ℓ−1}) − φ(S_ℓ))/(S_{ℓ−1} − S_ℓ), f_ℓ(0) = λφ(S_ℓ), S_ℓ = ∫ f_ℓ Ḡ da. Each f_ℓ is an entire
    function of age, found by collocation of order 31 at Radau points and integrated against moments of Ḡ.
    `mean_queue_error` is an estimate, and a bound for d = 1 and for fractions below 1 with light tails.

    Examples
    --------
    >>> state = invariant_state(d=2, lam=0.9, G="exponential", levels=3)
    >>> [round(float(s), 12) for s in state.S]  # λ^(2^ℓ − 1)
    [0.9, 0.729, 0.4782969]
    >>> round(float(invariant_state(d=1, lam=0.5, G="deterministic").mean_time_in_system), 12)
    1.5
    """
    limit_phi(routing)
    limit = Limit(d=d, lam=lam, G=as_law(G, "G"), fraction=fraction)
    return _labelled(solve_invariant(limit, check_asked(levels)))


def check_asked(levels: Any) -> int | None:
    """Return a number of levels that an invariant state may be solved for, or None for automatic.

    Raises
    ------
    TypeError, ValueError
        Not a whole number from 1 to 20000.
    """
    return None if levels is None else check_count("levels", levels, most=_MOST_ASKED, cost=_COST)


def _labelled(state: InvariantState) -> xr.Dataset:
    octaves = [2.0 ** (k // 2) * (math.sqrt(2.0) if k % 2 else 1.0) for k in _HALF_OCTAVES]
    ages = np.array([0.0, *octaves, math.inf])
    arrays = {
        "S": state.S,
        "log_S": state.log_S,
        "age_cdf": state.age_cdfs(ages),
        "mean_queue": np.asarray(state.length.value),
        "mean_queue_error": np.asarray(state.length.error),
        "mean_time_in_system": np.asarray(state.mean_time_in_system),
        "mean_virtual_waiting_time": np.asarray(state.mean_virtual_waiting_time),
    }
    coordinates = {"level": np.arange(1, state.levels + 1), "age": ages}
    return dataset("invariant", arrays, coordinates)
