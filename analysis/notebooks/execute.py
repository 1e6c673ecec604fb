"""Runs the notebooks anew and keeps their outputs: `python -m analysis.notebooks.execute [NAME…]`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = Path(__file__).parent
#: Notebooks by name, in the order to read them.
NAMES = ("convergence", "tails", "chaos", "heavy_traffic")
#: Seconds that one cell may take.
_PATIENCE = 600


def executed(name: str, folder: Path) -> NotebookNode:
    """Run a notebook from top to bottom in a folder, where it keeps its store, and return it with outputs.

    Raises
    ------
    ValueError
        An unknown name.
    nbclient.exceptions.CellExecutionError
        A cell failed.

    Examples
    --------
    >>> executed("nothing", Path("."))
    Traceback (most recent call last):
    ...
    ValueError: name must be one of convergence, tails, chaos, heavy_traffic, got 'nothing'
    """
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    import nbformat
    from nbclient import NotebookClient
    from traitlets.config import Config

    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")  # or jupyter_core warns of folders to come
    notebook: NotebookNode = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    # Over a socket of the file system rather than ports of this machine, which others could read.
    place = {"transport": "ipc", "connection_file": str(folder.resolve() / "kernel.json")}
    client = NotebookClient(
        notebook, kernel_name="python3", timeout=_PATIENCE, config=Config(KernelManager=place),
        resources={"metadata": {"path": str(folder)}},
    )  # fmt: skip
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # clock times, which would differ each time
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def text_of(notebook: NotebookNode) -> str:
    """Return what the cells of an executed notebook printed or showed as text, errors and warnings too."""
    parts: list[Any] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            parts.append(output.get("text") or output.get("data", {}).get("text/plain") or "")
    return "\n".join(map(str, parts))


def main(names: Sequence[str]) -> None:
    """Run notebooks and write them back."""
    import nbformat

    for name in names or NAMES:
        with TemporaryDirectory() as folder:
            fresh = executed(name, Path(folder))
            nbformat.write(fresh, FOLDER / f"{name}.ipynb")  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(sys.argv[1:])
