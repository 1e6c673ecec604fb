"""SIGTERM interrupts once, and leaves the process as it was."""

from __future__ import annotations

import signal
import time

import pytest

from sweep.engines.private_ray import handler_kept
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


def test_sigterm_while_a_ray_starts_leaves_no_alarm_of_its_library() -> None:
    def start() -> None:
        with handler_kept():
            signal.alarm(60)  # the library's, which aborts the process
            signal.raise_signal(signal.SIGTERM)

    with Termination() as termination, pytest.raises(KeyboardInterrupt):
        start()
    assert (signal.alarm(0), termination.asked) == (0, True)


def test_an_alarm_is_left_alone_where_no_signal_came() -> None:
    with Termination(), handler_kept():
        signal.alarm(60)
    assert signal.alarm(0) > 0
