"""Examines this machine and the disk of a store for what makes runs fail or crawl; findings have cures."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.disk import nearest_folder, write_file
from sweep.engines.base import ONE_THREAD
from sweep.errors import EngineError, LockError, StoreError
from sweep.lock import StoreLock
from sweep.machine import LEAST_MEMORY, available_memory, cpus, memory
from sweep.task import Task

#: Levels of a finding.
OK, WARNING, FAULT = "ok", "warning", "fault"

#: Free bytes below which a store is in danger, and below which it cannot grow.
_LITTLE_ROOM, _NO_ROOM = 10**9, 10**7
_FEW_FILES = 1000
#: A shard is a few hundred kilobytes to some megabytes: what writing one may take, and how fast the disk is.
_SHARD_BYTES, _SHARDS = 1 << 20, 8
_SLOW_SHARD = 0.25
_SLOW_START = 20.0


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `level` is "ok", "warning" or "fault"; what is not "ok" has its cure.

    It is `cure`, or the end of a text that is an error's.
    """

    name: str
    level: str
    text: str
    cure: str = ""


def examine(store: Path | None = None) -> list[Finding]:
    """Examine this machine for running sweeps on it, and the place of a store if one is named.

    Parameters
    ----------
    store
        Directory of a store, which may be still to be made; nothing in it changes.

    Returns
    -------
    list of Finding
        In the order of looking; a run is in danger if any has level "fault".

    Examples
    --------
    >>> [finding.name for finding in examine()]
    ['versions', 'CPUs', 'memory', 'kernel cache', 'workers', 'thread pools']
    """
    checks: list[Callable[[], Iterator[Finding]]] = [_versions, _cpus, _memory, _kernel_cache, _workers]
    findings = [finding for check in checks for finding in check()]
    return findings if store is None else [*findings, *_disk(store)]


def probe(payload: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, NDArray[Any]]:  # noqa: ARG001
    """Return how many threads a matrix product adds to a worker."""
    before = _threads()
    product = np.ones((300, 300)) @ np.ones((300, 300))
    return {"threads": np.array(_threads() - before), "product": product[:1, :1]}


def _threads() -> int:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    return int(psutil.Process().num_threads())


def _versions() -> Iterator[Finding]:
    """Compare what is installed with what this version was made for."""
    from sweep.engines.package import PROJECT, project_requirements

    try:
        listed = project_requirements()
    except metadata.PackageNotFoundError:
        cure = "install the project with pip, so that its requirements are checked"
        yield Finding("versions", WARNING, f"{PROJECT} is not installed but found on the path", cure)
        return
    missing, wrong = [], []
    for needed in listed:
        try:
            found = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            missing.append(str(needed))
            continue
        if not needed.specifier.contains(found, prereleases=True):
            wrong.append(f"{needed.name} {found} (needs {needed.specifier})")
    cure = "install the versions of requirements.lock"
    if missing:
        yield Finding("versions", FAULT, f"not installed: {', '.join(missing)}", cure)
    elif wrong:
        yield Finding("versions", WARNING, f"other versions than tested: {', '.join(wrong)}", cure)
    else:
        yield Finding("versions", OK, f"Python {platform.python_version()} and every package it needs")


def _cpus() -> Iterator[Finding]:
    allowed, seen = cpus(), os.cpu_count() or 1
    load = os.getloadavg()[0]
    text = f"{allowed} of {seen} may be used, by affinity and control groups; load {load:.1f}"
    if seen + 0.5 <= load:
        yield Finding(
            "CPUs", WARNING, text, "wait for what else runs, or expect longer than `sweep plan` says"
        )
    else:
        yield Finding("CPUs", OK, text)


def _memory() -> Iterator[Finding]:
    free, total, workers = available_memory(), memory(), cpus()
    text = f"{free / 1e9:.1f} of {total / 1e9:.1f} GB are free, {free / workers / 1e9:.1f} GB a worker"
    if free < LEAST_MEMORY:
        yield Finding("memory", FAULT, text, "end what else uses memory: a worker needs 1 GB")
    elif free < workers * LEAST_MEMORY:
        yield Finding("memory", WARNING, text, f"use --workers {free // LEAST_MEMORY}: a worker needs 1 GB")
    else:
        yield Finding("memory", OK, text)


def _kernel_cache() -> Iterator[Finding]:
    """Look where compiled kernels are kept: by the environment, which importing sweep sets where it must."""
    folder = os.environ.get("NUMBA_CACHE_DIR")
    if not folder:
        yield Finding("kernel cache", OK, "compiled kernels are kept beside their sources or in your cache")
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        cure = "set NUMBA_CACHE_DIR to a folder that you may write to"
        yield Finding("kernel cache", FAULT, f"{folder} cannot be written ({error})", cure)
    else:
        yield Finding("kernel cache", OK, f"compiled kernels are kept in {folder}")


def _workers() -> Iterator[Finding]:
    """Start one worker of the local engine and give it a task."""
    from sweep.engines import make_engine

    started = time.perf_counter()
    cure = "see what it said on standard error, or use --engine serial"
    try:
        with make_engine("local", 1) as engine:
            [outcome] = engine.run(_Single(Task(name="probe", function="sweep.doctor:probe", payload={})))
    except EngineError as error:
        yield Finding("workers", FAULT, str(error), cure)
        return
    seconds = time.perf_counter() - started
    if outcome.arrays is None:
        yield Finding("workers", FAULT, outcome.error, cure)
        return
    slow = seconds > _SLOW_START
    cure = "install Python and its packages on a local disk" if slow else ""
    yield Finding("workers", WARNING if slow else OK, f"one starts and answers in {seconds:.1f} s", cure)
    added = int(outcome.arrays["threads"])
    if added:
        cure = "use a NumPy whose BLAS heeds one of " + ", ".join(ONE_THREAD)
        yield Finding("thread pools", WARNING, f"a matrix product starts {added} threads in a worker", cure)
    else:
        yield Finding("thread pools", OK, "libraries keep to one thread in a worker")


class _Single:
    """The source of one task."""

    def __init__(self, task: Task) -> None:
        self._tasks = [task]

    def next_task(self) -> Task | None:
        return self._tasks.pop() if self._tasks else None

    def shared(self, name: str) -> Mapping[str, NDArray[Any]]:
        raise KeyError(name)


def _disk(store: Path) -> Iterator[Finding]:
    """Look at the disk of a store, within a folder of its own that is removed again."""
    home = nearest_folder(store)
    usage, files = shutil.disk_usage(home), os.statvfs(home)
    text = f"{usage.free / 1e9:.1f} of {usage.total / 1e9:.1f} GB are free at {home}"
    few = files.f_files > 0 and files.f_favail < _FEW_FILES
    level = FAULT if usage.free < _NO_ROOM else WARNING if usage.free < _LITTLE_ROOM or few else OK
    text += f", for {files.f_favail} more files" if few else ""
    yield Finding("disk space", level, text, "" if level == OK else "make room, or choose another --store")
    try:
        trial = Path(tempfile.mkdtemp(prefix=".sweep-doctor-", dir=home))
    except OSError as error:
        yield Finding("disk", FAULT, f"{home} cannot be written ({error})", "choose another --store")
        return
    try:
        yield _writing(trial)
        yield _locking(trial)
    finally:
        shutil.rmtree(trial, ignore_errors=True)


def _writing(folder: Path) -> Finding:
    """Write files as shards are: aside, forced to the disk, renamed; and read them again."""
    content = np.random.default_rng(1).bytes(_SHARD_BYTES)
    started = time.perf_counter()
    try:
        for number in range(_SHARDS):
            write_file(folder / f"{number}", content)
        whole = all((folder / f"{number}").read_bytes() == content for number in range(_SHARDS))
    except (OSError, StoreError) as error:
        return Finding("disk", FAULT, str(error), "make room, or choose another --store")
    seconds = (time.perf_counter() - started) / _SHARDS
    if not whole:
        return Finding("disk", FAULT, "what was written is read otherwise", "choose another --store")
    text = (
        f"a shard of 1 MB is on the disk in {1e3 * seconds:.0f} ms ({_SHARD_BYTES / seconds / 1e6:.0f} MB/s)"
    )
    if seconds > _SLOW_SHARD:
        return Finding(
            "disk", WARNING, text, "choose a --store on a local disk, or expect short batches to wait"
        )
    return Finding("disk", OK, text)


def _locking(folder: Path) -> Finding:
    """Take a lock, and find it refused to a second writer."""
    try:
        with StoreLock(folder, "sweep doctor"), contextlib.suppress(LockError), StoreLock(folder):
            return Finding("locking", FAULT, "two writers got the same lock", "choose another --store")
    except StoreError as error:
        return Finding("locking", FAULT, str(error), "choose a --store on a disk that allows hard links")
    return Finding("locking", OK, "a second writer is refused")
