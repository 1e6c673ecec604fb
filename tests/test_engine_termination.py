"""SIGTERM interrupts once, and leaves the process as it was."""

from __future__ import annotations

import signal
import time

import pytest

from sweep.engines.termination import Termination


def test_the_first_sigterm_interrupts_and_later_ones_are_ignored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Termination() as termination:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.01)
        assert (termination.asked, termination.code) == (True, 143)
    assert signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_is_told_from_sigterm() -> None:
    with pytest.raises(KeyboardInterrupt), Termination() as termination:
        signal.raise_signal(signal.SIGINT)
    assert (termination.asked, termination.code) == (False, 130)
