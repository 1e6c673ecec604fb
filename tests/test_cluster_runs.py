"""Sweeps on a cluster that loses nodes and workers: the same bits, and blame only where it belongs."""

from __future__ import annotations

import subprocess
import sys

import psutil  # type: ignore[import-untyped,unused-ignore]
import pytest

#: Trials and their size here; by name they are run larger.
TRIALS = {"nodes": ["--replicas", "120"], "kills": ["--replicas", "120", "--kills", "4"], "poison": []}


@pytest.mark.slow
@pytest.mark.parametrize("trial", TRIALS)
def test_a_sweep_survives(trial: str) -> None:
    command = [sys.executable, "-m", "tests.verification.trial_cluster", trial, *TRIALS[trial]]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said, _ = child.communicate(timeout=600.0)
    finally:
        if child.poll() is None:
            family = psutil.Process(child.pid).children(recursive=True)
            for process in (psutil.Process(child.pid), *family):
                process.kill()
            child.wait()
    assert child.returncode == 0, said
    assert "left behind 0" in said.splitlines()
