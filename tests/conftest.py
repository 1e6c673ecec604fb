"""What tests share: one Ray for the session, and hypothesis without deadlines."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest

from sweep.engines import make_engine

# The machine is shared and kernels compile at first use, so the time of one example says nothing.
hypothesis.settings.register_profile("sweep", deadline=None, derandomize=True)
hypothesis.settings.load_profile("sweep")


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """A Ray of two CPUs that every engine "ray" made in this process uses, and leaves running."""
    with make_engine("ray", workers=2):
        yield
