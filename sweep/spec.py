"""Reads the sweep specification: one TOML file, checked whole before anything is computed."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from sweep.arguments import shown
from sweep.errors import SpecError
from sweep.studies.base import SweepSpec
from sweep.studies.equilibrium import EquilibriumSpec
from sweep.studies.heavy_traffic import HeavyTrafficSpec
from sweep.studies.transient import TransientSpec

#: The model of a spec by its study.
STUDIES: Mapping[str, type[SweepSpec]] = {
    "transient": TransientSpec,
    "equilibrium": EquilibriumSpec,
    "heavy-traffic": HeavyTrafficSpec,
}


#: What a value must be that has another type, in the words of TOML.
_TYPES = {
    "string_type": "text",
    "tuple_type": "a list",
    "model_type": "a table",
    "bool_type": "true or false",
    "float_type": "a number",
}


def read_spec(path: str | Path) -> SweepSpec:
    """Read and check a spec file.

    Raises
    ------
    SpecError
        Every fault of the file, one line each.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(str(path), [f"the spec file must be readable text: {error}"]) from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(str(path), [f"the spec must be TOML: {error}"]) from None
    return parse_spec(tables, source=str(path))


def parse_spec(tables: Mapping[str, Any], source: str = "spec") -> SweepSpec:
    """Check a spec given as a mapping like that of its TOML text.

    Raises
    ------
    TypeError
        No mapping.
    SpecError
        Every fault, one line each.
    """
    if not isinstance(tables, Mapping):
        raise TypeError(f"spec must be a path or tables like those of its TOML text, got {shown(tables)}")
    given, faults = dict(tables), []
    if str(given.get("study")) not in STUDIES:
        close = difflib.get_close_matches(str(given.get("study")), STUDIES, 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        got = f"got {given['study']!r}{hint}" if "study" in given else "got none"
        faults.append(f"study must be one of {', '.join(STUDIES)}, {got}")
        given["study"] = close[0] if close else "transient"  # to find what else is wrong
    model = STUDIES[given["study"]]
    try:
        spec = model.model_validate(given)
    except ValidationError as error:
        faults += [line for fault in error.errors() for line in _sentences(fault, model.tables())]
    if faults:
        raise SpecError(source, list(dict.fromkeys(faults)))
    return spec


def _sentences(fault: Any, tables: Mapping[str, type[BaseModel]]) -> list[str]:
    """Turn one of pydantic's findings into "<name> must <rule>, got <value>" lines."""
    path = [
        part for part in fault["loc"] if isinstance(part, int) or part not in ("int", "tuple[float, ...]")
    ]
    where = ".".join(str(part) for part in path if not isinstance(part, int))
    if len(path) > 1 and path[0] == "cases":  # a value does not tell which of them it is
        where = where.replace("cases", f"cases[{path[1]}]", 1)
    table = path[0] if len(path) > 1 and path[0] in tables else ""
    got = f"got {fault['input']!r}"
    kind = fault["type"]
    if kind == "extra_forbidden":
        choices = list(tables[str(table)].model_fields)
        close = difflib.get_close_matches(str(path[-1]).lower(), [c.lower() for c in choices], 1)
        hint = f" (did you mean {next(c for c in choices if c.lower() == close[0])}?)" if close else ""
        return [f"{where} is not a key of the spec{hint}; keys here: {', '.join(choices)}"]
    if kind in _TYPES:
        return [f"{where} must be {_TYPES[kind]}, {got}"]
    if kind == "missing":
        return [f"{where} must be given, got none"]
    if kind == "literal_error":
        return [f"{where} must be {fault['ctx']['expected']}, {got}"]
    if kind == "value_error":
        text = str(fault["ctx"]["error"])
        place, _, name = where.rpartition(".")
        prefix = f"{place}." if table and text.startswith(name) else ""
        return [prefix + line for line in text.split("\n")]
    if kind == "too_short":  # pydantic also says so of a list whose items are all bad
        return [] if fault["input"] else [f"{where} must have at least one value, {got}"]
    rule = fault["msg"].split(" should ", 1)[-1]
    return [f"{where} must {rule}, {got}"]
