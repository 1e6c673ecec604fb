"""Joint laws of two or three tagged queues, and how far they are from a product, by exchangeability."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

#: Tagged queues a joint law may have, each with the word for it.
TAGGED = {2: "two", 3: "three"}

_CHUNK = 1 << 20  # numbers held at a time by the jackknife


@dataclass(frozen=True, kw_only=True)
class Events:
    """Events {length ≥ ℓ, age ≤ a} that one queue may be in, the age running fastest; age inf: any."""

    levels: tuple[int, ...]
    ages: tuple[float, ...] = (math.inf,)

    def __len__(self) -> int:
        return len(self.levels) * len(self.ages)

    @property
    def any_age(self) -> bool:
        """Whether the events are about lengths alone."""
        return self.ages == (math.inf,)

    def meet(self, first: Integers, second: Integers) -> Integers:
        """Index of the intersection: the higher of two levels, the lower of two ages."""
        width = len(self.ages)
        level = np.maximum(first // width, second // width)
        return level * width + np.minimum(first % width, second % width)

    def cells(self) -> Floats:
        """Matrix from probabilities of the events to those of the disjoint cells, idle or excluded last.

        A cell is {length = ℓ, a' < age ≤ a} with neighbours a', a of the grid; the last level is "at least".
        """
        by_level = np.eye(len(self.levels)) - np.eye(len(self.levels), k=1)
        by_age = np.eye(len(self.ages)) - np.eye(len(self.ages), k=-1)
        inside = np.kron(by_level, by_age)
        return np.vstack([inside, -inside.sum(axis=0)])

    def tuples(self, k: int) -> Integers:
        """All multisets of k events, shape (tuple, k)."""
        return np.array(list(itertools.combinations_with_replacement(range(len(self)), k)), dtype=np.intp)


@dataclass(frozen=True, kw_only=True)
class Dependence:
    """Joint law of k tagged queues and its difference from the product, for the tuples of `Events.tuples`.

    `joint` and `difference` have shape (tuple,) and are unbiased and signed; `covariance`, (tuple, tuple), is
    the jackknife estimate of that of `difference`; `weight` counts the orders of each tuple.
    """

    events: Events
    tuples: Integers
    weight: Floats
    joint: Floats
    difference: Floats
    covariance: Floats
    n: int

    @property
    def k(self) -> int:
        """Number of tagged queues."""
        return int(self.tuples.shape[1])

    @property
    def stderr(self) -> Floats:
        """Standard errors of `difference`."""
        return np.sqrt(np.diag(self.covariance))

    def tensor(self, values: Floats) -> Floats:
        """Spread values of the tuples over all their orders, shape (event,) * k."""
        full = np.empty((len(self.events),) * self.k)
        for order in itertools.permutations(range(self.k)):
            full[tuple(self.tuples[:, place] for place in order)] = values
        return full


def joint_probabilities(s: Floats, N: int, events: Events, tuples: Integers) -> Floats:
    """P(the k tagged queues are in events e_1, …, e_k | s), for k queues drawn without replacement.

    With ∧ the intersection and s_e the share of the N queues in e, two tagged queues have

        (N² s_e s_f − N s_{e∧f}) / (N (N−1))

    and three

        (N³ s_e s_f s_g − N² (s_{e∧f} s_g + s_{e∧g} s_f + s_{f∧g} s_e) + 2 N s_{e∧f∧g}) / (N (N−1) (N−2)).

    Parameters
    ----------
    s
        Shares, shape (…, event).
    N
        Number of servers, at least k.
    events, tuples
        The events and tuples of them, shape (tuple, k).

    Returns
    -------
    numpy.ndarray
        Shape (…, tuple).

    Raises
    ------
    ValueError
        Fewer servers than tagged queues.

    Examples
    --------
    Two of four queues are busy: two tagged ones both are with probability 2/4 · 1/3.

    >>> events = Events(levels=(1,))
    >>> float(joint_probabilities(np.array([0.5]), 4, events, events.tuples(2))[0])
    0.16666666666666666
    """
    k = tuples.shape[1]
    if k > N:
        raise ValueError(f"N must be at least {k} to tag {TAGGED[k]} queues, got {N}")
    first, second = tuples[:, 0], tuples[:, 1]
    both = events.meet(first, second)
    if k == 2:
        return np.asarray((N * s[..., first] * s[..., second] - s[..., both]) / (N - 1))
    third = tuples[:, 2]
    pairs = (
        s[..., both] * s[..., third]
        + s[..., events.meet(first, third)] * s[..., second]
        + s[..., events.meet(second, third)] * s[..., first]
    )
    triples = N**2 * s[..., first] * s[..., second] * s[..., third]
    same = 2 * s[..., events.meet(both, third)]
    return np.asarray((triples - N * pairs + same) / ((N - 1) * (N - 2)))


def dependence(s: Floats, N: int, events: Events, k: int = 2) -> Dependence:
    """Estimate the joint law of k tagged queues and its difference from the product of k single laws.

    The product of means E s_e E s_f is estimated from different replicas (a U-statistic), so that every
    difference is unbiased and may be negative. Standard errors are by the jackknife over replicas.

    Parameters
    ----------
    s
        Shares of queues in the events, shape (replica, event), or (replica, time, event) for several times of
        a stationary path, which are averaged within a replica.
    N
        Number of servers.
    events
        What the shares are of.
    k
        Tagged queues, 2 or 3.

    Raises
    ------
    ValueError
        Another k, too few servers, or fewer than k + 2 replicas.

    Examples
    --------
    Of four servers, always two are busy: the difference is −(1/2)(1/2)/3.

    >>> found = dependence(np.full((10, 1), 0.5), 4, Events(levels=(1,)))
    >>> round(float(found.difference[0]), 12), float(found.stderr[0])
    (-0.083333333333, 0.0)
    """
    if k not in TAGGED:
        raise ValueError(f"k must be one of {', '.join(map(str, TAGGED))}, got {k}")
    n = s.shape[0]
    if n < k + 2:
        raise ValueError(f"replicas must number at least {k + 2} to tag {TAGGED[k]} queues, got {n}")
    tuples = events.tuples(k)
    step = max(1, _CHUNK // len(tuples))
    chunks = [s[start : start + step] for start in range(0, n, step)]
    totals = [np.zeros(len(tuples)) for _ in range(2**k)]
    for chunk in chunks:
        for total, terms in zip(totals, _terms(chunk, N, events, tuples), strict=True):
            total += terms.sum(axis=0)
    difference = _difference(totals, n)
    moved, spread = np.zeros(len(tuples)), np.zeros((len(tuples), len(tuples)))
    for chunk in chunks:
        terms_ = _terms(chunk, N, events, tuples)
        left_out = _difference([total - one for total, one in zip(totals, terms_, strict=True)], n - 1)
        left_out -= difference
        moved += left_out.sum(axis=0)
        spread += left_out.T @ left_out
    covariance = (n - 1) / n * (spread - np.outer(moved, moved) / n)
    return Dependence(
        events=events, tuples=tuples, weight=_orders(tuples), joint=totals[0] / n,
        difference=difference, covariance=covariance, n=n,
    )  # fmt: skip


def _terms(s: Floats, N: int, events: Events, tuples: Integers) -> list[Floats]:
    """Return the joint law and all products of distinct s_e of a tuple: (replica, tuple) each."""
    joint, means = joint_probabilities(s, N, events, tuples), s
    if s.ndim == 3:
        joint, means = joint.mean(axis=1), s.mean(axis=1)
    singles = [means[:, column] for column in tuples.T]
    pairs = [first * second for first, second in itertools.combinations(singles, 2)]
    return [joint, *singles, *pairs] + ([pairs[0] * singles[2]] if len(singles) == 3 else [])


def _difference(sums: Sequence[Floats], n: int) -> Floats:
    """Mean joint law less the mean of s_e(i) s_f(j) [s_g(l)] over different replicas i, j[, l], from sums."""
    if len(sums) == 4:
        joint, a, b, ab = sums
        return np.asarray(joint / n - (a * b - ab) / (n * (n - 1)))
    joint, a, b, c, ab, ac, bc, abc = sums
    product = a * b * c - ab * c - ac * b - bc * a + 2 * abc
    return np.asarray(joint / n - product / (n * (n - 1) * (n - 2)))


def _orders(tuples: Integers) -> Floats:
    """Count the different orders of each tuple, k! over the factorials of its repetitions."""
    return np.array([float(len(set(itertools.permutations(row)))) for row in tuples.tolist()])
