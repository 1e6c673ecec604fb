"""Sweeps on a cluster that loses nodes and workers: the same bits, and blame only where it belongs."""

from __future__ import annotations

import subprocess
import sys

import psutil  # type: ignore[import-untyped,unused-ignore]
import pytest

pytestmark = pytest.mark.alone

#: Trials, which one cluster serves one after the other; their sizes here, by name they are run larger.
TRIALS = ["nodes", "kills", "poison"]
SIZES = ["--replicas", "60", "--kills", "4"]


@pytest.fixture(scope="module")
def said() -> str:
    """What the trials print."""
    command = [sys.executable, "-m", "tests.verification.trial_cluster", *TRIALS, *SIZES]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        return child.communicate(timeout=600.0)[0]
    finally:
        if child.poll() is None:
            family = psutil.Process(child.pid).children(recursive=True)
            for process in (psutil.Process(child.pid), *family):
                process.kill()
            child.wait()


@pytest.mark.slow
@pytest.mark.parametrize("trial", TRIALS)
def test_a_sweep_survives(said: str, trial: str) -> None:
    _, found, told = said.partition(f"== {trial} on a cluster\n")
    assert found, said
    assert "passed after" in told.partition("\n== ")[0], told


@pytest.mark.slow
def test_the_cluster_leaves_no_process_behind(said: str) -> None:
    assert "left behind 0" in said.splitlines(), said
