"""The axes of the cube of results, and which cell or limit belongs where."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sweep.errors import StoreError
from sweep.plan import Plan
from sweep.schema import COORDINATES, SCALED_TIME, Variable, stored_variables

Position = tuple[int, ...]
Array = NDArray[Any]

#: What `own` is called in files.
_OWN = "more"
#: Coordinates that are whole numbers; the others are float64, G is text.
_WHOLE = ("N", "d", "replica", "level", "batch", "m", "ell", "server")


@dataclass(frozen=True)
class Group:
    """One group of the cube: the kind of its shards, its axes in front, and the key at each position.

    Axes end with `replica` if items are replicas of cells; a position may be absent.
    """

    name: str
    kind: str
    axes: tuple[str, ...]
    keys: Mapping[Position, str]

    @property
    def replicated(self) -> bool:
        """Whether items are replicas of cells, and not limits."""
        return self.axes[-1] == "replica"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Axes of the cube, and which cell or limit belongs where.

    Parameters
    ----------
    axes
        Values of each axis of the grid, in the order of dimensions; numeric ones increase.
    coordinates
        Values of the other dimensions of arrays; without any, what depends on one is left out.
    groups
        Groups of cells and of limits.
    replicas
        Replicas of a cell.
    own
        How many a cell has where that is another number, by its key: a case may have fewer or more, and a
        precision may ask for more.
    omitted
        Variables of replicas that are not stored.
    attributes
        Attributes of the whole, such as the title.
    texts
        The parameters of each cell, by its key, to be shown.
    aliases
        Keys of cells and limits by those they had under other numbers that the store holds as well.

    Raises
    ------
    ValueError
        A numeric axis that does not increase, or a position outside the axes.
    """

    axes: Mapping[str, Sequence[Any]]
    coordinates: Mapping[str, Sequence[Any]]
    groups: Sequence[Group]
    replicas: int
    own: Mapping[str, int] = field(default_factory=dict)
    omitted: Sequence[str] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, given in {**self.axes, **self.coordinates}.items():
            if name != "G":
                values = np.asarray(given)
                if np.any(values[1:] <= values[:-1]):
                    raise ValueError(f"{name} must increase, got {values.tolist()}")
        for group in self.groups:
            dims = tuple(dim for dim in group.axes if dim != "replica")
            shape = tuple(len(self.axes[dim]) for dim in dims)
            for position in group.keys:
                if len(position) != len(dims) or not all(
                    0 <= i < n for i, n in zip(position, shape, strict=True)
                ):
                    raise ValueError(f"positions over {dims} must lie inside {shape}, got {position}")

    @property
    def cells(self) -> dict[Position, list[tuple[str, str]]]:
        """(Kind, key) of every cell at each position of the grid: several where starts are compared."""
        cells: dict[Position, list[tuple[str, str]]] = {}
        for group in self.groups:
            for position, key in group.keys.items() if group.replicated else ():
                cells.setdefault(position, []).append((group.kind, key))
        return cells

    def wanted(self, key: str) -> int:
        """Return how many replicas a cell is to have."""
        return self.own.get(key, self.replicas)

    def coordinate(self, dim: str) -> Array:
        """Return the values of one axis."""
        if dim == "G":
            return np.array(self.axes["G"], dtype=object)
        if dim == "replica":
            wanted = (self.wanted(key) for cells in self.cells.values() for _, key in cells)
            values: Any = range(max(wanted, default=self.replicas))
        else:
            values = self.axes[dim] if dim in self.axes else self.coordinates[dim]
        return np.asarray(values, dtype=np.int64 if dim in _WHOLE else np.float64)

    def labels(self, dim: str) -> tuple[str, str]:
        """Return unit and long name of an axis."""
        return SCALED_TIME if dim == "t" and "m" in self.axes else COORDINATES[dim]

    def to_json(self) -> str:
        """Return the layout as text; a store keeps it, so that looking at one needs no law's file."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values[_OWN] = values.pop("own")
        values["coordinates"] = {dim: list(given) for dim, given in self.coordinates.items()}
        values["groups"] = [
            {**asdict(group), "keys": [[*position, key] for position, key in group.keys.items()]}
            for group in self.groups
        ]
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str, store: str | PathLike[str]) -> Layout:
        """Return the layout that `to_json` wrote; StoreError, which names the store, if it is damaged."""
        try:
            values = json.loads(text.encode("ascii"))  # as it was written
            values["groups"] = [
                {**group, "keys": {tuple(row[:-1]): row[-1] for row in group["keys"]}}
                for group in values["groups"]
            ]
            values["own"] = values.pop(_OWN, {})
            layout = _CHECKED.validate_python(values)
            keys = {key for cells in layout.cells.values() for _, key in cells}
            if "title" not in layout.attributes or not keys <= layout.texts.keys():
                raise ValueError("title or texts are missing")
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise StoreError(
                f"layout.json of {store} is damaged ({type(error).__name__}): run the sweep again, which "
                "writes it anew"
            ) from error
        return layout

    def variables(self, kind: str) -> dict[str, Variable]:
        """Return the variables of a kind of group: the same for a partial store as for a finished one."""
        sizes = {dim: len(values) for dim, values in self.coordinates.items()}
        replicated = any(group.kind == kind and group.replicated for group in self.groups)
        return stored_variables(kind, sizes, self.omitted if replicated else ())


_CHECKED = TypeAdapter(Layout)


def make_layout(
    plan: Plan, own: Mapping[str, int] | None = None, aliases: Mapping[str, str] | None = None
) -> Layout:
    """Return the cube that a finished store of `plan` fills; `own` has the cells with another `replicas`."""
    spec = plan.spec
    axes: dict[str, Sequence[Any]] = {}
    for i, name in enumerate(spec.AXES):
        values = dict.fromkeys(case.values[i] for case in plan.cells)
        axes[name] = tuple(values) if name == "G" else tuple(sorted(values))
    places = {name: {value: i for i, value in enumerate(values)} for name, values in axes.items()}
    cells: dict[str, dict[tuple[int, ...], str]] = {}
    limits: dict[tuple[int, ...], str] = {}
    for case in plan.cells:
        position = {name: places[name][v] for name, v in zip(spec.AXES, case.values, strict=True)}
        cells.setdefault(case.group, {})[tuple(position.values())] = case.key
        if case.limit is not None:
            limits[tuple(position[name] for name in spec.LIMIT_AXES)] = case.limit.key
    groups = [Group(name, spec.REPLICA_KIND, (*spec.AXES, "replica"), keys) for name, keys in cells.items()]
    if limits:
        groups.append(Group(spec.LIMIT_KIND, spec.LIMIT_KIND, spec.LIMIT_AXES, limits))
    return Layout(
        axes=axes,
        coordinates=spec.coordinates(),
        groups=groups,
        replicas=int(spec.run.replicas),
        own=own or {},
        omitted=spec.omitted(),
        attributes={"title": spec.name, "study": spec.study},
        texts={case.key: case.text for case in plan.cells},
        aliases=aliases or {},
    )
