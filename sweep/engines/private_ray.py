"""A Ray that is started on this machine for one process, keeps to itself, and ends with it."""

from __future__ import annotations

import importlib
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sweep.engines.base import search_path

#: How a driver connects, without printing what happens.
QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": "warning", "namespace": "sweep"}


class PrivateRay:
    """A Ray on this machine that keeps to itself.

    It listens on the loopback interface alone, admits those who know a token of this process, and reports to
    nobody. With the mode of authentication unset, Ray would write a token to the home directory, and later
    clusters would behave differently. A reaper ends what is left of it when this process is gone.
    """

    def __init__(self, workers: int) -> None:
        import ray
        from ray._private import ray_constants

        variables = {
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_enable_worker_prestart": "0",  # the actors start with an environment of their own
            "RAY_prestart_worker_first_driver": "0",
            "SWEEP_PRIVATE_RAY": secrets.token_hex(16),
        }
        if "RAY_AUTH_MODE" not in os.environ:
            variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        mark = f"SWEEP_PRIVATE_RAY={variables['SWEEP_PRIVATE_RAY']}"
        self._reaper = subprocess.Popen(
            [sys.executable, "-m", "sweep.engines.reaper", str(os.getpid()), mark],
            stdin=subprocess.PIPE,
            env={**os.environ, **search_path()},
            start_new_session=True,
        )
        self._clusters = (
            ray_constants.ENABLE_RAY_CLUSTER
        )  # what Ray made of the variable when it was imported
        ray_constants.ENABLE_RAY_CLUSTER = False
        try:
            with _environ(variables), handler_kept():
                _renew()
                ray.init("local", num_cpus=workers, include_dashboard=False, **QUIET)
        except BaseException:  # an interrupt too: starting takes seconds
            self.close()
            raise

    def close(self) -> None:
        """End it at once."""
        import ray
        from ray._private import ray_constants

        ray.shutdown()
        ray_constants.ENABLE_RAY_CLUSTER = self._clusters
        _renew()
        self._reaper.communicate()


def import_ray() -> None:
    """Import Ray such that it does not print a paragraph on standard output for each worker that dies."""
    if "ray" not in sys.modules:
        name = "RAY_DEDUP_LOGS_SKIP_REGEX"  # read when Ray is imported
        others = os.environ.get(name)
        with _environ({name: "^A worker died or was killed" + (f"|{others}" if others else "")}):
            importlib.import_module("ray")


@contextmanager
def handler_kept() -> Iterator[None]:
    """Keep this process's handler of SIGTERM, if it has one, while Ray puts two others in its place.

    That of Ray's Python leaves at once. That of its library prints where the process is, calls the one before
    it, and aborts the process three seconds later.
    """
    kept = signal.getsignal(signal.SIGTERM)
    if not callable(kept) or threading.current_thread() is not threading.main_thread():
        yield
        return
    utils: Any = importlib.import_module("ray._private.utils")
    before, utils.set_sigterm_handler = utils.set_sigterm_handler, lambda _: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = before
        if signal.getsignal(signal.SIGTERM) is kept:
            signal.signal(signal.SIGTERM, kept)
        else:  # it was called meanwhile, by the library, which has set an alarm as well
            signal.alarm(0)


@contextmanager
def _environ(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _renew() -> None:
    """Have Ray read its environment again, which it does when it is imported and then no more."""
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
    raylet.Config.initialize("")
