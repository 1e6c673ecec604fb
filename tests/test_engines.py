"""Every engine executes every task once, blames deaths on the right task, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]
import pytest
from numpy.typing import NDArray

from sweep.engines import ENGINES, make_engine
from sweep.engines.base import ONE_THREAD, Engine
from sweep.engines.local import LocalEngine
from sweep.engines.pool import SHARED_OBJECTS
from sweep.errors import EngineError
from sweep.task import Outcome, Task, execute
from tests.engine_sources import Listed, task

#: Every engine, with every number of workers that the same bits are asked of.
CREWS = [("serial", 1), ("local", 1), ("local", 2), ("local", 3), ("ray", 1), ("ray", 2)]
#: Engines whose workers can die without this process.
POOLS = [name for name in ENGINES if name != "serial"]

#: As `make_engine`.
Make = Callable[..., AbstractContextManager[Engine]]


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Make:
    """As `make_engine`; of Ray's engines of two workers there is one, and it stays open."""

    def make(name: str, workers: int | None = None) -> AbstractContextManager[Engine]:
        if name == "ray":
            session: Engine = request.getfixturevalue("ray_session")
            if workers in (None, session.workers):
                return nullcontext(session)
        return make_engine(name, workers)

    return make


def outcomes(engine: Engine, *tasks: Task) -> dict[str, Outcome]:
    """Run tasks of different names, and return what became of each."""
    found = list(engine.run(Listed(tasks)))
    assert sorted(outcome.task.name for outcome in found) == sorted(task.name for task in tasks)
    return {outcome.task.name: outcome for outcome in found}


def wait_for(condition: Callable[[], Any], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


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


def test_a_worker_that_dies_idle_blames_no_task(make: Make) -> None:
    with make("local", 1) as engine:
        arrays = outcomes(engine, task("first", "process"))["first"].arrays
        assert arrays is not None
        os.kill(int(arrays["pid"]), signal.SIGKILL)
        assert outcomes(engine, task("second", "process"))["second"].error == ""


def test_allocation_without_bound_is_a_memory_error_and_the_worker_lives() -> None:
    with LocalEngine(1, memory=2**30) as engine:
        found = outcomes(
            engine, task("first", "process"), task("greedy", "allocate"), task("last", "process")
        )
    assert "MemoryError" in found["greedy"].error
    assert not found["greedy"].lost
    assert found["first"].worker == found["greedy"].worker == found["last"].worker


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


# --------------------------------------------------------------------------------------- leaving


@pytest.mark.parametrize("name", POOLS)
def test_leaving_early_ends_the_workers(make: Make, name: str, tmp_path: Path) -> None:
    tasks = [task("quick", "process")] + [
        task(f"{i}", "nap", seconds=60.0, folder=str(tmp_path)) for i in range(3)
    ]
    with make(name, 2) as engine:
        run = engine.run(Listed(tasks))
        assert next(run).task.name == "quick"
        assert wait_for(lambda: len(list(tmp_path.iterdir())) >= 1, 30.0)
        pids = [int(file.name) for file in tmp_path.iterdir()]
        run.close()  # type: ignore[attr-defined]
        assert wait_for(lambda: not any(psutil.pid_exists(pid) for pid in pids), 2.0)
        assert outcomes(engine, task("again", "draw", seed=1, size=2))["again"].error == ""


def test_an_interrupt_within_run_ends_the_workers_at_once(make: Make, tmp_path: Path) -> None:
    def interrupt() -> None:
        if wait_for(lambda: len(list(tmp_path.iterdir())) == 2, 30.0):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    tasks = [task(f"{i}", "nap", seconds=60.0, folder=str(tmp_path)) for i in range(4)]
    with make("local", 2) as engine:
        with pytest.raises(KeyboardInterrupt):
            list(engine.run(Listed(tasks)))
        assert not any(psutil.pid_exists(int(file.name)) for file in tmp_path.iterdir())
    thread.join()


def test_workers_outlive_the_thread_that_started_them(make: Make) -> None:
    found: list[Outcome] = []
    with make("local", 1) as engine:
        thread = threading.Thread(target=lambda: found.extend(engine.run(Listed([task("first", "process")]))))
        thread.start()
        thread.join()
        second = outcomes(engine, task("second", "process"))["second"]
    assert found[0].worker == second.worker


#: A driver without a guard of its main module: workers that import it would start drivers of their own.
DRIVER = """
import sys
from sweep.engines import make_engine
from tests.engine_sources import Listed, task
name, folder = sys.argv[1:]
with make_engine(name, 2) as engine:
    for outcome in engine.run(Listed(task(f"{i}", "spin", folder=folder) for i in range(4))):
        print(outcome)
"""


@pytest.mark.slow
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("name", POOLS)
def test_no_process_outlives_its_driver(name: str, blow: signal.Signals, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "pids"
    home.mkdir()
    folder.mkdir()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, name, str(folder)],
        env={**os.environ, "HOME": str(home), "PYTHONPATH": os.getcwd()},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert wait_for(lambda: len(list(folder.iterdir())) == 2, 90.0), "no task was started"
        family = psutil.Process(driver.pid).children(recursive=True)
        assert {int(file.name) for file in folder.iterdir()} <= {process.pid for process in family}
        if blow == signal.SIGINT:
            os.killpg(driver.pid, blow)  # as a terminal does
        else:
            driver.send_signal(blow)
        _, alive = psutil.wait_procs(family, timeout=5.0)
        assert alive == []
        said = driver.communicate(timeout=5.0)[0]
    finally:
        driver.kill()
        driver.wait()
    if blow == signal.SIGINT:
        assert said.rstrip().endswith("KeyboardInterrupt")
        assert said.count("Traceback") == 1
    else:
        assert said == ""
    assert not list(home.rglob("auth_token"))


@pytest.mark.slow
def test_actors_follow_a_cluster_and_a_lost_node_blames_no_task(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.engine_cluster", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300.0, check=True)
    told = [line for line in done.stdout.splitlines() if line.startswith(("workers", "outcome", "processes"))]
    outcomes = sorted(line for line in told if line.startswith("outcome"))
    assert outcomes == [f"outcome {i} done kept" for i in range(3)]
    # One worker on the head, another on the node that joined; after its loss the head alone again.
    assert [line for line in told if line not in outcomes] == ["workers 1", "processes 2", "workers 1"]


# ------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"name": "slurm"}, ValueError, "engine must be one of serial, local, ray, got 'slurm'"),
        ({"name": "local", "workers": 0}, ValueError, "workers must be at least 1, got 0"),
        ({"name": "local", "workers": 2.0}, TypeError, "workers must be a whole number or None, got 2.0"),
        ({"name": "local", "workers": True}, TypeError, "workers must be a whole number or None, got True"),
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


@pytest.mark.usefixtures("ray_session")
def test_a_second_cluster_is_refused() -> None:
    with pytest.raises(
        EngineError, match=r"this process is connected to '127\.0\.0\.1:\d+'; call ray\.shutdown"
    ):
        make_engine("ray", address="10.0.0.1:6379")


#: In a process of its own, for it meddles with Ray; prints the error, and whether the environment is restored.
REFUSED = """
import os, sys
import ray
from sweep.engines import make_engine
from sweep.errors import EngineError
def refuse(*_, **__):
    raise ConnectionError("no room")
ray.init = refuse
before = dict(os.environ)
try:
    make_engine("ray", 1, address=sys.argv[1] or None)
except EngineError as error:
    print(error, dict(os.environ) == before)
"""


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "Ray cannot be started on this machine: no room; engine 'local' does without True"),
        ("h:1", "Ray cannot be reached at 'h:1': no room; is the cluster up (`ray status`)? True"),
    ],
)
def test_a_ray_that_does_not_start_is_an_engine_error(address: str, message: str) -> None:
    command = [sys.executable, "-c", REFUSED, address]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == message


@pytest.mark.usefixtures("ray_session")
def test_ray_listens_on_the_loopback_interface_alone() -> None:
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [
        one for process in family for one in process.net_connections() if one.status == psutil.CONN_LISTEN
    ]
    assert len(sockets) > 5
    assert {one.laddr.ip for one in sockets} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
