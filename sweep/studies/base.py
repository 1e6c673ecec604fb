"""What every study shares: the form of a spec, its points, and the cases that a sweep computes."""

from __future__ import annotations

import itertools
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    field_validator,
    model_validator,
)

from sweep.arguments import check_count
from sweep.arrivals import as_arrivals
from sweep.cell import MOST_CHOICES, MOST_SERVERS, Cell, check_fraction, check_rate
from sweep.laws import parse_law
from sweep.precision import replica_faults
from sweep.routing import as_rule
from sweep.schema import stored_variables
from sweep.wording import shown, suggestion

#: Levels that are stored unless the spec says how many.
DEFAULT_LEVELS = 12
#: Accuracy asked of the limit, absolute in S_ℓ: far below any distance that N ≤ 10⁹ servers reach.
TOLERANCE = 1e-7
#: Least time between 0 and what is stored next: reciprocals of shorter ones overflow.
LEAST_TIME = 1e-200
#: Most replicas of a cell.
MOST_REPLICAS = 10**6

T = TypeVar("T")


def whole(name: str, least: int = 1, most: int | None = None) -> BeforeValidator:
    """Validate a whole number."""
    return BeforeValidator(lambda value: as_value_error(lambda: check_count(name, value, least, most)))


def as_value_error(check: Callable[[], T]) -> T:
    """Return what `check` does, with its TypeError as a ValueError: pydantic collects those alone.

    Raises
    ------
    ValueError
        What `check` raises.
    """
    try:
        return check()
    except TypeError as error:
        raise ValueError(str(error)) from None


Number = Annotated[float, Strict()]
Servers = Annotated[int, whole("N", most=MOST_SERVERS)]
Choices = Annotated[int, whole("d", most=MOST_CHOICES)]
Rate = Annotated[float, BeforeValidator(lambda value: as_value_error(lambda: check_rate(value)))]
Fraction = Annotated[float, BeforeValidator(lambda value: as_value_error(lambda: check_fraction(value)))]
Service = Annotated[str, AfterValidator(lambda text: str(parse_law(text, "G")))]
Arrivals = Annotated[str, AfterValidator(lambda text: str(as_arrivals(text)))]
Replicas = Annotated[int, whole("replicas", most=MOST_REPLICAS)]
Levels = Annotated[int, whole("levels", most=10**4)]


class Table(BaseModel):
    """A table of a spec: frozen, and no keys but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Place(Table):
    """One point of the grid, as a case of its own."""

    replicas: Replicas | None = Field(
        default=None, description="replicas of this cell; by default those of [run]"
    )


class Axes(Table):
    """Axes whose product is swept; one value stands for a list of one."""

    @field_validator("*", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return value if isinstance(value, (list, tuple)) else (value,)


class RunTable(Table):
    """What every study's [run] has: replicas, and how many more a precision asks for."""

    replicas: Replicas = Field(description="independent replicas of every cell")
    levels: Levels = Field(default=DEFAULT_LEVELS, description="queue lengths ℓ = 1 … levels that are stored")
    target_stderr: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None,
        description="standard error over replicas to be reached in every cell, by adding replicas",
    )
    target_quantity: str | None = Field(
        default=None, description="variable of a replica that target_stderr is about"
    )
    target_relative: Annotated[bool, Strict()] = Field(
        default=False, description="whether target_stderr is a share of the mean"
    )
    max_replicas: Annotated[int, whole("max_replicas", most=MOST_REPLICAS)] | None = Field(
        default=None, description="most replicas that target_stderr may ask of a cell"
    )
    replacement: Annotated[bool, Strict()] = Field(
        default=True, description="whether the queues of an arrival are sampled with replacement"
    )
    tolerance: Number = Field(
        default=TOLERANCE, ge=1e-12, lt=1.0, description="accuracy asked of the limit, absolute in its tails"
    )

    def faults(self) -> Iterator[str]:
        """Yield every fault of keys that do not go together, each of which is possible by itself."""
        if self.target_stderr is None:
            for name in ("target_quantity", "target_relative", "max_replicas"):
                if getattr(self, name):
                    yield f"{name} must come with target_stderr, got {shown(getattr(self, name))} alone"
            return
        yield from replica_faults(self.replicas, self.max_replicas)


class RoutedTable(RunTable):
    """A [run] of networks whose arrivals may be routed by other rules than SQ(d)."""

    routing: Annotated[str, AfterValidator(lambda text: as_rule(text) and text)] = Field(
        default="sampled",
        description="rule by which arrivals choose: sampled, shortest, idle or round-robin; "
        "runs of the latter three are compared with no limit",
    )
    method: Literal["servers", "lumped", "auto"] = Field(
        default="servers",
        description="how networks of exponential service are simulated: server by server, "
        "or lumped to their level counts",
    )


class Solvable(Protocol):
    """Parameters of a limit: what `Case.limit` needs of them."""

    @property
    def key(self) -> str:
        """Identity in the store."""

    @property
    def text(self) -> str:
        """Every parameter with its value, as one line."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One cell at its place in the grid: what its replicas are, and the limit they are compared with, if any.

    `group` is the group of results.nc that holds it, `values` its coordinates along the study's axes, `key`
    its identity in the store, `replicas` what it begins with, `seconds` and `memory` the estimated cost and
    bytes of one replica.
    """

    group: str
    values: tuple[Any, ...]
    cell: Cell
    limit: Solvable | None
    key: str
    text: str
    replicas: int
    seconds: float
    memory: int = 0
    options: tuple[tuple[str, Any], ...] = ()  # what the task is told of this case alone

    @property
    def limit_key(self) -> str:
        """Key of the limit, empty if there is none."""
        return self.limit.key if self.limit is not None else ""


@dataclass(frozen=True)
class Target:
    """A standard error to be reached in every cell, of the mean over replicas of `quantity`."""

    stderr: float
    quantity: str
    relative: bool
    most: int


class SweepSpec(Table):
    """A checked sweep of any study; build it with `read_spec` or `parse_spec`.

    Grid values are canonical (numbers to 12 significant digits, laws as their own text) and without repeats.
    """

    #: Axes of the grid, and those of them that the limit has.
    AXES: ClassVar[tuple[str, ...]]
    LIMIT_AXES: ClassVar[tuple[str, ...]]
    #: Tables of the schema for a replica and for a limit, and the group of results.nc of the latter.
    REPLICA_KIND: ClassVar[str]
    LIMIT_KIND: ClassVar[str]
    #: Named tasks that compute them.
    REPLICA_TASK: ClassVar[str]
    LIMIT_TASK: ClassVar[str]
    #: Quantity of a precision target unless the spec names one.
    TARGET: ClassVar[str]

    name: str = Field(min_length=1, description="title of the results")
    study: str = Field(description="what is computed")
    seed: Annotated[int, whole("seed", least=0)] = Field(description="root seed of all random numbers")
    grid: Any = None
    cases: tuple[Any, ...] = ()
    run: Any

    @field_validator("cases", mode="before")
    @classmethod
    def _cases_are_a_list(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            raise ValueError("cases must be a list of tables, got one table: write [[cases]]")
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _everything_goes_together(self) -> SweepSpec:
        places = list(self._places())
        faults = [self._located(fault) for fault in self.run.faults()]
        if not places:
            faults.append("grid must be given, got none: write a [grid] table or [[cases]]")
        for place, point in places:
            most = self.run.max_replicas
            if self.target and most and point.replicas is not None and not 2 <= point.replicas <= most:
                faults.append(
                    f"{place}.replicas must lie between 2 and max_replicas = {most}, got {point.replicas}"
                )
            try:
                self.cell(point)
            except (TypeError, ValueError) as error:
                faults.append(self._located(str(error), place))
        if self.target and places:
            faults += self._target_faults(self.target.quantity)
        if faults:
            raise ValueError("\n".join(dict.fromkeys(faults)))
        return self

    def _located(self, fault: str, place: str = "") -> str:
        """Put its table before a fault that begins with a key of [run], or with an axis of a point."""
        key = fault.partition(" ")[0]
        if key in type(self.run).model_fields:
            return f"run.{fault}"
        return f"{place}.{fault}" if key in self.AXES else fault

    def _target_faults(self, quantity: str) -> list[str]:
        try:
            sizes = {dim: len(values) for dim, values in self.coordinates().items()}
        except ValueError:  # positions of cells that cannot be, as these have told
            return []
        stored = stored_variables(self.REPLICA_KIND, sizes, self.omitted())
        if quantity in stored:
            return []
        default = "" if self.run.target_quantity else " by default, which this sweep does not store"
        got = f"{shown(quantity)}{default}{suggestion(quantity, stored) if not default else ''}"
        return [f"run.target_quantity must be one of {', '.join(stored)}, got {got}"]

    def points(self) -> Iterator[Any]:
        """Yield the grid's points, then the cases that it lacks; a case may set the replicas of its point."""
        for _, point in self._places():
            yield point

    def _places(self) -> Iterator[tuple[str, Any]]:
        """Yield where in the file each point stands, and the point."""
        listed = [(f"cases[{i}]", point) for i, point in enumerate(self.cases)]
        if self.grid is not None:
            point = self.tables()["cases"]
            axes = [getattr(self.grid, name) for name in self.AXES]
            listed[:0] = [
                ("grid", point.model_construct(**dict(zip(self.AXES, values, strict=True))))
                for values in itertools.product(*axes)
            ]
        seen: dict[tuple[Any, ...], tuple[str, Any]] = {}
        for place, point in listed:
            values = self.values(point)
            if values not in seen or point.replicas is not None:
                seen[values] = place, point
        yield from seen.values()

    def replicas_at(self, point: Any) -> int:
        """Return the replicas that a point begins with."""
        return int(point.replicas if point.replicas is not None else self.run.replicas)

    def values(self, point: Any) -> tuple[Any, ...]:
        """Return the coordinates of a point along the axes."""
        return tuple(getattr(point, name) for name in self.AXES)

    def axis(self, name: str) -> tuple[Any, ...]:
        """Return the values of one axis in the order they were given."""
        place = self.AXES.index(name)
        return tuple(dict.fromkeys(self.values(point)[place] for point in self.points()))

    @classmethod
    def tables(cls) -> dict[str, type[BaseModel]]:
        """Return the model of every table of the file, by its name; the file itself has none."""
        fields = cls.model_fields
        grid, point = (_model_of(fields[name].annotation) for name in ("grid", "cases"))
        return {"": cls, "grid": grid, "run": _model_of(fields["run"].annotation), "cases": point}

    @abstractmethod
    def cell(self, point: Any) -> Cell:
        """Return the network of a point; TypeError or ValueError if there is none."""

    @abstractmethod
    def cells(self) -> tuple[Case, ...]:
        """Return every case, in grid order."""

    @abstractmethod
    def coordinates(self) -> dict[str, Sequence[Any]]:
        """Return the values of every dimension of the arrays beside the axes and `replica`."""

    @abstractmethod
    def grids(self) -> dict[str, Any]:
        """Return what tasks need beside cells and limits."""

    def omitted(self) -> tuple[str, ...]:
        """Return variables of a replica that this sweep does not store."""
        return ()

    @property
    def target(self) -> Target | None:
        """The precision asked for, if any."""
        run = self.run
        if run.target_stderr is None:
            return None
        quantity = run.target_quantity or self.TARGET
        return Target(run.target_stderr, quantity, run.target_relative, run.max_replicas)

    @cached_property
    def most_replicas(self) -> int:
        """Replicas that a cell may come to have."""
        if self.target is not None:
            return self.target.most
        return max(map(self.replicas_at, self.points()))

    def frame(self) -> dict[str, Any]:
        """Return what may never change in a store, as plain JSON values."""
        frame = {"study": self.study, "seed": self.seed, **self.run.model_dump(mode="json")}
        for name in [*frame]:
            if name in ("replicas", "max_replicas") or name.startswith("target_"):
                del frame[name]
        frame["arrivals"] = as_arrivals(self.run.arrivals).identity
        return frame

    def settled(self, frame: Mapping[str, Any]) -> Self:  # noqa: ARG002
        """Return the spec with what it leaves open settled as in the store of `frame`, which it may grow."""
        return self

    def to_toml(self) -> str:
        """Return the spec as TOML text that reads back to itself."""
        tables = self.model_dump(exclude_none=True)
        lines = [f"{key} = {_toml(tables[key])}" for key in ("name", "study", "seed")]
        for table in ("grid", "run"):
            if table in tables:
                lines += [f"[{table}]", *(f"{key} = {_toml(value)}" for key, value in tables[table].items())]
        for case in tables["cases"]:
            lines += ["[[cases]]", *(f"{key} = {_toml(value)}" for key, value in case.items())]
        return "\n".join(lines) + "\n"


def _model_of(annotation: Any) -> type[BaseModel]:
    """Return the table in an annotation such as `Grid | None` or `tuple[Point, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(_model_of(part) for part in annotation.__args__ if part not in (type(None), Ellipsis))


def _toml(value: Any) -> str:
    """Return a value as TOML writes it: JSON, but for infinity and DEL."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
