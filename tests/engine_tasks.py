"""Task functions for tests of the engines; workers import them by name."""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Payload = Mapping[str, Any]
Shared = Mapping[str, Mapping[str, NDArray[Any]]]


def draw(payload: Payload, _: Shared) -> Arrays:
    """Random bits that depend on the seed alone."""
    rng = np.random.default_rng(payload["seed"])
    size: int = payload["size"]
    return {"bits": rng.integers(2**63, size=size), "normal": rng.standard_normal(size)}


def add(payload: Payload, shared: Shared) -> Arrays:
    """The sum of everything shared, and its names."""
    total = sum(array["x"].sum() for array in shared.values())
    return {"total": np.array(total + payload["add"]), "names": np.array(sorted(shared))}


def fail(payload: Payload, _: Shared) -> Arrays:
    raise ArithmeticError(f"no result for {payload['what']}")


def raise_always(_: Payload, __: Shared) -> Arrays:
    raise ArithmeticError("this cell never works")


def exit_at_once(_: Payload, __: Shared) -> Arrays:
    os._exit(9)


def leave(payload: Payload, _: Shared) -> Arrays:
    """End the worker, at once and without a word."""
    os._exit(payload["code"])


def stop(payload: Payload, _: Shared) -> Arrays:
    raise SystemExit(payload["code"])


def kill(_: Payload, __: Shared) -> Arrays:
    """End the worker as the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still here")


def nap(payload: Payload, _: Shared) -> Arrays:
    """Sleep; leave the process's number in a folder, if one is given, before."""
    if "folder" in payload:
        Path(payload["folder"], str(os.getpid())).touch()
    began = time.time()
    time.sleep(payload["seconds"])
    return {"interval": np.array([began, time.time()]), "pid": np.array(os.getpid())}


def spin(payload: Payload, _: Shared) -> Arrays:
    """Hold the interpreter for minutes within one operation, so that no thread of the worker can run."""
    Path(payload["folder"], str(os.getpid())).touch()
    return {"digits": np.array(pow(3, 10**9).bit_length())}


def threads(payload: Payload, _: Shared) -> Arrays:
    """The variables that do not say one thread, and how many threads a matrix product adds."""
    wrong = [name for name in payload["names"] if os.environ.get(name) != "1"]
    before = len(os.listdir("/proc/self/task"))
    np.ones((400, 400)) @ np.ones((400, 400))
    return {
        "wrong": np.array(wrong, dtype=str),
        "added": np.array(len(os.listdir("/proc/self/task")) - before),
    }


def allocate(_: Payload, __: Shared) -> Arrays:
    """Allocate without bound."""
    blocks = []
    while True:
        blocks.append(np.ones(2**22))


def take(payload: Payload, _: Shared) -> Arrays:
    """Allocate so many bytes, and use none."""
    return {"size": np.array(np.empty(payload["size"], np.int8).size)}


def victim(_: Payload, __: Shared) -> Arrays:
    """How willingly the kernel ends this process when memory is short."""
    return {"score": np.array(int(Path("/proc/self/oom_score_adj").read_text()))}


def unsendable(_: Payload, __: Shared) -> Arrays:
    return {"x": lambda: 0}  # type: ignore[dict-item]


class Unreadable:
    """What can be sent, and raises where it arrives."""

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, ("no_such_module",)


def unreadable(_: Payload, __: Shared) -> Arrays:
    return {"x": Unreadable()}  # type: ignore[dict-item]


def process(payload: Payload, _: Shared) -> Arrays:
    """The process's number, and as many zeros as asked for."""
    return {"pid": np.array(os.getpid()), "zeros": np.zeros(payload.get("size", 0))}
