"""Which items lie in which shard, told from files that were read whole and checked, once for each file."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.disk import write_file
from sweep.errors import StoreError
from sweep.shard import DamageError, decode

#: A shard and a row of it.
Place = tuple[Path, int]
#: Consecutive rows of a shard: key, first replica, number of replicas.
Run = tuple[str, int, int]
#: Version of the file in which checked shards are remembered.
_FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """What the rows of one shard are, and of which version of the numbers."""

    kind: str
    numbers: int
    runs: tuple[Run, ...]


class Index(Mapping[tuple[str, int], Place]):
    """Where each stored (key, replica) lies; consecutive replicas of a shard take the room of one.

    Examples
    --------
    >>> index = Index()
    >>> index.add(Path("a.nc"), Entry("network", 1, (("k", 0, 100), ("m", 0, 2))))
    >>> index["m", 1], index.count("k"), index.count("k", below=30), len(index)
    ((PosixPath('a.nc'), 101), 100, 30, 102)
    """

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[int, int, Path, int]]] = {}
        self._numbers: dict[str, tuple[int, ...]] = {}

    def add(self, path: Path, entry: Entry, aliases: Mapping[str, str] | None = None) -> None:
        """Add the rows of a shard; an item that is there already stays where it is."""
        row = 0
        for stored, first, count in entry.runs:
            key = (aliases or {}).get(stored, stored)
            self._runs.setdefault(key, []).append((first, count, path, row))
            known = self._numbers.get(key, ())
            if entry.numbers not in known:
                self._numbers[key] = (*known, entry.numbers)
            row += count

    def __getitem__(self, item: tuple[str, int]) -> Place:
        key, replica = item
        for first, count, path, row in self._runs.get(key, ()):
            if first <= replica < first + count:
                return path, row + replica - first
        raise KeyError(item)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return ((key, replica) for key in self._runs for part in self._parts(key) for replica in part)

    def __len__(self) -> int:
        return sum(self.count(key) for key in self._runs)

    def keys_stored(self) -> Iterator[str]:
        """Yield each key of which something is stored, once."""
        return iter(self._runs)

    def replicas(self, key: str) -> list[int]:
        """Return the stored replicas of a key, increasing."""
        return [replica for part in self._parts(key) for replica in part]

    def count(self, key: str, below: int | None = None) -> int:
        """Return how many replicas of a key are stored, of all or of those `below` a number."""
        parts = self._parts(key)
        if below is None:
            return sum(map(len, parts))
        return sum(max(0, min(part.stop, below) - part.start) for part in parts)

    def pieces(self, key: str, start: int, stop: int) -> Iterator[tuple[int, int, Path, int]]:
        """Yield (first replica, how many, shard, row of the first) of what is stored of start … stop − 1.

        Each replica comes once, from where `index[key, replica]` finds it.

        Examples
        --------
        >>> index = Index()
        >>> index.add(Path("a.nc"), Entry("network", 1, (("k", 0, 3),)))
        >>> index.add(Path("b.nc"), Entry("network", 1, (("k", 2, 8),)))
        >>> [(first, count, path.name, row) for first, count, path, row in index.pieces("k", 1, 6)]
        [(1, 2, 'a.nc', 1), (3, 3, 'b.nc', 1)]
        """
        missing = [range(start, stop)]
        for first, count, path, row in self._runs.get(key, ()):
            left = []
            for part in missing:
                begin, end = max(part.start, first), min(part.stop, first + count)
                if begin >= end:
                    left.append(part)
                    continue
                yield begin, end - begin, path, row + begin - first
                left += [rest for rest in (range(part.start, begin), range(end, part.stop)) if rest]
            missing = left

    def numbers(self, key: str) -> tuple[int, ...]:
        """Return the versions of the numbers that are stored of a key, increasing."""
        return tuple(sorted(self._numbers.get(key, ())))

    def _parts(self, key: str) -> list[range]:
        """Return the stored replicas of a key as ranges that increase and do not touch."""
        parts: list[range] = []
        for first, count, _, _ in sorted(self._runs.get(key, ()), key=lambda run: run[:2]):
            if parts and first <= parts[-1].stop:
                parts[-1] = range(parts[-1].start, max(parts[-1].stop, first + count))
            else:
                parts.append(range(first, first + count))
        return parts


class Catalogue:
    """The shards of a folder, each read and checked once, and again whenever its file has changed.

    What was checked is remembered in a file, so that a large store opens without reading all its bytes. That
    file may be removed at any time, and is not used unless whole. Bytes that change under an unchanged name,
    size and time are found out when the shard is read, which `forget` then takes note of.

    Parameters
    ----------
    folder
        Where the shards are.
    memory
        The file in which checked shards are remembered.
    """

    def __init__(self, folder: Path, memory: Path) -> None:
        self._folder = folder
        self._memory = memory
        self._seen: dict[str, tuple[tuple[int, ...], Entry | str]] = {}
        self._recalled = False
        self._unsaved = False

    def scan(self) -> dict[Path, Entry | str]:
        """Return each shard's entry, or what is wrong with it, in order of name."""
        looks = {path: self.look(path) for path in sorted(self._folder.glob("[!.]*.nc"))}
        return {path: look for path, look in looks.items() if look is not None}

    def look(self, path: Path) -> Entry | str | None:
        """Return what a shard holds, or what is wrong with it; None if it is gone."""
        self._recall()
        try:
            stamp = _stamp(path)
            if path.name not in self._seen or self._seen[path.name][0] != stamp:
                self._seen[path.name] = (stamp, _inspect(path))
                self._unsaved = True
        except FileNotFoundError:
            return None
        return self._seen[path.name][1]

    def note(self, path: Path, entry: Entry) -> None:
        """Take in a shard that was just written, without reading it."""
        with contextlib.suppress(FileNotFoundError):  # then the next look will tell
            self._seen[path.name] = (_stamp(path), entry)
            self._unsaved = True

    def forget(self, path: Path) -> None:
        """Have a shard checked at its next look, by other processes too; it turned out to be damaged."""
        self._seen.pop(path.name, None)
        with contextlib.suppress(OSError):  # who may only read the store cannot remove it, and need not
            self._memory.unlink(missing_ok=True)
        self._unsaved = True

    def save(self) -> None:
        """Remember what was checked, if there is news; only for the holder of the store's lock."""
        if not self._unsaved:
            return
        shards = {
            name: [*stamp, entry.kind, entry.numbers, entry.runs]
            for name, (stamp, entry) in self._seen.items()
            if isinstance(entry, Entry)
        }
        text = json.dumps({"format": _FORMAT, "shards": shards}, separators=(",", ":")).encode()
        with contextlib.suppress(StoreError):  # on a full disk it is done without
            write_file(self._memory, hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
            self._unsaved = False

    def _recall(self) -> None:
        if self._recalled:
            return
        self._recalled = True
        try:
            check, _, text = self._memory.read_bytes().partition(b"\n")
        except OSError:
            return
        if hashlib.sha256(text).hexdigest().encode() != check:
            return
        content = json.loads(text)
        if content["format"] != _FORMAT:
            return
        for name, (*stamp, kind, numbers, runs) in content["shards"].items():
            entry = Entry(kind, numbers, tuple((key, first, count) for key, first, count in runs))
            self._seen.setdefault(name, (tuple(stamp), entry))


def entry_of(kind: str, numbers: int, keys: Sequence[str], replicas: Sequence[int]) -> Entry:
    """Return the entry of a shard with these rows.

    Examples
    --------
    >>> entry_of("network", 1, ["k", "k", "k", "m"], [0, 1, 5, 6]).runs
    (('k', 0, 2), ('k', 5, 1), ('m', 6, 1))
    """
    runs: list[Run] = []
    for key, replica in zip(keys, replicas, strict=True):
        if runs and runs[-1][0] == key and sum(runs[-1][1:]) == replica:
            runs[-1] = (key, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((key, replica, 1))
    return Entry(kind, numbers, tuple(runs))


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what tells a changed file; the change of its status is a time that no copy and no owner sets."""
    status: Any = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _inspect(path: Path) -> Entry | str:
    try:
        shard = decode(path.name, path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        return f"it cannot be read ({error})"
    except DamageError as error:
        return str(error)
    return entry_of(shard.kind, shard.numbers, shard.keys, shard.replicas)
