"""Kills workers, drivers and consolidations at random moments: `python -m tests.verification.trial_kills`.

After every kill the run is resumed. In the end the results are those of an undisturbed run, bit for bit; no
stored shard was lost, nothing was computed twice but what was in flight, and no process was left behind.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped,unused-ignore]

from sweep.store import Store
from tests.verification.trial_runs import (
    contents,
    executed,
    finish,
    must,
    must_be_equal,
    must_be_gone,
    start,
    tables,
    trial,
    undisturbed,
    wait_for,
    workers_of,
    write_spec,
)

TABLES = tables("kills", 11, {"N": [100, 60_000]})
#: Kills in one sweep; what is left is then done, and the next sweep begins with an empty store.
ROUND = ("driver", "driver", "workers", "consolidation")
WORKERS = 2
#: Seconds between consolidations while a run goes on.
REFRESH = "1"


def main(kills: int, seed: int) -> None:
    """Kill that many times; moments and victims come from the seed."""
    rng = random.Random(seed)
    with trial(f"{kills} kills, seed {seed}") as (show, folder):
        calm = folder / "calm"
        expected, done = undisturbed(calm, TABLES, show), Counter[str]()
        must(len(executed(calm)) == shards(calm / "store"), "an undisturbed run computes something twice")
        show("its batches", shards(calm / "store"))
        again = in_flight = number = 0
        while done.total() < kills:
            rough = folder / f"rough {number}"
            spec, store = write_spec(rough, TABLES), rough / "store"
            for kind in ROUND:
                count, flying = KINDS[kind](spec, store, rng)
                done[kind] += count
                in_flight += flying
            finish(spec, store)
            again += len(executed(rough)) - shards(store)
            items = sum(len(Store.open(store).index(kind)) for kind in ("network", "fluid"))
            must(items == rows(store), "an item is stored twice")
            must_be_equal(contents(store), expected)
            number += 1
        show("kills", ", ".join(f"{n} of {kind}" for kind, n in sorted(done.items())))
        show("sweeps, each resumed to the same bits outside /cells", number)
        show("batches computed again", f"{again}, of {in_flight} in flight at most")
        must(again <= in_flight, "more was computed again than was in flight")


def kill_driver(spec: Path, store: Path, rng: random.Random) -> tuple[int, int]:
    """Kill the driver at a random moment; return the kills, and the batches that were in flight."""
    before = names(store)
    driver = start(spec, store, TRIAL_REFRESH=REFRESH)
    wait_for(lambda: len(names(store)) > len(before), driver)
    time.sleep(rng.uniform(0.0, 2.0))
    family = watched(driver.pid)
    driver.kill()
    driver.wait()
    must_be_gone(family)
    must(before <= names(store), "a stored shard was lost")
    return 1, 2 * WORKERS


def kill_workers(spec: Path, store: Path, rng: random.Random) -> tuple[int, int]:
    """Kill two workers, at random moments, and let the run end."""
    driver = start(spec, store, TRIAL_REFRESH=REFRESH)
    family = watched(driver.pid)
    killed = 0
    while killed < 2 and wait_for(lambda: workers_of(driver.pid), driver):
        time.sleep(rng.uniform(0.0, 3.0))
        crew = workers_of(driver.pid)
        if crew:
            rng.choice(crew).kill()
            killed += 1
        family.extend(crew)
    code = driver.wait()
    must(code == 0, f"a killed worker ended the run with exit code {code}")
    must_be_gone(family)
    return killed, 2 * killed


def kill_consolidation(spec: Path, store: Path, rng: random.Random) -> tuple[int, int]:
    """Kill the driver while it writes results.nc; the old file stays whole."""
    results = store / "results.nc"
    before = results.read_bytes()
    driver = start(spec, store, TRIAL_REFRESH=REFRESH)
    must(wait_for(lambda: any(store.glob(".tmp-*-results.nc")), driver), "no results were written")
    time.sleep(rng.uniform(0.0, 0.15))
    family = watched(driver.pid)
    driver.kill()
    driver.wait()
    must_be_gone(family)
    cut = any(store.glob(".tmp-*-results.nc"))
    must(not cut or results.read_bytes() == before, "results.nc was changed in place")
    contents(store)
    return 1, 0


KINDS: dict[str, Callable[[Path, Path, random.Random], tuple[int, int]]] = {
    "workers": kill_workers,
    "driver": kill_driver,
    "consolidation": kill_consolidation,
}


def watched(driver: int) -> list[psutil.Process]:
    """Return all descendants of a process."""
    try:
        return psutil.Process(driver).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def names(store: Path) -> set[str]:
    """Return the names of all shards."""
    return {path.name for path in store.glob("shards/[!.]*.nc")}


def shards(store: Path) -> int:
    """Return how many shards there are."""
    return len(names(store))


def rows(store: Path) -> int:
    """Return how many items all shards have, repeats counted."""
    opened = Store.open(store)
    return sum(len(opened.load_shard(path).keys) for path in store.glob("shards/[!.]*.nc"))


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*given, *(50, 1)[len(given) :])
