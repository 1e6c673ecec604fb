"""How many replicas a cell needs for a stated standard error, decided from its first replicas alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from sweep.arguments import check_count

#: A stage adds at least this share of the replicas there are, so that a cell is decided in few stages.
_LEAST_GROWTH = 0.25
#: … and at most as many as there are: an estimate of the standard error is not to be trusted further.
_MOST_GROWTH = 1.0


def replicas_needed(
    values: ArrayLike, *, target: float, replicas: int, max_replicas: int, relative: bool = False
) -> int:
    """Return how many replicas a cell needs in all, as far as its first ones tell.

    The cell begins with n₀ = `replicas`. After a stage of n replicas it is finished if the standard error of
    their mean is at most `target`, or n = `max_replicas`; otherwise the next stage has n (s.e. / target)²,
    but 1.25 n at least and 2 n at most. A stage is judged by replicas 0 … n − 1 and nothing else, and its
    sums are exact, so that every run ends with the same set, whatever was stored, in whatever order.

    The rule stops when the estimated error happens to be small: with few replicas to begin with, the true
    error exceeds the target somewhat more often than its estimate tells (Chow and Robbins, Ann. Math. Stat.
    36, 1965). Begin with 20 or more where that matters.

    Parameters
    ----------
    values : array_like, shape (replica, …)
        Values of the named quantity in replicas 0, 1, …, as many as there are without a gap. If it has
        several entries (times, levels), the largest standard error among them counts. An entry that is not a
        number has no standard error, and the target is not reached.
    target
        Standard error of the mean to be reached, in the quantity's unit.
    replicas
        Replicas to begin with, ≥ 2.
    max_replicas
        Replicas at most.
    relative
        Whether the target is a share of the absolute mean of the stage; an entry of mean 0 never reaches it.

    Returns
    -------
    int
        Replicas wanted, between `replicas` and `max_replicas`. The cell is finished if `values` has as many;
        ask again when those missing are there. Replicas beyond them belong to no stage and are not used.

    Raises
    ------
    TypeError
        replicas or max_replicas is not a whole number.
    ValueError
        target that is not positive, replicas < 2, max_replicas < replicas, or values without a replica axis.

    Examples
    --------
    >>> replicas_needed([], target=0.5, replicas=4, max_replicas=64)
    4
    >>> replicas_needed([0.0, 2.0, 0.0, 2.0], target=0.5, replicas=4, max_replicas=64)
    6
    >>> replicas_needed([0.0, 2.0, 0.0, 2.0, 1.0, 1.0], target=0.5, replicas=4, max_replicas=64)
    6
    """
    if not (math.isfinite(target) and target > 0.0):
        raise ValueError(f"target_stderr must be a positive number, got {target}")
    replicas, max_replicas = check_count("replicas", replicas), check_count("max_replicas", max_replicas)
    for fault in replica_faults(replicas, max_replicas):
        raise ValueError(fault)
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0:
        raise ValueError(f"values must have one entry a replica, got the single number {array}")
    wanted = replicas
    while wanted <= len(array) and wanted < max_replicas:
        error = _largest_error(array[:wanted], relative)
        if error <= target:
            break
        wanted = min(_next_stage(wanted, error, target), max_replicas)
    return wanted


def standard_error(values: ArrayLike) -> float:
    """Return the standard error of the mean of independent numbers, s / √n, from correctly rounded sums.

    Parameters
    ----------
    values : array_like, shape (replica,)
        At least two numbers.

    Returns
    -------
    float
        Infinite if a value is not finite.

    Raises
    ------
    ValueError
        Fewer than two values.

    Examples
    --------
    >>> standard_error([1.0, 2.0, 3.0, 4.0]) == math.sqrt(5 / 12)
    True
    """
    numbers = np.asarray(values, dtype=np.float64).tolist()
    count = len(numbers)
    if count < 2:
        raise ValueError(f"values must hold at least two replicas, got {count}")
    if not all(map(math.isfinite, numbers)):
        return math.inf
    mean = math.fsum(numbers) / count
    deviations = [number - mean for number in numbers]
    # The second term is the rounding of the mean; without it equal values would seem to vary.
    squares = math.fsum(x * x for x in deviations) - math.fsum(deviations) ** 2 / count
    return math.sqrt(max(squares, 0.0) / (count - 1) / count)


def replica_faults(replicas: int, max_replicas: int | None) -> Iterator[str]:
    """Yield every fault of the replicas that a cell begins with and has at most, given a target.

    Examples
    --------
    >>> list(replica_faults(4, 3))
    ['max_replicas must be at least replicas = 4, got 3']
    """
    if max_replicas is None:
        yield "max_replicas must be given with target_stderr, got none: the most replicas of a cell"
    elif max_replicas < replicas:
        yield f"max_replicas must be at least replicas = {replicas}, got {max_replicas}"
    if replicas < 2:
        yield f"replicas must be at least 2 with target_stderr, got {replicas}: one has no error"


def _largest_error(values: np.ndarray, relative: bool) -> float:
    columns = values.reshape(len(values), -1)
    errors = (_error(columns[:, column], relative) for column in range(columns.shape[1]))
    return max(errors, default=0.0)


def _error(values: np.ndarray, relative: bool) -> float:
    error = standard_error(values)
    if not relative or error == 0.0 or error == math.inf:
        return error
    mean = abs(math.fsum(values.tolist()) / len(values))
    return error / mean if mean > 0.0 else math.inf


def _next_stage(count: int, error: float, target: float) -> int:
    least = count + max(1, math.ceil(_LEAST_GROWTH * count))
    most = count + math.ceil(_MOST_GROWTH * count)
    if not math.isfinite(error):
        return most
    ratio = Fraction(error) / Fraction(target)  # exact, and its square cannot overflow
    return min(max(least, math.ceil(count * ratio * ratio)), most)
