"""The study `transient`: paths of the network against the hydrodynamic limit on a time grid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from sweep.arguments import check_count
from sweep.arrivals import as_arrivals
from sweep.cell import Cell
from sweep.costs import distance_seconds, path_bytes, path_seconds
from sweep.grids import Floats, check_ages, check_snapshots, check_times
from sweep.initial import Invariant, Scaled, parse_initial
from sweep.laws import parse_law
from sweep.network.replica import check_method
from sweep.routing import has_limit, routing_faults
from sweep.studies.base import (
    LEAST_TIME,
    TOLERANCE,
    Arrivals,
    Axes,
    Case,
    Choices,
    Fraction,
    Number,
    Place,
    Rate,
    RoutedTable,
    RunTable,
    Servers,
    Service,
    SweepSpec,
    as_value_error,
)
from sweep.wording import shown

#: What `simulate` returns when asked, and a sweep never stores.
_ASKED = ("S_average", "X_average", "time_in_system", "waiting_time")
#: What there is only where there is a limit.
_DISTANCES = ("S_sup", "d_S", "d_P", "V")
#: What `keep = "errors"` does not store of a replica.
_PATHS = ("S", "D", "X", "E", "R_E", "nu_cdf")

Start = Annotated[str, AfterValidator(lambda text: str(parse_initial(text)))]


class Point(Place):
    """One point of the grid."""

    N: Servers = Field(description="number of servers")
    d: Choices = Field(description="queues that an arrival samples")
    lam: Rate = Field(description="arrival rate per server, in 1 / mean service time")
    G: Service = Field(description="service law of mean 1")


class Grid(Axes):
    """Axes whose product is swept."""

    N: tuple[Servers, ...] = Field(min_length=1, description="numbers of servers")
    d: tuple[Choices, ...] = Field(min_length=1, description="numbers of queues that an arrival samples")
    lam: tuple[Rate, ...] = Field(
        min_length=1, description="arrival rates per server, in 1 / mean service time"
    )
    G: tuple[Service, ...] = Field(min_length=1, description="service laws of mean 1")


class TimedRun(RunTable):
    """A [run] with a time grid: `times` is a count on [0, horizon] or a list."""

    horizon: Number = Field(gt=0, le=1e9, allow_inf_nan=False, description="length of every run")
    times: int | tuple[float, ...] = Field(
        description="stored times: a count on [0, horizon], or an increasing list"
    )
    arrivals: Arrivals = Field(
        default="exponential", description="law of the gaps between arrivals, or a profile of their rate"
    )
    keep: Literal["paths", "errors"] = Field(
        default="paths",
        description='what is stored of a replica: "errors" leaves out all but its distances from the limit',
    )

    @field_validator("times", mode="before")
    @classmethod
    def _count_or_list(cls, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(check_times(value).tolist())
        return as_value_error(lambda: check_count("times", value, least=2, most=10**6))

    @field_validator("times", mode="after")
    @classmethod
    def _times_lie_within_the_horizon(cls, times: Any, info: ValidationInfo) -> Any:
        horizon = info.data.get("horizon", math.inf)
        if isinstance(times, tuple) and times[-1] > horizon:
            raise ValueError(f"times must not be later than the horizon {horizon:g}, got {times[-1]:g}")
        shortest = (
            next((t for t in times if t), math.inf) if isinstance(times, tuple) else horizon / (times - 1)
        )
        if shortest < LEAST_TIME:
            raise ValueError(f"times must be 0 or at least {LEAST_TIME:g}, got {shortest:g}")
        return times

    @property
    def grid(self) -> Floats:
        """Output times, shape (t,)."""
        if isinstance(self.times, tuple):
            return np.array(self.times)
        # Multiplied first, so that 0.3 is the number that one would type.
        return np.arange(self.times, dtype=np.float64) * self.horizon / (self.times - 1)


class Run(TimedRun, RoutedTable):
    """What every cell is run for; times in mean service times."""

    snapshots: tuple[Number, ...] = Field(
        default=(),
        description="times at which ages of jobs in service are taken and compared, "
        "each of which takes 0.01 to 1 s a replica",
    )
    ages: tuple[Number, ...] | None = Field(
        default=None, description="ages of the stored distributions; 65 up to the last snapshot by default"
    )
    initial: Start = Field(default="empty", description="state at time 0")
    fraction: Fraction = Field(default=1.0, description="share of arrivals that use d choices")

    @field_validator("snapshots", mode="after")
    @classmethod
    def _snapshots_lie_within_the_times(cls, snapshots: Any, info: ValidationInfo) -> Any:
        times = info.data.get("times")
        last = times[-1] if isinstance(times, tuple) else info.data.get("horizon", math.inf)
        check_snapshots(snapshots, last)
        return snapshots

    @field_validator("ages", mode="after")
    @classmethod
    def _ages_increase(cls, ages: Any, info: ValidationInfo) -> Any:
        check_ages(ages, np.empty(0))
        if ages is not None and info.data.get("snapshots") == ():
            raise ValueError(
                f"ages must come with snapshots, at whose times they are looked at, got {shown(ages)} alone"
            )
        return ages

    def faults(self) -> Iterator[str]:
        """Yield every fault of keys that do not go together, each of which is possible by itself."""
        yield from super().faults()
        start = parse_initial(self.initial)
        yield from routing_faults(
            self.routing,
            1,
            self.fraction,
            replacement=self.replacement,
            invariant=isinstance(start, Invariant),
        )
        if has_limit(self.routing):
            if isinstance(start, Scaled):
                yield (
                    f"initial must be empty, lengths(…) or invariant, got {start}: the limit does not start "
                    'from it; study = "equilibrium" and sweep.simulate take it'
                )
            return
        if self.tolerance != TOLERANCE:
            yield (
                f'tolerance must be left out with routing = "{self.routing}", which has no limit to solve, '
                f"got {self.tolerance:g}"
            )
        if self.keep == "errors":
            yield (
                f'keep must be "paths" with routing = "{self.routing}", which has no limit to be at a '
                'distance from, got "errors": leave keep out'
            )


class TransientSpec(SweepSpec):
    """A checked sweep of the study `transient`."""

    AXES: ClassVar[tuple[str, ...]] = ("N", "d", "lam", "G")
    LIMIT_AXES: ClassVar[tuple[str, ...]] = ("d", "lam", "G")
    REPLICA_KIND: ClassVar[str] = "network"
    LIMIT_KIND: ClassVar[str] = "fluid"
    REPLICA_TASK: ClassVar[str] = "sweep.work:run_replicas"
    LIMIT_TASK: ClassVar[str] = "sweep.work:solve_limit"
    TARGET: ClassVar[str] = "S_sup"

    study: Literal["transient"]
    grid: Grid | None = Field(default=None, description="axes whose product is swept")
    cases: tuple[Point, ...] = Field(default=(), description="points beside the grid, or instead of it")
    run: Run = Field(description="what every cell is run for")

    def cell(self, point: Point) -> Cell:
        """Return the network of a point.

        Raises
        ------
        TypeError, ValueError
            Parameters that make no network, or that the study does not have.
        """
        run = self.run
        cell = Cell(
            N=point.N,
            d=point.d,
            lam=point.lam,
            G=parse_law(point.G),
            arrivals=as_arrivals(run.arrivals),
            initial=parse_initial(run.initial),
            replacement=run.replacement,
            fraction=run.fraction,
            routing=run.routing,
            method=run.method,
        )
        check_method(cell, snapshots=len(run.snapshots))
        return cell

    def cells(self) -> tuple[Case, ...]:
        """Return every case, in grid order."""
        return tuple(self._case(point) for point in self.points())

    def _case(self, point: Point) -> Case:
        cell, snapshots = self.cell(point), len(self.run.snapshots)
        return Case(
            group="network",
            values=self.values(point),
            cell=cell,
            limit=cell.limit if has_limit(cell.routing) else None,
            replicas=self.replicas_at(point),
            key=cell.key,
            text=cell.text,
            seconds=path_seconds(cell, float(self.times[-1])) + distance_seconds(cell, snapshots),
            memory=path_bytes(cell, snapshots),
        )

    @cached_property
    def times(self) -> Floats:
        """Output times, shape (t,)."""
        return self.run.grid

    @cached_property
    def snapshots(self) -> Floats:
        """Times of the age snapshots, shape (snapshot,)."""
        return np.array(self.run.snapshots)

    @cached_property
    def ages(self) -> Floats:
        """The one age grid of all cells, shape (age,), last point inf."""
        return check_ages(self.run.ages, self.snapshots)

    def coordinates(self) -> dict[str, Sequence[Any]]:
        """Return the values of every dimension of the arrays beside the axes and `replica`."""
        return {
            "t": self.times.tolist(),
            "level": range(1, self.run.levels + 1),
            "snapshot": self.snapshots.tolist(),
            "age": self.ages.tolist(),
        }

    def grids(self) -> dict[str, Any]:
        """Return what tasks need beside cells and limits."""
        return {
            "times": self.times,
            "levels": self.run.levels,
            "snapshots": self.snapshots,
            "ages": self.ages,
            "tolerance": self.run.tolerance,
            "omit": self.omitted(),
        }

    def omitted(self) -> tuple[str, ...]:
        """Return variables of a replica that this sweep does not store."""
        compared = () if has_limit(self.run.routing) else _DISTANCES
        return _ASKED + compared + (_PATHS if self.run.keep == "errors" else ())
