"""The record of what could not be computed: a file for each cell, with its error and attempts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from sweep.disk import write_file
from sweep.shard import check_key


@dataclass(frozen=True)
class Failure:
    """Why a cell could not be computed, and how often it was tried.

    `quarantined` tells that it ended the worker each time, so that trying again costs more than itself.
    """

    key: str
    error: str
    details: str
    attempts: int
    quarantined: bool = False


class Failures:
    """The failures of a store, in a folder of their own; the same key again replaces the record."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def record(self, failure: Failure) -> None:
        """Keep a failure."""
        check_key(failure.key)
        write_file(self.folder / f"{failure.key}.json", json.dumps(asdict(failure), indent=1).encode())

    def clear(self, key: str) -> None:
        """Forget a failure, if there was one."""
        (self.folder / f"{check_key(key)}.json").unlink(missing_ok=True)

    def all(self) -> dict[str, Failure]:
        """Return the recorded failures by key."""
        return {failure.key: failure for failure in self._read()}

    def _read(self) -> Iterator[Failure]:
        for path in sorted(self.folder.glob("*.json")):
            try:
                yield Failure(**json.loads(path.read_text(encoding="utf-8")))
            except FileNotFoundError:  # cleared since it was listed
                continue
            except (ValueError, TypeError, IsADirectoryError):
                yield Failure(path.stem, f"the record {path} is damaged", "", 0)
