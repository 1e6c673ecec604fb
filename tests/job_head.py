"""A cluster of one machine as `ray start --head --block` makes it, on the loopback interface alone."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import psutil  # type: ignore[import-untyped,unused-ignore]
import typer

from sweep.engines.dashboard import Dashboard, UnreachableError
from sweep.remote_cli import Address, register, show_cluster, show_status
from tests.engine_sources import wait_for

#: Options of `ray start` that each need a port of their own.
_PORTS = ("port", "dashboard-port", "dashboard-agent-listen-port", "ray-client-server-port")
#: Becomes the command in its arguments, which then gets SIGTERM when this process ends, whatever the cause.
_TIED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execv(sys.argv[1], sys.argv[1:])"


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on at this moment, outside the range from which workers get theirs."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Head:
    """Starts a head with two CPUs; a context manager that leaves no process and no file behind.

    A token, if given, is asked of everyone; else the cluster lets all in.
    """

    def __init__(self, token: str | None = None, *, memory: int = 4_000_000_000) -> None:
        self.token = token
        self.folder = Path(tempfile.mkdtemp(prefix="h-", dir="/tmp"))  # names of sockets must be short
        ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        self.address = f"http://127.0.0.1:{ports['dashboard-port']}"
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
        environment = {
            **inherited,
            "HOME": str(self.folder),
            "PYTHONPATH": "",  # a cluster has the sources that are sent to it, and no others
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled" if token is None else "token",
            **({} if token is None else {"RAY_AUTH_TOKEN": token}),
        }
        options = [f"--{name}={port}" for name, port in ports.items()]
        options += ["--head", "--block", f"--temp-dir={self.folder}/r", "--num-cpus=2", f"--memory={memory}"]
        options += ["--object-store-memory=200000000", "--dashboard-host=127.0.0.1", "--disable-usage-stats"]
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _TIED, str(Path(sys.executable).with_name("ray")), "start", *options],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._family: set[psutil.Process] = set()
        self._clients = ExitStack()
        try:
            assert wait_for(self._answers, 60.0), (self.folder / "log").read_text()
        except BaseException:
            self.kill()
            raise

    def dashboard(self) -> Dashboard:
        """A client that knows the token."""
        return self._clients.enter_context(Dashboard(self.address, token=self.token))

    def family(self) -> set[psutil.Process]:
        """All processes of the cluster, also those that have left their parents."""
        mark = str(self.folder / "r")
        for process in psutil.process_iter():
            try:
                if process.pid == self.process.pid or any(mark in word for word in process.cmdline()):
                    self._family.update([process, *process.children(recursive=True)])
            except psutil.Error:
                continue
        return self._family

    def kill(self) -> None:
        """End every process at once, as a lost machine does."""
        family = self.family()
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait()
        psutil.wait_procs(family, timeout=10.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clients.close()
        family = self.family()
        self.process.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs(family, timeout=15.0)
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not [process for process in family if process.is_running()], alive

    def _answers(self) -> bool:
        try:
            with Dashboard(self.address, token=self.token) as dashboard:
                found = dashboard.get("/api/v0/nodes")["data"]["result"]["result"]
        except UnreachableError:
            time.sleep(0.2)
            return False
        return len(found) == 1


def commands() -> typer.Typer:
    """The commands for a cluster in a program of their own."""
    app = typer.Typer()
    register(app)

    @app.command()
    def status(store: str, address: Address) -> None:
        show_status(store, address)

    @app.command()
    def doctor(address: Address) -> None:
        show_cluster(address)

    return app
