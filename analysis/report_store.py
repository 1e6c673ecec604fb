"""What a report says of the store itself: its spec, how far it is, what failed, and what made it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.report_page import Grid
from analysis.report_text import listed
from analysis.stores import study_of
from sweep.laws.parse import parse_law, trace_paths

if TYPE_CHECKING:
    import xarray as xr

#: Failed cells that are named, and single cases likewise.
NAMED = 20
STUDIES = {
    "transient": "paths of N-server networks against their hydrodynamic limit",
    "equilibrium": "stationary N-server networks against the invariant state of their limit",
    "heavy-traffic": "critical N-server networks, scaled, against their diffusion limit",
}
_VERSIONS = ("python", "numpy", "scipy", "numba", "xarray", "netCDF4", "ray")
_UNFINISHED = ("pending", "failed", "quarantined")


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Results with what is known of them: counts of cells by status, failures as rows, and remarks."""

    tree: xr.DataTree
    name: str
    counts: Mapping[str, int]
    replicas: int
    failures: tuple[tuple[str, str, str], ...]
    remarks: tuple[str, ...]

    @property
    def title(self) -> str:
        """Name of the sweep."""
        return str(self.tree.attrs.get("title", self.name))

    @property
    def study(self) -> str:
        """Study, told from the groups where results do not name it; empty where nothing tells."""
        return study_of(self.tree) or ""

    @property
    def spec(self) -> str:
        """Spec as TOML; empty where results do not carry it."""
        return str(self.tree.attrs.get("spec", ""))

    @property
    def traces(self) -> tuple[str, ...]:
        """Files whose numbers are laws of the spec."""
        spec = tomllib.loads(self.spec)
        asked = (spec.get("grid", {}), spec.get("cases", []), spec.get("run", {}))
        return tuple(dict.fromkeys(path for text in _texts(asked) for path in trace_paths(text)))

    @property
    def state(self) -> str:
        """How far the sweep is, as a sentence."""
        if not self.counts:
            return "What became of the cells is not stored."
        total = sum(self.counts.values())
        parts = [f"{self.counts[name]} {name}" for name in _UNFINISHED if self.counts.get(name)]
        ending = f"; {', '.join(parts)}" if parts else ""
        return f"{self.counts.get('done', 0)} of {total} cells done, {self.replicas} replicas stored{ending}."


def contents_of(store: str | Path) -> Contents:
    """Read a store, or a file made by `sweep export`, as it is now.

    Raises
    ------
    StoreError
        Neither, or results that cannot be read.
    """
    import sweep
    from sweep.errors import StoreError

    path = Path(store)
    remarks: tuple[str, ...] = ()
    try:
        tree = sweep.load(path)
    except StoreError:
        if not (path / "store.json").exists():
            raise
        tree = _collected(path)
    if (path / "store.json").exists():
        from sweep.status import store_status

        remarks = store_status(path).notes
    counts, replicas, failures = _cells(tree)
    return Contents(
        tree=tree, name=path.name, counts=counts, replicas=replicas, failures=failures, remarks=remarks
    )


def _collected(path: Path) -> xr.DataTree:
    """Gather what a run has stored before it has written its first results."""
    import sweep
    from sweep.status import export

    with TemporaryDirectory() as folder:
        return sweep.load(export(path, Path(folder) / "results.nc"))


def _cells(tree: xr.DataTree) -> tuple[dict[str, int], int, tuple[tuple[str, str, str], ...]]:
    if "cells" not in tree.children:
        return {}, 0, ()
    cells = tree["cells"].to_dataset()
    status = cells["status"].values.astype(str)
    counts = {
        str(name): int(count) for name, count in zip(*np.unique(status, return_counts=True), strict=True)
    }
    counts.pop("", None)  # places of the grid that [[cases]] leave empty
    failures = []
    for index in np.argwhere(np.isin(status, ("failed", "quarantined"))):
        one = cells.isel(dict(zip(cells["status"].dims, index.tolist(), strict=True)))
        where = ", ".join(f"{dim} = {one[dim].item()}" for dim in cells["status"].dims)
        failures.append((where, str(one["status"].item()), str(one["error"].item())))
    return counts, int(cells["replicas"].sum()), tuple(failures)


def _texts(value: Any) -> Iterator[str]:
    """Yield all text in tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, Sequence):
        for one in value:
            yield from _texts(one)


def failures_grid(contents: Contents) -> Grid | None:
    """Return the table of failed cells, None if there are none."""
    if not contents.failures:
        return None
    more = len(contents.failures) - NAMED
    caption = "Cells that failed" + (f", the first {NAMED} of {len(contents.failures)}." if more > 0 else ".")
    return Grid(
        caption=caption, header=("cell", "status", "error"), rows=contents.failures[:NAMED], words=True
    )


def spec_grid(contents: Contents) -> Grid | None:
    """Return what was asked for as a table, None where results do not carry their spec."""
    if not contents.spec:
        return None
    spec = tomllib.loads(contents.spec)
    rows = [(name, _value(value)) for name, value in spec.get("grid", {}).items()]
    cases = spec.get("cases", [])
    for case in cases[:NAMED]:
        rows.append(("single case", ", ".join(f"{name} = {_value(value)}" for name, value in case.items())))
    if len(cases) > NAMED:
        rows.append(("more single cases", str(len(cases) - NAMED)))
    rows += [(name, _value(value)) for name, value in spec["run"].items()]
    rows.append(("seed", str(spec["seed"])))
    return Grid(
        caption="What the sweep was asked for.", header=("parameter", "values"), rows=rows, words=True
    )


def _value(value: Any) -> str:
    return listed(map(_named, value)) if isinstance(value, list) else str(_named(value))


def _named(value: Any) -> Any:
    """Write a law as other tables do; leave what is none, or cannot be read any more, as it is."""
    try:
        return str(parse_law(value))
    except (TypeError, ValueError):
        return value


def provenance_grid(contents: Contents) -> Grid:
    """Return what made the results, as a table."""
    record = json.loads(contents.tree.attrs.get("provenance", "{}"))
    rows = [*_provenance(record), ("results written", str(contents.tree.attrs.get("history", "unknown")))]
    return Grid(caption="What made the results.", header=("item", "value"), rows=rows, words=True)


def _provenance(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    versions = record.get("versions", {})
    if versions:
        yield "sqd-sweep", str(versions.get("sqd-sweep") or "not installed")
    if record.get("commit"):
        yield "commit", str(record["commit"]) + (" with changes" if record.get("modified") else "")
    if "numbers_version" in record:
        yield "version of the numbers", str(record["numbers_version"])
    libraries = [f"{name} {versions[name]}" for name in _VERSIONS if versions.get(name)]
    if libraries:
        yield "libraries", ", ".join(libraries)
    for name, label in (
        ("host", "host"),
        ("platform", "platform"),
        ("cpu", "processor"),
        ("libc", "C library"),
    ):
        if record.get(name):
            yield label, str(record[name])
