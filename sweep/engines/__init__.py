"""Engines, which execute tasks: in this process, in local processes, or on Ray."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweep.engines.base import Engine

#: Name -> "module:class", imported when asked for: Ray alone takes half a second.
ENGINES = {
    "serial": "sweep.engines.serial:SerialEngine",
    "local": "sweep.engines.local:LocalEngine",
    "ray": "sweep.engines.ray:RayEngine",
}
__all__ = ["ENGINES", "make_engine"]


def make_engine(name: str, workers: int | None = None, *, address: str | None = None) -> Engine:
    """Return a new engine, to be used as a context manager.

    Parameters
    ----------
    name
        A key of `ENGINES`.
    workers
        Tasks executed at once, ≥ 1; None for every CPU that this process (or the cluster) may use.
    address
        Ray cluster to connect to ("auto", "host:port", "ray://host:port"); None starts one on this machine.

    Raises
    ------
    ValueError
        Unknown name, workers < 1 (or other than 1 for serial), an address for an engine without a cluster.
    TypeError
        workers is not a whole number.

    Examples
    --------
    >>> with make_engine("serial") as engine:
    ...     engine.name, engine.workers
    ('serial', 1)
    """
    from sweep.arguments import check_choice, check_count  # a job on a head first looks for NumPy

    check_choice("engine", name, ENGINES)
    if workers is not None:
        workers = check_count("workers", workers)
    if address is not None and name != "ray":
        raise ValueError(
            f"address must be None for engine {name!r}, got {address!r}; engine 'ray' connects to one"
        )
    module, _, attribute = ENGINES[name].partition(":")
    make: Callable[..., Engine] = getattr(importlib.import_module(module), attribute)
    return make(workers) if address is None else make(workers, address=address)
