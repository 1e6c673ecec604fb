"""What tests share: one Ray for the session, and hypothesis without deadlines."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest

from sweep.engines import make_engine
from sweep.engines.base import Engine

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
