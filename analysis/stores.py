"""Stores as a command finds them: opened for one purpose, or an error with what is there and the cure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.evidence import LEAST_N
from sweep.errors import MismatchError, StoreError

if TYPE_CHECKING:
    import xarray as xr

_KEEP = 'leave out keep = "errors"'
_LIMIT = "route by a rule that has a limit"
_SNAPSHOTS = "give snapshots in [run]"
_AND = ", and "
#: What makes a sweep store a variable that not every sweep stores, by "group/variable".
CURES: Mapping[str, str] = {
    **dict.fromkeys((f"network/{name}" for name in ("S", "D", "X", "E", "R_E", "v")), _KEEP),
    **dict.fromkeys(("network/S_sup", "fluid/S", "fluid/D", "fluid/X", "fluid/E", "invariant/S"), _LIMIT),
    **dict.fromkeys(("network/d_S", "network/d_P", "network/V"), f"{_SNAPSHOTS}{_AND}{_LIMIT}"),
    "network/nu_cdf": f"{_SNAPSHOTS}{_AND}{_KEEP}",
    "network/tagged": f"set tagged, or {_KEEP}",
}
#: Module that runs as a command -> studies that it reads, with the variables of `CURES` that it needs there.
COMMANDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "analysis": {"transient": ("network/S_sup",)},
    "analysis.results": {"transient": ("network/S_sup", "network/X", "fluid/X")},
    "analysis.chaos": {"transient": ("network/S",), "equilibrium": ()},
    "analysis.equilibrium": {"equilibrium": ("invariant/S",)},
    "analysis.fluctuations": {"equilibrium": ("invariant/S",)},
    "analysis.tails": {"equilibrium": ()},
    "analysis.heavy_traffic": {"heavy-traffic": ()},
}
#: Commands of these that expand in 1/N, for which by default two N must be at least `LEAST_N`.
_EXPANDING = ("analysis.chaos", "analysis.equilibrium")
#: What a row lacks that ends with few N, as `cure_of_few` mends.
FEW_SIZES = "fewer than two N that are large enough have replicas"
#: Entries of a folder, or groups, that an error lists.
_LISTED = 5


def study_of(tree: xr.DataTree) -> str | None:
    """Return the study of results, told from their groups where they do not name it; None if nothing tells.

    Examples
    --------
    >>> import xarray as xr
    >>> study_of(xr.DataTree.from_dict({"equilibrium": xr.Dataset()})), study_of(xr.DataTree())
    ('equilibrium', None)
    """
    if "study" in tree.attrs:
        return str(tree.attrs["study"])
    groups = tree.children
    if "diffusion" in groups or ("network" in groups and "m" in groups["network"].dims):
        return "heavy-traffic"
    if "equilibrium" in groups:
        return "equilibrium"
    return "transient" if "network" in groups else None


def run_of(data: xr.DataTree | xr.Dataset) -> dict[str, Any] | None:
    r"""Return the table [run] of the spec that results carry; None if they carry none.

    Examples
    --------
    >>> import xarray as xr
    >>> run_of(xr.Dataset(attrs={"spec": "[run]\nreplicas = 8"})), run_of(xr.Dataset())
    ({'replicas': 8}, None)
    """
    text = data.attrs.get("spec")
    return dict(tomllib.loads(text).get("run", {})) if text else None


def missing(tree: xr.DataTree, needs: Iterable[str]) -> list[str]:
    """Return those of the variables, as "group/variable", that results do not hold.

    Examples
    --------
    >>> import xarray as xr
    >>> missing(xr.DataTree.from_dict({"network": xr.Dataset({"X": 1.0})}), ["network/X", "network/S"])
    ['network/S']
    """
    pairs = ((path, *path.split("/")) for path in needs)
    return [
        path for path, group, name in pairs if group not in tree.children or name not in tree[group].data_vars
    ]


def cure_of(lacking: Iterable[str], run: Mapping[str, Any] | None = None) -> str:
    """Say how a sweep would store the variables that are missing.

    Parameters
    ----------
    lacking
        Keys of `CURES`.
    run
        The table [run] of the sweep, if known: what it has already is not asked for.

    Examples
    --------
    >>> cure_of(["network/X", "fluid/X"])
    'leave out keep = "errors", and route by a rule that has a limit'
    >>> cure_of(["network/d_S"], {"routing": "sampled"})
    'give snapshots in [run]'
    """
    parts = list(dict.fromkeys(part for path in lacking for part in CURES[path].split(_AND)))
    return _AND.join([part for part in parts if run is None or not _is_met(part, run)] or parts)


def _is_met(cure: str, run: Mapping[str, Any]) -> bool:
    from sweep.routing import ROUTING, has_limit

    rule = str(run.get("routing", "sampled"))
    return {
        _KEEP: run.get("keep") != "errors",
        _LIMIT: rule in ROUTING and has_limit(rule),
        _SNAPSHOTS: bool(run.get("snapshots")),
    }.get(cure, False)


def cure_of_few(sizes: int, replicas: int) -> str:
    """Say what gives two N enough replicas.

    Parameters
    ----------
    sizes
        How many N that are large enough have any replica.
    replicas
        How many each N needs.

    Examples
    --------
    >>> cure_of_few(1, 4), cure_of_few(2, 4)
    ('add larger N to the spec, or finish its run if cells are pending',
     'raise replicas in [run] to 4 or more')
    """
    if sizes < 2:
        return "add larger N to the spec, or finish its run if cells are pending"
    return f"raise replicas in [run] to {replicas} or more"


def opened_for(command: str, store: str, needs: Mapping[str, Sequence[str]] | None = None) -> xr.DataTree:
    """Load the results of a store for a command.

    Parameters
    ----------
    command
        A key of `COMMANDS`.
    store
        Directory of a store, or a file of `sweep export`.
    needs
        Studies with the variables needed, of `CURES`; by default those of `COMMANDS`.

    Raises
    ------
    MismatchError
        No results there, results of a study that the command does not read, or without a variable that it
        needs: the error names the store, what it holds, and the cure.

    Examples
    --------
    >>> opened_for("analysis.chaos", "nowhere")
    Traceback (most recent call last):
    ...
    sweep.errors.MismatchError: nowhere holds no results: give a store directory or an exported .nc file
    (there is no such file or folder)
    """
    tree = _loaded(store)
    readers, study = needs if needs is not None else COMMANDS[command], study_of(tree)
    if study is None:
        raise MismatchError(
            f"{store} holds no results of a sweep, got {_groups(tree)}: give a store directory or a file of "
            "sweep export"
        )
    if study not in readers:
        asked = " or ".join(f'study = "{name}"' for name in readers)
        raise MismatchError(
            f"{store} is of the study {study} ({_groups(tree)}), which python -m {command} does not read: "
            f"run a spec with {asked} into another store{_instead(tree, command, store)}"
        )
    if lacking := missing(tree, readers[study]):
        raise MismatchError(
            f"{store} of the study {study} holds no {', '.join(lacking)}, got {_held(tree, lacking[0])}: to "
            f"have it, {cure_of(lacking)} in another store{_instead(tree, command, store)}"
        )
    return tree


def _loaded(store: str) -> xr.DataTree:
    import sweep

    try:
        return sweep.load(store)
    except StoreError as error:
        raise MismatchError(f"{error} ({_found(Path(store))})") from error


def _found(path: Path) -> str:
    """Say what is at a path that holds no results."""
    if not path.exists():
        return "there is no such file or folder"
    if not path.is_dir():
        return f"it is a file of {path.stat().st_size} bytes"
    if (path / "store.json").exists():
        shards = len(list((path / "shards").glob("*.nc")))
        return f"it has {shards} shards: sweep export {path} FILE.nc gathers what they hold"
    stores = sorted(one.parent.name for one in path.glob("*/store.json"))
    if stores:
        return f"it is a folder of the stores {_some(stores)}: give one of them"
    entries = sorted(one.name for one in path.iterdir())
    return f"it is a folder with {_some(entries)}" if entries else "it is an empty folder"


def _instead(tree: xr.DataTree, command: str, store: str) -> str:
    """Say which commands read these results as they are."""
    study = study_of(tree) or ""
    suited = [
        f"python -m {name}"
        for name, readers in COMMANDS.items()
        if name != command
        and study in readers
        and not missing(tree, readers[study])
        and (name not in _EXPANDING or _large_sizes(tree, study) >= 2)
    ]
    return f"; this one is read by {', '.join([*suited, f'sweep report {store}'])}"


def _large_sizes(tree: xr.DataTree, study: str) -> int:
    """Count the N that are large enough for an expansion."""
    group = tree["equilibrium" if study == "equilibrium" else "network"]
    return int((group.N.values >= LEAST_N).sum())


def _groups(tree: xr.DataTree) -> str:
    return f"the groups {_some(list(tree.children))}" if tree.children else "no groups"


def _held(tree: xr.DataTree, path: str) -> str:
    """Say what is there in place of a variable."""
    group = path.split("/")[0]
    if group not in tree.children:
        return _groups(tree)
    return f"{group} with {', '.join(map(str, tree[group].data_vars)) or 'nothing'}"


def _some(names: Sequence[str]) -> str:
    """List names, the rest of a long list by its number."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
