"""Text to law: a small grammar and a table of names; nothing is evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sweep.laws.base import Law
from sweep.laws.bounded import Deterministic, Uniform
from sweep.laws.exponential import Exponential, Hyperexponential
from sweep.laws.frozen import FrozenDistribution, from_scipy
from sweep.laws.gamma import Erlang, Gamma
from sweep.laws.parameters import NUMBER
from sweep.laws.phase import PhaseType
from sweep.laws.power import Lomax, Pareto
from sweep.laws.stretched import Lognormal, Weibull
from sweep.laws.trace import Trace
from sweep.wording import nearest
from sweep.wording import shown as text_of

_FAMILIES: tuple[type[Law], ...] = (
    Exponential,
    Erlang,
    Gamma,
    Hyperexponential,
    Lomax,
    Pareto,
    Weibull,
    Lognormal,
    Uniform,
    Deterministic,
    PhaseType,
    Trace,
)
#: Every law by its name.
LAWS: Mapping[str, type[Law]] = MappingProxyType({law.name: law for law in _FAMILIES})

_CALL = re.compile(r"\s*(?P<name>\w+)\s*(?:\((?P<inner>[^()]*)\)\s*)?", re.ASCII)
_PAIR = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>[^=]*?)\s*", re.ASCII)
_TRACE = re.compile(r"\btrace\s*\((?P<inner>[^()]*)\)", re.ASCII)
_LONGEST = 200


def parse_law(text: str, field: str = "G", also: tuple[str, ...] = ()) -> Law:
    """Read `name` or `name(parameter=number, …)`; white space and the form of numbers are free.

    Numbers may stand in brackets, as in `phase_type(alpha=[1, 0], T=[[-2, 2], [0, -2]])`. The one argument of
    `trace(path)` is a path, in quotes or not.

    Parameters
    ----------
    text
        A law as `str(law)` writes it.
    field
        What the caller's parameter is called, for errors.
    also
        What the caller takes beside laws, for the choices in errors.

    Raises
    ------
    TypeError
        `text` is not text.
    ValueError
        Another form, an unknown name, or a missing, unknown, repeated or impossible parameter; a trace whose
        file cannot be read.

    Examples
    --------
    >>> law = parse_law("lomax( beta = 1.50 )")
    >>> str(law), law == parse_law(str(law))
    ('lomax(beta=1.5)', True)
    >>> parse_law("lomax(beta=1)")
    Traceback (most recent call last):
    ...
    ValueError: G must have beta a number above 1 and up to 1000000, got 'lomax(beta=1)'
    """
    if not isinstance(text, str):
        raise TypeError(
            f"{field} must be a law or its text, got {text_of(text)}; write for example 'exponential'"
        )
    shown = repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")
    call, name = _CALL.fullmatch(text), text.partition("(")[0].strip()[:_LONGEST]
    law = LAWS.get(name)
    if call is None or law is None:
        rule = "name a law" if call else "be written as name or name(parameter=number)"
        forms = (*(known.form() for known in LAWS.values()), *also)
        near = nearest(name, [form.partition("(")[0] for form in forms])
        meant = f" (did you mean {near!r}?)" if near else ""
        raise ValueError(f"{field} must {rule}, got {shown}{meant}; choices: {', '.join(forms)}")
    inner = call["inner"] or ""
    arguments = {"path": _path(inner)} if law is Trace else _arguments(law, inner, field, shown)
    try:
        return law(**arguments)
    except ValueError as error:
        raise ValueError(f"{field} must be a possible law, got {shown}: {error}") from None


def trace_paths(text: str) -> list[str]:
    """Return the path of every `trace(path)` in a text: a law, or a start or arrivals made of one.

    Examples
    --------
    >>> trace_paths("law(trace('run=3/a,b.txt'), mean=2)"), trace_paths("exponential")
    (['run=3/a,b.txt'], [])
    """
    found = (_path(match["inner"]) for match in _TRACE.finditer(text))
    return [path for path in found if path]


def as_law(value: str | Law | FrozenDistribution, field: str = "G") -> Law:
    """Return a law from its text, from itself, or from a frozen scipy.stats distribution of such a law.

    Raises
    ------
    TypeError
        None of these.
    ValueError
        Text that `parse_law` refuses, or a distribution that is no law here or has another mean than 1.

    Examples
    --------
    >>> as_law("deterministic") is as_law(as_law("deterministic"))
    False
    >>> as_law("deterministic") == as_law(as_law("deterministic"))
    True
    """
    if isinstance(value, Law):
        return value
    if isinstance(value, FrozenDistribution):
        return from_scipy(value, field)
    return parse_law(value, field)


def _path(inner: str) -> str:
    text = inner.strip()
    quoted = len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]
    return text[1:-1] if quoted else text


def _arguments(law: type[Law], inner: str, field: str, shown: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for part in _split(inner) if inner.strip() else []:
        pair = _PAIR.fullmatch(part)
        if pair is None:
            raise ValueError(
                f"{field} must give parameters as name=number, got {part.strip()!r} in {shown}; "
                f"write {law.usage()}"
            )
        name, value = pair["name"], pair["value"]
        if name not in law.ranges:
            raise ValueError(f"{field} must not have a parameter {name!r}, got {shown}; write {law.usage()}")
        if name in arguments:
            raise ValueError(f"{field} must give {name} once, got {shown}; write {law.usage()}")
        allowed = law.ranges[name]
        try:
            arguments[name] = allowed.check(name, _read(value))
        except (TypeError, ValueError):
            raise ValueError(f"{field} must have {name} {allowed.text}, got {shown}") from None
    missing = [name for name in law.ranges if name not in arguments]
    if missing:
        raise ValueError(f"{field} must give {', '.join(missing)}, got {shown}; write {law.usage()}")
    return arguments


def _split(text: str) -> list[str]:
    """Cut at the commas outside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _read(text: str, depth: int = 2) -> Any:
    """Return a number, or nested lists of them; nan, which no range admits, for anything else."""
    text = text.strip()
    if depth and text.startswith("[") and text.endswith("]") and text != "[":
        return [_read(part, depth - 1) for part in _split(text[1:-1])]
    return float(text) if NUMBER.fullmatch(text) else float("nan")
