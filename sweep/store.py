"""The store of a sweep: immutable checked shards, its frame, its spec and its failures, in one directory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.catalogue import Catalogue, Entry, Index, entry_of
from sweep.disk import TEMPORARY, write_file, writing
from sweep.errors import MismatchError, StoreError
from sweep.failures import Failure, Failures
from sweep.frame import FRAME_FILE, differences, read_frame, write_frame
from sweep.lock import LOCK_FILE, StoreLock, lock_owner
from sweep.provenance import provenance_text
from sweep.seeds import NUMBERS_VERSION
from sweep.shard import (
    Array,
    DamageError,
    Shard,
    check_attributes,
    check_items,
    decode,
    digest,
    encode,
)

SPEC_FILE, LAYOUT_FILE, RESULTS_FILE = "spec.toml", "layout.json", "results.nc"
#: Shards that were checked already; may be removed at any time.
CHECKED_FILE = "checked.json"
#: Replica number of items that have none, such as limits.
NO_REPLICA = -1

__all__ = ["FRAME_FILE", "NO_REPLICA", "Failure", "Index", "Store"]


class Store:
    """A store directory; made by `Store.create` or `Store.open`.

    Reading needs no lock and may go on while a writer, which holds `StoreLock`, adds shards.

    Attributes
    ----------
    path : Path
        The directory.
    frame : dict
        What every shard has in common (study, seed, times, levels, …), as given to `create`.
    numbers : tuple of int
        Versions of the numbers that may be stored here: one, unless mixing was allowed.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store.create(folder.name, {"seed": 1}, 'name = "example"')
    >>> key = "0123456789abcdef" * 2
    >>> path = store.write_shard("network", [key, key], [0, 1], {"X": np.array([[0.0, 0.5], [0.0, 0.75]])})
    >>> replicas, arrays = Store.open(folder.name).read("network", key)
    >>> replicas.tolist(), arrays["X"].tolist()
    ([0, 1], [[0.0, 0.5], [0.0, 0.75]])
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        frame: Mapping[str, Any],
        numbers: Sequence[int] = (NUMBERS_VERSION,),
    ) -> None:
        self.path = Path(path)
        self.frame = dict(frame)
        self.numbers = tuple(numbers)
        self._shards = self.path / "shards"
        self._catalogue = Catalogue(self._shards, self.path / CHECKED_FILE)
        self._failures = Failures(self.path / "failures")
        self._indices: dict[str, Index] = {}
        self._aliases: dict[str, str] = {}
        self._writing = False

    @classmethod
    def create(cls, path: str | os.PathLike[str], frame: Mapping[str, Any], spec_text: str) -> Store:
        """Make a store in a new or empty directory.

        Parameters
        ----------
        path
            The directory; its parents are made as well.
        frame
            What every shard will have in common: values that JSON can hold.
        spec_text
            The spec, as TOML.

        Raises
        ------
        StoreError
            The directory holds other files or is a store already, or cannot be written.
        """
        store = cls(path, json.loads(json.dumps(frame)))
        if (store.path / FRAME_FILE).exists():
            raise StoreError(f"{store.path} is a sweep store already: open it, or give a new --store")
        with writing(store.path):
            store.path.mkdir(parents=True, exist_ok=True)
            cls.check_place(store.path)
        write_frame(store.path, store.frame, store.numbers)
        store.write_spec(spec_text)
        return store

    @staticmethod
    def check_place(path: Path) -> None:
        """Check that a store can be made in a directory, which need not exist.

        Raises
        ------
        StoreError
            It is or lies in a file (a `MismatchError`), or holds other files.
        """
        for place in (path, *path.parents):
            if place.exists() and not place.is_dir():
                raise MismatchError(
                    f"--store must be a directory, got the file {place}: give another --store"
                )
        # Another first run may be making the same store at this moment.
        own = {LOCK_FILE, FRAME_FILE, SPEC_FILE, LAYOUT_FILE, CHECKED_FILE, "shards", "failures"}
        if path.exists() and any(name not in own and name[0] != "." for name in os.listdir(path)):
            raise StoreError(f"{path} holds other files: give a new or empty directory as --store")

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, mixing: bool = False) -> Store:
        """Open an existing store.

        Parameters
        ----------
        path
            The directory.
        mixing
            Whether the store may hold numbers of other versions alone, as is harmless where none are added.

        Raises
        ------
        StoreError
            Not a store, or one of another format or numbers version.
        """
        root = Path(path)
        return cls(root, *read_frame(root, mixing=mixing))

    def mix_numbers(self) -> None:
        """Allow numbers of this version beside those of others; needs the lock, and holds for good.

        Shards tell their version, `Index.numbers` that of each cell. Keys of cells depend on the version:
        `adopt` says which older key is which cell's.
        """
        if NUMBERS_VERSION not in self.numbers:
            self.numbers = (*self.numbers, NUMBERS_VERSION)
            write_frame(self.path, self.frame, self.numbers)

    def adopt(self, aliases: Mapping[str, str]) -> None:
        """Count what is stored under older keys as that of newer ones.

        Parameters
        ----------
        aliases
            New key by old key, of cells and limits alike.
        """
        self._aliases.update(aliases)
        self._indices.clear()

    @property
    def spec_path(self) -> Path:
        """The spec as last run, TOML."""
        return self.path / SPEC_FILE

    @property
    def results(self) -> Path:
        """Where the cube is kept once there is one."""
        return self.path / RESULTS_FILE

    @property
    def damaged(self) -> list[tuple[Path, str]]:
        """Shards that are left out, and why; they stay where they are until set aside."""
        return [(path, look) for path, look in self._catalogue.scan().items() if isinstance(look, str)]

    @contextmanager
    def lock(self, command: str | None = None) -> Iterator[None]:
        """Hold the right to write, and first remove what a killed writer left half written.

        Parameters
        ----------
        command
            What the lock says its owner does; by default the command line of this process.

        Raises
        ------
        LockError
            Another writer holds it.
        """
        with StoreLock(self.path, command):
            for folder in (self.path, self._shards, self._failures.folder):
                for path in folder.glob(f"{TEMPORARY}*"):
                    path.unlink(missing_ok=True)
            self._writing = True
            try:
                yield
            finally:
                self._writing = False
                self._indices.clear()
                self._catalogue.save()

    def lock_owner(self) -> str | None:
        """Return who writes to the store now, in words; None if nobody does."""
        return lock_owner(self.path)

    def check_frame(self, frame: Mapping[str, Any]) -> None:
        """Check that shards of `frame` can be added.

        Raises
        ------
        StoreError
            A field differs from the store's; names each with both values.
        """
        changes = differences(self.frame, json.loads(json.dumps(frame)))
        if changes:
            raise MismatchError(
                f"store {self.path} was made with {'; '.join(changes)}: give a new --store, or set it back"
            )

    @property
    def layout_text(self) -> str:
        """The layout of the cube as last run, JSON; StoreError if there is none yet."""
        try:
            return (self.path / LAYOUT_FILE).read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise StoreError(f"{self.path} has no layout yet: run the sweep first") from error

    def write_layout(self, text: str) -> None:
        """Keep the layout of the cube as last run, JSON."""
        write_file(self.path / LAYOUT_FILE, text.encode())

    def write_spec(self, text: str) -> None:
        """Keep the spec as last run, TOML."""
        write_file(self.spec_path, text.encode())

    def write_shard(
        self,
        kind: str,
        keys: Sequence[str],
        replicas: Sequence[int] | None,
        arrays: Mapping[str, Array],
        attributes: Mapping[str, Any] | None = None,
    ) -> Path:
        """Store a batch of items in one shard, unless they are there already.

        Parameters
        ----------
        kind
            A group of `sweep.schema.GROUPS` but "cells": "network", "equilibrium" or "scaled" for replicas,
            "fluid", "invariant" or "diffusion" for limits.
        keys
            Key of each item's cell or limit, 32 hexadecimal digits.
        replicas
            Replica number of each item; None for items that have none.
        arrays
            By variable name: an item axis, then the dimensions of the variable.
        attributes
            Text and numbers kept with them; provenance is added.

        Returns
        -------
        Path
            The shard.

        Raises
        ------
        ValueError
            Keys, replicas or shapes that do not fit each other or the schema.
        TypeError
            An attribute that is neither text nor a number.
        StoreError
            The disk is full or cannot be written; no part of the shard is left.
        """
        numbers = [NO_REPLICA] * len(keys) if replicas is None else [int(number) for number in replicas]
        variables = check_items(kind, keys, numbers, arrays)
        identity = hashlib.sha256(json.dumps([kind, list(keys), numbers]).encode()).hexdigest()[:16]
        for path in sorted(self._shards.glob(f"{kind}-{identity}-*.nc")):
            if isinstance(self._catalogue.look(path), Entry):
                return path
        labels = {"provenance": provenance_text(), **check_attributes(attributes or {})}
        image = encode(kind, keys, numbers, variables, labels)
        path = self._shards / f"{kind}-{identity}-{digest(image)}.nc"
        write_file(path, image)
        entry = entry_of(kind, NUMBERS_VERSION, keys, numbers)
        self._catalogue.note(path, entry)
        if kind in self._indices:
            self._indices[kind].add(path, entry, self._aliases)
        return path

    def index(self, kind: str) -> Index:
        """Return in which shard and row each stored (key, replica) lies; replica is −1 for items without one.

        Only complete shards whose bytes are as written count; the others are in `damaged`. To the holder of
        the lock, to whose shards nobody else adds, this is one index that grows with what it writes.
        """
        if self._writing and kind in self._indices:
            return self._indices[kind]
        index = Index()
        for path, entry in self._catalogue.scan().items():
            if isinstance(entry, Entry) and entry.kind == kind:
                index.add(path, entry, self._aliases)
        if self._writing:
            self._indices[kind] = index
            self._catalogue.save()
        return index

    def reindex(self) -> None:
        """Have the index made anew from the disk, after an interrupt that may have come between the two."""
        self._indices.clear()

    def read(self, kind: str, key: str) -> tuple[NDArray[np.int64], dict[str, Array]]:
        """Return all stored replicas of one cell, or the one solve of a limit.

        Returns
        -------
        replicas : ndarray, shape (item,)
            Increasing; a single −1 for a limit.
        arrays : dict
            By variable name, shape (item, …); NaN where an item lacks a variable that another has.

        Raises
        ------
        StoreError
            Nothing is stored of it.
        """
        index = self.index(kind)
        replicas = index.replicas(key)
        if not replicas:
            raise StoreError(f"store {self.path} holds no {kind} results of {key}: run the sweep first")
        places = [index[key, replica] for replica in replicas]
        shards = {path: self.load_shard(path) for path in dict.fromkeys(path for path, _ in places)}
        arrays: dict[str, Array] = {}
        for position, (path, row) in enumerate(places):
            for name, values in shards[path].arrays.items():
                if name not in arrays:
                    arrays[name] = np.full((len(places), *values.shape[1:]), np.nan, values.dtype)
                arrays[name][position] = values[row]
        return np.array(replicas, dtype=np.int64), arrays

    def load_shard(self, path: Path) -> Shard:
        """Read a whole shard, its bytes checked.

        Raises
        ------
        StoreError
            It was damaged or removed since it was indexed.
        """
        try:
            return decode(path.name, path.read_bytes())
        except (OSError, DamageError) as error:
            self._catalogue.forget(path)
            self._indices.clear()
            raise StoreError(
                f"shard {path} cannot be read ({error}): run the sweep again to redo it"
            ) from error

    def set_damaged_aside(self) -> None:
        """Move damaged shards to `damaged/`, so that they are redone."""
        for path, _ in self.damaged:
            target = self.path / "damaged" / path.name
            with writing(target):
                target.parent.mkdir(exist_ok=True)
                os.replace(path, target)
        self._indices.clear()

    def record_failure(
        self, key: str, error: str, details: str, attempts: int, *, quarantined: bool = False
    ) -> None:
        """Keep that a cell or limit failed, or was `quarantined`; replaces an earlier record of it."""
        self._failures.record(Failure(key, error, details, attempts, quarantined))

    def clear_failure(self, key: str) -> None:
        """Forget a failure, if there was one."""
        self._failures.clear(key)

    def failures(self) -> dict[str, Failure]:
        """Return the recorded failures by key."""
        return self._failures.all()
