"""Sweeps on a cluster that loses nodes and workers: the same bits, and blame only where it belongs."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Trials and their size here; by name they are run larger.
TRIALS = {"nodes": ["--replicas", "120"], "kills": ["--replicas", "120", "--kills", "4"], "poison": []}


@pytest.mark.slow
@pytest.mark.parametrize("trial", TRIALS)
def test_a_sweep_survives(trial: str) -> None:
    command = [sys.executable, "-m", "tests.verification.trial_cluster", trial, *TRIALS[trial]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400.0, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "left behind 0" in done.stdout.splitlines()
