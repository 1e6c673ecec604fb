"""What an actor does for its node: compiles kernels there once, keeps tasks within memory, tells versions."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from sweep.machine import LEAST_MEMORY, limit_memory

#: A function by "module:name", and its arguments.
Call = tuple[str, tuple[Any, ...]]
#: Packages on whose versions the bits of results depend.
_DECISIVE = ("numpy", "scipy", "numba", "ray")
_PACKAGE = Path(__file__).resolve().parent.parent


def prepare_node(call: Call) -> None:
    """Make a call, such as compiling kernels, that one actor of a node makes before the others go on.

    Kernels that several processes compile at once cost each of them the time, and can spoil numba's cache.
    The cache is one that other nodes do not share: beside the sources where Ray has unpacked them for this
    node, else among its temporary files, unless NUMBA_CACHE_DIR says otherwise.
    """
    from sweep.kernel_cache import temporary_folder, use_node_cache
    from sweep.task import resolve

    folder = temporary_folder()
    if "runtime_resources" not in _PACKAGE.parts:
        use_node_cache()
    function, arguments = call
    mark = Path(folder, f"prepared-{_version_of_code(call)}")
    with open(Path(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists():
            resolve(function)(*arguments)
            mark.touch()


@contextmanager
def allowance(size: int) -> Iterator[None]:
    """Make allocation beyond `size` bytes more than now a MemoryError meanwhile; 0 is no limit.

    At least `LEAST_MEMORY` is allowed. The actor lives on, and its neighbours do not suffer from it.
    """
    if size <= 0 or sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit_memory(_data() + max(size, LEAST_MEMORY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def node_facts() -> dict[str, Any]:
    """Return what results depend on here: Python and the versions of packages.

    Examples
    --------
    >>> sorted(node_facts()["versions"])
    ['numba', 'numpy', 'python', 'ray', 'scipy']
    """
    versions = {name: metadata.version(name) for name in _DECISIVE}
    return {"host": os.uname().nodename, "versions": {"python": platform.python_version(), **versions}}


def _version_of_code(call: Call) -> str:
    """Return a text that changes with the sources, where they lie, and what is called.

    Times of change count, though they differ between nodes: a mark is for one node, and where sources are
    unpacked anew the cache beside them is gone.
    """
    from sweep.kernel_cache import state_of_sources

    known = (call, str(_PACKAGE), sys.version, os.environ.get("NUMBA_CACHE_DIR"), state_of_sources())
    return hashlib.sha256(repr(known).encode()).hexdigest()[:32]


def _data() -> int:
    """Return the bytes of private memory that this process has mapped."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
