"""Values that an argument of a kind does not take, and what is said of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sweep.distances import Atoms
from sweep.laws import Exponential

NAN, INF = math.nan, math.inf
HUGE = 10**400
ATOMS = Atoms([0.0], [1.0])


class Foreign:
    """An object of no kind that anything takes."""

    def __repr__(self) -> str:
        return "Foreign()"


#: A value, the error and its words behind the name.
Bad = tuple[Any, type[Exception], str]

COUNT: list[Bad] = [
    ("10", TypeError, "must be a whole number, got '10'"),
    (None, TypeError, "must be a whole number, got None"),
    (True, TypeError, "must be a whole number, got True"),
    (np.bool_(True), TypeError, "must be a whole number, got True"),
    (10.5, TypeError, "must be a whole number, got 10.5"),
    (np.array(10.5), TypeError, "must be a whole number, got 10.5"),
    (NAN, TypeError, "must be a whole number, got nan"),
    (np.float64(INF), TypeError, "must be a whole number, got inf"),
    (2 + 1j, TypeError, "must be a whole number, got (2+1j)"),
    ([1, 2], TypeError, "must be a whole number, got [1, 2]"),
    (np.array([1, 2]), TypeError, "must be a whole number, got [1, 2]"),
    (np.arange(100), TypeError, "must be a whole number, got an array of shape (100,)"),
    (np.timedelta64(5, "ns"), TypeError, "must be a whole number, got"),
    (int, TypeError, "must be a whole number, got <class 'int'>"),
    (-1, ValueError, "must be at least"),
    (-HUGE, ValueError, "must be at least"),
]
OPTIONAL_COUNT = [bad for bad in COUNT if bad[0] is not None]
NUMBER: list[Bad] = [
    ("0.9", TypeError, "must be a number, got '0.9'"),
    (None, TypeError, "must be a number, got None"),
    (True, TypeError, "must be a number, got True"),
    (np.bool_(False), TypeError, "must be a number, got False"),
    (0.5 + 1j, TypeError, "must be a number, got (0.5+1j)"),
    (np.complex128(0.5), TypeError, "must be a number, got (0.5+0j)"),
    ([0.5], TypeError, "must be a number, got [0.5]"),
    (np.array([0.5]), TypeError, "must be a number, got [0.5]"),
    (np.array("a"), TypeError, "must be a number, got 'a'"),
    (np.timedelta64(5, "ns"), TypeError, "must be a number, got"),
    (np.ma.masked, TypeError, "must be a number, got"),
    (Foreign(), TypeError, "must be a number, got Foreign()"),
    (float, TypeError, "must be a number, got <class 'float'>"),
    (HUGE, ValueError, "must be a number that float64 can hold, got a number of 401 digits"),
    (NAN, ValueError, "must"),
]
OPTIONAL_NUMBER = [bad for bad in NUMBER if bad[0] is not None]
PARAMETER: list[Bad] = [
    *((value, TypeError, "must be a") for value, error, _ in NUMBER if error is TypeError),
    (NAN, ValueError, "must be a"),
    (HUGE, ValueError, "must be a"),
    (-1.0, ValueError, "must be a"),
]
TIMES: list[Bad] = [
    ([], ValueError, "must not be empty, got []: write ["),
    (3.0, ValueError, "must be an increasing sequence, got 3.0: write ["),
    ([[0.0, 1.0]], ValueError, "must be an increasing sequence, got shape (1, 2): write ["),
    ([1.0, 0.5], ValueError, "must increase, got 0.5 after 1: write ["),
    ([1.0, 1.0], ValueError, "must increase, got 1 after 1: write ["),
    ([0.0, NAN], ValueError, "must be finite and not negative, got nan at position 1"),
    ([INF], ValueError, "must be finite and not negative, got inf at position 0"),
    ([-1.0], ValueError, "must be finite and not negative, got -1 at position 0"),
    ("0, 1", ValueError, "must be numbers, got '0, 1': write ["),
    (["0", "1"], ValueError, "must be numbers, got ['0', '1']: write ["),
    ([0.0, True], ValueError, "must be numbers, got [0.0, True]: write ["),
    ([0.0, [1.0]], ValueError, "must be numbers, got [0.0, [1.0]]: write ["),
    ([0.0, 1j], ValueError, "must be numbers, got [0.0, 1j]: write ["),
    (np.array([1.0 + 0j]), ValueError, "must be numbers, got [(1+0j)]: write ["),
    (np.array([5], dtype="m8[s]"), ValueError, "must be numbers, got"),
    (np.ma.masked_less([0.0, 1.0], 0.5), ValueError, "must be numbers, got"),
    ([0.0, HUGE], ValueError, "must be numbers, got [0.0, a number of 401 digits]: write ["),
    (iter([0.0, 1.0]), ValueError, "must be numbers, got <list_iterator"),
    (None, ValueError, "must be numbers, got None: write ["),
    ({0.0: 1.0}, ValueError, "must be numbers, got {0.0: 1.0}: write ["),
]
SNAPSHOTS = TIMES[1:]  # there may be none
AGES = [bad for bad in TIMES if "got inf" not in bad[2] and "got None" not in bad[2]]
ARRAY: list[Bad] = [
    ("a", ValueError, "must be numbers, got 'a'"),
    (["a"], ValueError, "must be numbers, got ['a']"),
    ([True], ValueError, "must be numbers, got [True]"),
    ([[0.0], [0.0, 1.0]], ValueError, "must be numbers, got [[0.0], [0.0, 1.0]]"),
    ([1j], ValueError, "must be numbers, got [1j]"),
    (None, ValueError, "must be numbers, got None"),
    (Foreign(), ValueError, "must be numbers, got Foreign()"),
]
SWITCH: list[Bad] = [
    (1, TypeError, "must be true or false, got 1"),
    ("yes", TypeError, "must be true or false, got 'yes'"),
    (None, TypeError, "must be true or false, got None"),
    (np.array([True]), TypeError, "must be true or false, got [True]"),
]
CHOICE: list[Bad] = [
    ("x", ValueError, "must be one of "),
    (None, TypeError, "must be text, got None: choose one of "),
    (["x"], TypeError, "must be text, got ['x']: choose one of "),
    (np.array(["x", "y"]), TypeError, "must be text, got ['x', 'y']: choose one of "),
]
LAW: list[Bad] = [
    ("exponental", ValueError, "must name a law, got 'exponental' (did you mean 'exponential'?)"),
    ("lomax(beta=0.5)", ValueError, "must have beta a number above 1 and up to 1000000, got"),
    ("lomax(beta=2", ValueError, "must be written as name or name(parameter=number), got 'lomax(beta=2'"),
    ("trace(nowhere)", ValueError, "must be a possible law, got 'trace(nowhere)': path must name a readable"),
    (1.5, TypeError, "must be a law or its text, got 1.5"),
    (None, TypeError, "must be a law or its text, got None"),
    (Foreign(), TypeError, "must be a law or its text, got Foreign()"),
    (Exponential, TypeError, "must be a law or its text, got <class"),
    (np.zeros((20, 20)), TypeError, "must be a law or its text, got an array of shape (20, 20)"),
]
INITIAL: list[Bad] = [
    ("full", ValueError, "must be an initial state, got 'full'"),
    ("lengths(2: 2)", ValueError, "must have proportions in [0, 1], got 2"),
    (None, TypeError, "must be text or (lengths, ages), got None"),
    (np.zeros(50), TypeError, "must be text or (lengths, ages), got an array of shape (50,)"),
    (([1, "a"], [0.0, 0.0]), ValueError, "must have lengths that are numbers, got [1, 'a']"),
    (([1.0, 2**63], [0.0, 0.0]), ValueError, "must have lengths whole and ≥ 0, got"),
]
START: list[Bad] = [
    ("half", ValueError, "must be a law of X_0, got 'half'"),
    ("point(x=-1)", ValueError, "must have x a number ≥ 0, got '-1'"),
    (None, ValueError, "must be text or numbers, got None"),
    (["a"], ValueError, "must be text or numbers, got ['a']"),
    ([], ValueError, "must be a row of positions, got shape (0,)"),
    ([NAN], ValueError, "must have finite positions ≥ 0, got nan"),
]
MEASURE: list[Bad] = [
    ([0.0], TypeError, "must be Atoms or PiecewiseLinear, got [0.0]"),
    (None, TypeError, "must be Atoms or PiecewiseLinear, got None"),
]
STATE: list[Bad] = [
    (ATOMS, TypeError, "must be a list of measures, one a level, got Atoms"),
    ("ab", TypeError, "must be a list of measures, one a level, got 'ab'"),
    ([ATOMS, None], TypeError, "must be Atoms or PiecewiseLinear at level 2, got None"),
]
TEXT: list[Bad] = [
    (None, TypeError, "must be text, got None"),
    (3, TypeError, "must be text, got 3"),
    (["empty"], TypeError, "must be text, got ['empty']"),
]
POSITIONS: list[Bad] = [
    ("a", ValueError, "must be numbers, got 'a': write ["),
    ([[0.0]], ValueError, "must be an increasing sequence, got shape (1, 1): write ["),
    ([1.0, 0.5], ValueError, "must be finite, not negative and increase, got [1.0, 0.5]"),
    ([True], ValueError, "must be numbers, got [True]: write ["),
]
TOLERANCE = [*NUMBER[:-1], (NAN, ValueError, "must lie in ["), (0.0, ValueError, "must lie in [")]
