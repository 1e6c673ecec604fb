"""Joint laws of tagged queues: exact small networks, unbiasedness, urns of known dependence, known rates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.chaos import chaos_table, fit_chaos
from analysis.joint import Dependence, Events, dependence, joint_probabilities
from analysis.norms import NORMS, norm_of, queue_covariance
from analysis.tagged import measure_chaos
from tests.urns import GRID, SERVERS, TAILS, Floats, inverse, urn, urns

BOUND = 4.0


# ---- exact ----------------------------------------------------------------------------------------------


@given(
    lengths=st.lists(st.integers(0, 3), min_size=3, max_size=6),
    ages=st.lists(st.sampled_from([0.5, 1.5]), min_size=6, max_size=6),
    k=st.sampled_from([2, 3]),
    aged=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_joint_law_is_that_of_all_choices_of_distinct_queues(
    lengths: list[int], ages: list[float], k: int, aged: bool
) -> None:
    events = Events(levels=(1, 2, 3), ages=(1.0, math.inf)) if aged else Events(levels=(1, 2, 3))
    inside = np.array(
        [
            [length >= level and age <= most for level in events.levels for most in events.ages]
            for length, age in zip(lengths, ages, strict=False)
        ]
    )
    tuples = events.tuples(k)
    chosen = list(itertools.permutations(range(len(lengths)), k))
    counted = np.mean(
        [[all(inside[i, e] for i, e in zip(c, t, strict=True)) for t in tuples] for c in chosen], 0
    )
    found = joint_probabilities(inside.mean(axis=0), len(lengths), events, tuples)
    assert found == pytest.approx(counted, abs=1e-12)


@pytest.mark.parametrize("k", [2, 3])
def test_differences_are_unbiased_over_all_samples_of_a_two_point_law(k: int) -> None:
    """S/N is 1/6 or 5/6 with probability 1/2: the mean over all 2⁵ samples of five replicas is exact."""
    N, events = 6, Events(levels=(1,))
    values = np.array([1 / 6, 5 / 6])
    samples = [values[list(bits)][:, None] for bits in itertools.product((0, 1), repeat=5)]
    mean = np.mean([dependence(s, N, events, k).difference[0] for s in samples])
    falling = math.prod(range(N - k + 1, N + 1))
    joint = np.mean([math.prod(range(b - k + 1, b + 1)) / falling for b in (1, 5)])  # b busy queues of 6
    assert mean == pytest.approx(joint - 0.5**k, abs=1e-14)


def test_fixed_numbers_of_busy_queues_give_the_urn_covariance() -> None:
    # Always 3 of 10 queues are busy: −p(1−p)/(N−1); cells (±,±) differ by that: total variation twice it.
    found = dependence(np.full((8, 1), 0.3), 10, Events(levels=(1,)))
    exact = -0.3 * 0.7 / 9
    assert found.difference[0] == pytest.approx(exact, abs=1e-15)
    assert queue_covariance(found) == pytest.approx((exact, 0.0), abs=1e-15)
    for kind, factor in (("frobenius", 1.0), ("sup", 1.0), ("total_variation", 2.0)):
        norm = norm_of(found, kind)
        assert norm.value == pytest.approx(factor * abs(exact), abs=1e-14)
        assert (norm.stderr, norm.bias) == pytest.approx((0.0, 0.0), abs=1e-12)


@given(st.lists(st.floats(0.05, 1.0), min_size=9, max_size=9), st.booleans())
@settings(max_examples=40, deadline=None)
def test_total_variation_is_that_of_the_laws_of_both_queues(weights: list[float], aged: bool) -> None:
    """Any symmetric joint law on three cells, from its events, against ½ Σ |joint − product|."""
    law = np.array(weights).reshape(3, 3)
    law = (law + law.T) / (law + law.T).sum()
    single = law.sum(axis=1)
    if aged:  # cells: age ≤ 1, age > 1, idle; the events are {age ≤ 1} and {busy}
        events, member = Events(levels=(1,), ages=(1.0, math.inf)), np.array([[1, 0, 0], [1, 1, 0]])
    else:  # cells: length 1, length ≥ 2, idle; the events are {≥ 1} and {≥ 2}
        events, member = Events(levels=(1, 2)), np.array([[1, 1, 0], [0, 1, 0]])
    tuples = events.tuples(2)
    full = member @ (law - np.outer(single, single)) @ member.T
    found = Dependence(
        events=events, tuples=tuples, weight=np.array([1.0, 2.0, 1.0]), joint=np.zeros(3),
        difference=full[tuples[:, 0], tuples[:, 1]], covariance=np.zeros((3, 3)), n=9,
    )  # fmt: skip
    expected = np.abs(law - np.outer(single, single)).sum() / 2
    assert norm_of(found, "total_variation").value == pytest.approx(expected, abs=1e-12)
    assert norm_of(found, "frobenius").value == pytest.approx(math.sqrt((full**2).sum()), abs=1e-12)
    assert norm_of(found, "sup").value == pytest.approx(np.abs(full).max(), abs=1e-12)


# ---- laws: urns whose dependence is known -----------------------------------------------------------------


def scores(measured: xr.Dataset, exact: Floats) -> float:
    """Largest |z| of the signed differences at all N against exact values."""
    off = measured.difference.values.reshape(exact.shape) - exact
    return float(np.abs(off / measured.difference_stderr.values.reshape(exact.shape)).max())


@pytest.mark.parametrize("k", [2, 3])
def test_urns_show_their_exact_dependence_and_not_a_weaker_one(k: int) -> None:
    """|z| ≤ 4 of 6·9 or 6·27 entries (10 and 19 of them different); moments of a Dirichlet law for k = 3."""

    def exact(factor: float) -> Floats:
        entries = np.empty((len(SERVERS), *(3,) * k))
        for place in np.ndindex(*entries.shape):
            alpha = 1.0 / (factor * inverse(SERVERS[place[0]])) - 1.0
            # P(levels a ≥ b ≥ c) of a Pólya urn: the highest is drawn first, each later draw has it inside.
            tails = sorted(TAILS[level] for level in place[1:])
            joint = math.prod((alpha * tail + drawn) / (alpha + drawn) for drawn, tail in enumerate(tails))
            entries[place] = joint - math.prod(tails)
        return entries

    measured = measure_chaos(urns(inverse, 40_000), k)
    assert scores(measured, exact(1.0)) <= BOUND
    N = np.array(SERVERS)
    weights = N.reshape(-1, *(1,) * k) * np.ones((3,) * k)  # pooled over N and entries a weaker one shows
    summed = float((measured.difference.values.reshape(weights.shape) * weights).sum())
    if k == 2:
        error = math.sqrt(float(((N * measured.queue_covariance_stderr.values.ravel()) ** 2).sum()))
        assert abs(summed - float((exact(1.0) * weights).sum())) <= BOUND * error
        assert abs(summed - float((exact(0.95) * weights).sum())) > BOUND * error


def exponents(power: float) -> Floats:
    """Exponents of 150 studies of urns with dependence ½ N^power, errors, and whether −1 is covered."""
    found = []
    for seed in range(150):
        fit = next(chaos_table(fit_chaos(measure_chaos(urns(lambda N: 0.5 * N**power, 1000, seed)))))
        found.append((fit.exponent, fit.exponent_stderr, fit.exponent_lo <= -1.0 <= fit.exponent_hi))
    return np.array(found, dtype=np.float64)


def test_intervals_cover_the_rate_and_miss_a_rate_off_by_a_twentieth() -> None:
    """95 ± 5 % of 150 studies (2.8 binomial standard deviations), and |z| ≤ 4 of the mean exponent."""

    def score(found: Floats) -> float:
        return float(abs(found[:, 0].mean() + 1.0) / (found[:, 0].std(ddof=1) / math.sqrt(len(found))))

    right, wrong = exponents(-1.0), exponents(-0.95)
    assert not np.isnan(right).any()
    assert 0.90 <= right[:, 2].mean() <= 1.0
    assert right[:, 1].mean() == pytest.approx(right[:, 0].std(ddof=1), rel=0.25)  # honest errors
    assert score(right) <= BOUND
    assert score(wrong) > BOUND


def test_two_terms_are_found_in_the_signed_entries() -> None:
    """Dependence 1/N (½ + 6/N): lim N · difference is ½ (S_max − S_ℓ S_m), which one power would miss."""
    data = urns(lambda N: (0.5 + 6.0 / N) / N, 20_000)
    fits = fit_chaos(measure_chaos(data), least_N=30)
    higher = np.minimum(TAILS[:, None], TAILS)
    exact = 0.5 * (higher - np.outer(TAILS, TAILS))
    score = np.abs((fits.limit.values.reshape(3, 3) - exact) / fits.limit_stderr.values.reshape(3, 3))
    assert score.max() <= BOUND
    row = next(chaos_table(fits))
    size = math.sqrt(((higher - np.outer(TAILS, TAILS)) ** 2).sum())
    assert abs(row.first - 0.5 * size) <= BOUND * row.first_stderr
    assert abs(row.second - 6.0 * size) <= BOUND * row.second_stderr
    assert row.exponent_lo <= -1.0 <= row.exponent_hi
    assert row.power < -1.05


def test_independent_queues_are_independent_within_error() -> None:
    """p-values of 200 studies are uniform (Kolmogorov–Smirnov at 1e-3); those of weak dependence are not."""

    def p_values(law: Callable[[int], float]) -> Floats:
        one = (120,)
        return np.array([measure_chaos(urns(law, 300, seed, one)).p_zero.item() for seed in range(200)])

    assert stats.kstest(p_values(lambda _: 1e-9), "uniform").pvalue > 1e-3
    assert stats.kstest(p_values(lambda N: 0.1 / N), "uniform").pvalue < 1e-3
    row = next(chaos_table(fit_chaos(measure_chaos(urns(lambda _: 1e-9, 2000)))))
    assert row.verdict.startswith("independent within error at every N (p = ")
    assert math.isnan(row.exponent)


def test_batches_are_averaged_within_a_replica() -> None:
    """Two equal batches tell no more than one; independent ones halve the variance."""
    rng = np.random.default_rng(2)
    first, second = (urn(60, inverse(60), 4000, rng) for _ in range(2))

    def store(batches: Floats) -> xr.DataTree:
        coords = {"N": [60], "d": [2], "lam": [0.9], "G": ["exponential"], "level": [1, 2, 3]}
        values = batches[None, None, None, None]
        data = xr.Dataset({"S_end": ((*GRID, "replica", "batch", "level"), values)}, coords=coords)
        return xr.DataTree.from_dict({"equilibrium": data, "network": xr.Dataset()})

    single = measure_chaos(store(first[:, None, :]))
    doubled = measure_chaos(store(np.stack([first, first], axis=1)))
    independent = measure_chaos(store(np.stack([first, second], axis=1)))
    assert doubled.difference.values == pytest.approx(single.difference.values, abs=1e-12)
    assert doubled.queue_covariance_stderr.item() == pytest.approx(
        single.queue_covariance_stderr.item(), rel=1e-9
    )
    ratio = independent.queue_covariance_stderr.item() / single.queue_covariance_stderr.item()
    assert ratio == pytest.approx(math.sqrt(0.5), rel=0.1)
    exact = 0.5 / 60 * (np.minimum(TAILS[:, None], TAILS) - np.outer(TAILS, TAILS))
    assert scores(independent, exact) <= BOUND


@pytest.mark.parametrize("kind", list(NORMS))
def test_norms_are_within_their_stated_bias_of_the_truth(kind: str) -> None:
    """Means over 400 estimates from 100 replicas each, where noise is as large as the norm (N = 60)."""
    rng = np.random.default_rng(6)
    events = Events(levels=(1, 2, 3))
    higher = np.minimum(TAILS[:, None], TAILS) - np.outer(TAILS, TAILS)
    full = 0.5 / 60 * higher
    cells = events.cells() @ full @ events.cells().T
    truth = {
        "frobenius": math.sqrt((full**2).sum()),
        "sup": np.abs(full).max(),
        "total_variation": np.abs(cells).sum() / 2,
    }[kind]
    found = [norm_of(dependence(urn(60, inverse(60), 100, rng), 60, events), kind) for _ in range(400)]
    value = np.array([norm.value for norm in found])
    bias = float(np.mean([norm.bias for norm in found]))
    assert abs(value.mean() - truth) <= bias + BOUND * value.std(ddof=1) / math.sqrt(len(value))
