"""Whole files only: written aside, forced to the disk, then renamed; a full disk is told as such."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep.errors import StoreError

#: How the names of files that are still being written begin.
TEMPORARY = ".tmp-"


def nearest_folder(path: Path) -> Path:
    """Return the path itself if it is a folder, otherwise the nearest one above it that exists.

    Examples
    --------
    >>> nearest_folder(Path("/no/such/folder"))
    PosixPath('/')
    """
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system or netCDF says of a full or forbidden disk into one sentence.

    Raises
    ------
    StoreError
        The file cannot be written.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        free = shutil.disk_usage(nearest_folder(path)).free
        raise StoreError(
            f"{path} cannot be written ({error}), {free:,} bytes are free on that disk: "
            "make room or allow writing there, then run again; nothing stored is lost"
        ) from error


def write_file(path: Path, content: bytes) -> None:
    """Write a file so that it is seen whole or not at all."""
    with writing(path), replacing(path) as aside:
        if not path.parent.exists():
            path.parent.mkdir(exist_ok=True)
            _sync(path.parent.parent)
        aside.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name to write aside, which then replaces `path` for good; nothing is left of it on error."""
    aside = path.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}-{path.name}")
    try:
        yield aside
        _sync(aside)
        os.replace(aside, path)
        _sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
