"""Every engine executes every task once, blames deaths on the right task, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from sweep.engines import ENGINES, make_engine
from sweep.engines.base import ONE_THREAD
from sweep.engines.local import LocalEngine
from sweep.engines.pool import SHARED_OBJECTS
from sweep.errors import EngineError
from sweep.machine import LEAST_MEMORY
from sweep.task import Outcome, Task, execute
from tests.engine_sources import POOLS, Listed, Make, outcomes, task, wait_for

pytestmark = pytest.mark.alone

#: Every engine, with every number of workers that the same bits are asked of.
CREWS = [("serial", 1), ("local", 1), ("local", 2), ("local", 3), ("ray", 1), ("ray", 2)]

# ---------------------------------------------------------------------------------------------- work


@pytest.mark.parametrize(("name", "workers"), CREWS)
def test_tasks_come_back_once_with_the_bits_of_a_direct_call(make: Make, name: str, workers: int) -> None:
    tasks = [task(f"draw {seed}", "draw", seed=seed, size=1000 + seed) for seed in range(10)]
    with make(name, workers) as engine:
        assert (engine.name, engine.workers) == (name, workers)
        found = outcomes(engine, *tasks)
    for one in tasks:
        outcome, direct = found[one.name], execute(one, {}).arrays
        assert outcome.task is one
        assert (outcome.error, outcome.lost) == ("", False)
        assert outcome.seconds > 0.0
        assert outcome.worker.startswith(f"{os.uname().nodename}:")
        assert outcome.arrays is not None
        assert direct is not None
        assert {key: (a.dtype, a.tobytes()) for key, a in outcome.arrays.items()} == {
            key: (a.dtype, a.tobytes()) for key, a in direct.items()
        }


class Stages:
    """Two first tasks; when both are consumed, tasks that need what they made."""

    def __init__(self) -> None:
        self.ready = [task("first 1", "draw", seed=1, size=5), task("first 2", "draw", seed=2, size=5)]
        self.made: dict[str, Mapping[str, NDArray[Any]]] = {}

    def next_task(self) -> Task | None:
        return self.ready.pop() if self.ready else None

    def shared(self, name: str) -> Mapping[str, NDArray[Any]]:
        return {"x": self.made[name]["normal"]}

    def consume(self, outcome: Outcome) -> None:
        if outcome.task.name.startswith("first"):
            assert outcome.arrays is not None
            self.made[outcome.task.name] = outcome.arrays
            if len(self.made) == 2:
                self.ready = [task(f"then {i}", "add", add=i, needs=("first 1", "first 2")) for i in range(4)]


@pytest.mark.parametrize("name", ENGINES)
def test_tasks_that_become_ready_after_an_outcome_are_run(make: Make, name: str) -> None:
    source, totals = Stages(), {}
    with make(name) as engine:
        for outcome in engine.run(source):
            source.consume(outcome)
            if outcome.task.name.startswith("then"):
                assert outcome.arrays is not None
                totals[outcome.task.payload["add"]] = float(outcome.arrays["total"])
    expected = sum(made["normal"].sum() for made in source.made.values())
    assert totals == pytest.approx({i: expected + i for i in range(4)}, abs=1e-12)


@pytest.mark.parametrize(("name", "workers", "times"), [("serial", 1, 1), ("local", 2, 2), ("ray", 2, 1)])
def test_a_shared_object_is_fetched_once_a_worker_or_once_for_ray(
    make: Make, name: str, workers: int, times: int
) -> None:
    source = Listed(task(f"add {i}", "add", add=i, needs=("3", "5")) for i in range(12))
    with make(name, workers) as engine:
        for outcome in engine.run(source):
            assert outcome.arrays is not None
            assert float(outcome.arrays["total"]) == 8.0 + outcome.task.payload["add"]
            assert outcome.arrays["names"].tolist() == ["3", "5"]
    assert set(source.asked) == {"3", "5"}
    assert all(1 <= count <= times for count in source.asked.values())


@pytest.mark.parametrize(("name", "workers"), [("serial", 1), ("local", 1), ("ray", 1)])
def test_workers_keep_a_bounded_number_of_shared_objects(make: Make, name: str, workers: int) -> None:
    names = [str(i) for i in range(1, SHARED_OBJECTS + 8)]
    tasks = [task(f"{turn} {n}", "add", add=0, needs=("1", n)) for turn in range(2) for n in names[1:]]
    source = Listed(tasks)
    with make(name, workers) as engine:
        for outcome in engine.run(source):
            assert outcome.arrays is not None
            assert float(outcome.arrays["total"]) == 1.0 + int(outcome.task.needs[1])
    assert source.asked == {"1": 1} | dict.fromkeys(names[1:], 2)  # the one always in use stays


@pytest.mark.parametrize("name", ENGINES)
def test_an_exception_is_the_outcome_of_its_task_alone(make: Make, name: str) -> None:
    with make(name) as engine:
        found = outcomes(
            engine,
            task("bad", "fail", what="N=3"),
            task("gone", "nowhere"),
            task("good", "draw", seed=1, size=2),
        )
    assert found["bad"].error == "ArithmeticError: no result for N=3"
    assert 'raise ArithmeticError(f"no result for' in found["bad"].details
    assert found["gone"].error.startswith(
        "AttributeError: module 'tests.engine_tasks' has no attribute 'nowhere'"
    )
    assert not any(outcome.lost for outcome in found.values())
    assert found["good"].arrays is not None


def test_a_result_that_cannot_be_sent_is_an_error(make: Make) -> None:
    with make("local", 1) as engine:
        found = outcomes(engine, task("bad", "unsendable"), task("good", "process"))
    assert found["bad"].error.endswith("(the task's result cannot be sent)")
    assert found["bad"].details.startswith("Traceback")
    assert found["good"].error == ""


@pytest.mark.parametrize("name", POOLS)
def test_a_result_that_cannot_be_read_is_an_error(make: Make, name: str) -> None:
    with make(name, 1) as engine:
        found = outcomes(engine, task("bad", "unreadable"), task("good", "process"))
    assert found["bad"].error == (
        "ModuleNotFoundError: No module named 'no_such_module' (the task's result cannot be read)"
    )
    assert found["good"].error == ""


@pytest.mark.parametrize("name", POOLS)
def test_large_results_arrive_while_large_shared_objects_leave(make: Make, name: str) -> None:
    size = 4_000_000  # 32 MB, far beyond what a socket buffers
    tasks = [
        one
        for i in range(3)
        for one in (
            task(f"big {i}", "process", size=size),
            task(f"add {i}", "add", add=0, needs=(str(size + i),)),
        )
    ]
    with make(name, 2) as engine:
        found = outcomes(engine, *tasks)
    for i in range(3):
        big, total = found[f"big {i}"].arrays, found[f"add {i}"].arrays
        assert big is not None
        assert total is not None
        assert big["zeros"].shape == (size,)
        assert float(total["total"]) == size + i


@pytest.mark.parametrize("name", POOLS)
def test_thread_pools_of_workers_have_one_thread(make: Make, name: str) -> None:
    with make(name, 1) as engine:
        arrays = outcomes(engine, task("threads", "threads", names=tuple(ONE_THREAD)))["threads"].arrays
    assert arrays is not None
    assert arrays["wrong"].tolist() == []
    assert int(arrays["added"]) == 0


# -------------------------------------------------------------------------------------------- deaths


@pytest.mark.parametrize("name", POOLS)
def test_a_death_loses_the_executing_task_alone(make: Make, name: str) -> None:
    good = [task(f"good {i}", "draw", seed=i, size=3) for i in range(6)]
    bad = [task("leave", "leave", code=7), task("kill", "kill"), task("stop", "stop", code=3)]
    order = [good[0], bad[0], good[1], good[2], bad[1], bad[2], *good[3:]]
    with make(name, 1) as engine:  # one worker, so that innocent tasks are queued behind each poison
        found = outcomes(engine, *order)
    for one in good:
        assert (found[one.name].error, found[one.name].lost) == ("", False)
    for one in bad:
        assert found[one.name].lost
        assert found[one.name].arrays is None
        assert found[one.name].error.startswith("worker died (")
        assert found[one.name].error.endswith(f") while running {one.name}")
    if name == "local":
        codes = {one.name: found[one.name].error.split(")")[0] for one in bad}
        died = "worker died (exit code"
        assert codes == {"leave": f"{died} 7", "kill": f"{died} −9", "stop": f"{died} 3"}


def test_a_task_that_stops_the_interpreter_is_lost_in_serial_too(make: Make) -> None:
    with make("serial") as engine:
        found = outcomes(engine, task("stop", "stop", code=3), task("good", "draw", seed=1, size=2))
    assert found["stop"].lost
    assert found["stop"].error == "worker died (exit code 3) while running stop"
    assert found["good"].error == ""


@pytest.mark.parametrize("name", POOLS)
def test_a_worker_killed_from_outside_is_replaced(make: Make, name: str, tmp_path: Path) -> None:
    def strike() -> None:
        if wait_for(lambda: list(tmp_path.iterdir()), 30.0):
            os.kill(int(next(tmp_path.iterdir()).name), signal.SIGKILL)

    killer = threading.Thread(target=strike)
    killer.start()
    with make(name, 1) as engine:
        found = outcomes(
            engine,
            task("victim", "nap", seconds=60.0, cost=60.0, folder=str(tmp_path)),
            task("next", "draw", seed=1, size=2),
        )
    killer.join()
    assert found["victim"].lost
    assert found["victim"].seconds == 0.0
    assert found["next"].error == ""


@pytest.mark.parametrize("name", POOLS)
def test_a_worker_that_dies_idle_blames_no_task(make: Make, name: str) -> None:
    with make(name, 2) as engine:

        def both_at_work() -> bool:
            naps = [task(f"{i}", "nap", seconds=0.5, cost=10.0) for i in range(2)]
            pids.clear()
            for outcome in outcomes(engine, *naps).values():
                assert outcome.arrays is not None
                pids.add(int(outcome.arrays["pid"]))
            return len(pids) == 2

        pids: set[int] = set()
        assert wait_for(both_at_work, 60.0)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if name == "ray":  # of which they are no children, and which is to know
            assert wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 10.0)
            time.sleep(0.5)
        second = outcomes(engine, task("second", "process"))["second"]
        assert (second.error, second.lost) == ("", False)


def test_allocation_without_bound_is_a_memory_error_and_the_worker_lives() -> None:
    with LocalEngine(1, memory=2**30) as engine:
        found = outcomes(
            engine, task("first", "process"), task("greedy", "allocate"), task("last", "process")
        )
    assert "MemoryError" in found["greedy"].error
    assert not found["greedy"].lost
    assert found["first"].worker == found["greedy"].worker == found["last"].worker


def test_a_process_may_take_its_share_of_memory_or_what_its_task_declares() -> None:
    size = LEAST_MEMORY // 2
    tasks = [task("share", "take", size=size), task("more", "take", size=3 * size)]
    tasks += [task("declared", "take", size=3 * size, memory=5 * size), task("after", "take", size=3 * size)]
    with LocalEngine(2, memory=4 * size) as engine:
        found = outcomes(engine, *tasks)
    assert {name: outcome.error.partition(":")[0] for name, outcome in found.items()} == {
        "share": "",
        "more": "MemoryError",
        "declared": "",
        "after": "MemoryError",
    }
    told = f"(a task may take {LEAST_MEMORY:,} bytes here; with fewer --workers, more)"
    assert found["more"].error.endswith(told)


def test_the_kernel_ends_a_worker_rather_than_its_driver() -> None:
    with LocalEngine(1) as engine:
        arrays = outcomes(engine, task("victim", "victim"))["victim"].arrays
    assert arrays is not None
    assert int(arrays["score"]) == 500 > int(Path("/proc/self/oom_score_adj").read_text())


def test_tasks_wait_for_memory_and_a_lone_task_never_does() -> None:
    tasks = [
        task(f"nap {i}", "nap", seconds=0.3, memory=size) for i, size in enumerate([60, 60, 60, 500, 40, 40])
    ]
    with LocalEngine(2, memory=100) as engine:
        found = outcomes(engine, *tasks)
    spans = []
    for one in tasks:
        arrays = found[one.name].arrays
        assert arrays is not None
        spans.append((*arrays["interval"], one.memory))
    for start, _, _ in spans:
        running = [memory for began, ended, memory in spans if began <= start < ended]
        assert len(running) == 1 or sum(running) <= 100


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"name": "slurm"}, ValueError, "engine must be one of serial, local, ray, got 'slurm'"),
        ({"name": "local", "workers": 0}, ValueError, "workers must be at least 1, got 0"),
        ({"name": "local", "workers": 2.5}, TypeError, "workers must be a whole number, got 2.5"),
        ({"name": "local", "workers": True}, TypeError, "workers must be a whole number, got True"),
        (
            {"name": "serial", "workers": 2},
            ValueError,
            "workers must be 1 for engine 'serial', got 2; engine 'local' has more",
        ),
        (
            {"name": "local", "address": "auto"},
            ValueError,
            "address must be None for engine 'local', got 'auto'; engine 'ray' connects to one",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        make_engine(**arguments)
    assert str(caught.value) == message


def test_a_worker_that_cannot_be_started_is_an_engine_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with (
        make_engine("local", 1) as engine,
        pytest.raises(EngineError, match="no worker process can be started"),
    ):
        list(engine.run(Listed([task("any", "process")])))


def test_workers_that_end_before_they_are_ready_are_an_engine_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with make_engine("local", 2) as engine, pytest.raises(EngineError) as caught:
        list(engine.run(Listed([task("any", "process")])))
    assert str(caught.value).startswith("3 workers in a row ended before they were ready (exit code 1); see")
