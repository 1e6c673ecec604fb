"""The format of a shard: a netCDF-4 file of many items with a completeness mark and a checksum inside."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import netCDF4
import numpy as np
from numpy.typing import NDArray

from sweep.schema import GROUPS, Variable

#: Kinds of shards: every group of arrays, whereas `cells` is told from them and from the failures.
KINDS = tuple(group for group in GROUPS if group != "cells")

_SHARD = re.compile(r"(?P<kind>[a-z_]+)-[0-9a-f]{16}-(?P<digest>[0-9a-f]{32})\.nc")
_KEY = re.compile(r"[0-9a-f]{32}")
_CHUNK_BYTES = 1 << 20

Array = NDArray[Any]


@dataclass(frozen=True)
class Shard:
    """What one shard holds: an item a row, each a (key, replica) with its arrays.

    `numbers` is the version of the numbers of what wrote it, 0 if it does not say.
    """

    kind: str
    keys: tuple[str, ...]
    replicas: tuple[int, ...]
    arrays: Mapping[str, Array]
    numbers: int


class DamageError(Exception):
    """Bytes that are not a complete shard; the text says what is wrong."""


def check_key(key: str) -> str:
    """Return `key` if it is one of a cell or limit.

    Raises
    ------
    ValueError
        Not 32 hexadecimal digits.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(f"key must be 32 hexadecimal digits, got {key!r}")
    return key


def check_attributes(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `attributes` if netCDF can hold each.

    Raises
    ------
    TypeError
        A value that is neither text nor a number.
    """
    for name, value in attributes.items():
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise TypeError(f"attribute {name} must be text or a number, got {value!r}: give it as JSON text")
    return attributes


def check_items(
    kind: str, keys: Sequence[str], replicas: Sequence[int], arrays: Mapping[str, Array]
) -> dict[str, tuple[Variable, Array]]:
    """Return schema entry and contiguous values of each array, if all fit each other.

    Raises
    ------
    ValueError
        An unknown kind or variable, keys and replicas that do not pair or repeat, arrays of other shapes.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if len(keys) != len(replicas) or not keys:
        raise ValueError(
            f"keys and replicas must have one entry an item, got {len(keys)} and {len(replicas)}"
        )
    if len({(check_key(key), replica) for key, replica in zip(keys, replicas, strict=True)}) < len(keys):
        raise ValueError(f"items must differ, got one twice among {len(keys)}")
    sizes = {"item": len(keys)}
    variables = {}
    for name, given in arrays.items():
        if name not in GROUPS[kind]:
            raise ValueError(f"variables of {kind} must be among {', '.join(GROUPS[kind])}, got {name!r}")
        variable = GROUPS[kind][name]
        values = np.ascontiguousarray(given, dtype=f"<{variable.dtype}")
        dims = ("item", *variable.dims)
        expected = tuple(sizes.setdefault(dim, size) for dim, size in zip(dims, values.shape, strict=False))
        if values.ndim != len(dims) or values.shape != expected:
            raise ValueError(
                f"{name} must have dimensions {dims} with sizes {sizes}, got shape {values.shape}"
            )
        variables[name] = (variable, values)
    return variables


def encode(
    kind: str,
    keys: Sequence[str],
    replicas: Sequence[int],
    variables: Mapping[str, tuple[Variable, Array]],
    attributes: Mapping[str, Any],
) -> bytes:
    """Return a shard as the bytes of a netCDF-4 file, made in memory: the disk sees whole files only."""
    names = np.frombuffer("".join(keys).encode(), "S1").reshape(len(keys), 32)
    content: dict[str, tuple[tuple[str, ...], Array, Mapping[str, str]]] = {
        "key": (("item", "hex"), names, {"long_name": "identity of the parameters"}),
        "replica": (
            ("item",),
            np.asarray(replicas, "<i4"),
            {"long_name": "replica, counted from 0; −1 if none"},
        ),
    }
    for name, (variable, values) in variables.items():
        content[name] = (
            ("item", *variable.dims),
            values,
            {"units": variable.units, "long_name": variable.long_name},
        )
    file = netCDF4.Dataset("shard", "w", format="NETCDF4", memory=_CHUNK_BYTES)
    for name, (dims, values, labels) in content.items():
        for dim, size in zip(dims, values.shape, strict=True):
            if dim not in file.dimensions:
                file.createDimension(dim, size)
        row = max(1, values[0].nbytes)
        chunks = (min(len(keys), max(1, _CHUNK_BYTES // row)), *values.shape[1:])
        target = file.createVariable(
            name,
            values.dtype,
            dims,
            zlib=True,
            complevel=1,
            shuffle=True,
            chunksizes=chunks,
            fill_value=False,
        )
        target.setncatts(labels)
        target[...] = values
    checksum = checksum_of({name: values for name, (_, values, _) in content.items()})
    file.setncatts({**attributes, "kind": kind, "checksum": checksum})
    file.setncattr("complete", np.int32(1))
    return bytes(file.close())


def decode(name: str, image: bytes) -> Shard:
    """Return the items of a shard from its bytes.

    The name holds a digest of the bytes, compared before the HDF5 library sees them: it crashes or hangs on
    some damaged files.

    Raises
    ------
    DamageError
        The bytes are not those of a complete shard of that name.
    """
    match = _SHARD.fullmatch(name)
    if match is None:
        raise DamageError("its name is not that of a shard")
    if digest(image) != match["digest"]:
        raise DamageError("its bytes are not those that were written")
    with netCDF4.Dataset(name, memory=image) as file:
        file.set_auto_mask(False)
        arrays = {variable: np.asarray(file[variable][...]) for variable in file.variables}
        complete, checksum = getattr(file, "complete", 0), getattr(file, "checksum", "")
        provenance = getattr(file, "provenance", "{}")
    if complete != 1:
        raise DamageError("it is not marked complete")
    if checksum != checksum_of(arrays):
        raise DamageError("its arrays do not match their checksum")
    text = arrays.pop("key").tobytes().decode()
    keys = tuple(sys.intern(text[i : i + 32]) for i in range(0, len(text), 32))
    replicas = tuple(arrays.pop("replica").tolist())
    numbers = json.loads(provenance).get("numbers_version", 0)
    return Shard(match["kind"], keys, replicas, arrays, numbers)


def digest(image: bytes) -> str:
    """Return the part of a shard's name that tells its bytes."""
    return hashlib.sha256(image).hexdigest()[:32]


def checksum_of(arrays: Mapping[str, Array]) -> str:
    """Return the SHA-256 of names, types, shapes and bytes of all arrays, in order of name."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        values = arrays[name]
        total.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        total.update(np.ascontiguousarray(values).data)
    return total.hexdigest()
