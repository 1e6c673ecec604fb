"""Reads the sweep specification: one TOML file, checked whole before anything is computed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from sweep.errors import SpecError
from sweep.studies.base import SweepSpec
from sweep.studies.equilibrium import EquilibriumSpec
from sweep.studies.heavy_traffic import HeavyTrafficSpec
from sweep.studies.transient import TransientSpec
from sweep.wording import nearest, shown, suggestion, toml_values

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
        Every fault of a single key, one line each; without any, every fault of keys and cells together.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fault = str(getattr(error, "strerror", None) or error).lower().removeprefix("is ")
        cure = ": `sweep example` writes one" if isinstance(error, FileNotFoundError) else ""
        raise SpecError(str(path), [f"the spec file must be readable text, got {fault}{cure}"]) from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(str(path), [f"the spec must be TOML: {error}{_line_of(text, str(error))}"]) from None
    return parse_spec(tables, source=str(path))


def _line_of(text: str, fault: str) -> str:
    """Return what an error of TOML adds: the line that it points to, with the most likely cure."""
    found = re.search(r"\(at line (\d+),", fault)
    if found is None:
        return ""
    line = text.split("\n")[int(found[1]) - 1].strip()
    return f", in {shown(line)}: texts stand in quotes, numbers and true or false do not"


def parse_spec(tables: Mapping[str, Any], source: str = "spec") -> SweepSpec:
    """Check a spec given as a mapping like that of its TOML text.

    Raises
    ------
    TypeError
        No mapping.
    SpecError
        Every fault, one line each, in two steps as `read_spec` tells them.
    """
    if not isinstance(tables, Mapping):
        raise TypeError(f"spec must be a path or tables like those of its TOML text, got {shown(tables)}")
    with toml_values():
        return _checked(dict(tables), source)


def _checked(given: dict[str, Any], source: str) -> SweepSpec:
    faults = []
    if str(given.get("study")) not in STUDIES:
        word = str(given.get("study"))
        got = f"got {shown(given['study'])}{suggestion(word, STUDIES)}" if "study" in given else "got none"
        faults.append(f"study must be one of {', '.join(STUDIES)}, {got}")
        given["study"] = nearest(word, STUDIES) or "transient"  # to find what else is wrong
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
    got = f"got {shown(fault['input'])}"
    kind = fault["type"]
    if kind == "extra_forbidden":
        choices = list(tables[str(table)].model_fields)
        near = suggestion(str(path[-1]), choices)
        return [f"{where} is not a key of the spec{near}; keys here: {', '.join(choices)}"]
    if kind in _TYPES:
        return [f"{where} must be {_TYPES[kind]}, {got}"]
    if kind == "missing":
        return [f"{where} must be given, got none"]
    if kind == "literal_error":
        expected = fault["ctx"]["expected"]
        near = suggestion(str(fault["input"]), re.findall(r"'(.*?)'", expected))
        return [f"{where} must be {expected}, {got}{near}"]
    if kind == "value_error":
        text = str(fault["ctx"]["error"])
        place, _, name = where.rpartition(".")
        prefix = f"{place}." if table and text.startswith(name) else ""
        return [prefix + line for line in text.split("\n")]
    if kind == "too_short":  # pydantic also says so of a list whose items are all bad
        return [] if fault["input"] else [f"{where} must have at least one value, {got}"]
    rule = fault["msg"].split(" should ", 1)[-1]
    return [f"{where} must {rule}, {got}"]
