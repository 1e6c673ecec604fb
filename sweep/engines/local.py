"""The engine of local processes: each worker is a fresh interpreter at the other end of a socket."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import ClassVar

from sweep.engines.base import ONE_THREAD, occupy_standard_streams, search_path
from sweep.engines.pool import Event, PoolEngine, Worker, unusable
from sweep.errors import EngineError
from sweep.machine import available_memory, cpus
from sweep.task import Source, Task


class LocalWorker(Worker):
    """A child process and the driver's end of its socket."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        super().__init__(f"{os.uname().nodename}:{process.pid}")
        self.process = process
        self.connection = connection
        self.executing = False  # it has told that its first task was started


class LocalEngine(PoolEngine[LocalWorker]):
    """Runs tasks in processes of this machine, which die with this process.

    Parameters
    ----------
    workers
        Processes, ≥ 1; None for one a CPU that this process may use.
    memory
        Bytes that the executing tasks may declare together; None for what is available now. A process may
        allocate its equal share of them, or what its task declares if that is more.
    """

    name: ClassVar[str] = "local"

    def __init__(self, workers: int | None = None, *, memory: int | None = None) -> None:
        super().__init__(cpus() if workers is None else workers)
        self.memory = available_memory() if memory is None else memory

    def _capacity(self, host: str) -> int:  # noqa: ARG002  there is one host
        return self.memory

    def _hire(self) -> LocalWorker:
        occupy_standard_streams()  # a file may have held one of them until now
        ours, theirs = socket.socketpair()
        # The kernel ties a child to the thread that made it, which may end before the process does.
        bound = threading.current_thread() is threading.main_thread()
        arguments = [str(theirs.fileno()), str(os.getpid()), str(int(bound))]
        environment = {**os.environ, **ONE_THREAD, **search_path()}
        command = [sys.executable, "-m", "sweep.engines.worker", *arguments]
        # Ctrl-C must not reach the child before it ignores it: a blocked signal stays blocked across exec.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()]
            )
        except OSError as error:
            ours.close()
            raise EngineError(f"no worker process can be started with {sys.executable}: {error}") from error
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return LocalWorker(process, Connection(ours.detach()))

    def _send(self, worker: LocalWorker, task: Task, source: Source) -> bool:
        keys = self._keys(task)
        missing, dropped = worker.hold(keys)
        sent = {
            key: source.shared(name) for key, name in zip(keys, task.needs, strict=True) if key in missing
        }
        memory = max(task.memory, self.memory // self.workers)
        message = pickle.dumps((task, keys, sent, dropped, memory), protocol=5)
        try:
            worker.connection.send_bytes(message)
        except OSError:
            return False
        return True

    def _watch(self, seconds: float) -> list[Event[LocalWorker]]:
        crew = {worker.connection: worker for worker in self._crew}
        told = [
            crew[connection] for connection in wait(list(crew), seconds) if isinstance(connection, Connection)
        ]
        events = [event for worker in told for event in self._read(worker)]
        # A process that a task has left behind may keep the socket of a dead worker open.
        silent = [worker for worker in self._crew if worker not in told and worker.process.poll() is not None]
        return events + [self._death(worker) for worker in silent if not worker.connection.poll()]

    def _read(self, worker: LocalWorker) -> list[Event[LocalWorker]]:
        """Return the news in one message of a worker, or of its death when there is no more."""
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            return [self._death(worker)]
        try:
            kind, *content = pickle.loads(message)
        except Exception as error:  # noqa: BLE001  whatever a task returned that cannot be decoded here
            kind, content = "done", [*unusable(error, "read", traceback.format_exc())]
        worker.executing = kind == "started"
        if kind == "started":
            return []
        return [Event(worker, worker.outcome(*content) if kind == "done" else None)]

    def _death(self, worker: LocalWorker) -> Event[LocalWorker]:
        self._end([worker])
        code = str(worker.process.returncode).replace("-", "−")
        return Event(worker, death=f"exit code {code}", executing=worker.executing)

    def _end(self, workers: Sequence[LocalWorker]) -> None:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.wait()
            worker.connection.close()
