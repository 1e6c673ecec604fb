"""What a cell of heavy traffic is compared with: the limit as it is stored, and distances from it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from sweep.diffusion.density import solve_diffusion
from sweep.diffusion.exact import stationary
from sweep.diffusion.study import default_x, empirical_distances, solve_heavy_limit

SIMPLE: dict[str, Any] = {"b1": -2.0, "b0": 1.0, "ell": 2, "sigma2": 2.0}
TEXT = "stationary(b1=-2.0, b0=1.0, ell=2, sigma2=2.0)"
_TIMES, _X = np.array([0.0, 0.5, 2.0]), np.linspace(0.0, 4.0, 9)


@pytest.mark.parametrize(
    "initial", ["empty", "points(0.5: 0.2, 2.0: 0.8)", "law(exponential, mean=0.7)", TEXT]
)
def test_the_limit_of_a_cell_is_the_solution_of_the_pde(initial: str) -> None:
    limit = solve_heavy_limit(**SIMPLE, times=_TIMES, x=_X, initial=initial)
    data = solve_diffusion(**SIMPLE, times=_TIMES, x=_X, initial=initial)
    for name in ("v", "u", "mean"):
        assert limit[name] == pytest.approx(data[name].values, abs=1e-5), name
    assert float(limit["error"]) <= 1e-6
    assert limit["v_stationary"] == pytest.approx(stationary(**SIMPLE).v(_X))
    fine, v = limit["fine_x"], limit["fine_v"]
    assert v.shape == (3, fine.size)
    assert np.all(np.diff(fine) >= 0.0)
    assert np.all(np.diff(v, axis=1) <= 0.0)
    assert v[:, -1].max() <= 1e-9
    means = np.sum(0.5 * (v[:, 1:] + v[:, :-1]) * np.diff(fine), axis=1)
    assert means == pytest.approx(limit["mean"], abs=2e-6)


def test_jumps_of_the_start_are_on_the_fine_grid() -> None:
    limit = solve_heavy_limit(**SIMPLE, times=[0.0], x=_X, initial="points(0.5: 0.2, 2.0: 0.8)")
    where = np.flatnonzero(limit["fine_x"] == 0.5)
    assert limit["fine_v"][0, where].tolist() == [1.0, 0.8]
    many = solve_heavy_limit(**SIMPLE, times=[0.0, 1.0], x=_X, initial=np.linspace(0.0, 2.0, 1000))
    assert np.all(np.diff(many["fine_x"]) > 0.0)


def test_no_stationary_law_is_nan() -> None:
    limit = solve_heavy_limit(b1=-1.0, b0=1.0, ell=2, sigma2=2.0, times=[1.0], x=_X)
    assert np.isnan(limit["mean_stationary"])
    assert np.isnan(limit["v_stationary"]).all()


def test_distances_of_given_queues() -> None:
    # At m = 100 lengths 5, 5, 5, 20 against X_0 = 0.5 or 2: only the shares differ.
    limit = solve_heavy_limit(**SIMPLE, times=[0.0], x=_X, initial="points(0.5: 0.5, 2.0: 0.5)")
    counts = np.array([[4] * 5 + [1] * 15])
    found = empirical_distances(counts, N=4, m=100, x=[0.0, 0.5, 1.9, 2.0], limit=limit)
    assert found["W1"] == pytest.approx([0.25 * 1.5], abs=1e-12)
    assert found["KS"] == pytest.approx([0.25], abs=1e-12)
    assert found["d_P"] == pytest.approx([0.25], abs=1e-12)
    assert found["v"].tolist() == [[1.0, 0.25, 0.25, 0.0]]
    assert found["X"] == pytest.approx([(0.5 * 3 + 2.0) / 4])


def test_distances_from_a_smooth_limit_are_those_of_the_lattice() -> None:
    # b0 = 0 in equilibrium: v = e^{−x}. Against queues of law P(Q ≥ k) = e^{−k/10}, m = 100, which moves
    # each X up by less than 1/10: W1 is the difference of means, KS the first step.
    limit = solve_heavy_limit(
        b1=-1.0, b0=0.0, ell=2, sigma2=2.0, times=[1.0], x=_X, initial="stationary", tolerance=1e-7
    )
    N = 10**9
    counts = np.array([[round(N * math.exp(-0.1 * k)) for k in range(1, 400)]])
    found = empirical_distances(counts, N=N, m=100, x=_X, limit=limit)
    mean = 0.1 / math.expm1(0.1)
    assert float(found["W1"][0]) == pytest.approx(1.0 - mean, abs=4e-6)
    assert float(found["KS"][0]) == pytest.approx(-math.expm1(-0.1), abs=1e-6)
    assert found["X"] == pytest.approx([mean], abs=1e-7)
    # d_P: the mass within ε of 0 that queues of length 0 cannot reach, 1 − e^{−0.1} − (1 − e^{−ε}) = ε.
    epsilon = float(found["d_P"][0])
    assert math.exp(-epsilon) - math.exp(-0.1) == pytest.approx(epsilon, abs=4e-6)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([4, 2], r"counts must have a row for each of the 1 times, got shape \(2,\)"),
        ([[4], [2]], r"counts must have a row for each of the 1 times, got shape \(2, 1\)"),
        ([[5, 2]], r"counts must fall with the level from at most N = 4, got \[5, 2, 0\]"),
        ([[2, 3]], r"counts must fall with the level from at most N = 4, got \[2, 3, 0\]"),
    ],
)
def test_counts_that_are_none_are_refused(counts: Any, message: str) -> None:
    limit = solve_heavy_limit(**SIMPLE, times=[0.0], x=[0.0])
    with pytest.raises(ValueError, match=message):
        empirical_distances(np.array(counts), N=4, m=100, x=[0.0], limit=limit)


@pytest.mark.parametrize(
    ("cell", "initial"), [((1e200, 0, 2, 2.0), "empty"), ((-1, 0, 2, 2.0), "point(x=1e308)")]
)
def test_default_positions_that_overflow_are_refused(cell: Any, initial: str) -> None:
    with pytest.raises(ValueError, match="b1, b0, sigma2 and initial must be such that numbers do not overf"):
        default_x([(-2, 1, 2, 2.0), cell], initial, 1.0)


def test_default_positions_cover_all_cells() -> None:
    cells = [(-2.0, 1.0, 2, 2.0), (1.0, 0.5, 3, 1.25)]
    x = default_x(cells, "law(exponential, mean=0.7)", 3.0)
    assert x.size == 61
    assert x[0] == 0.0
    for b1, b0, ell, sigma2 in cells:
        data = solve_diffusion(
            b1=b1, b0=b0, ell=ell, sigma2=sigma2, times=[3.0], initial="law(exponential, mean=0.7)", x=x[-1:]
        )
        assert float(data.v[0, 0]) <= 3e-4
    assert float(f"{x[-1]:.1e}") == x[-1]


_PROGRAM = """
import hashlib
import numpy as np
from sweep.diffusion.start import as_start
from sweep.diffusion.study import default_x, empirical_distances, solve_heavy_limit
parameters, digest = dict(b1=-2.0, b0=1.0, ell=3, sigma2=2.0), hashlib.sha256()
text = "stationary(b1=-2.0, b0=1.0, ell=3, sigma2=2.0)"
x = default_x([(-2.0, 1.0, 3, 2.0)], text, 1.0)
limit = solve_heavy_limit(**parameters, times=[0.0, 0.5], x=x, initial=text, tolerance=1e-4)
lengths = np.floor(20.0 * as_start(text).draw(np.random.default_rng(1), 300))
counts = np.array([[np.count_nonzero(lengths >= k) for k in range(1, 90)]] * 2)
for arrays in (limit, empirical_distances(counts, N=300, m=400, x=x, limit=limit)):
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
print(digest.hexdigest())
"""


def test_bits_of_limits_and_distances_do_not_depend_on_vector_units() -> None:
    def bits(**changes: str) -> str:
        run = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, **changes},
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout

    native = bits()
    assert len(native.strip()) == 64
    assert bits(NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR") == native
