"""Loads the results of a sweep."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.arguments import check_path
from sweep.errors import MismatchError, StoreError
from sweep.store import FRAME_FILE, Store

if TYPE_CHECKING:
    import xarray as xr

_ATTEMPTS = 20
# The netCDF and HDF5 libraries crash when threads are in them together.
_ONE_READER = threading.Lock()


def load(store: str | os.PathLike[str] | Store) -> xr.DataTree:
    """Load the results of a sweep into memory.

    No file stays open, and a run that replaces the results meanwhile does no harm.

    Parameters
    ----------
    store
        A store directory, a `Store`, or a file made by `sweep export`.

    Returns
    -------
    xarray.DataTree
        Groups of replicas (`network`; of long runs `equilibrium` and, where starts are compared,
        `equilibrium_from_empty`), of limits, if any (`fluid`, `invariant` or `diffusion`), and `cells`; each
        with its own coordinates.

    Raises
    ------
    TypeError
        Neither text nor a path.
    StoreError
        There are no results there (a `MismatchError`), or they cannot be read.

    Examples
    --------
    >>> load("nowhere")
    Traceback (most recent call last):
    ...
    sweep.errors.MismatchError: nowhere holds no results: give a store directory or an exported .nc file
    """
    path = _results_path(store)
    for _ in range(_ATTEMPTS):
        try:
            before = _stamp(path)
            tree = _read(path)
            if _stamp(path) == before:
                return tree
        except FileNotFoundError:
            raise _no_results(path, store) from None
    raise StoreError(
        f"{path} changed in each of {_ATTEMPTS} attempts to read it: load it again when the run rests"
    )


def _results_path(store: str | os.PathLike[str] | Store) -> Path:
    if isinstance(store, Store):
        return store.results
    path = Path(check_path("store", store))
    return Store(path, {}).results if path.is_dir() else path


def _no_results(path: Path, store: str | os.PathLike[str] | Store) -> MismatchError:
    if path.parent.is_dir() and (path.parent / FRAME_FILE).exists():
        return MismatchError(
            f"{path.parent} holds no results yet: wait for the run to store its first, or run it"
        )
    return MismatchError(f"{store} holds no results: give a store directory or an exported .nc file")


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read(path: Path) -> xr.DataTree:
    import xarray as xr

    try:
        with _ONE_READER, xr.open_datatree(path, engine="netcdf4") as tree:
            # Encodings hold chunks and widths that would slow or cut what is saved from this tree later.
            return tree.load().map_over_datasets(xr.Dataset.drop_encoding)
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreError(
            f"{path} cannot be read as results ({error}): give a store directory or an exported file"
        ) from error
