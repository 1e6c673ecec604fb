"""Where compiled kernels are kept when neither the package nor the user's cache can be written to."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

_VARIABLE = "NUMBA_CACHE_DIR"


def provide_kernel_cache() -> None:
    """Name a folder for compiled kernels where numba would find none, and refuse to import them.

    By itself numba keeps what it compiles beside the source, else in the user's cache. Read-only installs run
    by an account without a home have neither. Processes started from here inherit the choice.
    """
    if os.environ.get(_VARIABLE) or all(map(_writable, _places())) or _writable(_user_cache()):
        return
    try:
        folder = temporary_folder()
    except OSError:  # nothing can be written anywhere; numba will say so when a kernel is asked for
        return
    os.environ[_VARIABLE] = folder
    if "numba" in sys.modules:  # it has read the variable by now
        sys.modules["numba"].config.CACHE_DIR = folder


def _places() -> list[str]:
    """Return the folders beside the kernels' sources."""
    folders = {source.parent for source in Path(__file__).parent.glob("*/*kernels.py")}
    return [str(folder / "__pycache__") for folder in folders]


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
