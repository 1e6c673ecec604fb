"""The store of a sweep: immutable checked shards, its frame, its spec and its failures, in one directory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.disk import TEMPORARY, write_file, writing
from sweep.errors import MismatchError, StoreError
from sweep.lock import LOCK_FILE, StoreLock, lock_owner
from sweep.provenance import provenance_text
from sweep.seeds import NUMBERS_VERSION
from sweep.shard import (
    Array,
    DamageError,
    Shard,
    check_attributes,
    check_items,
    check_key,
    decode,
    digest,
    encode,
)

#: Version of the layout of directory and files.
FORMAT = 1
FRAME_FILE, SPEC_FILE, LAYOUT_FILE, RESULTS_FILE = "store.json", "spec.toml", "layout.json", "results.nc"
#: Replica number of items that have none, such as limits.
NO_REPLICA = -1


Place = tuple[Path, int]


@dataclass(frozen=True)
class Failure:
    """Why a cell or limit could not be computed, and how often it was tried."""

    key: str
    error: str
    details: str
    attempts: int


class Store:
    """A store directory; made by `Store.create` or `Store.open`.

    Reading needs no lock and may go on while a writer, which holds `StoreLock`, adds shards.

    Attributes
    ----------
    path : Path
        The directory.
    frame : dict
        What every shard has in common (study, seed, times, levels, …), as given to `create`.

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

    def __init__(self, path: str | os.PathLike[str], frame: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.frame = dict(frame)
        self._seen: dict[Path, tuple[tuple[int, ...], Shard | str]] = {}

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
        content = {"format": FORMAT, "numbers_version": NUMBERS_VERSION, "frame": store.frame}
        file = store.path / FRAME_FILE
        if file.exists():
            raise StoreError(f"{store.path} is a sweep store already: open it, or give a new --store")
        with writing(store.path):
            store.path.mkdir(parents=True, exist_ok=True)
            # Another first run may be making the same store at this moment.
            own = {LOCK_FILE, FRAME_FILE, SPEC_FILE, LAYOUT_FILE, "shards", "failures"}
            if any(entry.name not in own and entry.name[0] != "." for entry in store.path.iterdir()):
                raise StoreError(f"{store.path} holds other files: give a new or empty directory as --store")
        write_file(file, json.dumps(content).encode())
        store.write_spec(spec_text)
        return store

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Store:
        """Open an existing store.

        Raises
        ------
        StoreError
            Not a store, or one of another format or numbers version.
        """
        root = Path(path)
        try:
            content = json.loads((root / FRAME_FILE).read_text(encoding="utf-8"))
            found, numbers, frame = content["format"], content["numbers_version"], dict(content["frame"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MismatchError(
                f"{root} is not a sweep store ({type(error).__name__} in {FRAME_FILE}): "
                "give the directory named as --store of `sweep run`"
            ) from error
        if found != FORMAT:
            raise StoreError(
                f"{root} has store format {found}, this version reads {FORMAT}: use the version that made it"
            )
        if numbers != NUMBERS_VERSION:
            raise StoreError(
                f"{root} holds numbers of version {numbers}, this version makes {NUMBERS_VERSION}: "
                "give a new --store, or use the version that made it"
            )
        return cls(root, frame)

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
        return [(path, shard) for path, shard in self._scan().items() if isinstance(shard, str)]

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
            for folder in (self.path, self._shards, self._failures):
                for path in folder.glob(f"{TEMPORARY}*"):
                    path.unlink(missing_ok=True)
            yield

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
        asked = json.loads(json.dumps(frame))
        names = [name for name in {**self.frame, **asked} if self.frame.get(name) != asked.get(name)]
        if names:
            changes = [f"{name} {_difference(self.frame.get(name), asked.get(name))}" for name in names]
            raise MismatchError(
                f"store {self.path} was made with {'; '.join(changes)}: give a new --store, or set it back"
            )

    @property
    def layout_text(self) -> str:
        """The layout of the cube as last run, JSON; StoreError if there is none yet."""
        try:
            return (self.path / LAYOUT_FILE).read_text(encoding="utf-8")
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
            "network" or "fluid", a group of `sweep.schema.GROUPS`.
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
            if isinstance(self._look(path), Shard):
                return path
        labels = {"provenance": provenance_text(), **check_attributes(attributes or {})}
        image = encode(kind, keys, numbers, variables, labels)
        path = self._shards / f"{kind}-{identity}-{digest(image)}.nc"
        write_file(path, image)
        return path

    def index(self, kind: str) -> dict[tuple[str, int], Place]:
        """Return in which shard and row each stored (key, replica) lies; replica is −1 for items without one.

        Only complete shards whose bytes are as written count; the others are in `damaged`.
        """
        places: dict[tuple[str, int], Place] = {}
        for path, shard in self._scan().items():
            if isinstance(shard, Shard) and shard.kind == kind:
                for row, item in enumerate(zip(shard.keys, shard.replicas, strict=True)):
                    places.setdefault(item, (path, row))
        return places

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
        found = sorted((item[1], place) for item, place in self.index(kind).items() if item[0] == key)
        if not found:
            raise StoreError(f"store {self.path} holds no {kind} results of {key}: run the sweep first")
        shards = {path: self.load_shard(path) for path in dict.fromkeys(place[0] for _, place in found)}
        arrays: dict[str, Array] = {}
        for position, (_, (path, row)) in enumerate(found):
            for name, values in shards[path].arrays.items():
                if name not in arrays:
                    arrays[name] = np.full((len(found), *values.shape[1:]), np.nan, values.dtype)
                arrays[name][position] = values[row]
        return np.array([replica for replica, _ in found], dtype=np.int64), arrays

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
            raise StoreError(
                f"shard {path} cannot be read ({error}): run the sweep again to redo it"
            ) from error

    def set_damaged_aside(self) -> list[tuple[Path, str]]:
        """Move damaged shards to `damaged/`, so that they are redone; return where they went, and why."""
        moved = []
        for path, reason in self.damaged:
            target = self.path / "damaged" / path.name
            with writing(target):
                target.parent.mkdir(exist_ok=True)
                os.replace(path, target)
            moved.append((target, reason))
        return moved

    def record_failure(self, key: str, error: str, details: str, attempts: int) -> None:
        """Keep that a cell or limit failed; replaces an earlier record of it."""
        content = asdict(Failure(check_key(key), error, details, attempts))
        write_file(self._failures / f"{key}.json", json.dumps(content, indent=1).encode())

    def clear_failure(self, key: str) -> None:
        """Forget a failure, if there was one."""
        (self._failures / f"{check_key(key)}.json").unlink(missing_ok=True)

    def failures(self) -> dict[str, Failure]:
        """Return the recorded failures by key."""
        found = {}
        for path in sorted(self._failures.glob("*.json")):
            try:
                failure = Failure(**json.loads(path.read_text(encoding="utf-8")))
            except FileNotFoundError:  # cleared since it was listed
                continue
            except (ValueError, TypeError):
                failure = Failure(path.stem, f"the record {path} is damaged", "", 0)
            found[failure.key] = failure
        return found

    @property
    def _shards(self) -> Path:
        return self.path / "shards"

    @property
    def _failures(self) -> Path:
        return self.path / "failures"

    def _scan(self) -> dict[Path, Shard | str]:
        looks = {path: self._look(path) for path in sorted(self._shards.glob("[!.]*.nc"))}
        return {path: look for path, look in looks.items() if look is not None}

    def _look(self, path: Path) -> Shard | str | None:
        """Return a shard's items without its arrays, or what is wrong with it; None if it is gone."""
        try:
            status = path.stat()
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            if path not in self._seen or self._seen[path][0] != stamp:
                self._seen[path] = (stamp, _inspect(path))
        except FileNotFoundError:
            return None
        return self._seen[path][1]


def _inspect(path: Path) -> Shard | str:
    try:
        shard = decode(path.name, path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        return f"it cannot be read ({error})"
    except DamageError as error:
        return str(error)
    return Shard(shard.kind, shard.keys, shard.replicas, {})


def _difference(mine: Any, asked: Any) -> str:
    if isinstance(mine, list) and isinstance(asked, list) and len(mine) == len(asked):
        place = next(place for place, pair in enumerate(zip(mine, asked, strict=True)) if pair[0] != pair[1])
        return f"[{place}] = {mine[place]!r}, now {asked[place]!r}"
    return f"= {_short(mine)}, now {_short(asked)}"


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > 4:
        return f"{len(value)} values from {value[0]!r} to {value[-1]!r}"
    return repr(value)
