"""Brings a store from a cluster's head to this machine, file by file, checked, by the dashboard alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sweep.cube import consolidate
from sweep.disk import TEMPORARY, replacing, write_file, writing
from sweep.engines import jobs
from sweep.engines.ask import ask
from sweep.engines.dashboard import Dashboard, RefusedError, UnreachableError
from sweep.engines.listing import check_head_path, is_listed, read_listing, window_name
from sweep.errors import EngineError, MismatchError, StoreError
from sweep.lock import StoreLock
from sweep.shard import DamageError, digest
from sweep.status import Status, laid_out
from sweep.store import FRAME_FILE, LAYOUT_FILE, RESULTS_FILE

#: Where a fetched store keeps whence it came.
RECORD_FILE = ".fetched.json"
#: Times that a file is asked for before it is given up: the store may change meanwhile.
_TRIES = 3
_DIGEST_LENGTH = 32


@dataclass(frozen=True, kw_only=True)
class Window:
    """A store on a head as last listed there, and the job that works on it, if the cluster knows one.

    `status` is None if nothing is stored yet, or if the store cannot be read: `trouble` then says why.
    Damaged files are left out of `files`.
    """

    store: str  # as it was asked for, or as the job was given it
    path: str  # without links or ~
    link: str  # name of its window
    node: str
    job: jobs.Job | None
    time: str
    status: Status | None
    trouble: str
    files: Mapping[str, tuple[int, str]]

    @property
    def goes_on(self) -> bool:
        """Whether a job, or anyone else, is at work on the store."""
        writer = None if self.status is None else self.status.writer
        return writer is not None or (self.job is not None and self.job.going)


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What a fetch has done: files of the store, how many of them were sent now, and their bytes.

    `damaged` counts the shards that are not here because they are damaged on the head. `results` is the cube,
    None if nothing is here yet.
    """

    files: int
    sent: int
    bytes: int
    damaged: int
    complete: bool
    results: Path | None


class UndeliveredError(EngineError):
    """A file did not arrive with the bytes that were listed, however often it was asked for."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Whence a store was fetched: the head, its path there without links or ~, and when (UTC)."""

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
    MismatchError
        There is no such store and no job for it.
    EngineError
        No answer, or one that is no listing of a store.
    """
    job = jobs.find(dashboard, name)
    store = job.store if job is not None and job.id == name else name
    check_head_path(store)
    if job is not None and job.going and job.node:
        node, link = job.node, window_name(job.store)
    else:
        node = str(ask(dashboard, ["publish", "--store", store], "published")["node"])
        link = window_name(store)
    try:
        text = b"".join(dashboard.log_file(node, f"{link}.json"))
    except RefusedError as error:
        raise EngineError(f"the job has not listed {store} yet ({error}): try again shortly") from error
    listing = read_listing(text, f"{store} on {dashboard.address}")
    if job is None and FRAME_FILE not in listing.files:
        raise MismatchError(
            f"{store} is not a sweep store on {dashboard.address}: give the path named as --store of "
            "`sweep submit`"
        )
    return Window(
        store=store,
        path=listing.store,
        link=link,
        node=node,
        job=job,
        time=listing.time,
        status=listing.status,
        trouble=listing.trouble,
        files=listing.files,
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
        The directory cannot be written, or holds something else (a `MismatchError`); or the store cannot be
        read on the head, or is not there (a `MismatchError`).
    EngineError
        The head does not answer; or a file could not be brought, though the others were.
    """
    window = look(dashboard, name)
    place = Path(target)
    if window.trouble:  # what would come of it could not be read here either, nor be mended by a later fetch
        raise StoreError(f"{window.store} on {dashboard.address} cannot be fetched: {window.trouble}")
    _check_target(place, dashboard.address, window)
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    with StoreLock(place, f"sweep fetch {window.store} {place}"):
        for left in place.rglob(f"{TEMPORARY}*"):
            left.unlink(missing_ok=True)
        _keep_record(place, dashboard.address, window)
        sent, volume, missed = _copy(dashboard, window, place, progress)
        if FRAME_FILE in window.files:
            for path in (place / "failures").glob("[!.]*.json"):  # cleared there since the last time
                if path.relative_to(place).as_posix() not in window.files:
                    path.unlink(missing_ok=True)
        if LAYOUT_FILE in window.files:
            consolidate(*laid_out(place))
    if missed is not None:
        raise missed
    return Fetched(
        files=len(window.files),
        sent=sent,
        bytes=volume,
        damaged=0
        if window.status is None
        else sum(not _is_here(place, name) for name in window.status.damaged),
        complete=not window.goes_on,
        results=place / RESULTS_FILE if (place / RESULTS_FILE).exists() else None,
    )


def _is_here(place: Path, shard: str) -> bool:
    """Tell whether a shard that is damaged on the head was fetched whole before; its name has its digest."""
    name = f"shards/{shard}"
    return is_listed(name) and _digest_of(place / name) == Path(name).stem.rpartition("-")[2]


def record(target: str | Path) -> Record | None:
    """Return whence a directory was last fetched, None if it was not."""
    try:
        return Record(**json.loads((Path(target) / RECORD_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _keep_record(place: Path, address: str, window: Window) -> None:
    content = {"address": address, "store": window.path, "time": window.time}
    write_file(place / RECORD_FILE, json.dumps(content).encode())


def _check_target(place: Path, address: str, window: Window) -> None:
    """Raise unless the directory is new, or holds an earlier fetch of the same store and sweep."""
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    before = record(place) if place.is_dir() else None
    if before is None:
        raise MismatchError(
            f"{place} holds other files: give a new directory, or one that was fetched into before"
        )
    # Two stores may share a frame. Older records have the path as it was asked for.
    if before.store not in (window.path, window.store):
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
) -> tuple[int, int, EngineError | None]:
    """Bring every file that is not here; return how many were sent, their bytes, and why a shard was not."""
    total = sum(size for size, _ in window.files.values())
    lacking = [path for path, (_, expected) in window.files.items() if _digest_of(place / path) != expected]
    sent = volume = 0
    here = total - sum(window.files[path][0] for path in lacking)
    progress(here, total)
    missed: EngineError | None = None
    for path in lacking:
        size, _ = window.files[path]
        try:
            if _bring(dashboard, window, path, place / path):
                sent, volume = sent + 1, volume + size
        except UndeliveredError as error:
            if not path.startswith("shards/"):
                raise
            missed = error  # the others are worth having
        here += size
        progress(here, total)
    return sent, volume, missed


def _bring(dashboard: Dashboard, window: Window, path: str, file: Path) -> bool:
    """Bring one file; False if it is one that may go, and is no more as it was listed."""
    said = ""
    for attempt in range(_TRIES):
        try:
            pieces = cast(Generator[bytes], dashboard.log_file(window.node, f"{window.link}/{path}"))
            with closing(pieces):
                _receive(pieces, file, *window.files[path])
        except UnreachableError:
            if attempt == _TRIES - 1:
                raise
        except (DamageError, RefusedError) as error:
            said = str(error)
        else:
            return True
    if path.startswith("failures/"):
        return False
    raise UndeliveredError(
        f"{path} of {window.store} could not be fetched ({said}): fetch again, which goes on from here; "
        "if it stays so, remove that file on the head and submit again"
    )


def _receive(pieces: Iterable[bytes], file: Path, size: int, expected: str) -> None:
    """Write a file as it arrives, no more than its size, and give it its name if its digest is right."""
    total, left = hashlib.sha256(), size
    with writing(file):
        file.parent.mkdir(exist_ok=True)
    with replacing(file) as aside:
        with writing(file), open(aside, "wb") as stream:
            for piece in pieces:
                left -= len(piece)
                if left < 0:
                    break
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
