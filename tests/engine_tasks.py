"""Task functions for tests of the engines; workers import them by name."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Shared = Mapping[str, Mapping[str, NDArray[Any]]]


def draw(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    """Random bits that depend on the seed alone."""
    rng = np.random.default_rng(payload["seed"])
    return {"bits": rng.integers(2**63, size=payload["size"]), "normal": rng.standard_normal(payload["size"])}


def add(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    """The sum of everything shared, and what is shared."""
    total = sum(array["x"].sum() for array in shared.values())
    return {"total": np.array(total + payload["add"]), "names": np.array(sorted(shared))}


def fail(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    raise ArithmeticError(f"no result for {payload['what']}")


def leave(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    """End the worker, at once and without a word."""
    os._exit(payload["code"])


def stop(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    raise SystemExit(payload["code"])


def kill(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    """End the worker as the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still here")


def nap(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    """Sleep; note the process in a folder, if one is given, before, and the interval."""
    if "folder" in payload:
        Path(payload["folder"], str(os.getpid())).touch()
    began = time.time()
    time.sleep(payload["seconds"])
    return {"interval": np.array([began, time.time()]), "pid": np.array(os.getpid())}


def spin(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    """Hold the interpreter in compiled code for ever, so that no thread of the worker can run."""
    Path(payload["folder"], str(os.getpid())).touch()
    return {"n": np.array(pow(3, 10**9))}


def threads(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    """The settings of thread pools, and the threads there are."""
    names = [name for name in payload["names"] if os.environ.get(name) != "1"]
    np.ones((300, 300)) @ np.ones((300, 300))
    tasks = len(os.listdir("/proc/self/task"))
    return {
        "wrong": np.array(names, dtype=str),
        "python": np.array(threading.active_count()),
        "os": np.array(tasks),
    }


def allocate(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    """Allocate without bound."""
    blocks = []
    while True:
        blocks.append(np.ones(2**24))


def unsendable(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    return {"x": lambda: 0}  # type: ignore[dict-item]


def environment(payload: Mapping[str, Any], shared: Shared) -> Arrays:
    return {"pid": np.array(os.getpid()), "big": np.zeros(payload["size"])}
