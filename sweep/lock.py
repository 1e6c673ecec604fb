"""One writer per store: a lock file that names its owner and outlives no dead one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import socket
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]

from sweep.errors import LockError, StoreError

LOCK_FILE = "lock"
#: Seconds within which two readings of a process's start agree; the kernel's boot time is a whole second.
_SAME_START = 2.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class StoreLock:
    """The right to write to a store, held for the length of a `with` block.

    The lock is a file of JSON with host, process, its start, the time and the command. It is taken over when
    its owner ran on this host and is gone; an owner on another host cannot be asked and is believed.

    Parameters
    ----------
    path
        An existing store directory.
    command
        What the lock says its owner does; by default the command line of this process.

    Raises
    ------
    LockError
        Another live process, or one of another host, holds the lock; `owner` names it.
    StoreError
        The lock file cannot be made there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with StoreLock(folder) as lock:
    ...         print(lock.file.name, lock.file.exists())
    ...     print(lock.file.exists())
    lock True
    False
    """

    def __init__(self, path: str | os.PathLike[str], command: str | None = None) -> None:
        self.file = Path(path) / LOCK_FILE
        self._command = " ".join(sys.argv) if command is None else command
        self._content = b""
        self._pid = 0

    def __enter__(self) -> StoreLock:
        content = json.dumps(_identity(self._command)).encode()
        aside = self.file.with_name(f".{LOCK_FILE}-{os.getpid()}-{secrets.token_hex(4)}")
        try:
            try:
                _write(aside, content)
                while not _made(aside, self.file):
                    _refuse_or_take_over(self.file)
            finally:
                aside.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"the lock {self.file} cannot be made ({error}): "
                "make room, or choose a --store on a disk that you may write to and that allows hard links"
            ) from error
        self._content, self._pid = content, os.getpid()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Remove the lock file if it is still this object's own; a forked child leaves it to its parent.

        Where nothing can be removed any more, the next writer takes over the lock of an owner that is gone.
        """
        with contextlib.suppress(OSError):
            if self._pid == os.getpid() and _read(self.file) == self._content:
                self.file.unlink(missing_ok=True)
        self._content, self._pid = b"", 0


def lock_owner(path: str | os.PathLike[str]) -> str | None:
    """Return who holds the lock of a store, in words, or None if no living process does.

    Parameters
    ----------
    path
        The store directory.
    """
    content = _read(Path(path) / LOCK_FILE)
    if content is None:
        return None
    owner = _parse(content)
    return None if owner is not None and _is_gone(owner) else _describe(owner)


def _made(aside: Path, file: Path) -> bool:
    """Give the written file its name unless that is taken, so that it is never seen empty."""
    try:
        os.link(aside, file)
    except FileExistsError:
        return False
    return True


def _refuse_or_take_over(file: Path) -> None:
    """Remove the lock of a dead owner, or raise; returns as well if the lock changed meanwhile.

    Contenders that found the same dead owner come here one at a time: the old file is held by `flock`, and
    whoever gets it next sees that the name no longer leads to it.
    """
    try:
        handle = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not _names(file, handle):
            return
        owner = _parse(os.read(handle, 1 << 16))
        if owner is None or not _is_gone(owner):
            raise _refusal(file, owner)
        file.unlink()
    finally:
        os.close(handle)


def _names(file: Path, handle: int) -> bool:
    """Tell whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.stat(file), os.fstat(handle))
    except FileNotFoundError:
        return False


def _refusal(file: Path, owner: dict[str, Any] | None) -> LockError:
    text = _describe(owner)
    if owner is not None and owner["host"] == socket.gethostname():
        cure = "wait for it, or end it"
    else:
        cure = f"remove {file} if that process is gone"
    return LockError(f"store {file.parent} is locked by {text}: {cure}", text)


def _describe(owner: dict[str, Any] | None) -> str:
    if owner is None:
        return "an owner whose lock file cannot be read"
    return f"pid {owner['pid']} on {owner['host']} since {owner['time']} ({owner['command']})"


def _identity(command: str) -> dict[str, Any]:
    boot, start = _start(psutil.Process())
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "boot": boot,
        "start": start,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command[:200],
    }


def _start(process: psutil.Process) -> tuple[str, float]:
    """Return this boot of the machine and the process's start in seconds after it, which no clock shifts."""
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
    return boot, process.create_time() - psutil.boot_time()


def _is_gone(owner: dict[str, Any]) -> bool:
    """Tell whether an owner on this host has ended, or its number now belongs to another process."""
    if owner["host"] != socket.gethostname():
        return False
    try:
        process = psutil.Process(owner["pid"])
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        boot, start = _start(process)
    except psutil.AccessDenied:  # it is there, of another user
        return False
    except psutil.NoSuchProcess:
        return True
    return bool(boot != owner["boot"] or abs(start - owner["start"]) > _SAME_START)


def _parse(content: bytes) -> dict[str, Any] | None:
    """Return the owner that a lock file names, or None if it is not a lock file of ours."""
    types = {"host": str, "pid": int, "boot": str, "start": float, "time": str, "command": str}
    try:
        owner = json.loads(content)
    except ValueError:
        return None
    fits = isinstance(owner, dict) and all(isinstance(owner.get(name), kind) for name, kind in types.items())
    return owner if fits else None


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _write(file: Path, content: bytes) -> None:
    handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
