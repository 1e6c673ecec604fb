"""The invariant state against published numbers: times in system of SQ(2), tail exponents of lomax."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from sweep.cell import Limit
from sweep.fluid.invariant import invariant_state, solve_invariant
from sweep.fluid.ladder import Ladder

REFERENCE = Path(__file__).parents[1] / "reference"


def rows(name: str) -> list[dict[str, str]]:
    lines = (REFERENCE / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


TIMES = rows("invariant_time_in_system_d2.csv")
TAILS = rows("tail_exponents_lomax.csv")


@pytest.mark.parametrize("row", TIMES, ids=lambda row: f"{row['G']}-{row['lam']}")
def test_mean_time_in_system_of_two_choices(row: dict[str, str]) -> None:
    # Their values are off by up to 3e-5, relative.
    state = invariant_state(d=2, lam=float(row["lam"]), G=row["G"])
    assert float(state.mean_time_in_system) == pytest.approx(float(row["mean_time_in_system"]), rel=4e-5)


def test_a_law_wrong_by_five_percent_is_told_apart() -> None:
    for row in TIMES:
        if float(row["lam"]) >= 0.5:
            wrong = invariant_state(d=2, lam=0.95 * float(row["lam"]), G=row["G"])
            assert abs(float(wrong.mean_time_in_system) / float(row["mean_time_in_system"]) - 1.0) > 0.01


def test_each_solve_climbs_few_levels_on_few_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work, in levels times panels of all attempts, as it is counted and not as it is timed."""
    climb, work = Ladder.climb, []

    def counted(ladder: Ladder) -> None:
        climb(ladder)
        work[-1] += ladder.panels.widths.size

    monkeypatch.setattr(Ladder, "climb", counted)
    for row in TIMES:
        work.append(0)
        solve_invariant(Limit(d=2, lam=float(row["lam"]), G=row["G"]))  # type: ignore[arg-type]
    assert min(work) > 0
    assert max(work) <= 500


def local_quantity(row: dict[str, str]) -> float:
    """Return the quantity that a row names, at its depth."""
    limit = Limit(d=int(row["d"]), lam=0.7, G=f"lomax(beta={row['beta']})")  # type: ignore[arg-type]
    if row["regime"] == "power":
        log_S = solve_invariant(limit, 400).log_S
        return float(-(log_S[399] - log_S[398]) / math.log(400 / 399))
    if row["regime"] == "geometric":
        log_S = solve_invariant(limit, 60).log_S
        return math.exp(log_S[59] - log_S[58])
    steps = np.diff(solve_invariant(limit, 18 if row["beta"] == "2.5" else 12).log_S)
    depth = int(np.argmin(np.abs(np.cumsum(steps) + math.log(0.7) + 60 * math.log(10.0))))
    return float(steps[depth] / steps[depth - 1])


@pytest.mark.parametrize("row", TAILS, ids=lambda row: row["beta"])
def test_tail_exponents_of_lomax_service(row: dict[str, str]) -> None:
    value = local_quantity(row)
    assert value == pytest.approx(float(row["measured_lam_0.7"]), abs=2e-4)
    if row["regime"] == "double_exponential":
        assert value == pytest.approx(float(row["limit"]), abs=2e-4)
