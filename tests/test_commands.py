"""Commands of the analysis on stores that do not suit them: one line, with what is there and the cure."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from analysis.command import run_command, store_parser
from analysis.results import page
from analysis.stores import COMMANDS, CURES, missing, opened_for, study_of
from sweep.errors import MismatchError
from sweep.schema import GROUPS
from sweep.store import Store

GRID = {"N": [30, 60], "d": [1], "lam": [0.5], "G": ["exponential"]}
#: Group of results -> variables, as sweeps of each study hold them.
TREES: dict[str, tuple[str, dict[str, Sequence[str]]]] = {
    "paths": ("transient", {"network": ("S", "X", "S_sup"), "fluid": ("S", "X")}),
    "errors": ("transient", {"network": ("S_sup",), "fluid": ("S", "X")}),
    "unlimited": ("transient", {"network": ("S", "X")}),
    "stationary": ("equilibrium", {"equilibrium": ("S_batch", "S_end"), "invariant": ("S",)}),
    "unlimited equilibrium": ("equilibrium", {"equilibrium": ("S_batch", "S_end")}),
    "critical": ("heavy-traffic", {"network": ("W1", "X"), "diffusion": ("mean",)}),
}
#: Command -> trees that it reads with its default options.
READ = {
    "analysis": {"paths", "errors"},
    "analysis.results": {"paths"},
    "analysis.chaos": {"paths", "unlimited", "stationary", "unlimited equilibrium"},
    "analysis.equilibrium": {"stationary"},
    "analysis.fluctuations": {"stationary"},
    "analysis.tails": {"stationary", "unlimited equilibrium"},
    "analysis.heavy_traffic": {"critical"},
}


def tree_of(name: str) -> xr.DataTree:
    """Make groups with variables without values."""
    study, groups = TREES[name]
    tree = xr.DataTree.from_dict(
        {
            group: xr.Dataset({variable: ("N", [np.nan, np.nan]) for variable in names}, {"N": GRID["N"]})
            for group, names in groups.items()
        }
    )
    tree.attrs["study"] = study
    return tree


def main_of(command: str) -> Callable[[Sequence[str]], int]:
    """Return what `python -m command` runs."""
    module = importlib.import_module("analysis.__main__" if command == "analysis" else command)
    return module.main  # type: ignore[no-any-return]


@pytest.mark.parametrize("command", list(COMMANDS))
@pytest.mark.parametrize("name", list(TREES))
def test_a_store_that_does_not_suit_is_named_with_what_it_holds_and_the_cure(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "results.nc"
    tree_of(name).to_netcdf(store)
    if name in READ[command]:
        assert study_of(opened_for(command, str(store))) == TREES[name][0]
        return
    assert main_of(command)([str(store)]) == 2
    printed, error = capsys.readouterr()
    assert printed == ""
    assert error.startswith(f"{command}: {store} ")
    assert error.count("\n") == 1
    study, groups = TREES[name]
    assert f"of the study {study}" in error
    if study in COMMANDS[command]:
        assert f"holds no {missing(tree_of(name), COMMANDS[command][study])[0]}" in error
        assert any(cure in error for cure in CURES.values())
    else:
        assert f"the groups {', '.join(groups)}" in error
        assert any(f'run a spec with study = "{other}"' in error for other in COMMANDS[command])
    for other, read in READ.items():
        assert (f"python -m {other}," in error.split("this one is read by ")[1]) == (name in read)
    assert f"sweep report {store}" in error


def test_a_store_of_small_networks_is_recommended_to_no_command_that_refuses_it(tmp_path: Path) -> None:
    store = tmp_path / "results.nc"
    for sizes, offered in (([29, 60], False), ([30, 60], True)):
        tree = tree_of("stationary").map_over_datasets(lambda group, N=sizes: group.assign_coords(N=N))
        tree.attrs["study"] = "equilibrium"
        tree.to_netcdf(store)
        with pytest.raises(MismatchError) as found:
            opened_for("analysis", str(store))
        read_by = str(found.value).split("this one is read by ")[1]
        for command in ("analysis.chaos", "analysis.equilibrium"):
            assert (f"python -m {command}," in read_by) == offered
        assert "python -m analysis.fluctuations," in read_by


@pytest.mark.parametrize("command", list(COMMANDS))
@pytest.mark.parametrize(
    ("entries", "found"),
    [
        (None, "there is no such file or folder"),
        ([], "it is an empty folder"),
        (["b.toml", "a.txt"], "it is a folder with a.txt, b.toml"),
        ([f"{k}.txt" for k in range(9)], "it is a folder with 0.txt, 1.txt, 2.txt, 3.txt, 4.txt and 4 more"),
        (["one/store.json", "two/store.json"], "it is a folder of the stores one, two: give one of them"),
    ],
)
def test_a_place_without_results_says_what_is_there(
    command: str, entries: list[str] | None, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "place"
    if entries is not None:
        place.mkdir()
    for entry in entries or ():
        (place / entry).parent.mkdir(exist_ok=True)
        (place / entry).touch()
    assert main_of(command)([str(place)]) == 2
    text = "holds no results: give a store directory or an exported .nc file"
    assert capsys.readouterr().err == f"{command}: {place} {text} ({found})\n"


def test_a_store_before_its_first_results_says_how_to_gather_them(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store", {"seed": 1}, "").path
    with pytest.raises(
        MismatchError, match=r"holds no results yet: .* \(it has 0 shards: sweep export .*store"
    ):
        opened_for("analysis", str(store))


def test_other_files_are_no_results(tmp_path: Path) -> None:
    (tmp_path / "text.nc").write_text("text")
    with pytest.raises(MismatchError, match=r"cannot be read as results .* \(it is a file of 4 bytes\)"):
        opened_for("analysis", str(tmp_path / "text.nc"))
    xr.DataTree.from_dict({"weather": xr.Dataset({"rain": 1.0})}).to_netcdf(tmp_path / "weather.nc")
    with pytest.raises(MismatchError, match="holds no results of a sweep, got the groups weather: give a"):
        opened_for("analysis", str(tmp_path / "weather.nc"))


@pytest.mark.parametrize(
    ("command", "arguments", "text"),
    [
        (
            "analysis",
            ["--quantity", "d_S"],
            ": quantity must be one of S_sup, got 'd_S': to have it, give snapshots in [run], and route by",
        ),
        (
            "analysis",
            ["--quantity", "X_sup_t"],
            " of the study transient holds no network/X, fluid/X, got network with S, S_sup: to have it, "
            'leave out keep = "errors", and route by a rule that has a limit in another store',
        ),
        (
            "analysis.chaos",
            ["--snapshot", "2"],
            " of the study transient holds no network/nu_cdf, got network with S, S_sup: to have it, give "
            'snapshots in [run], and leave out keep = "errors" in another store',
        ),
    ],
)
def test_options_need_variables_of_their_own(
    command: str, arguments: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "results.nc"
    network = xr.Dataset({"S": ("N", [1.0, 1.0]), "S_sup": (("N", "replica"), np.ones((2, 3)))})
    xr.DataTree.from_dict({"network": network}).to_netcdf(store)
    assert main_of(command)([str(store), *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"{command}: {store}{text}")


def test_every_variable_with_a_cure_is_one_that_sweeps_store() -> None:
    tables = {**GROUPS, "network": {**GROUPS["network"], **GROUPS["scaled"]}}
    for path in CURES:
        group, name = path.split("/")
        assert name in tables[group]
    needs = {path for readers in COMMANDS.values() for paths in readers.values() for path in paths}
    assert needs <= set(CURES)


def partial(seed: int = 3) -> xr.DataTree:
    """A transient store whose distances have a rate, and whose X never differs between replicas."""
    rng, axes = np.random.default_rng(seed), ("N", "d", "lam", "G", "replica")
    distances = np.exp(0.1 * rng.standard_normal((2, 1, 1, 1, 8))) / np.sqrt([[[[[30.0]]]], [[[[60.0]]]]])
    network = xr.Dataset(
        {"S_sup": (axes, distances), "X": ((*axes, "t"), np.ones((2, 1, 1, 1, 8, 1)))}, {**GRID, "t": [1.0]}
    )
    limit = network.X.isel(N=0, replica=0, drop=True).to_dataset()
    return xr.DataTree.from_dict({"network": network, "fluid": limit})


def test_nothing_is_printed_before_all_is_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "results.nc"
    partial().to_netcdf(store)
    with pytest.raises(ValueError, match="X must have 3 replicas or more that differ"):
        list(page(partial()))
    for command, arguments, text in (
        ("analysis.results", [], "X must have 3 replicas or more that differ at each of 2 or more N"),
        ("analysis", ["--figure", str(tmp_path / "a.bmp")], "path must end in .png, .svg, .pdf"),
    ):
        assert main_of(command)([str(store), *arguments]) == 2
        printed, error = capsys.readouterr()
        assert printed == ""
        assert error.startswith(f"{command}: {store}: {text}")


def test_text_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    line = "[red]law[/red] :smile: " + "long " * 40
    assert run_command("x", store_parser("x", "x"), ["store"], lambda _: [line]) == 0
    assert capsys.readouterr().out == line + "\n"
