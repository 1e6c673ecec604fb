"""Tables of a sweep with a case beside its grid: rows that no run fills are left out, others as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import xarray as xr

import sweep
from analysis import equilibrium_command, results
from analysis.__main__ import two_term_table
from analysis.bias import separate_errors
from analysis.chaos import chaos_table, fit_chaos
from analysis.equilibrium import compare_equilibrium
from analysis.equilibrium_bias import fit_bias
from analysis.rates import fit_rate, rate_table
from analysis.rows import name_of, stored_rows
from analysis.tagged import measure_chaos
from sweep.driver import run

LAWS = ["exponential", "erlang(k=2)"]
#: Of the 2 d, 2 λ and 2 G of the whole, eight rows.
FILLED = ["d = 1, λ = 0.7, exponential", *(f"d = 2, λ = 0.5, {G}" for G in LAWS)]
STUDIES: dict[str, dict[str, Any]] = {
    "transient": {"horizon": 2.0, "times": 3},
    "equilibrium": {"horizon": 6.0, "warmup": 2.0, "batches": 2},
}


@pytest.fixture(scope="module", params=STUDIES)
def trees(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[xr.DataTree]:
    """One study on a grid of two laws, and on that grid with a case at another (d, lam)."""
    folder, found = tmp_path_factory.mktemp(request.param), []
    spec: dict[str, Any] = {
        "name": "rows", "study": request.param, "seed": 1,
        "grid": {"N": [30, 60, 120], "d": [2], "lam": [0.5], "G": LAWS},
        "run": STUDIES[request.param] | {"replicas": 6, "levels": 4},
    }  # fmt: skip
    case = {"N": 30, "d": 1, "lam": 0.7, "G": "exponential"}
    for name, more in (("grid", {}), ("beside", {"cases": [case]})):
        run(spec | more, store=folder / name, engine="serial")
        found.append(sweep.load(folder / name))
    return found


def rates(tree: xr.DataTree) -> Iterator[tuple[str, str]]:
    return ((name_of(row), repr(row)) for row in rate_table(fit_rate(tree)))


def dependence(tree: xr.DataTree) -> Iterator[tuple[str, str]]:
    return ((name_of(row), repr(row)) for row in chaos_table(fit_chaos(measure_chaos(tree, levels=[1, 2]))))


def equilibria(tree: xr.DataTree) -> Iterator[tuple[str, str]]:
    fits = fit_bias(compare_equilibrium(tree, [1, 2]))
    return ((name_of(row), repr(row.drop_vars(("d", "lam", "G")).to_dict())) for row in stored_rows(fits))


def errors(tree: xr.DataTree) -> Iterator[tuple[str, str]]:
    found = separate_errors(tree).isel(t=-1)
    return ((name_of(row), repr(row.drop_vars("d").to_dict()["data_vars"])) for row in stored_rows(found))


TABLES: dict[str, list[Callable[[xr.DataTree], Iterator[tuple[str, str]]]]] = {
    "transient": [rates, errors, dependence],
    "equilibrium": [equilibria, dependence],
}


def test_rows_without_replicas_are_left_out_and_the_others_are_the_same(trees: list[xr.DataTree]) -> None:
    grid, beside = trees
    for table in TABLES[beside.attrs["study"]]:
        alone, all_rows = dict(table(grid)), list(table(beside))
        assert [name for name, _ in all_rows] == FILLED
        assert {name: row for name, row in all_rows if name in alone} == alone
        assert list(alone) == FILLED[1:]


def test_commands_print_the_rows_with_replicas_alone(trees: list[xr.DataTree]) -> None:
    _, beside = trees
    if beside.attrs["study"] == "equilibrium":
        table = equilibrium_command.table(fit_bias(compare_equilibrium(beside, [1, 2])))
        assert sum(name != "" for name in table.columns[0].cells) == len(FILLED)
    else:
        # Two lines a row that is fitted, one of each term, and two of "no fit".
        assert two_term_table(fit_rate(beside, model="two-term")).row_count == 2 * len(FILLED)
        page = "\n".join(results.page(beside))
        assert page.count("| 1 | 0.7 | exponential |") == 3
        assert page.count("erlang(k=2) |") == 3
