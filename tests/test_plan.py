"""Plans hold every missing replica once, in batches of equal cost; the scheduler keeps order and blame."""

import copy
import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.catalogue import Index, entry_of
from sweep.costs import path_seconds
from sweep.plan import Batch, make_plan
from sweep.scheduler import MAX_DEATHS, Scheduler
from sweep.selection import selection
from sweep.spec import parse_spec
from sweep.task import Outcome
from tests.test_studies import BY_STUDY, changed

TABLES = {
    "name": "plan",
    "study": "transient",
    "seed": 1,
    "grid": {"N": [10, 1000, 100000], "d": [1, 2], "lam": [0.5, 0.9], "G": ["exponential"]},
    "run": {"horizon": 10.0, "times": 11, "levels": 4, "replicas": 16},
}


def spec(**changes):
    tables = copy.deepcopy(TABLES)
    tables["grid"].update(changes.pop("grid", {}))
    tables["run"].update(changes)
    return parse_spec(tables)


def replicas_in(plan):
    return [(case.key, n) for batch in plan.batches for case, numbers in batch.items for n in numbers]


def index_of(items):
    """An index of a store that holds these (key, replica) pairs in one shard."""
    index = Index()
    keys, numbers = zip(*items, strict=True) if items else ((), ())
    index.add(Path("shard.nc"), entry_of("network", 1, keys, numbers))
    return index


@given(data=st.data(), workers=st.integers(1, 64))
def test_every_missing_replica_is_planned_once(data, workers):
    everything = {(cell.key, n) for cell in spec().cells() for n in range(16)}
    beyond = {(cell.key, 16) for cell in spec().cells()}
    stored = data.draw(st.sets(st.sampled_from(sorted(everything | beyond))))
    index = index_of(data.draw(st.permutations(sorted(stored))))
    planned = replicas_in(make_plan(spec(), stored_replicas=index, workers=workers))
    assert len(planned) == len(set(planned))
    assert set(planned) == everything - stored


def test_limits_are_solved_once_for_all_N_and_only_if_missing():
    plan = make_plan(spec())
    assert len(plan.limits) == len(plan.missing_limits) == 4
    first = plan.limits[0]
    assert first not in make_plan(spec(), stored_limits={first.key}).missing_limits


def test_small_replicas_are_batched_and_large_ones_are_not():
    batches = make_plan(spec(grid={"N": [10]}, replicas=500), workers=2).batches
    assert len(batches) <= 2
    large = make_plan(spec(grid={"N": [10**8]}, replicas=3), workers=2)
    assert all(batch.replicas == 1 for batch in large.batches)


def test_batches_of_a_long_run_cost_about_the_same():
    plan = make_plan(spec(replicas=4000), workers=2)
    costs = [plan.batch_task(batch).cost for batch in plan.batches]
    dearest = max(case.seconds for case in plan.cells)
    assert len(costs) >= 8
    assert max(costs) - np.median(costs) <= dearest


def test_estimates_grow_with_the_work():
    small, large = make_plan(spec()), make_plan(spec(replicas=32))
    assert large.seconds > small.seconds
    assert large.stored_bytes > small.stored_bytes
    bigger = make_plan(spec(grid={"N": [10**8]}))
    assert bigger.memory > 20 * 10**8


def test_the_size_of_the_arrays_is_counted():
    plan = make_plan(spec(grid={"N": [10], "d": [1], "lam": [0.5]}, replicas=3))
    replica = 11 * (2 * 4 + 3) + 2  # S and D over levels, X, E and R_E, S_sup and longest
    limit = 11 * (3 * 4 + 3)  # S, S_error and D over levels, X, E and virtual_wait
    assert plan.stored_bytes == 8 * (3 * replica + limit)


def arrays(task):
    return Outcome(task=task, arrays={})


def failed(task, lost=False):
    return Outcome(task=task, error="boom", lost=lost)


def drain(scheduler, fate=arrays):
    names, failures = [], []
    while (task := scheduler.next_task()) is not None:
        names.append(task.name)
        failures += scheduler.settle(fate(task))
    return names, failures


def test_limits_come_first_and_batches_wait_for_theirs():
    plan = make_plan(spec(), workers=2)
    scheduler = Scheduler(plan, load_limit=lambda key: {})
    firsts = [scheduler.next_task() for _ in plan.missing_limits]
    assert all(task.name.startswith("limit ") for task in firsts)
    assert scheduler.next_task() is None
    for task in firsts:
        scheduler.settle(arrays(task))
    names, failures = drain(scheduler)
    assert len(names) == len(plan.batches)
    assert failures == []


def test_the_longest_batch_goes_first():
    plan = make_plan(spec(replicas=4000), workers=2)
    solved = make_plan(spec(replicas=4000), stored_limits={limit.key for limit in plan.limits}, workers=2)
    scheduler = Scheduler(solved, load_limit=lambda key: {})
    costs = []
    while (task := scheduler.next_task()) is not None:
        costs.append(task.cost)
    assert costs == sorted(costs, reverse=True)


def test_one_bad_cell_of_a_batch_is_found_and_the_others_are_done():
    plan = make_plan(spec(grid={"N": [10, 20, 30], "lam": [0.5], "d": [2]}, replicas=2))
    (batch,) = plan.batches
    bad = batch.items[1][0]
    scheduler = Scheduler(plan, load_limit=lambda key: {})
    done = []

    def fate(task):
        work = scheduler.batch(task)
        if isinstance(work, Batch) and any(case == bad for case, _ in work.items):
            return failed(task)
        if isinstance(work, Batch):
            done.extend(case for case, _ in work.items)
        return arrays(task)

    _, failures = drain(scheduler, fate)
    assert [failure.case for failure in failures] == [bad]
    assert failures[0].error == "boom"
    assert not failures[0].quarantined
    assert len(done) == 2


def test_a_cell_that_kills_its_worker_is_given_up_after_a_few_deaths():
    plan = make_plan(spec(grid={"N": [10], "lam": [0.5], "d": [2]}, replicas=2))
    scheduler = Scheduler(plan, load_limit=lambda key: {})
    deaths = []

    def fate(task):
        if isinstance(scheduler.batch(task), Batch):
            deaths.append(task.name)
            return failed(task, lost=True)
        return arrays(task)

    _, failures = drain(scheduler, fate)
    assert len(deaths) == MAX_DEATHS
    assert failures[0].attempts == MAX_DEATHS
    assert failures[0].quarantined


def test_a_limit_that_fails_fails_its_own_cells_alone():
    plan = make_plan(spec())
    bad = plan.limits[2]
    scheduler = Scheduler(plan, load_limit=lambda key: {})

    def fate(task):
        work = scheduler.batch(task)
        return failed(task) if not isinstance(work, Batch) and work.key == bad.key else arrays(task)

    _, failures = drain(scheduler, fate)
    assert {failure.case for failure in failures} == {c for c in plan.cells if c.limit == bad}
    assert all("limit" in failure.error and "boom" in failure.error for failure in failures)


def test_a_limit_that_no_batch_waits_for_fails_the_cells_that_share_it():
    plan = dataclasses.replace(make_plan(spec()), batches=())
    _, failures = drain(Scheduler(plan, load_limit=lambda key: {}), failed)
    assert {failure.case for failure in failures} == {*plan.cells}
    assert len(failures) == len(plan.cells)


def test_shared_limits_are_loaded_once():
    loads = []
    scheduler = Scheduler(make_plan(spec()), load_limit=lambda key: loads.append(key) or {"S": np.zeros(1)})
    assert scheduler.shared("a") is scheduler.shared("a")
    assert loads == ["a"]


@pytest.mark.parametrize("N", [10, 10**6])
def test_the_cost_of_a_replica_is_linear_in_time(N):
    cell = make_plan(spec(grid={"N": [N]})).cells[0].cell
    short, long = path_seconds(cell, 10.0), path_seconds(cell, 20.0)
    assert 1.0 < long / short <= 2.0


def seconds_of_limit(study, **changes):
    plan = make_plan(parse_spec(changed(BY_STUDY[study], **changes)))
    return plan.limit_seconds(plan.limits[0])


@pytest.mark.parametrize(
    ("study", "name", "values"),
    [
        ("transient", "run.horizon", [1.0, 10.0, 100.0, 1000.0]),
        ("transient", "run.times", [11, 101, 1001]),
        ("transient", "run.tolerance", [1e-4, 1e-7, 1e-10]),
        ("transient", "run.snapshots", [[], [1.0], [1.0, 2.0, 3.0]]),
        ("equilibrium", "run.levels", [4, 12, 50, 200, 1000]),
        ("heavy-traffic", "run.tolerance", [1e-4, 1e-6, 1e-8]),
        ("heavy-traffic", "run.times", [11, 101, 401]),
        ("heavy-traffic", "grid.ell", [2, 10, 20]),
    ],
)
@pytest.mark.parametrize("law", ["exponential", "lomax(beta=2.5)", "lomax(beta=1.5)", "deterministic"])
def test_the_cost_of_a_limit_grows_with_what_drives_it(study, name, values, law):
    if study == "heavy-traffic" and law == "lomax(beta=1.5)":
        law = "exponential"  # the limit needs a variance
    costs = [seconds_of_limit(study, **{"run.horizon": 20.0, "grid.G": [law], name: x}) for x in values]
    assert costs == sorted(costs)
    assert 1e-4 < costs[0] <= costs[-1] < 3600.0
    assert costs[0] < costs[-1]


def test_a_plan_counts_what_its_limits_cost():
    one, both = (make_plan(spec(horizon=1000.0, grid={"lam": lam})) for lam in ([0.5], [0.5, 0.9]))
    assert one.limit_task(one.limits[0]).cost == one.limit_seconds(one.limits[0])
    spent = [plan.seconds - sum(batch.seconds for batch in plan.batches) for plan in (one, both)]
    assert spent[1] == pytest.approx(2.0 * spent[0])


@pytest.mark.parametrize(
    ("study", "changes", "seconds"),
    [
        ("transient", {}, (0.001, 0.03)),
        ("transient", {"run.horizon": 1000.0, "grid.G": ["lomax(beta=1.5)"]}, (0.3, 4.0)),
        ("equilibrium", {}, (0.0003, 0.01)),
        ("equilibrium", {"run.levels": 100}, (0.05, 0.6)),
        ("heavy-traffic", {"run.times": 41, "run.tolerance": 1e-7}, (0.4, 5.0)),
    ],
)
def test_the_cost_of_a_limit_is_of_the_size_that_was_measured(study, changes, seconds):
    assert seconds[0] < seconds_of_limit(study, **changes) < seconds[1]


def test_what_killed_its_worker_goes_last():
    large = spec(grid={"N": [10**8], "d": [1, 2]}, replicas=2)
    plan = make_plan(large, stored_limits={limit.key for limit in make_plan(large).limits})
    scheduler = Scheduler(plan, load_limit=lambda key: {})
    first = scheduler.next_task()
    scheduler.settle(failed(first, lost=True))
    names = [task.name for task in iter(scheduler.next_task, None)]
    assert len(names) == len(plan.batches) == 8
    assert names[-1] == first.name


def test_a_plan_of_some_cells_counts_their_replicas_alone():
    plan = make_plan(spec(), only=selection(spec(), {"N": 10}))
    assert plan.missing_replicas == plan.needed_replicas == 4 * 16
