"""Brings a store from a cluster's head to this machine, file by file, checked, by the dashboard alone."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.disk import TEMPORARY, replacing, write_file, writing
from sweep.engines import jobs
from sweep.engines.dashboard import Dashboard, RefusedError, UnreachableError
from sweep.engines.listing import check_head_path, window_name
from sweep.errors import EngineError, MismatchError, StoreError
from sweep.lock import StoreLock
from sweep.shard import DamageError, digest
from sweep.store import FRAME_FILE

#: Where a fetched store keeps whence it came.
RECORD_FILE = ".fetched.json"
#: Times that a file is asked for before it is given up: the store may change meanwhile.
_TRIES = 3
_DIGEST_LENGTH = 32


@dataclass(frozen=True, kw_only=True)
class Window:
    """A store on a head as last listed there, and the job that works on it, if the cluster knows one."""

    store: str  # as it was given to `submit`
    node: str
    job: jobs.Job | None
    time: str
    status: Mapping[str, Any] | None
    files: Mapping[str, tuple[int, str]]


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What a fetch has done: files of the store, how many of them were sent now, and their bytes."""

    files: int
    sent: int
    bytes: int
    complete: bool
    store: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """Whence a store was fetched: the head, its path there, and when (UTC)."""

    address: str
    store: str
    time: str


def look(dashboard: Dashboard, name: str) -> Window:
    """Return what a head's store holds.

    A job at work keeps a listing, which is read. Where none is at work, one is started that lists the store
    as it lies on the disk: it takes seconds, and works on a head that was started anew as well.

    Parameters
    ----------
    dashboard
        Of the head.
    name
        The store's path there as given to `submit`, or the name of a job.

    Raises
    ------
    ValueError
        Neither the name of a job nor an absolute path.
    EngineError
        There is no such store, or no answer.
    """
    job = jobs.find(dashboard, name)
    store = name if job is None else job.store
    check_head_path(store)
    node = job.node if job is not None and job.going else ""
    if not node:
        node = str(jobs.ask(dashboard, ["publish", "--store", store], "published")["node"])
    try:
        listing = json.loads(b"".join(dashboard.log_file(node, f"{window_name(store)}.json")))
    except RefusedError as error:
        raise EngineError(f"the job has not listed {store} yet ({error}): try again shortly") from error
    files = {path: (int(size), str(name)) for path, (size, name) in listing["files"].items()}
    return Window(
        store=store, node=node, job=job, time=listing["time"], status=listing["status"], files=files
    )


def fetch(
    dashboard: Dashboard,
    name: str,
    target: str | Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Fetched:
    """Copy a store of a head into a directory here, and make its results.nc.

    Files that are here already with the right bytes are not sent again, so that an interrupted fetch goes on
    where it was, and a later one brings what was added. Works while a job adds to the store.

    Parameters
    ----------
    dashboard
        Of the head.
    name
        The store's path there as given to `submit`, or the name of a job.
    target
        A new directory, or one that was fetched into before.
    progress
        Called with the bytes that are here and those of all files.

    Raises
    ------
    StoreError
        The directory holds something else, or cannot be written.
    EngineError
        The head does not answer, or has no such store.
    """
    window = look(dashboard, name)
    place = Path(target)
    _check_target(place, dashboard.address, window)
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    with StoreLock(place, f"sweep fetch {window.store} {place}"):
        for left in place.rglob(f"{TEMPORARY}*"):
            left.unlink(missing_ok=True)
        _keep_record(place, dashboard.address, window)
        sent, volume = _copy(dashboard, window, place, progress)
        for path in (place / "failures").glob("[!.]*.json"):  # cleared there since the last time
            if path.relative_to(place).as_posix() not in window.files:
                path.unlink(missing_ok=True)
        if "layout.json" in window.files:
            from sweep.cube import consolidate
            from sweep.layout import Layout
            from sweep.store import Store

            store = Store.open(place)
            consolidate(store, Layout.from_json(store.layout_text))
    complete = window.job is None or not window.job.going
    return Fetched(files=len(window.files), sent=sent, bytes=volume, complete=complete, store=window.store)


def record(target: str | Path) -> Record | None:
    """Return whence a directory was last fetched, None if it was not."""
    try:
        return Record(**json.loads((Path(target) / RECORD_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _keep_record(place: Path, address: str, window: Window) -> None:
    content = {"address": address, "store": window.store, "time": window.time}
    write_file(place / RECORD_FILE, json.dumps(content).encode())


def _check_target(place: Path, address: str, window: Window) -> None:
    """Raise unless the directory is new, or holds an earlier fetch of the same store and sweep."""
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    before = record(place) if place.is_dir() else None
    if before is None:
        raise StoreError(
            f"{place} holds other files: give a new directory, or one that was fetched into before"
        )
    if before.store != window.store:  # two stores may share a frame
        raise MismatchError(
            f"{place} was fetched from {before.store}, not {window.store}: give that path, or a new directory"
        )
    frame = place / FRAME_FILE
    if (
        frame.exists()
        and FRAME_FILE in window.files
        and digest(frame.read_bytes()) != window.files[FRAME_FILE][1]
    ):
        raise MismatchError(
            f"{place} was fetched from another sweep than {window.store} at {address}: give a new directory"
        )


def _copy(
    dashboard: Dashboard, window: Window, place: Path, progress: Callable[[int, int], None]
) -> tuple[int, int]:
    """Bring every file that is not here; return how many were sent, and their bytes."""
    total = sum(size for size, _ in window.files.values())
    sent = volume = here = 0
    for path, (size, expected) in window.files.items():
        file = place / _inside(path)
        if _digest_of(file) != expected and _bring(dashboard, window, path, file, expected):
            sent, volume = sent + 1, volume + size
        here += size
        progress(here, total)
    return sent, volume


def _bring(dashboard: Dashboard, window: Window, path: str, file: Path, expected: str) -> bool:
    """Bring one file; False if it is one that may go, and is no more as it was listed."""
    said = ""
    for attempt in range(_TRIES):
        try:
            pieces = dashboard.log_file(window.node, f"{window_name(window.store)}/{path}")
            _receive(pieces, file, expected)
        except UnreachableError:
            if attempt == _TRIES - 1:
                raise
        except (DamageError, RefusedError) as error:
            said = str(error)
        else:
            return True
    if path.startswith("failures/"):
        return False
    raise EngineError(
        f"{path} of {window.store} could not be fetched ({said}): fetch again, which goes on from here"
    )


def _receive(pieces: Iterable[bytes], file: Path, expected: str) -> None:
    """Write a file as it arrives, and give it its name if its digest is right."""
    total = hashlib.sha256()
    with writing(file):
        file.parent.mkdir(exist_ok=True)
    with replacing(file) as aside:
        with writing(file), open(aside, "wb") as stream:
            for piece in pieces:
                total.update(piece)
                stream.write(piece)
        if total.hexdigest()[:_DIGEST_LENGTH] != expected:
            raise DamageError("its bytes are not those that were listed")


def _digest_of(file: Path) -> str:
    """Return the digest of a file here, "" if there is none."""
    try:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()[:_DIGEST_LENGTH]
    except FileNotFoundError:
        return ""


def _inside(path: str) -> str:
    """Return a listed path if it lies within a store; a head must not make us write elsewhere."""
    parts = path.split("/")
    if (
        os.path.isabs(path)
        or ".." in parts
        or len(parts) > 2
        or (len(parts) == 2 and parts[0] not in ("shards", "failures"))
    ):
        raise EngineError(f"the head listed {path!r}, which is no file of a store: is it a head of yours?")
    return path
