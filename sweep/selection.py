"""Which cells of a sweep a run keeps to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sweep.arguments import canonical, plain
from sweep.laws import parse_law
from sweep.studies.base import Case, SweepSpec
from sweep.wording import shown


def selection(spec: SweepSpec, only: Mapping[str, Any]) -> Callable[[Case], bool]:
    """Return which cases have one of the values that `only` lists for an axis.

    Raises
    ------
    ValueError
        A name that is no axis of the study, or a value that its grid does not have.
    """
    listed = {name: [_on_axis(value) for value in _list(values)] for name, values in only.items()}
    for name, values in listed.items():
        if name not in spec.AXES:
            raise ValueError(f"only must name an axis ({', '.join(spec.AXES)}), got {name!r}")
        known = spec.axis(name)
        for value in values:
            if isinstance(value, bool) or value not in known:
                choices = ", ".join(map(str, known))
                raise ValueError(
                    f"only must name values of {name} in the spec ({choices}), got {shown(value)}"
                )
    places = {spec.AXES.index(name): set(values) for name, values in listed.items()}
    return lambda case: all(case.values[i] in values for i, values in places.items())


def _list(values: Any) -> list[Any]:
    values = plain(values)
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]


def _on_axis(value: Any) -> Any:
    """Return a value as the axes of specs have it: numbers to 12 digits, laws as their own text."""
    value = plain(value)
    if isinstance(value, float):
        return canonical(value)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return str(parse_law(value))
    return value
