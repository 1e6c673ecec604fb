"""A later version of the random numbers, to which what is stored today is older."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sweep.seeds import NUMBERS_VERSION, keys_of

NEWER = NUMBERS_VERSION + 1


@contextmanager
def newer_numbers() -> Iterator[None]:
    """Make numbers of the next version within a `with` block."""
    with pytest.MonkeyPatch.context() as patch, keys_of(NEWER):
        for module in ("driver", "store", "frame", "provenance"):
            patch.setattr(f"sweep.{module}.NUMBERS_VERSION", NEWER)
        patch.setattr("sweep.store.provenance_text", lambda: f'{{"numbers_version": {NEWER}}}')
        yield
