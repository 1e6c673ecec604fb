"""The study `equilibrium`: long runs of the network against the invariant state of its limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, Strict, ValidationInfo, field_validator

from sweep.arrivals import Profile, as_arrivals
from sweep.cell import Cell, Limit
from sweep.costs import path_bytes, path_seconds
from sweep.grids import Floats
from sweep.initial import parse_initial
from sweep.laws import parse_law
from sweep.network.replica import check_method
from sweep.routing import has_limit, routing_faults
from sweep.studies.base import (
    LEAST_TIME,
    TOLERANCE,
    Arrivals,
    Case,
    Fraction,
    Number,
    RoutedTable,
    SweepSpec,
    whole,
)
from sweep.studies.transient import Grid, Point, Start


class Run(RoutedTable):
    """What every cell is run for; times in mean service times.

    The run lasts `horizon`, of which `warmup` is dropped; the rest is cut into equal `batches`. Without an
    `initial` state it starts empty, or, for services of infinite variance, from the invariant state: from
    empty such a network is not in equilibrium in any time worth waiting for, and a second set of runs from
    empty shows it.
    """

    horizon: Number = Field(
        gt=0, le=1e9, allow_inf_nan=False, description="length of every run, warm-up included"
    )
    warmup: Number = Field(ge=0, allow_inf_nan=False, description="time that is dropped at the beginning")
    batches: Annotated[int, whole("batches", most=10**5)] = Field(
        description="equal parts of the rest that are averaged over one by one"
    )
    tolerance: Number = Field(
        default=TOLERANCE, description="to be left out: invariant states are as accurate as they can be"
    )
    arrivals: Arrivals = Field(default="exponential", description="law of the gaps between arrivals")
    initial: Start | None = Field(
        default=None,
        description="state at time 0; by default empty, or for services of infinite variance invariant, "
        "with a second set of runs from empty",
    )
    fraction: Fraction = Field(default=1.0, description="share of arrivals that use d choices")
    measure: Annotated[bool, Strict()] = Field(
        default=False, description="whether times in system and waiting times are also measured job by job"
    )

    @field_validator("warmup", mode="after")
    @classmethod
    def _warmup_ends_before_the_horizon(cls, warmup: float, info: ValidationInfo) -> float:
        horizon = info.data.get("horizon", math.inf)
        if not warmup < horizon:
            raise ValueError(f"warmup must be less than the horizon {horizon:g}, got {warmup:g}")
        return warmup

    def faults(self) -> Iterator[str]:
        """Yield every fault of keys that do not go together, each of which is possible by itself."""
        yield from super().faults()
        yield from routing_faults(
            self.routing,
            1,
            self.fraction,
            replacement=self.replacement,
            invariant=self.initial == "invariant",
        )
        if isinstance(as_arrivals(self.arrivals), Profile):
            yield f"arrivals must be a law of gaps in equilibrium, got {self.arrivals}"
        if not np.all(np.diff(self.edges) >= LEAST_TIME):
            yield (
                f"batches must be fewer in a time of {self.horizon - self.warmup:g} after {self.warmup:g}, "
                f"got {self.batches}: their ends are the same numbers"
            )
        if self.tolerance != TOLERANCE:
            yield (
                f"tolerance must be left out in equilibrium, got {self.tolerance:g}: invariant states are "
                "always solved as accurately as they can be"
            )

    @property
    def edges(self) -> Floats:
        """End of the warm-up and of every batch, shape (batches + 1,)."""
        steps = np.arange(self.batches + 1, dtype=np.float64)
        return self.warmup + steps * (self.horizon - self.warmup) / self.batches


class EquilibriumSpec(SweepSpec):
    """A checked sweep of the study `equilibrium`."""

    AXES: ClassVar[tuple[str, ...]] = ("N", "d", "lam", "G")
    LIMIT_AXES: ClassVar[tuple[str, ...]] = ("d", "lam", "G")
    REPLICA_KIND: ClassVar[str] = "equilibrium"
    LIMIT_KIND: ClassVar[str] = "invariant"
    REPLICA_TASK: ClassVar[str] = "sweep.work:run_equilibrium"
    LIMIT_TASK: ClassVar[str] = "sweep.work:solve_invariant"
    TARGET: ClassVar[str] = "X_batch"

    study: Literal["equilibrium"]
    grid: Grid | None = Field(default=None, description="axes whose product is swept")
    cases: tuple[Point, ...] = Field(default=(), description="points beside the grid, or instead of it")
    run: Run = Field(description="what every cell is run for")

    def cell(self, point: Point) -> Cell:
        """Return the network of a point, from its main start."""
        return self._cell(point, self._start(point))

    def _start(self, point: Point) -> str:
        if self.run.initial is not None:
            return self.run.initial
        heavy = parse_law(point.G).variance == math.inf
        return "invariant" if heavy and has_limit(self.run.routing) else "empty"

    def _cell(self, point: Point, initial: str) -> Cell:
        run = self.run
        if not point.lam < 1.0:
            raise ValueError(f"lam must be below 1 in equilibrium, got {point.lam!r}: no state is stationary")
        cell = Cell(
            N=point.N,
            d=point.d,
            lam=point.lam,
            G=parse_law(point.G),
            arrivals=as_arrivals(run.arrivals),
            initial=parse_initial(initial),
            replacement=run.replacement,
            fraction=run.fraction,
            routing=run.routing,
            method=run.method,
        )
        check_method(cell, measure=run.measure)
        return cell

    def cells(self) -> tuple[Case, ...]:
        """Return every case: the main start of each point, and the one from empty that it is checked with."""
        cases = []
        for point in self.points():
            start = self._start(point)
            cases.append(self._case(point, start, "equilibrium"))
            if self.run.initial is None and start != "empty":
                cases.append(self._case(point, "empty", "equilibrium_from_empty"))
        return tuple(cases)

    def _case(self, point: Point, initial: str, group: str) -> Case:
        cell = self._cell(point, initial)
        limit = Limit(d=cell.d, lam=cell.lam, G=cell.G, fraction=cell.fraction)
        return Case(
            group=group,
            values=self.values(point),
            cell=cell,
            limit=limit if has_limit(cell.routing) else None,
            replicas=self.replicas_at(point),
            key=cell.key,
            text=cell.text,
            seconds=path_seconds(cell, self.run.horizon),
            memory=path_bytes(cell, 0),
        )

    @property
    def edges(self) -> Floats:
        """End of the warm-up and of every batch, shape (batches + 1,)."""
        return self.run.edges

    def coordinates(self) -> dict[str, Sequence[Any]]:
        """Return the values of every dimension of the arrays beside the axes and `replica`."""
        return {"batch": range(self.run.batches), "level": range(1, self.run.levels + 1)}

    def grids(self) -> dict[str, Any]:
        """Return what tasks need beside cells and limits."""
        return {
            "edges": self.edges,
            "levels": self.run.levels,
            "measure": self.run.measure,
            "omit": self.omitted(),
        }

    def omitted(self) -> tuple[str, ...]:
        """Return variables of a replica that this sweep does not store."""
        return () if self.run.measure else ("time_in_system_measured", "waiting_time_measured")
