"""SIGTERM as an interrupt: batch systems and `kill` ask a run to end, as Ctrl-C does on a terminal."""

from __future__ import annotations

import signal
from types import TracebackType
from typing import Any, Self

#: Exit codes of a process that a signal has ended: 128 and the signal's number.
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


class Termination:
    """Makes the first SIGTERM a KeyboardInterrupt within a `with` block, which the main thread must enter.

    Later ones are ignored there, so that a sender that repeats itself does not disturb what puts things in
    order; one that loses patience has SIGKILL.

    Attributes
    ----------
    asked : bool
        Whether SIGTERM came. The exception does not tell: Ray raises another in the place of one that comes
        while it waits.

    Examples
    --------
    >>> with Termination() as termination:
    ...     try:
    ...         signal.raise_signal(signal.SIGTERM)
    ...     except KeyboardInterrupt:
    ...         print(termination.asked, termination.code)
    True 143
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = signal.SIG_DFL

    @property
    def code(self) -> int:
        """Exit code after an interrupt: 143 after SIGTERM, 130 after Ctrl-C."""
        return TERMINATED if self.asked else INTERRUPTED

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGTERM, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # None is a handler that Python has not set and cannot set again.
        signal.signal(signal.SIGTERM, signal.SIG_DFL if self._before is None else self._before)

    def _interrupt(self, *_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.asked = True
        raise KeyboardInterrupt
