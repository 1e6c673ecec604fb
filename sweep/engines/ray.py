"""The engine of Ray actors, on a Ray of this machine or on a cluster."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from sweep.engines.base import ONE_THREAD, search_path
from sweep.engines.node import Call
from sweep.engines.pool import SHARED_OBJECTS, Event, PoolEngine, Worker, unusable
from sweep.engines.private_ray import PrivateRay, import_ray
from sweep.engines.ray_cluster import join, nodes
from sweep.errors import EngineError
from sweep.machine import cpus
from sweep.task import Arrays, Outcome, Source, Task, resolve

if TYPE_CHECKING:
    import ray

    Reference = ray.ObjectRef[Any]

#: How long workers may take to start while none is ready (seconds): a cluster may have to add nodes first.
PATIENCE = 300.0
#: The same in all (seconds), however often nodes are lost under workers that start.
_PATIENCE_IN_ALL = 10.0 * PATIENCE
#: How long an idle worker may take to answer (seconds).
_ANSWER_SECONDS = 5.0
#: How often the size of a cluster is looked up (seconds).
_SURVEY = 2.0


def executor() -> type:
    """Return what runs in a worker: the class of the actors.

    Ray puts the driver's current directory before all else on the search path of its workers, and a class of
    a module is imported there by name. A class of a function is sent whole: it may clean the path first, and
    imports afterwards.
    """

    class Executor:
        def __init__(self, strange: str | None, call: Call | None) -> None:
            if strange in sys.path:
                sys.path.remove(strange)
            if call is not None:
                from sweep.engines.node import prepare_node

                prepare_node(call)

        def greet(self) -> tuple[str, str]:
            """Return the node and the label of this worker."""
            import ray

            return ray.get_runtime_context().get_node_id(), f"{os.uname().nodename}:{os.getpid()}"

        def begin(self) -> None:
            """Answer that the next call is about to be executed."""

        def execute(self, task: Task, size: int, *shared: Arrays) -> tuple[Arrays | None, str, str, float]:
            """Run a task on what it needs, in the order of `task.needs`, within so many bytes."""
            from sweep.engines.node import allowance
            from sweep.task import execute

            with allowance(size):
                outcome = execute(task, dict(zip(task.needs, shared, strict=True)))
            return outcome.arrays, outcome.error, outcome.details, outcome.seconds

    return Executor


class RayWorker(Worker):
    """An actor, typed: Ray's handle takes any call and promises anything."""

    def __init__(self, environment: Mapping[str, str], strange: str | None, call: Call | None) -> None:
        import ray

        super().__init__("starting")
        options: dict[str, Any] = {
            "num_cpus": 1,
            "max_restarts": 0,
            "max_task_retries": 0,
            "runtime_env": {"env_vars": dict(environment)},
        }
        actor: Any = ray.remote(**options)(executor())
        self._actor = actor.remote(strange, call)
        #: Awaited answers in the order of the calls: the greeting, then two a task.
        self.answers: list[Reference] = [self._actor.greet.remote()]
        self.executing = False  # it has told that it begins its first task
        self.hired = time.monotonic()

    def lives(self) -> bool:
        """Whether the actor is still there, which Ray tells of an idle one only when it is called."""
        import ray

        try:
            ray.get(self._actor.begin.remote(), timeout=_ANSWER_SECONDS)
        except ray.exceptions.GetTimeoutError:  # slow, or on a machine out of reach, which is no death
            return True
        except ray.exceptions.RayError:
            return False
        return True

    def execute(self, task: Task, size: int, shared: Sequence[Reference]) -> None:
        """Call for a task within so many bytes; calls are executed one after the other."""
        self.answers += [self._actor.begin.remote(), self._actor.execute.remote(task, size, *shared)]

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
        self._call: Call | None = None
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
                join(address)
                self._joined = True
            else:
                self._private = PrivateRay(self.workers)
                self._follows = False
                self._environment |= search_path()
        except Exception as error:  # a start that takes too long is an Exception and no more
            where = "be started on this machine" if address is None else f"be reached at {address!r}"
            cure = "try again, or engine 'local' does without Ray"
            if address is not None:
                cure = "is the cluster up (`ray status`)?"
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
        alive = nodes()
        self._memory = {node["NodeID"]: int(node["Resources"].get("memory", 0)) for node in alive}
        if self._follows:
            self.workers = max(1, int(sum(node["Resources"].get("CPU", 0) for node in alive)))
        self._surveyed = time.monotonic()

    def _capacity(self, host: str) -> int:
        return self._memory.get(host, 0)

    def prepare(self, function: str, *arguments: Any) -> None:
        """Have a "module:name" called once a node before any task; on this machine that is done now."""
        if self._private is not None:
            resolve(function)(*arguments)
        else:
            self._call = (function, arguments)

    def run(self, source: Source) -> Iterator[Outcome]:
        """Yield outcomes as they finish (see `Engine.run`)."""
        self._news = time.monotonic()
        return super().run(source)

    def _hire(self) -> RayWorker:
        return RayWorker(self._environment, self._strange, self._call)

    def _share(self, worker: RayWorker, task: Task) -> int:
        """Return the bytes that a task may take: an equal share of its node, or double what it declares."""
        neighbours = sum(one.host == worker.host for one in self._crew)
        return max(self._capacity(worker.host) // max(neighbours, 1), 2 * task.memory)

    def _send(self, worker: RayWorker, task: Task, source: Source) -> bool:
        if task.name in self._suspects and not worker.lives():
            return False
        names = zip(self._keys(task), task.needs, strict=True)
        worker.execute(
            task, self._share(worker, task), [self._reference(key, name, source) for key, name in names]
        )
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
        answers = [self._answer(waiting[reference]) for reference in answered]
        events = [event for event in answers if event is not None]
        self._check_patience(events)
        return events

    def _check_patience(self, events: Sequence[Event[RayWorker]]) -> None:
        """Give up if no worker is ready and those that start have had their time."""
        now = time.monotonic()
        if any(worker.ready for worker in self._crew) or not all(event.death for event in events):
            self._news = now
            return
        in_all = now - self._news
        waited = min(in_all, now - max(worker.hired for worker in self._crew))
        if (waited > PATIENCE and not events) or in_all > _PATIENCE_IN_ALL:
            raise EngineError(
                f"no actor has started within {in_all:.0f} s: each needs a free CPU of the cluster, "
                "on a node that stays; see what is taken with `ray status`"
            )

    def _answer(self, worker: RayWorker) -> Event[RayWorker] | None:
        """Return the news in a worker's oldest answer; None if that is but the beginning of a task."""
        import ray

        try:
            content = ray.get(worker.answers[0])
        except ray.exceptions.OutOfMemoryError as error:  # Ray ended it for the node's sake
            return _death(worker, "out of memory", str(error))
        except ray.exceptions.RayTaskError as error:  # raised around the task: its result cannot be sent
            if not worker.ready:
                return _death(worker, _reason(error.cause), str(error))
            content = unusable(error.cause, "sent", str(error))
        except ray.exceptions.RayError as error:
            decoding = _undecoded(error) if worker.executing else None
            if decoding is None:
                self._survey()  # with its node gone a task is innocent
                gone = worker.ready and worker.host not in self._memory
                return _death(worker, _reason(error), str(error), lost=gone or _out_of_reach(error))
            content = unusable(decoding, "read", str(error))
        del worker.answers[0]
        if not worker.ready:
            worker.host, worker.label = content
            return Event(worker)
        worker.executing = content is None
        return None if content is None else Event(worker, worker.outcome(*content))

    def _end(self, workers: Sequence[RayWorker]) -> None:
        for worker in workers:
            worker.kill()


def _death(worker: RayWorker, reason: str, details: str, *, lost: bool = False) -> Event[RayWorker]:
    """Return the news of a death, for which tasks have to answer unless the machine is lost.

    What an actor tells just before its death is lost with it. So either of two tasks was executing, and one
    that has not told that it begins may have begun.
    """
    executing = not lost and worker.executing and len(worker.tasks) == 1
    unsure = not lost and not executing and bool(worker.tasks)
    return Event(worker, death=reason, details=details, executing=executing, unsure=unsure, lost=lost)


def _out_of_reach(error: Exception) -> bool:
    """Whether an error says that the machine of an actor is lost or out of reach."""
    import ray

    if isinstance(error, ray.exceptions.ActorDiedError):
        return error.preempted or "node has died" in str(error)
    return isinstance(error, (ray.exceptions.ActorUnavailableError, ray.exceptions.NodeDiedError))


def _undecoded(error: Exception) -> Exception | None:
    """Return what was raised when an answer was decoded here: Ray wraps it, and only then has a traceback."""
    import ray

    if isinstance(error, ray.exceptions.RaySystemError) and error.traceback_str:
        cause: Exception = error.client_exc
        return cause
    return None


def _reason(error: Exception) -> str:
    """Return what Ray says of a death, in a few words; the kind of error if it says nothing.

    Examples
    --------
    >>> _reason(RuntimeError("... Worker exit detail: Worker exits with an exit code 4."))
    'exit code 4'
    """
    text = str(error)
    code = re.search(r"exit code (-?\d+)", text)
    if code:
        return f"exit code {code[1].replace('-', '−')}"
    said = text.rpartition("exit detail: ")[2].partition(" Some common causes")[0]
    return " ".join(said.split()).rstrip(".") or type(error).__name__
