"""What all shards of a store have in common: format, version of the numbers, and settings of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweep.disk import write_file
from sweep.errors import MismatchError, StoreError
from sweep.seeds import NUMBERS_VERSION

#: Version of the layout of directory and files.
FORMAT = 1
FRAME_FILE = "store.json"


def write_frame(root: Path, frame: Mapping[str, Any], numbers: Sequence[int]) -> None:
    """Keep settings and versions of the numbers, one unless they are mixed."""
    versions = numbers[0] if len(numbers) == 1 else list(numbers)
    content = {"format": FORMAT, "numbers_version": versions, "frame": frame}
    write_file(root / FRAME_FILE, json.dumps(content).encode())


def read_frame(root: Path, *, mixing: bool) -> tuple[dict[str, Any], list[int]]:
    """Return settings and versions of the numbers.

    Raises
    ------
    StoreError
        Not a store, or one of another format, or (unless `mixing`) one of other numbers alone.
    """
    try:
        content = json.loads((root / FRAME_FILE).read_text(encoding="utf-8"))
        found, stated, frame = content["format"], content["numbers_version"], dict(content["frame"])
        numbers = [int(number) for number in (stated if isinstance(stated, list) else [stated])]
    except (OSError, ValueError, KeyError, TypeError) as error:
        absent = isinstance(error, (FileNotFoundError, NotADirectoryError))
        why = f"it has no {FRAME_FILE}" if absent else f"{type(error).__name__} in {FRAME_FILE}"
        raise MismatchError(
            f"{root} is not a sweep store ({why}): give the directory named as --store of `sweep run`"
        ) from error
    if found != FORMAT:
        raise StoreError(
            f"{root} has store format {found}, this version reads {FORMAT}: use the version that made it"
        )
    if NUMBERS_VERSION not in numbers and not mixing:
        versions = " and ".join(map(str, numbers))
        raise MismatchError(
            f"{root} holds numbers of version {versions}, this version makes {NUMBERS_VERSION}: "
            "give a new --store, use the version that made it, or add --mix-numbers to have both in it"
        )
    return frame, numbers


def differences(mine: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """Return a phrase for each setting that differs, with both values.

    Examples
    --------
    >>> differences({"horizon": 3.0, "seed": 1}, {"horizon": 4.0, "seed": 1})
    ['horizon = 3.0, now 4.0']
    """
    names = [name for name in {**mine, **asked} if mine.get(name) != asked.get(name)]
    return [f"{name} {_difference(mine.get(name), asked.get(name))}" for name in names]


def _difference(mine: Any, asked: Any) -> str:
    if isinstance(mine, list) and isinstance(asked, list) and len(mine) == len(asked):
        place = next(place for place, pair in enumerate(zip(mine, asked, strict=True)) if pair[0] != pair[1])
        return f"[{place}] = {mine[place]!r}, now {asked[place]!r}"
    return f"= {_short(mine)}, now {_short(asked)}"


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > 4:
        return f"{len(value)} values from {value[0]!r} to {value[-1]!r}"
    return repr(value)
