"""The window through which a dashboard shows a store on the head: a link to it and a listing of its files."""

from __future__ import annotations

import hashlib
import os
import re
import time
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sweep.disk import TEMPORARY, write_file
from sweep.errors import EngineError, StoreError
from sweep.provenance import utc_now
from sweep.shard import digest
from sweep.status import Status, store_status
from sweep.store import FRAME_FILE, LAYOUT_FILE, SPEC_FILE

#: A listing is made anew after so many seconds, or so many times what it takes to make one.
_SECONDS, _SHARE = 3.0, 20.0
_PLAIN = (FRAME_FILE, SPEC_FILE, LAYOUT_FILE)
_NAME = re.compile(
    "|".join(map(re.escape, _PLAIN))
    + r"|failures/[0-9a-f]{32}\.json|shards/[a-z_]{1,40}-[0-9a-f]{16}-[0-9a-f]{32}\.nc"
)


class Content(BaseModel):
    """What a listing says; `files` has size and digest by name.

    `status` is None before there is a store, or if it cannot be read: `trouble` then says why.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    store: str  # without links or ~
    time: str  # UTC
    status: Status | None
    trouble: str = ""
    files: dict[str, tuple[Annotated[int, Field(ge=0)], Annotated[str, Field(pattern="^[0-9a-f]{32}$")]]]


def read_listing(text: bytes, store: str) -> Content:
    """Return a listing if it is one: a head must not make us write elsewhere, nor trip over what it sends.

    Parameters
    ----------
    text
        JSON.
    store
        The store and its head, for the error.

    Raises
    ------
    EngineError
        An entry is missing, of the wrong type or size, or names what is no file of a store.
    """
    try:
        listing = Content.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors()[0]
        entry = ".".join(map(str, fault["loc"])) or "all of it"
        raise EngineError(
            f"the listing of {store} is wrong, {entry!r}: {fault['msg']}: is it a head of yours?"
        ) from error
    for path in listing.files:
        if not is_listed(path):
            raise EngineError(
                f"the listing of {store} has {path!r}, which is no file of a store: is it a head of yours?"
            )
    return listing


def is_listed(path: str) -> bool:
    """Tell whether a path, relative to a store, is one of a file that a listing may name.

    Examples
    --------
    >>> is_listed("store.json"), is_listed("lock"), is_listed("../store.json"), is_listed("shards/a.nc")
    (True, False, False, False)
    """
    return _NAME.fullmatch(path) is not None


def window_name(store: str) -> str:
    """Return the name of the link and, with .json after it, of the listing, from the path as it was given.

    Examples
    --------
    >>> window_name("/data/one")
    'sweep-b6b60f4dd1b0e92e'
    """
    return f"sweep-{hashlib.sha256(store.encode()).hexdigest()[:16]}"


def check_head_path(store: str) -> str:
    """Return a store's path on the head; ValueError if it would not be the same wherever a job starts."""
    if not store.startswith(("/", "~/")):
        raise ValueError(f"store must be an absolute path on the head, or begin with ~/, got {store!r}")
    return store


class Listing:
    """Keeps a store's window in the log folder of the Ray session that this process's directory lies in.

    Parameters
    ----------
    store
        Path of the store on this machine, as the submitter gave it.
    logs
        The log folder; None for that of the job's session.

    Attributes
    ----------
    store : Path
        The store, without links or ~.
    name : str
        Of the link in the log folder; the listing is named so with .json after it.

    Raises
    ------
    StoreError
        There is no session around.
    """

    def __init__(self, store: str, logs: Path | None = None) -> None:
        self.store = Path(store).expanduser().resolve()
        self.name = window_name(store)
        self._logs = _session_logs() if logs is None else logs
        self._tried, self._took, self._faulty = time.monotonic(), 0.0, False
        link = self._logs / self.name
        aside = link.with_name(f"{TEMPORARY}{os.getpid()}-{self.name}")
        aside.symlink_to(self.store)
        os.replace(aside, link)

    def refresh(self, *, at_once: bool = False) -> str:
        """Write the listing again unless that was tried a short time ago; a fault need not last.

        Parameters
        ----------
        at_once
            Whether to write however short a time ago it was tried.

        Returns
        -------
        str
            Why it cannot be written, the first time; else "".
        """
        if not at_once and time.monotonic() - self._tried <= max(_SECONDS, _SHARE * self._took):
            return ""
        try:
            self.write()
        except (StoreError, OSError) as error:
            known, self._faulty = self._faulty, True
            return "" if known else str(error)
        return ""

    def write(self) -> None:
        """Write the listing: what the store holds, counted there, and the digest of each whole file."""
        begun = time.monotonic()
        try:
            self._write()
        finally:
            self._tried = time.monotonic()
            self._took = self._tried - begun

    def _write(self) -> None:
        status, trouble = None, ""
        try:
            status = store_status(self.store)
        except StoreError as error:
            if not isinstance(error.__cause__, FileNotFoundError):  # else it is about to be made, or is none
                trouble = str(error)
        files = _files(self.store)
        for name in status.damaged if status is not None else ():
            files.pop(f"shards/{name}", None)
        content = Content(store=str(self.store), time=utc_now(), status=status, trouble=trouble, files=files)
        write_file(self._logs / f"{self.name}.json", content.model_dump_json().encode())


def _files(store: Path) -> dict[str, tuple[int, str]]:
    """Return size and digest of each file that makes up a store; a shard's digest is part of its name."""
    found = {}
    paths = [store / name for name in _PLAIN]
    paths += [path for folder in ("failures", "shards") for path in sorted((store / folder).glob("*"))]
    for path in paths:
        name = path.relative_to(store).as_posix()
        if not is_listed(name):
            continue
        try:
            if name.startswith("shards/"):
                found[name] = (path.stat().st_size, path.stem.rpartition("-")[2])
            else:
                content = path.read_bytes()
                found[name] = (len(content), digest(content))
        except (FileNotFoundError, IsADirectoryError):  # not made yet, or cleared since, or no file
            continue
    return found


def _session_logs() -> Path:
    """Return the log folder of the Ray session in whose files a job has its directory."""
    for folder in Path.cwd().resolve().parents:
        if folder.name.startswith("session_") and (folder / "logs").is_dir():
            return folder / "logs"
    raise StoreError(f"{Path.cwd()} lies in no session of Ray: this is for jobs that `sweep submit` starts")
