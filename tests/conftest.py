"""What tests share: one Ray for the session, and hypothesis without deadlines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import hypothesis
import pytest

from sweep.engines import make_engine
from sweep.engines.base import Engine
from tests.engine_sources import Make

# Processes that compile different signatures of a kernel at once can spoil numba's cache (its index is read
# and written without a lock), so each process of pytest -n has its own.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["NUMBA_CACHE_DIR"] += f"-{os.environ['PYTEST_XDIST_WORKER']}"

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
