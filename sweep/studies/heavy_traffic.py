"""The study `heavy-traffic`: critical networks, scaled, against their diffusion limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, Strict, field_validator

from sweep.arguments import canonical
from sweep.arrivals import Profile, as_arrivals
from sweep.cell import Cell
from sweep.costs import path_bytes, path_seconds
from sweep.diffusion.checks import check_positions
from sweep.diffusion.model import Diffusion, sigma2_of
from sweep.diffusion.prelimit import prelimit
from sweep.diffusion.start import as_start
from sweep.diffusion.study import default_x
from sweep.grids import Floats
from sweep.initial import Scaled
from sweep.laws import Law, parse_law
from sweep.seeds import digest
from sweep.studies.base import (
    TOLERANCE,
    Arrivals,
    Axes,
    Case,
    Number,
    Place,
    Servers,
    Service,
    SweepSpec,
    whole,
)
from sweep.studies.transient import TimedRun

#: Queues whose own path is stored, unless the spec says how many.
_TAGGED = 4
#: What `keep = "errors"` does not store of a replica.
_PATHS = ("S", "v", "tagged")

Scale = Annotated[int, whole("m", most=10**9)]
Choices = Annotated[int, whole("ell", least=2, most=1000)]
Drift = Annotated[float, Strict(), Field(allow_inf_nan=False), AfterValidator(canonical)]


class Point(Place):
    """One point of the grid."""

    N: Servers = Field(description="number of servers")
    m: Scale = Field(description="scale: time is divided by it, queue lengths by its square root")
    b1: Drift = Field(description="excess rate of the uniform stream per server, times √m")
    b0: Drift = Field(description="rate of the stream with choices per server, times √m")
    ell: Choices = Field(description="queues that an arrival of that stream samples")
    G: Service = Field(description="service law of mean 1 and finite variance")


class Grid(Axes):
    """Axes whose product is swept."""

    N: tuple[Servers, ...] = Field(min_length=1, description="numbers of servers")
    m: tuple[Scale, ...] = Field(min_length=1, description="scales")
    b1: tuple[Drift, ...] = Field(min_length=1, description="excess rates of the uniform stream, times √m")
    b0: tuple[Drift, ...] = Field(min_length=1, description="rates of the stream with choices, times √m")
    ell: tuple[Choices, ...] = Field(
        min_length=1, description="numbers of queues that an arrival of that stream samples"
    )
    G: tuple[Service, ...] = Field(min_length=1, description="service laws of mean 1 and finite variance")


class Run(TimedRun):
    """What every cell is run for; times and horizon are scaled, network times are m times as long."""

    arrivals: Arrivals = Field(default="exponential", description="law of the gaps between arrivals")
    tolerance: Number = Field(
        default=TOLERANCE, ge=1e-11, lt=1.0, description="accuracy asked of the limit, absolute in its tails"
    )
    initial: str = Field(default="empty", description="law of the scaled length X_0 of a queue at time 0")
    exchangeable: Annotated[bool, Strict()] = Field(
        default=True,
        description="whether queues start independently from that law, or at its quantiles one by one",
    )
    fixed: tuple[Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)], ...] = Field(
        default=(), description="scaled lengths at which the first queues start instead"
    )
    positions: tuple[Number, ...] | None = Field(
        default=None,
        description="scaled lengths x at which v is stored; by default 61, or those of a store that grows",
    )
    tagged: Annotated[int, whole("tagged", least=0, most=1000)] = Field(
        default=_TAGGED, description="how many of the first queues have their own lengths stored"
    )

    @field_validator("positions", mode="after")
    @classmethod
    def _positions_increase(cls, positions: Any) -> Any:
        try:
            return None if positions is None else tuple(check_positions(positions).tolist())
        except ValueError as error:
            raise ValueError(str(error).replace("x must", "positions must", 1)) from None

    def faults(self) -> Iterator[str]:
        """Yield every fault of keys that do not go together, each of which is possible by itself."""
        yield from super().faults()
        if self.keep == "errors" and self.tagged not in (0, _TAGGED):
            yield (
                f'tagged must be 0 or left out with keep = "errors", which stores no lengths, '
                f"got {self.tagged}"
            )
        if isinstance(as_arrivals(self.arrivals), Profile):
            yield (
                f"arrivals must be a law of gaps in heavy traffic, got {self.arrivals}: "
                "rates of the limit are constant"
            )


@dataclass(frozen=True, kw_only=True)
class DiffusionLimit:
    """The limit of a heavy-traffic cell: drift, choices, variance of services, and the law of X_0."""

    b1: float
    b0: float
    ell: int
    G: Law
    initial: str

    @property
    def model(self) -> Diffusion:
        """Parameters of the equation; ValueError where σ² is infinite."""
        return Diffusion(b1=self.b1, b0=self.b0, ell=self.ell, sigma2=sigma2_of(self.G))

    @property
    def text(self) -> str:
        """Every parameter with its value, as one line."""
        return f"b1={self.b1!r} b0={self.b0!r} ell={self.ell} G={self.G} initial={self.initial}"

    @property
    def key(self) -> str:
        """Identity in the store."""
        return digest(f"diffusion {self.model.text} G={self.G.identity} initial={self.initial}")


class HeavyTrafficSpec(SweepSpec):
    """A checked sweep of the study `heavy-traffic`."""

    AXES: ClassVar[tuple[str, ...]] = ("N", "m", "b1", "b0", "ell", "G")
    LIMIT_AXES: ClassVar[tuple[str, ...]] = ("b1", "b0", "ell", "G")
    REPLICA_KIND: ClassVar[str] = "scaled"
    LIMIT_KIND: ClassVar[str] = "diffusion"
    REPLICA_TASK: ClassVar[str] = "sweep.work:run_scaled"
    LIMIT_TASK: ClassVar[str] = "sweep.work:solve_heavy_limit"
    TARGET: ClassVar[str] = "X"

    study: Literal["heavy-traffic"]
    grid: Grid | None = Field(default=None, description="axes whose product is swept")
    cases: tuple[Point, ...] = Field(default=(), description="points beside the grid, or instead of it")
    run: Run = Field(description="what every cell is run for")

    def cell(self, point: Point) -> Cell:
        """Return the network of a point: SQ(ell) for a share of arrivals, near its critical load.

        Raises
        ------
        TypeError, ValueError
            Parameters that make no network, or that the study does not have.
        """
        return self._cell(point, self._limit(point))

    def _cell(self, point: Point, limit: DiffusionLimit) -> Cell:
        lam, fraction = prelimit(m=point.m, b1=point.b1, b0=point.b0)
        run = self.run
        if not run.replacement and point.ell > point.N:
            raise ValueError(
                f"ell must be at most N without replacement, got ell = {point.ell} with N = {point.N}"
            )
        for name, count in (("tagged", run.tagged), ("fixed", len(run.fixed))):
            if count > point.N:
                raise ValueError(
                    f"{name} queues must be at most N = {point.N}, got {count}: give {name} in [run]"
                )
        return Cell(
            N=point.N,
            d=point.ell,
            lam=lam,
            G=parse_law(point.G),
            arrivals=as_arrivals(run.arrivals),
            initial=Scaled(start=limit.initial, m=point.m, exchangeable=run.exchangeable, fixed=run.fixed),
            replacement=run.replacement,
            fraction=fraction,
        )

    def _limit(self, point: Point) -> DiffusionLimit:
        """Return the limit of a point; ValueError where σ² is infinite or X_0 has no such law."""
        G = parse_law(point.G)
        model = Diffusion(b1=point.b1, b0=point.b0, ell=point.ell, sigma2=sigma2_of(G))
        start = as_start(self.run.initial, model=model)
        return DiffusionLimit(b1=point.b1, b0=point.b0, ell=point.ell, G=G, initial=start.text)

    def cells(self) -> tuple[Case, ...]:
        """Return every case, in grid order."""
        return tuple(self._case(point) for point in self.points())

    def _case(self, point: Point) -> Case:
        limit = self._limit(point)
        cell = self._cell(point, limit)
        scale = f"m={point.m} {limit.text}"
        return Case(
            group="network",
            values=self.values(point),
            cell=cell,
            limit=limit,
            replicas=self.replicas_at(point),
            # The same network at another scale is another cell: other times are seen of it.
            key=digest(f"scaled {cell.key} m={point.m} {limit.key}"),
            text=f"N={point.N} {scale}",
            seconds=path_seconds(cell, point.m * float(self.times[-1])),
            memory=path_bytes(cell, 0),
            options=(("m", point.m),),
        )

    @cached_property
    def times(self) -> Floats:
        """Output times in the scaled time, shape (t,)."""
        return self.run.grid

    @cached_property
    def positions(self) -> Floats:
        """Positions x at which v is stored, shape (x,)."""
        if self.run.positions is not None:
            return np.array(self.run.positions)
        limits = {limit.key: limit for limit in map(self._limit, self.points())}
        models = [limit.model for limit in limits.values()]
        cells = [(model.b1, model.b0, model.ell, model.sigma2) for model in models]
        # At time 0 alone the start would do, but its positions would not show where queues go.
        return default_x(cells, self.run.initial, float(self.times[-1]) or self.run.horizon)

    def coordinates(self) -> dict[str, Sequence[Any]]:
        """Return the values of every dimension of the arrays beside the axes and `replica`."""
        return {
            "t": self.times.tolist(),
            "level": range(1, self.run.levels + 1),
            "x": self.positions.tolist(),
            "server": range(self.run.tagged),
        }

    def grids(self) -> dict[str, Any]:
        """Return what tasks need beside cells and limits."""
        return {
            "times": self.times,
            "levels": self.run.levels,
            "x": self.positions,
            "tagged": self.run.tagged,
            "tolerance": self.run.tolerance,
            "omit": self.omitted(),
        }

    def omitted(self) -> tuple[str, ...]:
        """Return variables of a replica that this sweep does not store."""
        return _PATHS if self.run.keep == "errors" else ()

    def frame(self) -> dict[str, Any]:
        """Return what may never change in a store, as plain JSON values."""
        given = self.run.initial.strip()
        initial = given if given == "stationary" else self._limit(next(self.points())).initial
        return {**super().frame(), "initial": initial, "positions": self.positions.tolist()}

    def settled(self, frame: Mapping[str, Any]) -> Self:
        """Return the spec with the positions of the store of `frame`, unless it has its own.

        The default ones depend on the grid, which may grow.
        """
        if self.run.positions is not None or "positions" not in frame:
            return self
        tables = self.model_dump(exclude_none=True)
        return self.model_validate({**tables, "run": {**tables["run"], "positions": frame["positions"]}})
