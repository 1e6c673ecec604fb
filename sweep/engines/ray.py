"""The engine of Ray actors, on a Ray of this machine or on a cluster; Ray is imported here alone."""

from __future__ import annotations

import importlib
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from sweep.engines.base import ONE_THREAD, search_path
from sweep.engines.pool import SHARED_OBJECTS, Event, PoolEngine, Worker
from sweep.errors import EngineError
from sweep.machine import cpus
from sweep.task import Arrays, Source, Task

if TYPE_CHECKING:
    import ray

    Reference = ray.ObjectRef[Any]

#: How a driver connects, without printing what happens.
_QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": "warning", "namespace": "sweep"}
#: How long the first worker may take to start (seconds): a cluster may have to add nodes first.
PATIENCE = 300.0
#: How often the size of a cluster is looked up (seconds).
_SURVEY = 2.0


def executor() -> type:
    """Return what runs in a worker: the class of the actors.

    Ray puts the driver's current directory before all else on the search path of its workers, and a class of
    a module is imported there by name. A class of a function is sent whole: it may clean the path first, and
    imports afterwards.
    """

    class Executor:
        def __init__(self, strange: str | None) -> None:
            if strange in sys.path:
                sys.path.remove(strange)
            from sweep.machine import available_memory, limit_memory

            limit_memory(available_memory())

        def greet(self) -> tuple[str, str]:
            """Return the node and the label of this worker."""
            import ray

            return ray.get_runtime_context().get_node_id(), f"{os.uname().nodename}:{os.getpid()}"

        def execute(self, task: Task, *shared: Arrays) -> tuple[Arrays | None, str, str, float]:
            """Run a task on what it needs, in the order of `task.needs`."""
            from sweep.task import execute

            outcome = execute(task, dict(zip(task.needs, shared, strict=True)))
            return outcome.arrays, outcome.error, outcome.details, outcome.seconds

    return Executor


class RayWorker(Worker):
    """An actor, typed: Ray's handle takes any call and promises anything."""

    def __init__(self, environment: Mapping[str, str], strange: str | None) -> None:
        import ray

        super().__init__("starting")
        options: dict[str, Any] = {
            "num_cpus": 1,
            "max_restarts": 0,
            "max_task_retries": 0,
            "runtime_env": {"env_vars": dict(environment)},
        }
        actor: Any = ray.remote(**options)(executor())
        self._actor = actor.remote(strange)
        #: Awaited answers in the order of the calls: the greeting, then one a task.
        self.answers: list[Reference] = [self._actor.greet.remote()]

    def execute(self, task: Task, shared: Sequence[Reference]) -> None:
        """Call for a task; calls are executed one after the other."""
        self.answers.append(self._actor.execute.remote(task, *shared))

    def kill(self) -> None:
        """End the actor's process at once."""
        import ray

        ray.kill(self._actor, no_restart=True)


class RayEngine(PoolEngine[RayWorker]):
    """Runs tasks in actors, one a CPU.

    A Ray that this process is already connected to is used, and left running. Otherwise, given an address, a
    cluster is joined and left; given none, one is started on this machine, and ended by `close`.

    Parameters
    ----------
    workers
        Actors at once, ≥ 1; None for one a CPU: of this machine, or of the cluster, as it grows and shrinks.
    address
        "auto", "host:port" or "ray://host:port" of a running cluster; None for this machine.

    Raises
    ------
    EngineError
        Ray cannot be started or reached.
    """

    name: ClassVar[str] = "ray"

    def __init__(self, workers: int | None = None, *, address: str | None = None) -> None:
        super().__init__(cpus() if workers is None else workers)
        self._environment = dict(ONE_THREAD)
        self._private: PrivateRay | None = None
        self._joined = False  # a cluster, by this engine
        self._follows = workers is None
        directory = os.getcwd()
        self._open(address)
        # The workers of a cluster have no more of the driver's search path than the current directory, so
        # there it stays if the driver looks there too.
        keep = self._private is None and not {"", directory}.isdisjoint(sys.path)
        self._strange = None if keep else directory
        self._references: OrderedDict[str, Reference] = OrderedDict()
        self._memory: dict[str, int] = {}  # bytes a node offers to tasks
        self._surveyed = self._news = time.monotonic()
        self._survey()

    def _open(self, address: str | None) -> None:
        """Connect to Ray, and start it if need be."""
        import_ray()
        import ray

        if ray.is_initialized():
            present = ray.get_runtime_context().gcs_address
            if address not in (None, "auto", present):
                raise EngineError(
                    f"Ray cannot be reached at {address!r}: this process is connected to {present!r}; "
                    "call ray.shutdown() first"
                )
            return
        try:
            if address is not None:
                _join(address)
                self._joined = True
            else:
                self._private = PrivateRay(self.workers)
                self._follows = False
                self._environment |= search_path()
        except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
            where = "be started on this machine" if address is None else f"be reached at {address!r}"
            cure = "engine 'local' does without" if address is None else "is the cluster up (`ray status`)?"
            raise EngineError(f"Ray cannot {where}: {error}; {cure}") from error

    def close(self) -> None:
        """End every actor at once, and Ray if it was started here; harmless when repeated."""
        import ray

        super().close()
        self._references.clear()
        if self._private is not None:
            self._private.close()
        elif self._joined:
            ray.shutdown()
        self._private, self._joined = None, False

    def _survey(self) -> None:
        """Look up what the cluster's nodes offer."""
        alive = _nodes()
        self._memory = {node["NodeID"]: int(node["Resources"].get("memory", 0)) for node in alive}
        if self._follows:
            self.workers = max(1, int(sum(node["Resources"].get("CPU", 0) for node in alive)))
        self._surveyed = time.monotonic()

    def _capacity(self, host: str) -> int:
        return self._memory.get(host, 0)

    def _hire(self) -> RayWorker:
        return RayWorker(self._environment, self._strange)

    def _send(self, worker: RayWorker, task: Task, source: Source) -> bool:
        names = zip(self._keys(task), task.needs, strict=True)
        worker.execute(task, [self._reference(key, name, source) for key, name in names])
        excess = len(self._references) - max(SHARED_OBJECTS, len(task.needs))
        for _ in range(excess):
            self._references.popitem(last=False)
        return True

    def _reference(self, key: str, name: str, source: Source) -> Reference:
        """Return the reference of a shared object, which is put into the object store once."""
        import ray

        if key not in self._references:
            self._references[key] = ray.put(source.shared(name))
        self._references.move_to_end(key)
        return self._references[key]

    def _watch(self, seconds: float) -> list[Event[RayWorker]]:
        import ray

        if time.monotonic() - self._surveyed > _SURVEY:
            self._survey()
        waiting = {worker.answers[0]: worker for worker in self._crew if worker.answers}
        if not waiting:
            return []
        answered, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0.0)
        if not answered:
            answered, _ = ray.wait(list(waiting), num_returns=1, timeout=seconds)
        if any(worker.ready for worker in self._crew) or answered:
            self._news = time.monotonic()
        elif time.monotonic() - self._news > PATIENCE:
            raise EngineError(
                f"no actor has started within {PATIENCE:.0f} s: each needs a free CPU of the cluster; "
                "see what is taken with `ray status`"
            )
        return [self._answer(waiting[reference]) for reference in answered]

    def _answer(self, worker: RayWorker) -> Event[RayWorker]:
        """Return the news in a worker's oldest answer."""
        import ray

        try:
            content = ray.get(worker.answers[0])
        except ray.exceptions.ActorDiedError as error:
            self._survey()  # with its node gone a task is innocent
            lost = error.preempted or "node has died" in str(error) or worker.host not in self._memory
            # A result finished just before a death is lost with it: of two tasks either was executing.
            return Event(
                worker,
                death=_reason(str(error)),
                details=str(error),
                executing=not lost and len(worker.tasks) == 1,
                unsure=not lost and len(worker.tasks) > 1,
            )
        except ray.exceptions.RayTaskError as error:  # raised around the task: its result cannot be sent
            if not worker.ready:
                return Event(worker, death=str(error.cause), details=str(error))
            text = f"{type(error.cause).__name__}: {error.cause} (the task's result cannot be sent)"
            content = None, text, str(error), 0.0
        except ray.exceptions.RayError as error:  # the actor or its node is out of reach
            return Event(worker, death=_reason(str(error)), details=str(error))
        del worker.answers[0]
        if worker.ready:
            return Event(worker, worker.outcome(*content))
        worker.host, worker.label = content
        return Event(worker)

    def _end(self, workers: Sequence[RayWorker]) -> None:
        for worker in workers:
            worker.kill()


def _join(address: str) -> None:
    """Connect to a running cluster."""
    import ray
    from ray._private import ray_constants

    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():  # Ray itself would try for minutes
        socket.create_connection((host, int(port)), timeout=10.0).close()
    before = ray_constants.ENABLE_RAY_CLUSTER
    if host in ("localhost", "127.0.0.1"):  # else Ray takes it for this machine's address on the network
        ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        ray.init(address, **_QUIET)
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


class PrivateRay:
    """A Ray on this machine that keeps to itself.

    It listens on the loopback interface alone, admits those who know a token of this process, and reports to
    nobody. With the mode of authentication unset, Ray would write a token to the home directory, and later
    clusters would behave differently. A reaper ends what is left of it when this process is gone.
    """

    def __init__(self, workers: int) -> None:
        import ray
        from ray._private import ray_constants

        variables = {
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_enable_worker_prestart": "0",  # the actors start with an environment of their own
            "RAY_prestart_worker_first_driver": "0",
            "SWEEP_PRIVATE_RAY": secrets.token_hex(16),
        }
        if "RAY_AUTH_MODE" not in os.environ:
            variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        mark = f"SWEEP_PRIVATE_RAY={variables['SWEEP_PRIVATE_RAY']}"
        self._reaper = subprocess.Popen(
            [sys.executable, "-m", "sweep.engines.reaper", str(os.getpid()), mark],
            stdin=subprocess.PIPE,
            env={**os.environ, **search_path()},
            start_new_session=True,
        )
        self._clusters = (
            ray_constants.ENABLE_RAY_CLUSTER
        )  # what Ray made of the variable when it was imported
        ray_constants.ENABLE_RAY_CLUSTER = False
        try:
            with _environ(variables):
                _renew()
                ray.init("local", num_cpus=workers, include_dashboard=False, **_QUIET)
        except BaseException:  # an interrupt too: starting takes seconds
            self.close()
            raise

    def close(self) -> None:
        """End it at once."""
        import ray
        from ray._private import ray_constants

        ray.shutdown()
        ray_constants.ENABLE_RAY_CLUSTER = self._clusters
        _renew()
        self._reaper.communicate()


def import_ray() -> None:
    """Import Ray such that it does not print a paragraph on standard output for each worker that dies."""
    if "ray" not in sys.modules:
        name = "RAY_DEDUP_LOGS_SKIP_REGEX"  # read when Ray is imported
        others = os.environ.get(name)
        with _environ({name: "^A worker died or was killed" + (f"|{others}" if others else "")}):
            importlib.import_module("ray")


@contextmanager
def _environ(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _renew() -> None:
    """Have Ray read its environment again, which it does when it is imported and then no more."""
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
    raylet.Config.initialize("")


def _reason(text: str) -> str:
    """Return what Ray says of a death, in a few words.

    Examples
    --------
    >>> _reason("... Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits with an exit code 4.")
    'exit code 4'
    """
    code = re.search(r"exit code (-?\d+)", text)
    if code:
        return f"exit code {code[1].replace('-', '−')}"
    said = text.rpartition("exit detail: ")[2].partition(" Some common causes")[0]
    return " ".join(said.split()).rstrip(".")


def _nodes() -> list[dict[str, Any]]:
    """Return what Ray tells of the nodes that are alive."""
    ray: Any = importlib.import_module("ray")
    try:
        return [node for node in ray.nodes() if node["Alive"]]
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"the Ray cluster is out of reach: {error}; what is stored stays, so run again when it is back"
        ) from error
