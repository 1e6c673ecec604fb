"""The sweep specification: one TOML file, checked whole before anything is computed."""

from __future__ import annotations

import difflib
import itertools
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sweep.cell import MOST_CHOICES, MOST_SERVERS, Cell, check_count, check_fraction, check_rate
from sweep.errors import SpecError
from sweep.grids import Floats, check_ages, check_snapshots, check_times
from sweep.initial import parse_initial
from sweep.laws import parse_law

#: Levels that are stored unless the spec says how many.
DEFAULT_LEVELS = 12
#: Accuracy asked of the limit, absolute in S_ℓ: far below any distance that N ≤ 10⁹ servers reach.
TOLERANCE = 1e-7


def _whole(name: str, least: int = 1, most: int | None = None) -> BeforeValidator:
    return BeforeValidator(lambda value: _as_value_error(lambda: check_count(name, value, least, most)))


def _as_value_error(check: Any) -> Any:
    try:
        return check()
    except TypeError as error:  # pydantic collects ValueError alone
        raise ValueError(str(error)) from None


Servers = Annotated[int, _whole("N", most=MOST_SERVERS)]
Choices = Annotated[int, _whole("d", most=MOST_CHOICES)]
Number = Annotated[float, Strict()]
Rate = Annotated[float, BeforeValidator(lambda value: _as_value_error(lambda: check_rate(value)))]
Fraction = Annotated[float, BeforeValidator(lambda value: _as_value_error(lambda: check_fraction(value)))]
Service = Annotated[str, AfterValidator(lambda text: str(parse_law(text, "G")))]
Arrivals = Annotated[str, AfterValidator(lambda text: str(parse_law(text, "arrivals")))]
Start = Annotated[str, AfterValidator(lambda text: str(parse_initial(text)))]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(_Table):
    """One point of the grid."""

    N: Servers
    d: Choices
    lam: Rate
    G: Service


class Grid(_Table):
    """Axes whose product is swept."""

    N: tuple[Servers, ...] = Field(min_length=1)
    d: tuple[Choices, ...] = Field(min_length=1)
    lam: tuple[Rate, ...] = Field(min_length=1)
    G: tuple[Service, ...] = Field(min_length=1)

    @field_validator("*", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return value if isinstance(value, (list, tuple)) else (value,)


class Run(_Table):
    """What every cell is run for; times in mean service times."""

    horizon: Number = Field(gt=0, le=1e9, allow_inf_nan=False)
    times: int | tuple[float, ...]
    replicas: Annotated[int, _whole("replicas", most=10**6)]
    levels: Annotated[int, _whole("levels", most=10**4)] = DEFAULT_LEVELS
    snapshots: tuple[Number, ...] = ()
    ages: tuple[Number, ...] | None = None
    arrivals: Arrivals = "exponential"
    initial: Start = "empty"
    replacement: Annotated[bool, Strict()] = True
    fraction: Fraction = 1.0
    tolerance: Number = Field(default=TOLERANCE, ge=1e-12, lt=1.0)

    @field_validator("times", mode="before")
    @classmethod
    def _count_or_list(cls, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(check_times(value).tolist())
        return _as_value_error(lambda: check_count("times", value, least=2, most=10**6))

    @field_validator("times", mode="after")
    @classmethod
    def _times_lie_within_the_horizon(cls, times: Any, info: ValidationInfo) -> Any:
        horizon = info.data.get("horizon", math.inf)
        if isinstance(times, tuple) and times[-1] > horizon:
            raise ValueError(f"times must not be later than the horizon {horizon:g}, got {times[-1]:g}")
        return times

    @field_validator("snapshots", mode="after")
    @classmethod
    def _snapshots_lie_within_the_times(cls, snapshots: Any, info: ValidationInfo) -> Any:
        times = info.data.get("times")
        last = times[-1] if isinstance(times, tuple) else info.data.get("horizon", math.inf)
        check_snapshots(snapshots, last)
        return snapshots

    @field_validator("ages", mode="after")
    @classmethod
    def _ages_increase(cls, ages: Any) -> Any:
        check_ages(ages, np.empty(0))
        return ages


class SweepSpec(_Table):
    """A checked sweep; build it with `read_spec` or `parse_spec`.

    Grid values are canonical (numbers to 12 significant digits, laws as their own text) and without repeats.
    """

    name: str = Field(min_length=1)
    study: Literal["transient"]
    seed: Annotated[int, _whole("seed", least=0)]
    grid: Grid | None = None
    cases: tuple[Point, ...] = ()
    run: Run

    @model_validator(mode="after")
    def _every_cell_is_possible(self) -> SweepSpec:
        if self.grid is None and not self.cases:
            raise ValueError("grid must be given, got none: write a [grid] table or [[cases]]")
        faults = []
        for point in self.points():
            try:
                self._cell(point)
            except (TypeError, ValueError) as error:
                faults.append(str(error))
        if faults:
            raise ValueError("\n".join(dict.fromkeys(faults)))
        return self

    def points(self) -> Iterator[Point]:
        """Yield the grid's points, then the cases that it lacks."""
        listed = list(self.cases)
        if self.grid is not None:
            grid = self.grid
            listed[:0] = [
                Point.model_construct(N=N, d=d, lam=lam, G=G)
                for N, d, lam, G in itertools.product(grid.N, grid.d, grid.lam, grid.G)
            ]
        seen = set()
        for point in listed:
            key = (point.N, point.d, point.lam, point.G)
            if key not in seen:
                seen.add(key)
                yield point

    def cells(self) -> tuple[Cell, ...]:
        """Return the parameters of every cell, in grid order."""
        return tuple(self._cell(point) for point in self.points())

    def _cell(self, point: Point) -> Cell:
        run = self.run
        return Cell(
            N=point.N,
            d=point.d,
            lam=point.lam,
            G=parse_law(point.G),
            arrivals=parse_law(run.arrivals),
            initial=parse_initial(run.initial),
            replacement=run.replacement,
            fraction=run.fraction,
        )

    @property
    def times(self) -> Floats:
        """Output times, shape (t,)."""
        if isinstance(self.run.times, tuple):
            return np.array(self.run.times)
        count = self.run.times  # multiplied first, so that 0.3 is the number that one would type
        return np.arange(count, dtype=np.float64) * self.run.horizon / (count - 1)

    @property
    def snapshots(self) -> Floats:
        """Times of the age snapshots, shape (snapshot,)."""
        return np.array(self.run.snapshots)

    @property
    def ages(self) -> Floats:
        """The one age grid of all cells, shape (age,), last point inf."""
        return check_ages(self.run.ages, self.snapshots)

    def frame(self) -> dict[str, Any]:
        """Return what may never change in a store, as plain JSON values."""
        frame = {"study": self.study, "seed": self.seed, **self.run.model_dump(mode="json")}
        del frame["replicas"]
        frame["arrivals"] = parse_law(self.run.arrivals, "arrivals").identity
        return frame

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


def _toml(value: Any) -> str:
    """Return a value as TOML writes it: JSON, but for infinity and DEL."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_spec(path: str | Path) -> SweepSpec:
    """Read and check a spec file.

    Raises
    ------
    SpecError
        Every fault of the file, one line each.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(str(path), [f"the spec file must be readable text: {error}"]) from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(str(path), [f"the spec must be TOML: {error}"]) from None
    return parse_spec(tables, source=str(path))


def parse_spec(tables: Mapping[str, Any], source: str = "spec") -> SweepSpec:
    """Check a spec given as a mapping like that of its TOML text.

    Raises
    ------
    SpecError
        Every fault, one line each.
    """
    try:
        return SweepSpec.model_validate(dict(tables))
    except ValidationError as error:
        lines = [line for fault in error.errors() for line in _sentences(fault)]
        raise SpecError(source, list(dict.fromkeys(lines))) from None


_TABLES: dict[str, type[BaseModel]] = {"": SweepSpec, "grid": Grid, "run": Run, "cases": Point}


def _sentences(fault: Any) -> list[str]:
    """Turn one of pydantic's findings into "<name> must <rule>, got <value>" lines."""
    path = [
        part for part in fault["loc"] if isinstance(part, int) or part not in ("int", "tuple[float, ...]")
    ]
    where = ".".join(str(part) for part in path if not isinstance(part, int))
    table = path[0] if len(path) > 1 and path[0] in _TABLES else ""
    got = f"got {fault['input']!r}"
    kind = fault["type"]
    if kind == "extra_forbidden":
        choices = list(_TABLES[str(table)].model_fields)
        close = difflib.get_close_matches(str(path[-1]).lower(), [c.lower() for c in choices], 1)
        hint = f" (did you mean {next(c for c in choices if c.lower() == close[0])}?)" if close else ""
        return [f"{where} is not a key of the spec{hint}; keys here: {', '.join(choices)}"]
    if kind == "missing":
        return [f"{where} must be given, got none"]
    if kind == "literal_error":
        return [f"{where} must be {fault['ctx']['expected']}, {got}"]
    if kind == "value_error":
        text = str(fault["ctx"]["error"])
        prefix = f"{table}." if table and path[1:] and text.startswith(str(path[1])) else ""
        return [prefix + line for line in text.split("\n")]
    if kind == "too_short":  # pydantic also says so of a list whose items are all bad
        return [] if fault["input"] else [f"{where} must have at least one value, {got}"]
    rule = fault["msg"].split(" should ", 1)[-1]
    return [f"{where} must {rule}, {got}"]
