"""What tests share: one Ray for the session, and hypothesis without deadlines."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import hypothesis
import pytest
from numba.core.caching import IndexDataCacheFile

from sweep.engines import make_engine
from sweep.engines.base import Engine
from tests.engine_sources import Make

# Kernels are compiled once for all tests. Of a kernel that two processes compile at once for different types,
# numba may store one's code as the other's: its index is read and written without a lock.
_save = IndexDataCacheFile.save


def _save_alone(self: IndexDataCacheFile, key: object, data: object) -> None:
    with open(f"{self._index_path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _save(self, key, data)


IndexDataCacheFile.save = _save_alone

# The machine is shared and kernels compile at first use, so the time of one example says nothing.
hypothesis.settings.register_profile("sweep", deadline=None, derandomize=True)
hypothesis.settings.load_profile("sweep")


@pytest.fixture(scope="session")
def ray_session() -> Iterator[Engine]:
    """A Ray that every engine "ray" made in this process uses, and an engine of two actors on it, kept warm.

    An actor takes seconds to start. The Ray counts four CPUs, so that an engine made beside this one has two.
    """
    with make_engine("ray", workers=4), make_engine("ray", workers=2) as engine:
        yield engine


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Make:
    """As `make_engine`; of Ray's engines of two workers there is one, and it stays open."""

    def make(name: str, workers: int | None = None) -> AbstractContextManager[Engine]:
        if name == "ray":
            session: Engine = request.getfixturevalue("ray_session")
            if workers in (None, session.workers):
                return nullcontext(session)
        return make_engine(name, workers)

    return make
