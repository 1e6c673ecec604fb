"""Ends what a private Ray leaves: `python -m sweep.engines.reaper PID NAME=VALUE`, started by the Ray engine.

Most of Ray's processes end with their driver, but its agents first try for a minute to tell of it. This one
watches a driver's children that carry a mark in their environment, and their descendants. When its standard
input closes, which the end of the driver brings about whatever the cause, it kills what is left of them.
"""

from __future__ import annotations

import select
import signal
import sys
from collections.abc import Iterator

import psutil  # type: ignore[import-untyped,unused-ignore]

#: How often to look who is there (seconds).
_SURVEY = 1.0


def main(driver: int, mark: str) -> None:
    """Keep a list of the marked family of process `driver` until standard input closes, then kill it."""
    for number in (signal.SIGINT, signal.SIGTERM):  # either may be sent to all processes at once
        signal.signal(number, signal.SIG_IGN)
    name, _, value = mark.partition("=")
    known: set[psutil.Process] = set()
    while not select.select([sys.stdin], [], [], _SURVEY)[0]:
        known = {process for process in known if process.is_running()}
        known.update(family(driver, name, value))
    for process in known:
        try:
            process.kill()  # which makes sure that it is still the same process
        except psutil.NoSuchProcess:
            continue


def family(driver: int, name: str, value: str) -> Iterator[psutil.Process]:
    """Yield the children of a process with this variable in their environment, and all their descendants.

    The descendants are taken unseen: a process that sets its title overwrites what shows of its environment.
    """
    try:
        children = psutil.Process(driver).children()
    except psutil.NoSuchProcess:
        return
    for child in children:
        try:
            if child.environ().get(name) == value:
                yield from (child, *child.children(recursive=True))
        except psutil.Error:
            continue  # it has just ended


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
