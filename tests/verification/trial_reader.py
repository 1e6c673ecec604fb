"""Reads a store in every way through a whole run: `python -m tests.verification.trial_reader`.

Eight threads load it, plain xarray opens it, and a lazily opened file is held until the run has ended. None
sees an error, a torn value, or less than before.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

import sweep
from tests.verification.trial_runs import (
    contents,
    must,
    must_be_equal,
    start,
    tables,
    trial,
    undisturbed,
    write_spec,
)

TABLES = tables("reader", 12, {"N": [100, 3000, 30_000]})
THREADS = 8


class Reader:
    """Reads again and again, and compares every value that is there with the final one."""

    def __init__(self, read: Callable[[], xr.Dataset], final: xr.Dataset) -> None:
        self.read, self.final = read, final
        self.reads = self.stored = 0
        self.fault = ""

    def loop(self, ended: threading.Event) -> None:
        """Read until the run has ended, once more, or until something is wrong."""
        last = False
        while not last and not self.fault:
            last = ended.is_set()
            try:
                self.look(self.read())
            except Exception as error:  # noqa: BLE001  whatever goes wrong is what is looked for
                self.fault = f"{type(error).__name__}: {error}"

    def look(self, network: xr.Dataset) -> None:
        """Compare one reading with the final values."""
        there = np.isfinite(network.S_sup.values)
        if there.sum() < self.stored:
            self.fault = f"{there.sum()} replicas after {self.stored}"
        for name in self.final.data_vars:
            found, final = network[name].values, self.final[name].values
            if found.dtype != final.dtype or found[there].tobytes() != final[there].tobytes():
                self.fault = f"torn values of {name}"
        self.reads, self.stored = self.reads + 1, int(there.sum())


def main() -> None:
    """Read while two workers compute and the results are rebuilt every half second."""
    with trial("readers during a run") as (show, folder):
        calm, expected = folder / "calm" / "store", undisturbed(folder / "calm", TABLES, show)
        spec, store = write_spec(folder, TABLES), folder / "store"
        final = sweep.load(calm)["network"].to_dataset()
        results = store / "results.nc"

        loads = [Reader(lambda: sweep.load(store)["network"].to_dataset(), final) for _ in range(THREADS)]
        driver = start(spec, store, TRIAL_REFRESH="0.5")
        while driver.poll() is None and not (results.exists() and np.isfinite(plain(results).S_sup).any()):
            time.sleep(0.01)
        held = xr.open_dataset(results, group="network", chunks=None)
        seen = np.isfinite(held.S_sup.values)
        other = Child(results, calm / "results.nc")
        ended = threading.Event()
        threads = [threading.Thread(target=reader.loop, args=(ended,)) for reader in loads]
        for thread in threads:
            thread.start()
        code = driver.wait()
        ended.set()
        for thread in threads:
            thread.join()
        must(code == 0, f"the run ended with exit code {code}")
        for reader in loads:
            must(not reader.fault, reader.fault)
            must(reader.stored == seen.size, "the last reading is not of the whole")
        show(f"loads from {THREADS} threads", sum(reader.reads for reader in loads))
        show("readings by another process and plain xarray", other.finish())
        for variable in final.data_vars:
            kept, whole = held[variable].values, final[variable].values
            must(kept[seen].tobytes() == whole[seen].tobytes(), f"{variable} of the file held open changed")
        held.close()
        show("replicas in the file held open through the run", f"{int(seen.sum())} of {seen.size}, intact")
        must_be_equal(contents(store), expected)


def plain(results: Path) -> xr.Dataset:
    """Read the network's group as any user of xarray does."""
    with xr.open_dataset(results, group="network") as opened:
        return opened.load()


class Child:
    """Another process that reads results.nc by plain xarray until told to stop."""

    def __init__(self, results: Path, final: Path) -> None:
        command = [sys.executable, "-m", "tests.verification.trial_reader", str(results), str(final)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def finish(self) -> str:
        """Tell it to stop, and return what it counted."""
        told, _ = self.process.communicate("stop\n")
        must(self.process.returncode == 0, f"the other process failed: {told}")
        return told.strip()


def child(results: Path, final: Path) -> None:
    """Read results until a line arrives on standard input."""
    reader = Reader(lambda: plain(results), plain(final))
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    reader.loop(ended)
    if reader.fault:
        raise SystemExit(reader.fault)
    print(reader.reads)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(*map(Path, sys.argv[1:]))
    else:
        main()
