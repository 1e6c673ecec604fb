"""Networks with very long queues, very short times and very rare jobs: right, or refused in one sentence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sweep.cell import Cell
from sweep.diffusion.study import solve_heavy_limit
from sweep.network import start, state
from sweep.network.corrections import was_beyond_tables, was_continued_as_power
from sweep.network.departure_kernels import bin_of
from sweep.network.simulate import simulate
from sweep.network.start import lengths_at_start
from sweep.work import run_scaled

COMMON: dict[str, Any] = {"N": 2, "d": 1, "lam": 0.5, "G": "exponential", "times": [0.0], "seed": 1}
#: Servers drawn, and |z| allowed for their mean.
SERVERS, BOUND = 4000, 4.0


@pytest.mark.parametrize(
    ("lam", "G", "scv"),
    [(0.999, "exponential", 1.0), (0.99, "hyperexponential(scv=10)", 10.0), (0.998, "lomax(beta=5)", 5 / 3)],
)
def test_long_queues_of_light_services_continue_as_a_geometric(monkeypatch, lam, G, scv) -> None:
    """Against the mean λ + λ² (1 + scv) / (2 (1 − λ)) of Pollaczek and Khinchine, of λ and a wrong rate."""
    monkeypatch.setattr(start, "LEVELS", 420)
    start._invariant_state.cache_clear()
    cell = Cell(N=SERVERS, d=1, lam=lam, G=G, initial="invariant")
    lengths = start._Stationary(cell, np.random.default_rng(1)).draw(0, SERVERS)[0]
    start._invariant_state.cache_clear()
    right, wrong = (r + r**2 * (1.0 + scv) / (2.0 * (1.0 - r)) for r in (lam, 1.0 - 1.2 * (1.0 - lam)))
    error = lengths.std() / np.sqrt(SERVERS)
    assert abs(lengths.mean() - right) < BOUND * error
    assert abs(lengths.mean() - wrong) > BOUND * error


def test_services_of_infinite_variance_have_no_geometric_tail() -> None:
    for d, G in [(1, "lomax(beta=1.5)"), (2, "lomax(beta=1.9)"), (2, "pareto(beta=3)")]:
        cell = Cell(N=10**6, d=d, lam=0.999, G=G, initial="invariant")
        assert not was_continued_as_power(cell)


def test_queues_that_long_services_make_with_choices_end_where_they_do() -> None:
    """d = 2: φ(S_ℓ) λ ≥ r S_{ℓ+1} with the rate r of the slow phase; once S_ℓ < r/λ it falls doubly."""
    cell = Cell(N=10, d=2, lam=0.99, G="hyperexponential(scv=300)", initial="invariant")
    reached = start._invariant_state.__wrapped__(cell.limit)
    assert reached.levels > 400
    assert reached.S[-1] == 0.0
    assert was_continued_as_power(cell)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"d": 1, "lam": 0.999}, True),
        ({"d": 2, "lam": 0.9999, "fraction": 0.01}, True),
        ({"d": 1, "lam": 0.9}, False),
        ({"d": 1, "lam": 0.999, "G": "lomax(beta=2.5)"}, True),
        ({"d": 1, "lam": 0.95, "G": "lomax(beta=2.5)"}, False),  # a power of ℓ since level 800
        ({"d": 2, "lam": 0.999}, False),
        ({"d": 2, "lam": 0.999, "fraction": 0.5}, False),
        ({"d": 1, "lam": 0.999, "initial": "empty"}, False),
    ],
)
def test_cells_that_had_a_power_tail_are_known(change: dict[str, Any], expected: bool) -> None:
    cell = Cell(**{"N": 100, "G": "exponential", "initial": "invariant", **change})
    assert was_continued_as_power(cell) is expected


# ---- automatic levels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"routing": "shortest"}, {"method": "lumped"}])
def test_automatic_levels_hold_the_longest_queue_of_a_start(how: dict[str, Any]) -> None:
    data = simulate(**COMMON, initial="lengths(5000: 0.5)", **how)
    assert data.sizes["level"] == 5000
    assert float(data.S[0].sum()) == float(data.X[0]) == 2500.0


def test_distances_in_heavy_traffic_count_every_job() -> None:
    """⌊√m x⌋/√m is x itself here, so that the empirical law is X_0's at time 0."""
    cell = Cell(**{**dict(list(COMMON.items())[:4]), "initial": "scaled(point(x=5), m=1000000)"})
    limit = solve_heavy_limit(b1=-1, b0=0, ell=2, sigma2=2, times=[0.0], x=[0.0], initial="point(x=5)")
    case = SimpleNamespace(cell=cell, options=(("m", 10**6),), limit_key="limit")
    grids = {"times": np.zeros(1), "tagged": 0, "levels": 8, "x": np.zeros(1), "omit": ()}
    rows = run_scaled({"grids": grids, "items": [(case, [0])], "seed": 1}, {"limit": limit})
    assert rows["X"][0, 0] == 5.0
    assert rows["W1"][0, 0] < 1e-12
    assert was_beyond_tables(cell)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("point(x=4.096), m=1000000", True),
        ("point(x=4.095), m=1000000", False),
        ("empty, m=1000000, fixed=[0, 4.1]", True),
        ("law(exponential, mean=0.7), m=10000", False),
        ("law(exponential, mean=0.7), m=1000000", True),
        ("law(exponential, mean=0.5), m=1000000, exchangeable=false", False),
    ],
)
def test_cells_of_which_tables_were_cut_are_known(inner: str, expected: bool) -> None:
    cell = Cell(N=100, d=2, lam=0.9, G="exponential", initial=f"scaled({inner})")
    assert was_beyond_tables(cell) is expected
    if not expected:
        assert lengths_at_start(cell, 1, 0).size <= 4096


@pytest.mark.parametrize("how", [{}, {"routing": "shortest"}, {"method": "lumped"}])
def test_automatic_levels_that_memory_does_not_hold_are_refused(monkeypatch, how: dict[str, Any]) -> None:
    monkeypatch.setattr("sweep.machine.available_memory", lambda: 2.0**30)
    times = np.arange(101.0)
    with pytest.raises(ValueError, match=r"automatic levels must fit into memory, got \d+, .*: give levels"):
        simulate(**{**COMMON, "times": times}, initial="lengths(1000000: 0.5)", **how)
    assert simulate(**COMMON, levels=3, initial="lengths(1000000: 0.5)", **how).S[0, 2] == 0.5


# ---- starts in heavy traffic that are too long ------------------------------------------------------------


@pytest.mark.parametrize("inner", ["point(x=200000)", "points(1: 0.5, 200000: 0.1)"])
def test_points_of_a_start_beyond_the_longest_queue_are_refused(inner: str) -> None:
    text = r"initial must have queues of at most 10000000 jobs, got one of 2e\+07 from scaled\(.*: take"
    with pytest.raises(ValueError, match=text):
        Cell(N=10, d=2, lam=0.9, G="exponential", initial=f"scaled({inner}, m=10000)")


@pytest.mark.parametrize("rest", ["", ", exchangeable=false"])
def test_draws_beyond_the_longest_queue_are_refused_not_clipped(rest: str) -> None:
    initial = f"scaled(law(lomax(beta=1.5), mean=100), m=1e12{rest})"
    cell = Cell(N=10, d=2, lam=0.9, G="exponential", initial=initial)
    with pytest.raises(ValueError, match="initial must have queues of at most 10000000 jobs, got one of"):
        lengths_at_start(cell, 1, 0)


def test_the_longest_queue_itself_may_start() -> None:
    cell = Cell(N=2, d=1, lam=0.9, G="exponential", initial="scaled(point(x=100000), m=10000)")
    assert lengths_at_start(cell, 1, 0).tolist()[-1] == 2


# ---- times that are too long, too short, or hardly ever have a job ----------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"times": [1e14], "lam": 1e-9},
            r"times must end before servers were looked at 1e\+14 times, .* take",
        ),
        ({"arrivals": "profile(0: 1e6)", "times": [1e9]}, r"times must end before 1e\+14 jobs have arrived"),
        (
            {"N": 1, "lam": 1e-12, "arrivals": "profile(0: 1.5, 0.5: 0.5, period=1)", "times": [1.0]},
            r"arrivals must have at most 1000000 steps between two jobs, got profile\(.* has 2.0e\+12: take",
        ),
        (
            {"N": 1, "lam": 1e6, "times": [3000.0], "snapshots": [3000.0], "levels": 1},
            r"times must end before 2e\+09 jobs have arrived at a server whose length is noted, got 3000",
        ),
        (
            {"N": 1, "lam": 1e6, "times": [3000.0], "routing": "round-robin", "levels": 1},
            r"times must end before 2e\+09 jobs have arrived at a server whose length is noted,.*snapshots",
        ),
    ],
)
def test_what_would_run_for_ever_or_out_of_bits_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        simulate(**{**COMMON, **change})


def test_times_next_to_nothing_have_bins() -> None:
    times = np.array([1e-310, 2e-310, 3e-310])
    bins = state.make_bins(times)
    found = [int(bin_of(bins, t, np.uint64(0), True)) for t in (1e-310, 1.5e-310, 3e-310, 1.0)]
    assert found == np.searchsorted(times, [1e-310, 1.5e-310, 3e-310, 1.0]).tolist()
    assert simulate(**{**COMMON, "times": times}, initial="lengths(2: 1)").X.values.tolist() == [2.0] * 3
