"""Where compiled kernels are kept: a folder for each state of the sources."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from pathlib import Path

_VARIABLE = "NUMBA_CACHE_DIR"
_PREFIX = "kernels-"
_PACKAGE = Path(__file__).parent
#: Sources outside the folders of kernels that kernels are made from.
_BESIDE = ("routing.py",)


def provide_kernel_cache() -> None:
    """Name a folder for compiled kernels that belongs to the sources as they are now.

    By itself numba compiles a kernel again when its own file changes, but not when one that it calls does:
    after an upgrade in place old and new code would be mixed. The folder lies beside the sources, else in the
    user's cache, else among the temporary files. Processes started from here inherit the choice; one that is
    made already is left alone.
    """
    if os.environ.get(_VARIABLE):
        return
    beside = str(_PACKAGE / "__pycache__")
    try:
        base = next(filter(_writable, (beside, _user_cache())), None) or temporary_folder()
    except OSError:  # nothing can be written anywhere; numba will say so when a kernel is asked for
        return
    _name(base)


def use_node_cache() -> None:
    """Keep kernels among the temporary files, which other machines do not share, unless the user chose."""
    given = os.environ.get(_VARIABLE, "")
    if not given or os.path.basename(given).startswith(_PREFIX):
        _name(temporary_folder())


def _name(base: str) -> None:
    folder = os.environ[_VARIABLE] = os.path.join(base, f"{_PREFIX}{state_of_sources()}")
    if "numba" in sys.modules:  # it has read the variable by now
        sys.modules["numba"].config.CACHE_DIR = folder


def state_of_sources() -> str:
    """Return a digest of the sources that kernels are made from: names, sizes and times of change."""
    stamps = [
        (str(source.relative_to(_PACKAGE)), source.stat().st_size, source.stat().st_mtime_ns)
        for source in sources_of_kernels()
    ]
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:12]


def sources_of_kernels() -> list[Path]:
    """Return every source that a kernel may be made from: those in folders of kernels, and a few others."""
    folders = {source.parent for source in _PACKAGE.glob("*/*kernels.py")}
    within = [source for folder in sorted(folders) for source in sorted(folder.glob("*.py"))]
    return [*within, *(_PACKAGE / name for name in _BESIDE)]


def _user_cache() -> str:
    """Return numba's folder in the user's cache."""
    if sys.platform == "darwin":
        caches = "~/Library/Caches"
    else:
        caches = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(caches), "numba")


def _writable(folder: str) -> bool:
    """Whether a folder can be written to, or made."""
    if folder.startswith("~"):  # the account has no home: numba would make a folder of that name
        return False
    folder = os.path.abspath(folder)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def temporary_folder() -> str:
    """Return a folder for this account among the temporary files.

    What others could have put there is not used, for whoever writes to it decides what is executed.
    """
    import tempfile  # rarely needed, and not to slow `import sweep`

    folder = os.path.join(tempfile.gettempdir(), f"sweep-kernels-{os.geteuid()}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        found = os.lstat(folder)
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if not ours or stat.S_IMODE(found.st_mode) & 0o022:
            import atexit
            import shutil

            folder = tempfile.mkdtemp(prefix="sweep-kernels-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
