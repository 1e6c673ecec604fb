"""A local worker: `python -m sweep.engines.worker FD PARENT BOUND`, started by the local engine alone.

It does not import the driver's `__main__`, so drivers may be scripts, notebooks or one-liners.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

from sweep.machine import LEAST_MEMORY, limit_memory, offer_as_victim

#: Constant of <sys/prctl.h>.
PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Execute tasks from the socket `FD` until it closes or the driver (process `PARENT`) is gone."""
    fd, parent, bound = (int(text) for text in arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver gets Ctrl-C too, and ends its workers
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if bound:
        die_with(parent)
    offer_as_victim()
    os.set_inheritable(fd, False)
    connection = Connection(fd)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=receive, args=(connection, inbox), daemon=True).start()
    serve(connection, inbox)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, whatever code it is in."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above took effect
        os._exit(1)


def receive(connection: Connection, inbox: queue.SimpleQueue[Any]) -> None:
    """Move messages to the inbox, so that the driver never waits for a task to end; leave when it is gone."""
    while True:
        try:
            inbox.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def serve(connection: Connection, inbox: queue.SimpleQueue[Any]) -> None:
    """Execute tasks one after the other; replies are ("ready",), ("started",) and ("done", …)."""
    from sweep.engines.pool import unusable
    from sweep.task import Arrays, execute

    shared: dict[str, Arrays] = {}
    connection.send(("ready",))
    while True:
        task, keys, sent, dropped, memory = pickle.loads(inbox.get())
        connection.send(("started",))
        shared.update(sent)
        for key in dropped:
            del shared[key]
        limit_memory(memory)
        outcome = execute(task, {name: shared[key] for name, key in zip(task.needs, keys, strict=True)})
        error = outcome.error
        if "MemoryError" in error.partition(":")[0]:
            error += (
                f" (a task may take {max(memory, LEAST_MEMORY):,} bytes here; with fewer --workers, more)"
            )
        reply = ("done", outcome.arrays, error, outcome.details, outcome.seconds)
        try:
            message = pickle.dumps(reply, protocol=5)
        except Exception as cause:  # noqa: BLE001  whatever a task returned that cannot be sent
            arrays, error, details, _ = unusable(cause, "sent", traceback.format_exc())
            message = pickle.dumps(("done", arrays, error, details, outcome.seconds), protocol=5)
        connection.send_bytes(message)


if __name__ == "__main__":
    main(sys.argv[1:])
