"""First-order constants around the mean field: published digits, independent queues, exact small networks."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import vstack
from scipy.sparse.linalg import spsolve

from analysis.mean_field import mean_field_constants
from tests.verification.chains import generator

REFERENCE = Path(__file__).parent / "reference" / "clt_constants_exponential.csv"
ROWS = list(csv.DictReader(line for line in REFERENCE.read_text().splitlines() if not line.startswith("#")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"d={row['d']} lam={row['lam']}")
def test_constants_have_the_published_digits(row: dict[str, str]) -> None:
    with_, without = (
        mean_field_constants(d=int(row["d"]), lam=float(row["lam"]), replacement=flag)
        for flag in (True, False)
    )
    found = {
        "mean_field_mean_queue": with_.mean_queue,
        "C_with_replacement": with_.mean_queue_bias,
        "C_without_replacement": without.mean_queue_bias,
        "N_var_mean_queue": with_.mean_queue_variance,
        **{f"sqrtN_sd_S{level}": with_.sd[level - 1] for level in (1, 2, 3, 4)},
    }
    for name, value in found.items():
        assert f"{value:.{len(row[name].partition('.')[2])}f}" == row[name], name
    assert without.covariance == pytest.approx(with_.covariance)


@pytest.mark.parametrize("choices", [{"d": 1}, {"d": 3, "fraction": 0.0}])
@pytest.mark.parametrize("replacement", [True, False])
def test_one_choice_gives_independent_mm1_queues(choices: dict[str, float], replacement: bool) -> None:
    # P(length ≥ ℓ) = λ^ℓ at each of N independent queues, with no bias at all.
    lam = 0.8
    found = mean_field_constants(**choices, lam=lam, replacement=replacement)  # type: ignore[arg-type]
    level = np.arange(1, found.S.size + 1)
    assert list(found.S) == pytest.approx([lam**i for i in level], rel=1e-12)
    longer, shorter = np.maximum.outer(level, level), np.minimum.outer(level, level)
    exact = np.array([lam**i for i in range(level[-1] + 1)])
    assert found.covariance == pytest.approx(exact[longer] * (1 - exact[shorter]), abs=1e-12)
    assert found.mean_queue_variance == pytest.approx(lam / (1 - lam) ** 2, rel=1e-10)
    assert np.abs(found.bias).max() == 0.0


def exact_moments(N: int, lam: float, replacement: bool) -> tuple[float, float]:
    """Mean and variance of the jobs per server of SQ(2) from its stationary law, queues up to 6."""
    states, rates = generator(N, 2, lam, replacement, 6)
    system = vstack([np.ones((1, len(states))), rates.T.tocsr()[1:]]).tocsc()
    law = spsolve(system, np.eye(1, len(states))[0])
    jobs = np.array(states).sum(axis=1) / N
    mean = float(law @ jobs)
    return mean, float(law @ (jobs - mean) ** 2)


@pytest.mark.parametrize("replacement", [True, False])
def test_exact_networks_of_three_to_six_servers_extrapolate_to_the_constants(replacement: bool) -> None:
    # A cubic in 1/N through four exact values leaves an error of order N⁻⁴.
    exact = mean_field_constants(d=2, lam=0.3, replacement=replacement)
    sizes = (3, 4, 5, 6)
    moments = [exact_moments(N, 0.3, replacement) for N in sizes]
    powers = np.vander([1 / N for N in sizes], increasing=True)
    bias = np.linalg.solve(
        powers, [N * (mean - exact.mean_queue) for N, (mean, _) in zip(sizes, moments, strict=True)]
    )
    variance = np.linalg.solve(powers, [N * square for N, (_, square) in zip(sizes, moments, strict=True)])
    assert bias[0] == pytest.approx(exact.mean_queue_bias, rel=5e-3)
    assert variance[0] == pytest.approx(exact.mean_queue_variance, rel=1e-3)
    # Twin: the other convention of sampling is five times as far away.
    other = mean_field_constants(d=2, lam=0.3, replacement=not replacement)
    assert abs(bias[0] / other.mean_queue_bias - 1) > 0.5


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.floats(0.05, 0.9), st.floats(0.0, 1.0), st.booleans())
def test_covariance_is_one_and_the_first_level_is_unbiased(
    d: int, lam: float, fraction: float, replacement: bool
) -> None:
    found = mean_field_constants(d=d, lam=lam, replacement=replacement, fraction=fraction)
    assert found.covariance == pytest.approx(found.covariance.T, abs=1e-10)
    assert np.linalg.eigvalsh((found.covariance + found.covariance.T) / 2).min() > -1e-10
    # E S_1/N = λ for every N.
    assert found.S[0] == pytest.approx(lam, rel=1e-11)
    assert abs(found.bias[0]) < 1e-9
    assert found.sd.shape == found.bias.shape == found.S.shape
    assert math.isfinite(found.mean_queue_bias)


def test_arguments_outside_their_range_are_named() -> None:
    with pytest.raises(ValueError, match=r"lam must be below 1 for an equilibrium to exist, got 1\.5"):
        mean_field_constants(d=2, lam=1.5)
    with pytest.raises(ValueError, match="d must be at least 1, got 0"):
        mean_field_constants(d=0, lam=0.5)
    with pytest.raises(
        ValueError, match=r"lam must leave at most 800 levels with S_ℓ > 1e-17, got 0.99 with d"
    ):
        mean_field_constants(d=1, lam=0.99)
