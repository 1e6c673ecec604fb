"""The window through which a dashboard shows a store on the head: a link to it and a listing of its files."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweep.disk import TEMPORARY, write_file
from sweep.errors import StoreError
from sweep.provenance import utc_now
from sweep.shard import digest
from sweep.status import store_status
from sweep.store import FRAME_FILE, LAYOUT_FILE, SPEC_FILE

#: A listing is made anew after so many seconds, or so many times what it takes to make one.
_SECONDS, _SHARE = 3.0, 20.0


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
        self._written, self._took = time.monotonic(), 0.0
        link = self._logs / self.name
        aside = link.with_name(f"{TEMPORARY}{os.getpid()}-{self.name}")
        aside.symlink_to(self.store)
        os.replace(aside, link)

    def refresh(self) -> None:
        """Write the listing again unless that was done a short time ago."""
        if time.monotonic() - self._written > max(_SECONDS, _SHARE * self._took):
            self.write()

    def write(self, *, needed: bool = False) -> None:
        """Write the listing: what the store holds, counted there, and the digest of each of its files.

        Parameters
        ----------
        needed
            Whether there has to be a store: a run has yet to make it.

        Raises
        ------
        StoreError
            `needed`, and there is no store.
        """
        begun = time.monotonic()
        try:
            status: dict[str, Any] | None = asdict(store_status(self.store))
        except StoreError:
            if needed and not (self.store / FRAME_FILE).exists():
                raise
            status = None  # it is about to be made
        content = {
            "store": str(self.store),
            "time": utc_now(),
            "status": status,
            "files": _files(self.store),
        }
        write_file(self._logs / f"{self.name}.json", json.dumps(content).encode())
        self._written = time.monotonic()
        self._took = self._written - begun


def _files(store: Path) -> dict[str, tuple[int, str]]:
    """Return size and digest of each file that makes up a store; a shard's digest is part of its name."""
    found = {}
    plain = [store / name for name in (FRAME_FILE, SPEC_FILE, LAYOUT_FILE)]
    for path in (*plain, *sorted((store / "failures").glob("[!.]*.json"))):
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # not made yet, or cleared since
            continue
        found[path.relative_to(store).as_posix()] = (len(content), digest(content))
    for path in sorted((store / "shards").glob("[!.]*.nc")):
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            continue
        found[path.relative_to(store).as_posix()] = (size, path.stem.rpartition("-")[2])
    return found


def _session_logs() -> Path:
    """Return the log folder of the Ray session in whose files a job has its directory."""
    for folder in Path.cwd().resolve().parents:
        if folder.name.startswith("session_") and (folder / "logs").is_dir():
            return folder / "logs"
    raise StoreError(f"{Path.cwd()} lies in no session of Ray: this is for jobs that `sweep submit` starts")
