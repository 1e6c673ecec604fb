"""Runs a sweep: from a spec to a finished store, on any engine, resuming whatever is already there."""

from __future__ import annotations

import itertools
import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.arguments import check_path, check_switch
from sweep.cube import consolidate
from sweep.engines import make_engine
from sweep.engines.base import Engine
from sweep.errors import StoreError
from sweep.layout import Layout, make_layout
from sweep.plan import Batch, Plan, make_batches, make_plan
from sweep.precision import replicas_needed
from sweep.progress import STARTING, Progress, shown_by
from sweep.scheduler import CellFailure, Scheduler
from sweep.schema import GROUPS
from sweep.seeds import NUMBERS_VERSION, keys_of
from sweep.selection import selection
from sweep.spec import parse_spec, read_spec
from sweep.status import left_out
from sweep.store import FRAME_FILE, Store
from sweep.studies.base import Case, Solvable, SweepSpec
from sweep.task import Arrays, Outcome
from sweep.wording import shown

#: A share of the run's time may go into refreshing results.nc while it goes on.
_REFRESH_SHARE = 0.05
_REFRESH_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a run has left behind; `notes` says what the store holds beyond its spec, if anything."""

    store: Path
    cells: int
    cells_done: int
    replicas_computed: int
    limits_solved: int
    failures: tuple[CellFailure, ...]
    seconds: float
    notes: tuple[str, ...] = ()


def run(
    spec: SweepSpec | Mapping[str, Any] | str | Path,
    *,
    store: str | Path,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    only: Mapping[str, Any] | None = None,
    fail_fast: bool = False,
    mix_numbers: bool = False,
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
        Called once the store is open for writing, then after every task, unless there is nothing to do;
        by default a line in a notebook, and nothing elsewhere.
    only
        Values to keep to, or one, by axis of the grid: cells elsewhere stay as they are.
    fail_fast
        Whether to stop at the first cell that fails; what is finished by then is stored.
    mix_numbers
        Whether to go on with a store of another `NUMBERS_VERSION`; `cells/numbers` then tells each cell's.

    Returns
    -------
    Summary
        Counts and the cells that failed; load the arrays with `sweep.load(store)`.

    Raises
    ------
    SpecError
        The spec has faults: those of single keys are listed, or else those of keys and cells together;
        nothing is computed.
    StoreError, LockError, EngineError
        The store or the engine cannot be used.
    TypeError
        Another argument of the wrong type.
    """
    store = check_path("store", store)
    fail_fast, mix_numbers = check_switch("fail_fast", fail_fast), check_switch("mix_numbers", mix_numbers)
    if not isinstance(only, (Mapping, NoneType)):
        raise TypeError(f'only must map axes to values, like {{"N": [100]}}, got {shown(only)}')
    if not (progress is None or callable(progress)):
        raise TypeError(f"progress must be a function of one argument, got {shown(progress)}")
    spec, text = _checked(spec)
    if (Path(store) / FRAME_FILE).exists():
        spec = spec.settled(Store.open(store, mixing=True).frame)
    chosen = selection(spec, only or {})
    started = time.perf_counter()
    with make_engine(engine, workers, address=address) as executor, shown_by(progress) as show:
        keeper = _open(Path(store), spec, text, mix_numbers)
        with keeper.lock(command=f"sweep run --store {shlex.quote(str(store))}"):
            Store.open(store, mixing=mix_numbers).check_frame(spec.frame())  # another may have made it
            if mix_numbers:
                keeper.mix_numbers()
            keeper.adopt(older_keys(spec, keeper.numbers))
            keeper.set_damaged_aside()
            plan = plan_for(spec, keeper, executor.workers, chosen)
            keeper.write_spec(text)
            driver = _Driver(plan, keeper, executor, show, started, fail_fast)
            driver.write_layout()
            if plan.batches or plan.missing_limits:
                driver.work_through()
            consolidate(keeper, driver.layout())
    return driver.summary()


def plan_for(
    spec: SweepSpec, store: Store | None, workers: int, only: Callable[[Case], bool] = lambda case: True
) -> Plan:
    """Return the plan of a spec for what `store` lacks, or for everything if there is none."""
    if store is None:
        return make_plan(spec, workers=workers, only=only)
    return make_plan(
        spec,
        stored_replicas=store.index(spec.REPLICA_KIND),
        stored_limits={key for key, _ in store.index(spec.LIMIT_KIND)},
        workers=workers,
        only=only,
        replicas=lambda case: wanted_replicas(spec, store, case),
    )


def wanted_replicas(spec: SweepSpec, store: Store, case: Case) -> int:
    """Return how many replicas a case is to have, going by the replicas that `store` holds of it.

    Without a precision that is what the spec says. With one, the number grows by a rule that sees nothing
    but replicas 0 … n − 1, so that it does not matter when and in which order they were computed.
    """
    target, least = spec.target, case.replicas
    if target is None:
        return least
    index = store.index(spec.REPLICA_KIND)
    count = next(n for n in itertools.count() if (case.key, n) not in index)
    if count < least:
        return least
    values = store.read(spec.REPLICA_KIND, case.key)[1][target.quantity][:count]
    dims = GROUPS[spec.REPLICA_KIND][target.quantity].dims
    if "batch" in dims:  # a mean over the run is what is wanted
        values = _mean(np.moveaxis(values, 1 + dims.index("batch"), -1))
    return replicas_needed(
        values,
        target=target.stderr,
        replicas=least,
        max_replicas=target.most,
        relative=target.relative,
    )


def _mean(values: NDArray[Any]) -> NDArray[np.float64]:
    """Average over the last axis by sums that are correctly rounded, the same on any processor."""
    rows = values.reshape(-1, values.shape[-1]).tolist()
    return np.array([math.fsum(row) / len(row) for row in rows]).reshape(values.shape[:-1])


class _Driver:
    """Stores outcomes as they come, asks for more replicas where precision lacks, and keeps count."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        engine: Engine,
        progress: Callable[[Progress], None],
        started: float,
        fail_fast: bool,
    ) -> None:
        self.plan = plan
        self.store = store
        self.scheduler = Scheduler(plan, self._load_limit)
        self._engine = engine  # whose workers may become more or fewer
        self._progress = progress
        self._started, self._fail_fast = started, fail_fast
        self._refreshed, self._refresh_seconds = time.perf_counter(), 0.0
        self._replicas, self._replicas_total, self._limits = 0, plan.missing_replicas, 0
        self._cost, self._cost_total, self._busy = 0.0, plan.seconds, 0.0
        self._failures: dict[str, CellFailure] = {}
        self._old_failures = set(store.failures())  # of earlier runs, by key
        self._wanted = {case.key: wanted_replicas(plan.spec, store, case) for case in plan.cells}

    def work_through(self) -> None:
        """Store every outcome; on an interrupt, what is stored is still put into results.nc."""
        self._report(STARTING)
        self._engine.prepare("sweep.work:warm_up", self.plan.spec)
        outcomes: Any = self._engine.run(self.scheduler)
        try:
            for outcome in outcomes:
                self._keep(outcome)
                self._report(outcome.task.name)
                if self._failures and self._fail_fast:
                    outcomes.close()
                    break
                self._refresh()
        except KeyboardInterrupt:
            outcomes.close()
            self.store.reindex()
            consolidate(self.store, self.layout())
            raise

    def layout(self) -> Layout:
        """Return the cube as far as it is known: precision may ask for more replicas yet."""
        least = int(self.plan.spec.run.replicas)
        own = {key: count for key, count in self._wanted.items() if count != least}
        return make_layout(self.plan, own, older_keys(self.plan.spec, self.store.numbers))

    def write_layout(self) -> None:
        """Keep the layout in the store, for those who look at it."""
        self.store.write_layout(self.layout().to_json())

    def summary(self) -> Summary:
        """Return the counts."""
        stored = self.store.index(self.plan.spec.REPLICA_KIND)
        positions: dict[tuple[Any, ...], bool] = {}
        for case in self.plan.cells:
            wanted = self._wanted[case.key]
            done = stored.count(case.key, below=wanted) == wanted
            positions[case.values] = positions.get(case.values, True) and done
        return Summary(
            store=self.store.path,
            cells=len(positions),
            cells_done=sum(positions.values()),
            replicas_computed=self._replicas,
            limits_solved=self._limits,
            failures=tuple(self._failures.values()),
            seconds=time.perf_counter() - self._started,
            notes=left_out(stored, self._wanted),
        )

    def _keep(self, outcome: Outcome) -> None:
        spec, work = self.plan.spec, self.scheduler.batch(outcome.task)
        if outcome.arrays is not None:
            attributes = {"seconds": outcome.seconds, "worker": outcome.worker}
            if isinstance(work, Batch):
                keys = [case.key for case, numbers in work.items for _ in numbers]
                replicas = [number for _, numbers in work.items for number in numbers]
                self.store.write_shard(spec.REPLICA_KIND, keys, replicas, outcome.arrays, attributes)
                self._replicas += work.replicas
            else:
                self.store.write_shard(spec.LIMIT_KIND, [work.key], None, outcome.arrays, attributes)
                self._limits += 1
            self._forgive(work)
            self._cost += outcome.task.cost
            self._busy += outcome.seconds
        for failure in self.scheduler.settle(outcome):
            self.store.record_failure(
                failure.case.key,
                failure.error,
                failure.details,
                failure.attempts,
                quarantined=failure.quarantined,
            )
            self._failures[failure.case.key] = failure
            self._old_failures.discard(failure.case.key)
        if outcome.arrays is not None and isinstance(work, Batch) and spec.target is not None:
            self._ask_for_more(work)

    def _forgive(self, work: Batch | Solvable) -> None:
        """Forget earlier failures of the cells of which something is stored now."""
        if not self._old_failures:
            return
        if isinstance(work, Batch):
            keys = {case.key for case, _ in work.items}
        else:
            keys = {case.key for case in self.plan.cells if case.limit_key == work.key}
        for key in keys & self._old_failures:
            self.store.clear_failure(key)
        self._old_failures -= keys

    def _ask_for_more(self, batch: Batch) -> None:
        """Add the replicas that a precision still asks of the cases of a stored batch."""
        items = []
        for case, _ in batch.items:
            before = self._wanted[case.key]
            if self.store.index(self.plan.spec.REPLICA_KIND).count(case.key, below=before) < before:
                continue  # more are asked for by those that are wanted already, all of them
            after = wanted_replicas(self.plan.spec, self.store, case)
            if after > before:
                self._wanted[case.key] = after
                items.append((case, tuple(range(before, after))))
        for more in make_batches(items, self._engine.workers):
            self.scheduler.add(more)
            self._replicas_total += more.replicas
            self._cost_total += more.seconds
        if items:
            self.write_layout()

    def _refresh(self) -> None:
        """Rebuild results.nc now and then, so that readers see partial results."""
        waited = time.perf_counter() - self._refreshed
        if waited < max(_REFRESH_SECONDS, self._refresh_seconds / _REFRESH_SHARE):
            return
        begun = time.perf_counter()
        consolidate(self.store, self.layout())
        self._refreshed = time.perf_counter()
        self._refresh_seconds = self._refreshed - begun

    def _load_limit(self, key: str) -> Arrays:
        arrays = self.store.read(self.plan.spec.LIMIT_KIND, key)[1]
        return {name: values[0] for name, values in arrays.items()}

    def _report(self, last: str) -> None:
        self._progress(
            Progress(
                replicas_done=self._replicas,
                replicas_total=self._replicas_total,
                limits_done=self._limits,
                limits_total=len(self.plan.missing_limits),
                cost_done=self._cost,
                cost_total=self._cost_total,
                busy=self._busy,
                workers=self._engine.workers,
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


def older_keys(spec: SweepSpec, numbers: Sequence[int]) -> dict[str, str]:
    """Return the keys of cells and limits by those they have under the other versions of `numbers`."""
    others = [version for version in numbers if version != NUMBERS_VERSION]
    new = _keys(spec) if others else []
    keys: dict[str, str] = {}
    for version in others:
        with keys_of(version):
            keys.update(zip(_keys(spec), new, strict=True))
    return keys


def _keys(spec: SweepSpec) -> list[str]:
    return [key for case in spec.cells() for key in (case.key, case.limit_key) if key]


def _open(path: Path, spec: SweepSpec, text: str, mixing: bool) -> Store:
    if not (path / FRAME_FILE).exists():
        try:
            Store.check_place(path)
            return Store.create(path, spec.frame(), text)
        except StoreError:
            if not (path / FRAME_FILE).exists():  # else another first run has made it meanwhile
                raise
    store = Store.open(path, mixing=mixing)
    store.check_frame(spec.frame())
    return store
