"""Runs a sweep: from a spec to a finished store, on any engine, resuming whatever is already there."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.cell import Limit
from sweep.cube import Layout, consolidate
from sweep.engines import make_engine
from sweep.errors import StoreError
from sweep.plan import Plan, make_plan
from sweep.scheduler import CellFailure, Scheduler
from sweep.spec import SweepSpec, parse_spec, read_spec
from sweep.store import FRAME_FILE, Store
from sweep.task import Arrays, Outcome
from sweep.work import warm_up

#: A share of the run's time may go into refreshing results.nc while it goes on.
_REFRESH_SHARE = 0.05
_REFRESH_SECONDS = 30.0
#: What `Progress.last` says before the first task is done.
STARTING = "starting"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is; costs are in estimated seconds of one core."""

    replicas_done: int
    replicas_total: int
    limits_done: int
    limits_total: int
    cost_done: float
    cost_total: float
    failed: int
    elapsed: float
    last: str

    @property
    def rate(self) -> float:
        """Replicas a second so far."""
        return self.replicas_done / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the time left, None until some replicas are done: limits start the workers."""
        if self.cost_done <= 0 or self.replicas_done < min(1, self.replicas_total):
            return None
        return self.elapsed * (self.cost_total - self.cost_done) / self.cost_done


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a run has left behind."""

    store: Path
    cells: int
    cells_done: int
    replicas_computed: int
    limits_solved: int
    failures: tuple[CellFailure, ...]
    seconds: float


def run(
    spec: SweepSpec | Mapping[str, Any] | str | Path,
    *,
    store: str | Path,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    progress: Callable[[Progress], None] = lambda state: None,
) -> Summary:
    """Compute what the store lacks of a sweep and (re)build its results.nc.

    Parameters
    ----------
    spec
        A spec file, a mapping like its TOML, or a checked `SweepSpec`.
    store
        Directory of the store, made if it does not exist; the same call again resumes.
    engine
        "serial", "local" (processes on this machine) or "ray" (actors).
    workers
        Processes or actors; by default the CPUs this process may use.
    address
        Of a running Ray cluster; by default a Ray of its own is started on this machine.
    progress
        Called after every task.

    Returns
    -------
    Summary
        Counts and the cells that failed; load the arrays with `sweep.load(store)`.

    Raises
    ------
    SpecError
        The spec has faults; all are listed and nothing is computed.
    StoreError, LockError, EngineError
        The store or the engine cannot be used.
    """
    spec, text = _checked(spec)
    started = time.perf_counter()
    with make_engine(engine, workers, address=address) as executor:
        keeper = _open(Path(store), spec, text)
        with keeper.lock(command=f"sweep run --store {shlex.quote(str(store))}"):
            Store.open(store).check_frame(spec.frame())  # another first run may have made it
            keeper.set_damaged_aside()
            plan = plan_for(spec, keeper, executor.workers)
            keeper.write_spec(text)
            keeper.write_layout(layout(plan).to_json())
            driver = _Driver(plan, keeper, progress, started)
            if plan.batches or plan.missing_limits:
                if engine != "serial":
                    warm_up()
                driver.work_through(executor.run(driver.scheduler))
            consolidate(keeper, layout(plan))
    return driver.summary()


def plan_for(spec: SweepSpec, store: Store | None, workers: int) -> Plan:
    """Return the plan of a spec for what `store` lacks, or for everything if there is none."""
    if store is None:
        return make_plan(spec, workers=workers)
    return make_plan(
        spec,
        stored_replicas=store.index("network").keys(),
        stored_limits={key for key, _ in store.index("fluid")},
        workers=workers,
    )


def layout(plan: Plan) -> Layout:
    """Return the cube that a finished store of `plan` fills."""
    spec = plan.spec
    axes: dict[str, tuple[Any, ...]] = {
        name: tuple(sorted({getattr(cell, name) for cell in plan.cells})) for name in ("N", "d", "lam")
    }
    axes["G"] = tuple(dict.fromkeys(str(cell.G) for cell in plan.cells))

    def index(cell: Limit, names: tuple[str, ...]) -> tuple[int, ...]:
        values = {"N": getattr(cell, "N", None), "d": cell.d, "lam": cell.lam, "G": str(cell.G)}
        return tuple(axes[name].index(values[name]) for name in names)

    return Layout(
        **axes,
        cells={index(cell, ("N", "d", "lam", "G")): cell.key for cell in plan.cells},
        limits={index(limit, ("d", "lam", "G")): limit.key for limit in plan.limits},
        replicas=spec.run.replicas,
        t=spec.times,
        level=tuple(range(1, spec.run.levels + 1)),
        snapshot=spec.snapshots,
        age=spec.ages,
        attributes={"title": spec.name, "study": spec.study},
        texts={cell.key: cell.text for cell in plan.cells},
    )


class _Driver:
    """Stores outcomes as they come, and keeps count."""

    def __init__(
        self, plan: Plan, store: Store, progress: Callable[[Progress], None], started: float
    ) -> None:
        self.plan = plan
        self.store = store
        self.scheduler = Scheduler(plan, self._load_limit)
        self._progress = progress
        self._started = started
        self._refreshed, self._refresh_seconds = time.perf_counter(), 0.0
        self._replicas, self._limits, self._cost = 0, 0, 0.0
        self._failures: list[CellFailure] = []
        self._total = sum(plan.batch_task(batch).cost for batch in plan.batches) + sum(
            plan.limit_task(limit).cost for limit in plan.missing_limits
        )

    def work_through(self, outcomes: Any) -> None:
        """Store every outcome; on an interrupt, what is stored is still put into results.nc."""
        self._report(STARTING)
        try:
            for outcome in outcomes:
                self._keep(outcome)
                self._report(outcome.task.name)
                self._refresh()
        except KeyboardInterrupt:
            outcomes.close()
            consolidate(self.store, layout(self.plan))
            raise

    def summary(self) -> Summary:
        """Return the counts."""
        stored = self.store.index("network")
        wanted = range(self.plan.spec.run.replicas)
        done = sum(all((cell.key, number) in stored for number in wanted) for cell in self.plan.cells)
        return Summary(
            store=self.store.path,
            cells=len(self.plan.cells),
            cells_done=done,
            replicas_computed=self._replicas,
            limits_solved=self._limits,
            failures=tuple(self._failures),
            seconds=time.perf_counter() - self._started,
        )

    def _keep(self, outcome: Outcome) -> None:
        work = self.scheduler.batch(outcome.task)
        if outcome.arrays is not None:
            attributes = {"seconds": outcome.seconds, "worker": outcome.worker}
            if isinstance(work, Limit):
                self.store.write_shard("fluid", [work.key], None, outcome.arrays, attributes)
                self._limits += 1
            else:
                keys = [cell.key for cell, numbers in work.items for _ in numbers]
                replicas = [number for _, numbers in work.items for number in numbers]
                self.store.write_shard("network", keys, replicas, outcome.arrays, attributes)
                self._replicas += work.replicas
                for cell, _ in work.items:
                    self.store.clear_failure(cell.key)
            self._cost += outcome.task.cost
        for failure in self.scheduler.settle(outcome):
            self.store.record_failure(failure.cell.key, failure.error, failure.details, failure.attempts)
            self._failures.append(failure)

    def _refresh(self) -> None:
        """Rebuild results.nc now and then, so that readers see partial results."""
        waited = time.perf_counter() - self._refreshed
        if waited < max(_REFRESH_SECONDS, self._refresh_seconds / _REFRESH_SHARE):
            return
        begun = time.perf_counter()
        consolidate(self.store, layout(self.plan))
        self._refreshed = time.perf_counter()
        self._refresh_seconds = self._refreshed - begun

    def _load_limit(self, key: str) -> Arrays:
        return {name: values[0] for name, values in self.store.read("fluid", key)[1].items()}

    def _report(self, last: str) -> None:
        self._progress(
            Progress(
                replicas_done=self._replicas,
                replicas_total=self.plan.missing_replicas,
                limits_done=self._limits,
                limits_total=len(self.plan.missing_limits),
                cost_done=self._cost,
                cost_total=self._total,
                failed=len(self._failures),
                elapsed=time.perf_counter() - self._started,
                last=last,
            )
        )


def _checked(spec: SweepSpec | Mapping[str, Any] | str | Path) -> tuple[SweepSpec, str]:
    if isinstance(spec, SweepSpec):
        return spec, spec.to_toml()
    if isinstance(spec, (str, Path)):
        checked = read_spec(spec)
        return checked, Path(spec).read_text(encoding="utf-8")
    checked = parse_spec(spec)
    return checked, checked.to_toml()


def _open(path: Path, spec: SweepSpec, text: str) -> Store:
    if not (path / FRAME_FILE).exists():
        try:
            return Store.create(path, spec.frame(), text)
        except StoreError:
            if not (path / FRAME_FILE).exists():  # else another first run has made it meanwhile
                raise
    store = Store.open(path)
    store.check_frame(spec.frame())
    return store
