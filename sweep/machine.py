"""What this process may use of its machine: CPUs by affinity and quota, memory by limit."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

#: Name of a controller -> files that hold its limit, for cgroup version 2 and 1.
_CPU = ("cpu.max", "cpu.cfs_quota_us")
_MEMORY = ("memory.max", "memory.limit_in_bytes")
#: Bytes that a worker may allocate however little is available.
LEAST_MEMORY = 2**30
#: Of −1000 … 1000: as if the process used half of the machine's memory more than it does.
_VICTIM = "500"


def cpus(root: Path = Path("/")) -> int:
    """Return how many CPUs this process may use: its affinity, cut by the quota of its control groups.

    A fraction of a CPU counts as one: a worker more than the quota shares it, one less would waste it.

    Parameters
    ----------
    root
        Where /proc and /sys are.

    Examples
    --------
    >>> 1 <= cpus() <= os.cpu_count()
    True
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _groups(root, "cpu"):
        quota = _quota(folder)
        if quota is not None:
            count = min(count, math.ceil(quota))
    return max(1, count)


def memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory this process may use: the physical ones, cut by its control groups.

    Examples
    --------
    >>> memory() >= available_memory() > 0
    True
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [limit for folder in _groups(root, "memory") for limit in [_limit(folder)] if limit is not None]
    return min([physical, *limits])


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that are free for this process now: of the machine, and under each limit.

    Raises nothing: where no limit is found, what the machine has available counts.
    """
    import psutil  # type: ignore[import-untyped,unused-ignore]

    free = int(psutil.virtual_memory().available)
    for folder in _groups(root, "memory"):
        limit = _limit(folder)
        if limit is not None:
            free = min(free, limit - _in_use(folder))
    return max(free, 0)


def limit_memory(size: int) -> None:
    """Make allocation beyond `size` bytes a MemoryError of this process, before the kernel kills one for it.

    At least `LEAST_MEMORY` is left: a worker's libraries alone take a few hundred megabytes. The limit may be
    set again, higher or lower; what is allocated already stays.
    """
    if sys.platform == "linux":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = max(size, LEAST_MEMORY)
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def offer_as_victim(root: Path = Path("/")) -> None:
    """Have the kernel end this process before its driver and before what else runs, should memory run out."""
    with contextlib.suppress(OSError):  # not Linux, or a container that forbids it
        (root / "proc/self/oom_score_adj").write_text(_VICTIM)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control groups for a controller, innermost first."""
    for mount, within, version in _mounts(root, controller):
        for line in _lines(root / "proc/self/cgroup"):
            _, controllers, path = line.split(":", 2)
            if controllers if version == 2 else controller not in controllers.split(","):
                continue
            # Within a container the path may be the host's, of which the mount shows the part below `within`.
            relative = os.path.relpath(path, within)
            inner = mount if relative.startswith("..") else mount / relative
            yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(mount))


def _mounts(root: Path, controller: str) -> Iterator[tuple[Path, str, int]]:
    """Yield mount point, the group it shows at its top, and cgroup version."""
    for line in _lines(root / "proc/self/mountinfo"):
        place, _, kind = line.partition(" - ")
        fields = place.split()
        if kind.startswith("cgroup2 "):
            yield root / fields[4].lstrip("/"), fields[3], 2
        elif kind.startswith("cgroup ") and controller in kind.split()[-1].split(","):
            yield root / fields[4].lstrip("/"), fields[3], 1


def _quota(folder: Path) -> float | None:
    """Return the CPUs that a group may use, None if it has no quota."""
    for name in _CPU:
        words = " ".join(_lines(folder / name)).split()
        if not words or words[0] in ("max", "-1"):
            continue
        period = words[1] if len(words) > 1 else next(_lines(folder / "cpu.cfs_period_us"), "100000")
        return int(words[0]) / int(period)
    return None


def _limit(folder: Path) -> int | None:
    """Return the bytes that a group may use, None if it has no limit."""
    for name in _MEMORY:
        for word in _lines(folder / name):
            if word.isdigit():
                return int(word)
    return None


def _in_use(folder: Path) -> int:
    """Return the bytes that a group uses and could not drop: its usage without inactive file pages."""
    names = ("memory.current", "memory.usage_in_bytes")
    usage = sum(int(word) for name in names for word in _lines(folder / name))
    words = (line.split() for line in _lines(folder / "memory.stat"))
    pages = {name: int(value) for name, value in words}
    return max(0, usage - pages.get("total_inactive_file", pages.get("inactive_file", 0)))


def _lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file, none if it is not there for us."""
    try:
        text = file.read_text()
    except OSError:
        return
    yield from text.splitlines()
