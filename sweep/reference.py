"""The reference of the spec file, made from the models that read it, and specs to start from."""

from __future__ import annotations

import types
import typing
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sweep.wording import suggestion

#: Specs to start from, by name, with what each asks.
EXAMPLES = {
    "quickstart": "how fast does the fraction of long queues approach its limit?",
    "ages": "how close are the ages of jobs in service to their limit?",
    "equilibrium": "how far are stationary networks from the invariant state?",
    "precision": "as many replicas as a stated standard error takes",
    "heavy-traffic": "how far are critical networks from their diffusion limit?",
}

_HEAD = """# The spec file

One TOML file says what a sweep computes: its study, a `[grid]` whose axes are multiplied out, `[[cases]]` for
single points, and a `[run]`. Numbers are plain; laws, arrivals and starts are text (docs/model.md). This page
is made from the code that checks specs: `python -m sweep.reference > docs/spec.md`.
"""


def example(name: str) -> str:
    """Return a spec to start from, as TOML text.

    Raises
    ------
    ValueError
        There is no example of that name.
    """
    if name not in EXAMPLES:
        raise ValueError(
            f"NAME must be one of {', '.join(EXAMPLES)}, got {name!r}{suggestion(name, EXAMPLES)}"
        )
    return resources.files("sweep").joinpath("examples", f"{name}.toml").read_text(encoding="utf-8")


def spec_reference() -> str:
    """Return the reference of every study's keys, as Markdown."""
    from sweep.spec import STUDIES  # whose laws take a second, and the examples are listed without

    parts = [_HEAD]
    for study, model in STUDIES.items():
        tables = model.tables()
        parts.append(f'## study = "{study}"\n')
        for name in ("", "grid", "run", "cases"):
            heading = {"": "Top level", "cases": "[[cases]]"}.get(name, f"[{name}]")
            parts.append(f"### {heading}\n")
            parts.append(_rows(tables[name]))
    return "\n".join(parts)


def _rows(model: type[BaseModel]) -> str:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, item in model.model_fields.items():
        default = "required" if item.is_required() else f"`{_default(item)}`"
        lines.append(f"| `{name}` | {_kind(item.annotation)} | {default} | {item.description or ''} |")
    return "\n".join(lines) + "\n"


def _default(item: FieldInfo) -> str:
    if item.default is None or item.default == ():
        return "none"
    return str(item.default).lower() if isinstance(item.default, bool) else repr(item.default)


def _kind(annotation: Any) -> str:
    """Say what a value looks like in TOML."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    if typing.get_origin(annotation) is typing.Annotated:
        return _kind(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is Literal:
        return " or ".join(f'`"{value}"`' for value in typing.get_args(annotation))
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        kinds = [_kind(part) for part in typing.get_args(annotation) if part is not type(None)]
        return " or ".join(kinds)
    if typing.get_origin(annotation) is tuple:
        inner = _kind(typing.get_args(annotation)[0])
        return "tables" if inner == "table" else f"list of {inner}s"
    return {int: "whole number", float: "number", str: "text", bool: "true or false"}[annotation]


if __name__ == "__main__":
    print(spec_reference(), end="")
