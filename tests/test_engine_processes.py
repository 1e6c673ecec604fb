"""Engines leave no process behind, however their driver ends, and say why when nothing starts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil  # type: ignore[import-untyped,unused-ignore]
import pytest

from sweep.engines import make_engine
from sweep.errors import EngineError
from sweep.task import Outcome
from tests.engine_sources import POOLS, Listed, Make, outcomes, task, wait_for

pytestmark = pytest.mark.alone


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


def lay_decoys(folder: Path) -> None:
    """Put modules there that take the place of those that workers need, and tell when they are imported."""
    for name in ("sweep", "tests", "numpy", "psutil"):
        (folder / f"{name}.py").write_text(
            "from pathlib import Path\n"
            "Path(__file__).with_suffix('.imported').touch()\n"
            f"raise ImportError('the wrong {name}')\n"
        )


def beside_decoys(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder of decoys, in which it does not look for modules itself."""
    lay_decoys(folder)
    return subprocess.run(
        [sys.executable, "-P", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=300.0,
        check=True,
    )


#: Prints what becomes of a task; the engine's name is the argument.
SINGLE = """
import sys
from sweep.engines import make_engine
from tests.engine_sources import Listed, task
with make_engine(sys.argv[1], 1) as engine:
    for outcome in engine.run(Listed([task("single", "process")])):
        print(outcome.error or "done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", POOLS)
def test_workers_do_not_import_what_lies_in_the_current_directory(name: str, tmp_path: Path) -> None:
    assert beside_decoys(tmp_path, "-c", SINGLE, name).stdout == "done\n"
    assert not list(tmp_path.glob("*.imported"))


@pytest.mark.parametrize("closed", [(0, 1), (0, 1, 2), (2,)])
def test_workers_start_though_standard_streams_are_closed(closed: tuple[int, ...], tmp_path: Path) -> None:
    code = SINGLE.replace("print(", f"open({str(tmp_path / 'told')!r}, 'w').write(")
    streams = " ".join(f"{descriptor}>&-" for descriptor in closed)
    command = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-c", code, "local"]
    subprocess.run(command, timeout=60.0, check=True)
    assert (tmp_path / "told").read_text() == "done"


@pytest.mark.slow
def test_actors_follow_a_cluster_and_a_lost_node_blames_no_task(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "pids", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    done = beside_decoys(elsewhere, "-m", "tests.engine_cluster", str(folder))
    assert not list(elsewhere.glob("*.imported"))
    said = ("workers", "outcome", "processes", "starting")
    told = [line for line in done.stdout.splitlines() if line.startswith(said)]
    outcomes = sorted(line for line in told if line.startswith("outcome"))
    assert outcomes == [f"outcome {i} done kept" for i in range(3)]
    # One worker on the head, another on the node that joined; after its loss the head alone again. It goes on
    # when four are lost that had not started.
    assert [line for line in told if line not in outcomes] == [
        "workers 1",
        "processes 2",
        "workers 1",
        "starting 4",
    ]


@pytest.mark.usefixtures("ray_session")
def test_a_second_cluster_is_refused() -> None:
    with pytest.raises(
        EngineError, match=r"this process is connected to '127\.0\.0\.1:\d+'; call ray\.shutdown"
    ):
        make_engine("ray", address="10.0.0.1:6379")


#: In a process of its own, for it meddles with Ray; prints the error, and if the environment is restored.
REFUSED = """
import os, sys
import ray
from sweep.engines import make_engine
from sweep.errors import EngineError
def refuse(*_, **__):
    raise Exception("a")  # as when the raylet takes too long
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
        ("", "Ray cannot be started on this machine: a; try again, or engine 'local' does without Ray True"),
        ("auto", "Ray cannot be reached at 'auto': a; is the cluster up (`ray status`)? True"),
    ],
)
def test_a_ray_that_does_not_start_is_an_engine_error(address: str, message: str) -> None:
    command = [sys.executable, "-c", REFUSED, address]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == message


def test_a_cluster_that_does_not_answer_is_an_engine_error_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code = f"from sweep.engines import make_engine; make_engine('ray', 1, address={address!r})"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60.0, check=False
        )
    assert f"EngineError: Ray cannot be reached at '{address}': [Errno 111] Connection refused" in done.stderr


@pytest.mark.usefixtures("ray_session")
def test_ray_listens_on_the_loopback_interface_alone() -> None:
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [
        one for process in family for one in process.net_connections() if one.status == psutil.CONN_LISTEN
    ]
    assert len(sockets) > 5
    assert {one.laddr.ip for one in sockets} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
