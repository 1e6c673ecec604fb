"""What made a result: versions, commit, machine and time."""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import time
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from sweep.seeds import NUMBERS_VERSION

#: Distributions whose versions are kept; "sqd-sweep" is this project.
DISTRIBUTIONS = ("sqd-sweep", "numpy", "scipy", "numba", "netCDF4", "xarray", "ray")

_PACKAGE = Path(__file__).resolve().parent
#: Written into an upload, which has no checkout.
_ORIGIN_FILE = "origin.json"
_CPU_INFO = Path("/proc/cpuinfo")


def provenance() -> dict[str, Any]:
    """Return what a result must be traced by: versions, commit, host, processor, C library, time.

    Returns
    -------
    dict
        Plain values that JSON can hold: `versions` (by distribution, and python), `numbers_version`,
        `commit` (None outside a checkout), `modified` (whether tracked files differ from it), `host`,
        `platform`, `libc`, `cpu`, `vector_units`, `time` (UTC).

    Examples
    --------
    >>> record = provenance()
    >>> sorted(record["versions"])
    ['netCDF4', 'numba', 'numpy', 'python', 'ray', 'scipy', 'sqd-sweep', 'xarray']
    """
    return {**_fixed(), "time": utc_now()}


def provenance_text() -> str:
    """Return `provenance()` as one JSON text, since netCDF attributes hold neither None nor mappings."""
    return json.dumps(provenance(), ensure_ascii=False)


def utc_now() -> str:
    """Return the present time, UTC, as ISO 8601 to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@cache  # what this process runs is what was there when it began
def _fixed() -> dict[str, Any]:
    commit, modified = _uploaded() or _commit(_PACKAGE.parent)
    return {
        "versions": {name: _version(name) for name in DISTRIBUTIONS} | {"python": platform.python_version()},
        "numbers_version": NUMBERS_VERSION,
        "commit": commit,
        "modified": modified,
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "cpu": _cpu_model(),
        "vector_units": _vector_units(),
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # run from a source folder, or without this package
        return None


def _uploaded() -> tuple[str | None, bool | None] | None:
    """Return what was known of the checkout that this package was uploaded from, if it was."""
    try:
        origin = json.loads((_PACKAGE / _ORIGIN_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return origin["commit"], origin["modified"]


def _commit(root: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the checkout with this root, and whether its tracked files differ from it."""
    top = _git(root, "rev-parse", "--show-toplevel")
    # Installed packages may lie inside another project's checkout, whose commit says nothing of them.
    if top is None or Path(top).resolve() != root:
        return None, None
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    return commit, None if commit is None or changes is None else bool(changes)


def _git(root: Path, *arguments: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # no git, no checkout, no commit
        return None
    return done.stdout.strip()


def _vector_units() -> list[str]:
    """Return the instruction sets beyond the baseline that NumPy found on this machine."""
    found: list[str] = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return found


def _cpu_model() -> str:
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
