"""Kills workers, drivers and consolidations at random moments: `python -m tests.verification.trial_kills`.

After every kill the run is resumed. In the end the results are those of an undisturbed run, bit for bit; no
stored shard was lost, nothing was computed twice but what was in flight, and no process was left behind.
"""

from __future__ import annotations

import random
import sys
import tempfile
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
    trial,
    wait_for,
    workers_of,
    write_spec,
)

SPEC = """
name = "kills"
study = "transient"
seed = 11
[grid]
N = [100, 3000, 30000]
d = [1, 2]
lam = [0.7, 0.9]
G = ["exponential", "lomax(beta=1.5)"]
[run]
horizon = 20.0
times = 101
levels = 8
replicas = REPLICAS
"""
#: Replicas are asked for in steps, so that there are many consolidations to be killed.
STEPS = (6, 12, 18, 24)
WORKERS = 2
#: Seconds between consolidations while a run goes on.
REFRESH = "1"


def main(kills: int, seed: int) -> None:
    """Kill that many times; kinds, moments and victims come from the seed."""
    rng = random.Random(seed)
    with trial(f"{kills} kills, seed {seed}") as show, tempfile.TemporaryDirectory() as name:
        calm, rough = Path(name, "calm"), Path(name, "rough")
        calm.mkdir()
        rough.mkdir()
        seconds = finish(write_spec(calm, SPEC, REPLICAS=str(STEPS[-1])), calm / "store")
        show("undisturbed run", f"{seconds:.1f} s")
        must(len(executed(calm)) == shards(calm / "store"), "an undisturbed run computes something twice")
        done: Counter[str] = Counter()
        in_flight = 0
        for number, replicas in enumerate(STEPS):
            spec, store = write_spec(rough, SPEC, REPLICAS=str(replicas)), rough / "store"
            until = kills * (number + 1) // len(STEPS)
            kinds = [rng.choice(["worker", "driver"]) for _ in range(until - done.total())]
            count = len(kinds) // 3
            kinds[-count:] = ["consolidation"] * count  # these need a run that gets so far
            for kind in kinds:
                in_flight += KINDS[kind](spec, store, rng)
                done[kind] += 1
            finish(spec, store)
        show("killed", ", ".join(f"{n} × {kind}" for kind, n in sorted(done.items())))
        again = len(executed(rough)) - shards(rough / "store")
        show("batches stored", shards(rough / "store"))
        show("batches computed again", f"{again}, of {in_flight} in flight at a kill")
        must(again <= in_flight, "more was computed again than was in flight")
        items = sum(len(Store.open(rough / "store").index(kind)) for kind in ("network", "fluid"))
        must(items == rows(rough / "store"), "an item is stored twice")
        must_be_equal(contents(rough / "store"), contents(calm / "store"))
        show("variables outside /cells", "equal bit for bit")


def kill_worker(spec: Path, store: Path, rng: random.Random) -> int:
    """Kill one worker at a random moment and let the run end; return the batches that were in flight."""
    driver = start(spec, store, TRIAL_REFRESH=REFRESH)
    family = watched(driver.pid)
    if not wait_for(lambda: workers_of(driver.pid), driver):
        return 0
    time.sleep(rng.uniform(0.0, 4.0))
    crew = workers_of(driver.pid)
    if crew:
        rng.choice(crew).kill()
    family.extend(workers_of(driver.pid))
    code = driver.wait()
    must(code == 0, f"a killed worker ended the run with exit code {code}")
    must_be_gone(family)
    return 2 if crew else 0


def kill_driver(spec: Path, store: Path, rng: random.Random) -> int:
    """Kill the driver at a random moment; return the batches that were in flight."""
    before = names(store)
    driver = start(spec, store, TRIAL_REFRESH=REFRESH)
    time.sleep(rng.uniform(0.5, 6.0))
    family = watched(driver.pid)
    driver.kill()
    driver.wait()
    must_be_gone(family)
    must(before <= names(store), "a stored shard was lost")
    return 2 * WORKERS


def kill_consolidation(spec: Path, store: Path, rng: random.Random) -> int:
    """Kill the driver while it writes results.nc; the old file, if any, stays whole."""
    results = store / "results.nc"
    before = results.read_bytes() if results.exists() else b""
    driver = start(spec, store, TRIAL_REFRESH=REFRESH)
    family: list[psutil.Process] = []

    def writing() -> bool:
        family[:] = family or workers_of(driver.pid)
        return any(store.glob(".tmp-*-results.nc"))

    must(wait_for(writing, driver), "the run ended without writing its results")
    time.sleep(rng.uniform(0.0, 0.15))
    driver.kill()
    driver.wait()
    must_be_gone(family)
    after = results.read_bytes() if results.exists() else b""
    must(after == before or not any(store.glob(".tmp-*-results.nc")), "results.nc was changed in place")
    if after:
        contents(store)
    return 0


KINDS: dict[str, Callable[[Path, Path, random.Random], int]] = {
    "worker": kill_worker,
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
