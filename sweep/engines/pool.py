"""The loop that keeps workers busy, shared by the engines that have workers."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sweep.engines.base import Engine, occupy_standard_streams
from sweep.errors import EngineError
from sweep.task import Arrays, Outcome, Source, Task

#: Shared objects that a worker keeps; the least recently used goes first.
SHARED_OBJECTS = 32
#: A second task waits at a worker only behind one estimated shorter than this (seconds): short tasks then
#: follow one another without a round trip, and no worker stands idle for longer than this beside a queue.
QUEUE_BEHIND = 5.0
#: How long to block for news (seconds) before the crew is looked over again.
WATCH = 1.0
#: Workers in a row that may end before they are ready.
FAILED_STARTS = 3
#: Seconds without hiring after more of them, while other workers live.
REST = 60.0


class Worker:
    """One worker as its engine sees it: its tasks in order, and the shared objects it keeps."""

    def __init__(self, label: str, host: str = "") -> None:
        self.label = label
        self.host = host  # workers of one host share its memory
        self.ready = False
        self.tasks: deque[Task] = deque()  # the first is executing, one more may be queued
        self.holds: OrderedDict[str, None] = OrderedDict()

    @property
    def memory(self) -> int:
        """Bytes that its tasks may take: they follow one another, so the largest counts."""
        return max((task.memory for task in self.tasks), default=0)

    def outcome(self, arrays: Arrays | None, error: str, details: str, seconds: float) -> Outcome:
        """Return what became of the first task."""
        return Outcome(
            task=self.tasks[0],
            arrays=arrays,
            error=error,
            details=details,
            seconds=seconds,
            worker=self.label,
        )

    def hold(self, keys: Sequence[str]) -> tuple[list[str], list[str]]:
        """Note that a task needs objects: return those to send along, and those to drop for them."""
        missing = [key for key in keys if key not in self.holds]
        for key in keys:
            self.holds[key] = None
            self.holds.move_to_end(key)
        excess = max(0, len(self.holds) - max(SHARED_OBJECTS, len(keys)))
        return missing, [self.holds.popitem(last=False)[0] for _ in range(excess)]


def unusable(cause: Exception, verb: str, details: str) -> tuple[None, str, str, float]:
    """Return what is told of a task that was executed, and whose result cannot be sent or read."""
    return None, f"{type(cause).__name__}: {cause} (the task's result cannot be {verb})", details, 0.0


W = TypeVar("W", bound=Worker)


@dataclass(frozen=True)
class Event(Generic[W]):
    """News of a worker: an outcome; or, without one, its death if `death` says how, else that it is ready.

    A death is blamed on the first task if that was `executing`; if `unsure`, it may have been any of them or
    none. `lost` says that the worker's machine is gone or out of reach, which tells nothing of the worker.
    """

    worker: W
    outcome: Outcome | None = None
    death: str = ""
    details: str = ""
    executing: bool = False
    unsure: bool = False
    lost: bool = False


class PoolEngine(Engine, Generic[W]):
    """An engine with workers: each is kept busy, and a death is blamed on the executing task alone.

    After `FAILED_STARTS` failed starts in a row the workers that live go on, and another start is tried every
    `REST` seconds; the engine fails when no worker is left. Starts on a machine that is lost do not count.
    """

    def __init__(self, workers: int) -> None:
        occupy_standard_streams()
        self.workers = workers
        self._crew: list[W] = []
        self._backlog: deque[Task] = deque()  # taken from the source, not yet (or no longer) at a worker
        self._suspects: set[str] = set()  # names of tasks that may have ended a worker; they go alone
        self._failed_starts = 0  # in a row
        self._rests_until = 0.0
        self._runs = 0

    @abstractmethod
    def _hire(self) -> W:
        """Start a worker and return at once; an event will tell that it is ready."""

    @abstractmethod
    def _send(self, worker: W, task: Task, source: Source) -> bool:
        """Send a task to a worker; False if the worker turns out to be gone.

        A death before may be told as an unsure one, but not with a suspect: it would be blamed for it.
        """

    @abstractmethod
    def _watch(self, seconds: float) -> list[Event[W]]:
        """Wait that long at most for news of the crew."""

    @abstractmethod
    def _end(self, workers: Sequence[W]) -> None:
        """End these workers at once, whatever they do."""

    @abstractmethod
    def _capacity(self, host: str) -> int:
        """Return the bytes that the tasks executing on a host may take together."""

    def run(self, source: Source) -> Iterator[Outcome]:
        """Yield outcomes as they finish (see `Engine.run`)."""
        finished: deque[Outcome] = deque()
        self._runs += 1
        try:
            while True:
                self._assign(source)
                if not finished and not self._backlog and not self._busy():
                    return
                for event in self._watch(0.0 if finished else WATCH):
                    finished.extend(self._learn(event))
                if finished:
                    yield finished.popleft()
        finally:
            self._backlog.clear()
            if self._busy():  # left early: by an error, an interrupt or the caller
                self._abandon()

    def close(self) -> None:
        """End every worker at once; harmless when repeated."""
        self._abandon()

    def _abandon(self) -> None:
        crew, self._crew = self._crew, []
        self._end(crew)

    def _keys(self, task: Task) -> list[str]:
        """Return the names under which workers keep what a task needs: another run's objects are others."""
        return [f"{self._runs}:{name}" for name in task.needs]

    def _busy(self) -> bool:
        return any(worker.tasks for worker in self._crew)

    def _idle(self) -> bool:
        return any(worker.ready and not worker.tasks for worker in self._crew)

    def _starting(self) -> int:
        return sum(not worker.ready for worker in self._crew)

    def _hiring(self) -> bool:
        """Whether the crew may get another worker; after failed starts one is tried at a time."""
        rests = self._starting() > 0 or time.monotonic() < self._rests_until
        if self._crew and rests and self._failed_starts >= FAILED_STARTS:
            return False
        return len(self._crew) < self.workers

    def _queues(self) -> list[W]:
        """Return the workers at which a task may wait for the one that executes."""
        single = [worker for worker in self._crew if worker.ready and len(worker.tasks) == 1]
        return [w for w in single if w.tasks[0].cost < QUEUE_BEHIND and w.tasks[0].name not in self._suspects]

    def _assign(self, source: Source) -> None:
        """Give tasks to workers until no worker has room or nothing is ready."""
        held: deque[Task] = deque()
        while self._idle() or self._queues() or self._starting() > len(held) or self._hiring():
            task = self._backlog.popleft() if self._backlog else source.next_task()
            if task is None:
                break
            worker = self._place(task, len(held))
            if worker is None:
                held.append(task)
                if self._idle() or not self._expects(len(held)):  # idle: it is memory that lacks
                    break
            elif self._send(worker, task, source):
                worker.tasks.append(task)
            else:
                self._dismiss(worker)
                self._backlog.appendleft(task)
        self._backlog.extendleft(reversed(held))

    def _place(self, task: Task, held: int) -> W | None:
        """Return the worker to send a task to, None if it has to wait for a worker or for memory."""
        idle = [worker for worker in self._crew if worker.ready and not worker.tasks]
        if not idle and self._expects(held + 1):
            return None
        places = idle or ([] if task.name in self._suspects else self._queues())
        return next((worker for worker in places if self._fits(worker, task)), None)

    def _fits(self, worker: W, task: Task) -> bool:
        """Whether a host's memory allows a task; alone on its host, any task is allowed."""
        others = [w for w in self._crew if w is not worker and w.host == worker.host and w.tasks]
        if not others:
            return True
        claimed = sum(other.memory for other in others) + max(worker.memory, task.memory)
        return claimed <= self._capacity(worker.host)

    def _expects(self, count: int) -> bool:
        """Whether so many workers are about to start, after hiring where the crew is not full."""
        while self._starting() < count and self._hiring():
            self._crew.append(self._hire())
        return self._starting() >= count

    def _learn(self, event: Event[W]) -> Iterator[Outcome]:
        """Take note of an event; yield the outcome it brings, if any."""
        worker = event.worker
        if event.outcome is not None:
            self._suspects.discard(worker.tasks.popleft().name)
            yield event.outcome
        elif not event.death:
            worker.ready = True
            self._failed_starts = 0
        else:
            if worker.ready:
                self._failed_starts = 0
            elif not event.lost:
                self._failed_starts += 1
                self._rests_until = time.monotonic() + REST
            # A suspect goes alone, to a worker that lives: with it, a second worker has died of it.
            if event.executing or (event.unsure and worker.tasks[0].name in self._suspects):
                task = worker.tasks.popleft()
                self._suspects.discard(task.name)
                error = f"worker died ({event.death}) while running {task.name}"
                yield Outcome(task=task, lost=True, error=error, details=event.details, worker=worker.label)
            elif event.unsure:
                self._suspects.update(task.name for task in worker.tasks)
            self._dismiss(worker)
            if self._failed_starts >= FAILED_STARTS and not self._crew and not event.lost:
                raise EngineError(
                    f"{self._failed_starts} workers in a row ended before they were ready ({event.death}); "
                    f"see their messages on standard error, or try engine 'serial'"
                )

    def _dismiss(self, worker: W) -> None:
        """Part with a worker; what was queued at it is taken up again, unblamed."""
        self._crew.remove(worker)
        self._backlog.extendleft(reversed(worker.tasks))
        worker.tasks.clear()
        self._end([worker])
