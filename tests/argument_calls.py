"""Every public function with a call that is right, and the kinds of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sweep
from sweep.age_profile import AgeProfile
from sweep.arrivals import Profile, as_arrivals, parse_profile
from sweep.cell import Cell
from sweep.delayed import Delayed, parse_delayed
from sweep.diffusion.cole_hopf import cole_hopf, cole_hopf_from
from sweep.diffusion.exact import stationary
from sweep.diffusion.model import sigma2_of
from sweep.diffusion.prelimit import extrapolated_mean, prelimit, prelimit_mean, prelimit_tails
from sweep.diffusion.start import as_start
from sweep.diffusion.study import default_x, empirical_distances, solve_heavy_limit
from sweep.diffusion.tagged import joint_tail, tagged_tail
from sweep.distances import (
    PiecewiseLinear,
    grid_error,
    kolmogorov,
    level_distances,
    prohorov_between,
    prohorov_to_cdf,
    residual_norm,
    sup_distance,
    wasserstein,
)
from sweep.explicit import Explicit
from sweep.initial import Lengths, Scaled, as_initial, parse_initial
from sweep.laws import (
    Erlang,
    Exponential,
    Gamma,
    Hyperexponential,
    Lognormal,
    Lomax,
    Pareto,
    PhaseType,
    Trace,
    Uniform,
    Weibull,
    as_law,
    parse_law,
)
from sweep.routing import check_routing
from tests.bad_values import (
    AGES,
    ARRAY,
    ATOMS,
    CHOICE,
    COUNT,
    INITIAL,
    LAW,
    MEASURE,
    NAN,
    NUMBER,
    OPTIONAL_COUNT,
    OPTIONAL_NUMBER,
    PARAMETER,
    POSITIONS,
    SNAPSHOTS,
    START,
    STATE,
    SWITCH,
    TEXT,
    TIMES,
    TOLERANCE,
    Bad,
)

TIMES_FILE = Path(__file__).parent / "reference" / "service_times.txt"
LINE = PiecewiseLinear([0.0, 1.0], [0.0, 1.0])
DIFFUSION: dict[str, Any] = {"b1": -2.0, "b0": 1.0, "ell": 2, "sigma2": 2.0}


@dataclass(frozen=True)
class Call:
    function: Callable[..., Any]
    good: dict[str, Any]
    kinds: dict[str, list[Bad]]
    names: dict[str, str]  # what errors call an argument of another name, _ for a space


def call(function: Callable[..., Any], good: dict[str, Any], names: str = "", **kinds: list[Bad]) -> Call:
    return Call(function, good, kinds, dict(pair.split("=") for pair in names.split()))


NETWORK = {"N": 4, "d": 2, "lam": 0.9, "G": "exponential", "times": [0.0, 1.0], "seed": 1}
FLUID = {"d": 2, "lam": 0.9, "G": "exponential", "times": [0.0, 1.0], "tolerance": 1e-4}
FINE = {"fine_x": [0.0, 1.0], "fine_v": [[1.0, 0.0]]}
OF_DIFFUSION = {"b1": NUMBER, "b0": NUMBER, "ell": COUNT, "sigma2": NUMBER}
CALLS: dict[str, Call] = {
    "simulate": call(
        sweep.simulate, NETWORK,
        N=COUNT, d=COUNT, lam=NUMBER, G=LAW, times=TIMES, seed=COUNT, replica=COUNT,
        levels=OPTIONAL_COUNT, arrivals=LAW, initial=INITIAL,
        replacement=SWITCH, fraction=NUMBER, averages=SWITCH, measure=SWITCH, routing=CHOICE, method=CHOICE,
        snapshots=SNAPSHOTS, ages=AGES,
    ),
    "Cell": call(
        Cell, {key: NETWORK[key] for key in ("N", "d", "lam", "G")},
        N=COUNT, d=COUNT, lam=NUMBER, G=LAW, arrivals=LAW, initial=INITIAL, replacement=SWITCH,
        fraction=NUMBER, routing=CHOICE, method=CHOICE,
    ),
    "solve_fluid": call(
        sweep.solve_fluid, FLUID,
        d=COUNT, lam=NUMBER, G=LAW, times=TIMES, levels=OPTIONAL_COUNT,
        arrivals=LAW, initial=INITIAL, fraction=NUMBER, snapshots=SNAPSHOTS, ages=AGES, tolerance=TOLERANCE,
        method=CHOICE, routing=CHOICE,
    ),
    "invariant_state": call(
        sweep.invariant_state, {"d": 2, "lam": 0.9, "G": "exponential"},
        d=COUNT, lam=NUMBER, G=LAW, levels=OPTIONAL_COUNT, fraction=NUMBER,
        routing=CHOICE,
    ),
    "solve_diffusion": call(
        sweep.solve_diffusion, {**DIFFUSION, "times": [0.0]},
        **OF_DIFFUSION, times=TIMES, initial=START, x=POSITIONS, tolerance=TOLERANCE,
        probabilities=[
            ("a", ValueError, "must be numbers, got 'a': write ["),
            (0.5, ValueError, "must be a sequence of numbers, got 0.5: write ["),
            ([0.5, 1.0], ValueError, "must increase in (0, 1), got [0.5, 1.0]: write ["),
        ],
    ),
    "simulate_particles": call(
        sweep.simulate_particles, {**DIFFUSION, "times": [0.0], "particles": 3, "seed": 1},
        **OF_DIFFUSION, times=TIMES, particles=COUNT, seed=COUNT, replica=COUNT, step=OPTIONAL_NUMBER,
        initial=START, x=POSITIONS, positions=SWITCH,
    ),
    "prohorov": call(
        sweep.prohorov, {"x": [0.0], "wx": 1.0, "y": [0.5], "wy": [1.0]},
        "x=positions_of_x wx=weights_of_x y=positions_of_y wy=weights_of_y",
        x=ARRAY, wx=ARRAY, y=ARRAY, wy=ARRAY,
    ),
    "prohorov_to_cdf": call(
        prohorov_to_cdf, {"x": [0.0], "wx": 1.0, "ages": [0.0, 1.0], "cdf": [0.0, 1.0]}, ages=ARRAY, cdf=ARRAY
    ),
    "prohorov_between": call(prohorov_between, {"mu": ATOMS, "nu": LINE}, mu=MEASURE, nu=MEASURE),
    "state_distance": call(sweep.state_distance, {"mu": [ATOMS], "nu": [LINE]}, mu=STATE, nu=STATE),
    "level_distances": call(level_distances, {"mu": [ATOMS], "nu": [LINE]}, mu=STATE, nu=STATE),
    "kolmogorov": call(kolmogorov, {"mu": ATOMS, "nu": LINE}, mu=MEASURE, nu=MEASURE),
    "wasserstein": call(
        wasserstein, {"mu": ATOMS, "nu": LINE}, mu=MEASURE, nu=MEASURE, until=OPTIONAL_NUMBER
    ),
    "grid_error": call(
        grid_error, {"nu": LINE}, nu=[(ATOMS, TypeError, "must be a PiecewiseLinear, got Atoms")]
    ),
    "sup_distance": call(sup_distance, {"S_N": [[0.5]], "S": [[0.5]]}, S_N=ARRAY, S=ARRAY),
    "residual_norm": call(
        residual_norm, {"law": Exponential(), "mu": ATOMS, "nu": ATOMS},
        law=[("exponential", TypeError, "must be a law of `sweep.laws`, got 'exponential'")],
        mu=MEASURE, nu=MEASURE, tolerance=NUMBER,
    ),
    "parse_law": call(
        parse_law, {"text": "exponential"}, "text=G",
        text=[(None, TypeError, "must be a law or its text, got None"), *LAW[:3]],
    ),
    "as_law": call(as_law, {"value": "exponential"}, "value=G", value=LAW),
    **{
        law.name: call(law, {name: value}, **{name: PARAMETER})
        for law, name, value in (
            (Erlang, "k", 2), (Gamma, "shape", 0.5), (Hyperexponential, "scv", 2.0), (Lomax, "beta", 2.5),
            (Pareto, "beta", 2.5), (Weibull, "shape", 0.5), (Lognormal, "sigma", 1.0),
            (Uniform, "width", 1.0),
        )
    },
    "phase_type": call(
        PhaseType, {"alpha": [1.0], "T": [[-1.0]]},
        alpha=[
            (1.0, TypeError, "must be written as [a, b, …], 1 to 50 finite numbers a row, got 1.0"),
            (["a"], TypeError, "must be written as [a, b, …], 1 to 50 finite numbers a row, got ['a']"),
            ([], ValueError, "must be written as"),
            ([NAN], ValueError, "must be written as"),
            (np.zeros(1000), ValueError, "must be written as"),
            ({0: 1.0}, TypeError, "must be written as"),
        ],
        T=[([-1.0], TypeError, "must be written as [[a, b, …], [c, d, …], …]")],
    ),
    "trace": call(
        Trace, {"path": str(TIMES_FILE)},
        path=[
            (3, TypeError, "must be text or a path, got 3"),
            ("", ValueError, "must name a file, without"),
            ("nowhere", ValueError, "must name a readable file, got 'nowhere'"),
        ],
    ),
    "survival": call(
        Lomax(beta=1.5).survival, {"x": [0.5]}, x=[*ARRAY, ([-1.0], ValueError, "must be at least 0, got")]
    ),
    "stationary": call(stationary, DIFFUSION, **OF_DIFFUSION),
    "cole_hopf": call(
        cole_hopf, {"b1": -2.0, "b0": 1.0, "sigma2": 2.0, "t": 1.0, "x": [0.5]},
        b1=NUMBER, b0=NUMBER, sigma2=NUMBER, t=NUMBER, x=ARRAY,
    ),
    "cole_hopf_from": call(
        cole_hopf_from, {"initial": "empty", "b1": -2.0, "b0": 1.0, "sigma2": 2.0, "t": 1.0, "x": [0.5]},
        initial=START, t=NUMBER, x=ARRAY,
    ),
    "prelimit": call(prelimit, {"m": 100, "b1": -2, "b0": 1}, m=NUMBER, b1=NUMBER, b0=NUMBER),
    "prelimit_tails": call(
        prelimit_tails, {"m": 100, "b1": -2, "b0": 1, "ell": 2}, m=NUMBER, b1=NUMBER, b0=NUMBER, ell=COUNT
    ),
    "prelimit_mean": call(
        prelimit_mean, {"m": 100, "b1": -2, "b0": 1, "ell": 2},
        m=NUMBER, b1=NUMBER, b0=NUMBER, ell=COUNT, G=LAW,
    ),
    "extrapolated_mean": call(
        extrapolated_mean, {"b1": -2, "b0": 1, "ell": 2},
        m=[
            (100, ValueError, "must be a sequence of numbers, got 100: write ("),
            ([100, "a", 1600], ValueError, "must be numbers, got [100, 'a', 1600]"),
            ([100, 400], ValueError, "must be three or more scales that grow fourfold, got [100, 400]"),
        ],
    ),
    "sigma2_of": call(
        sigma2_of, {"G": "exponential"}, G=LAW, arrivals=LAW, n=OPTIONAL_COUNT
    ),
    "as_start": call(as_start, {"value": "empty"}, "value=initial", value=START),
    "tagged_tail": call(
        tagged_tail, {**DIFFUSION, "times": [0.0], "position": 1.0, "x": [0.5]},
        **OF_DIFFUSION, times=TIMES, position=NUMBER, x=POSITIONS, initial=START, tolerance=TOLERANCE,
    ),
    "joint_tail": call(
        joint_tail, {**DIFFUSION, "times": [0.5, 1.0], "x": 0.5, "y": [0.5], "tolerance": 0.1},
        times=[*TIMES, ([1.0], ValueError, "must be two positive ones, got [1.0]")],
        x=NUMBER, y=POSITIONS, initial=START, tolerance=TOLERANCE,
    ),
    "default_x": call(
        default_x, {"cells": [(-2, 1, 2, 2.0)], "initial": "empty", "horizon": 1.0},
        cells=[
            (3, ValueError, "must be (b1, b0, ell, sigma2) each, got 3"),
            ([(1, 2)], ValueError, "must be (b1, b0, ell, sigma2) each, got [(1, 2)]"),
        ],
        initial=START, horizon=NUMBER, count=COUNT,
    ),
    "solve_heavy_limit": call(
        solve_heavy_limit, {**DIFFUSION, "times": [0.0], "x": [0.0]},
        **OF_DIFFUSION, times=TIMES, x=POSITIONS, initial=START, tolerance=TOLERANCE,
    ),
    "empirical_distances": call(
        empirical_distances,
        {"counts": [[3, 1]], "N": 4, "m": 100, "x": [0.0], "limit": FINE},
        N=COUNT, m=NUMBER, x=POSITIONS,
        counts=[
            ("a", ValueError, "must be numbers, got 'a'"),
            ([[0.5]], ValueError, "must be whole numbers, got [[0.5]]"),
            ([1], ValueError, "must have a row for each of the 1 times, got shape (1,)"),
        ],
        limit=[(None, ValueError, "must hold fine_x and fine_v of `solve_heavy_limit`, got None")],
    ),
    "check_routing": call(
        check_routing, {"routing": "shortest", "d": 1, "fraction": 1.0},
        routing=CHOICE, d=COUNT, fraction=NUMBER[:-1], replacement=SWITCH,
    ),
    "Lengths": call(
        Lengths, {"shares": ((1, 0.5),)}, "shares=initial",
        shares=[
            (3, TypeError, "must have pairs of a length and a share, got 3"),
            (((1, 0.5, 2),), TypeError, "must have pairs of a length and a share, got ((1, 0.5, 2),)"),
            (((2, 0.5), (1, 0.5)), ValueError, "must have lengths that increase, got ((2, 0.5), (1, 0.5))"),
            (((1, 0.7), (2, 0.7)), ValueError, "must have proportions that sum to at most 1, got"),
            (((1, 0.0),), ValueError, "must have proportions in (0, 1], got 0.0"),
        ],
    ),
    "Scaled": call(
        Scaled, {"start": "empty", "m": 4.0},
        exchangeable=SWITCH, m=NUMBER[:-1], fixed=[("a", ValueError, "must be numbers, got 'a': write [")],
    ),
    "Explicit": call(
        Explicit, {"lengths": [1, 0], "ages": [0.5, 0.0]}, "lengths=initial ages=initial",
        lengths=[
            (None, ValueError, "must have lengths that are numbers, got None"),
            ([[1]], ValueError, "must have a row of lengths, got shape (1, 1)"),
        ],
        ages=[(["a", "b"], ValueError, "must have ages that are numbers, got ['a', 'b']")],
    ),
    "AgeProfile": call(
        AgeProfile, {"ages": (0.0, 1.0), "cdf": ((0.0, 0.5),)}, "ages=initial cdf=initial atoms=initial",
        ages=[
            (3, ValueError, "must have ages in a row, got 3"),
            ("a", ValueError, "must have ages of numbers, got 'a'"),
        ],
        cdf=[
            (3, TypeError, "must have a cdf by level, got 3: give sequences of numbers"),
            ((3,), ValueError, "must have a cdf in a row, got 3"),
        ],
        atoms=[
            (3, TypeError, "must have atoms by level, got 3"),
            (((0.0,),), ValueError, "must have atoms that are pairs of an age and masses, got (0.0,)"),
        ],
    ),
    "parse_initial": call(parse_initial, {"text": "empty"}, "text=initial", text=TEXT),
    "as_initial": call(as_initial, {"value": "empty"}, "value=initial", value=INITIAL),
    "Profile": call(
        Profile, {"steps": ((0.0, 1.5), (5.0, 0.5)), "period": 10.0}, "steps=arrivals",
        steps=[
            (3, ValueError, "must have a profile of pairs (time, factor), got 3"),
            (((0.0, "a"),), ValueError, "must be numbers, got ((0.0, 'a'),)"),
            (np.zeros((2, 0)), ValueError, "must have a profile of pairs (time, factor), got"),
        ],
        period=NUMBER[:-1],
    ),
    "breakpoints": call(
        parse_profile("profile(0: 1.5, 5: 0.5, period=10)").breakpoints, {"horizon": 10.0}, horizon=NUMBER
    ),
    "parse_profile": call(parse_profile, {"text": "profile(0: 1)"}, "text=arrivals", text=TEXT),
    "as_arrivals": call(as_arrivals, {"value": "exponential"}, "value=arrivals", value=LAW),
    "Delayed": call(
        Delayed, {"law": Exponential(), "age": 1.0},
        law=[("exponential", TypeError, "must be a law of `sweep.laws`, got 'exponential'")],
        age=[bad for bad in OPTIONAL_NUMBER if bad[2] != "must"],
    ),
    "parse_delayed": call(parse_delayed, {"text": "renewal(exponential)"}, "text=arrivals", text=TEXT),
}  # fmt: skip
