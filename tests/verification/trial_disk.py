"""Fills, forbids and damages the disk under a run: `python -m tests.verification.trial_disk` (as root).

Each trouble is told in a clear message with exit code 3, nothing stored is lost, and a resumed run ends with
the results of an undisturbed one, bit for bit. The small disk is a tmpfs, which only root may mount.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep.store import Store
from tests.verification.trial_runs import (
    Contents,
    contents,
    executed,
    finish,
    must,
    must_be_equal,
    start,
    tables,
    trial,
    undisturbed,
    wait_for,
    workers_of,
    write_spec,
)

TABLES = tables("disk", 14, {"N": [100, 30_000]}, horizon=40.0, times=201, levels=12)
MEGABYTE = 2**20


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a disk of so many bytes."""
    place = folder / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        place.rmdir()


def remount(place: Path, options: str) -> None:
    """Change the size or mode of the small disk."""
    subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)


def failing(spec: Path, store: Path, *parts: str) -> str:
    """Run a sweep that must end in trouble, and return its message, which must have these parts."""
    output = spec.parent / "output.txt"
    output.unlink(missing_ok=True)
    code = start(spec, store).wait()
    said = output.read_text()
    must(code == 3, f"exit code {code}, not 3: {said[-2000:]}")
    must("Traceback" not in said, f"a traceback instead of a message: {said[-2000:]}")
    for part in parts:
        must(part in said, f"no {part!r} in: {said[-2000:]}")
    return said[said.index("error: ") :].strip()


def main() -> None:
    """Go through every trouble with the same sweep."""
    with trial("the disk under a run") as (show, folder):
        calm = undisturbed(folder / "calm", TABLES, show)
        spec = write_spec(folder, TABLES)
        sizes = [path.stat().st_size for path in (folder / "calm/store").rglob("*") if path.is_file()]
        show("bytes of the whole store", f"{sum(sizes):,}")
        for share in (0.3, 0.9):
            full(folder, spec, calm, int(share * sum(sizes)))
            show(f"disk of {share:.0%} of them", "told, nothing lost, resumed to the same bits")
        said = forbidden(folder, spec, calm)
        show("disk made read-only", said[:90])
        for number in range(3):
            damaged(folder, spec, calm, random.Random(number))
        show("shards cut, flipped, emptied, exchanged", "those alone redone, the same bits")
        show("second run on a store", two(folder, spec, calm)[:90])
        show("lock of a dead process, shards of the future", stale(folder, spec, calm))


def full(folder: Path, spec: Path, calm: Contents, size: int) -> None:
    """Run on a disk that is too small, then on the same disk grown."""
    with small_disk(folder, size) as disk:
        store = disk / "store"
        failing(spec, store, "cannot be written", "bytes are free on that disk: make room")
        before = set(store.glob("shards/network-*.nc"))
        must(Store.open(store).damaged == [], "a half-written shard was left under its name")
        must(not list(store.rglob(".tmp-*")), "something half-written was left")
        must(not (store / "lock").exists(), "the lock was left")
        failing(spec, store, "cannot be written")  # and again, still full
        remount(disk, f"size={40 * MEGABYTE}")
        finish(spec, store)
        must(before <= set(store.glob("shards/network-*.nc")), "a shard was lost")
        must_be_equal(contents(store), calm)


def forbidden(folder: Path, spec: Path, calm: Contents) -> str:
    """Make the disk read-only while a run writes to it."""
    with small_disk(folder, 40 * MEGABYTE) as disk:
        store = disk / "store"
        output = spec.parent / "output.txt"
        output.unlink(missing_ok=True)
        driver = start(spec, store)
        early = wait_for(lambda: any(store.glob("shards/network-*.nc")), driver)
        must(early, "it ended too soon")
        while driver.poll() is None:
            done = subprocess.run(["mount", "-o", "remount,ro", disk], check=False, capture_output=True)
            if done.returncode == 0:
                break
            time.sleep(0.01)  # a file is open for writing just now
        must(driver.wait() == 3, f"exit code {driver.returncode}: {output.read_text()[-2000:]}")
        said = output.read_text()
        must("cannot be written" in said and "Traceback" not in said, said[-2000:])
        failing(spec, store, "Read-only file system")
        remount(disk, "rw")
        finish(spec, store)
        must_be_equal(contents(store), calm)
        return said[said.index("error: ") :].strip()


def damaged(folder: Path, spec: Path, calm: Contents, rng: random.Random) -> None:
    """Damage four shards of a finished store, and redo them."""
    store = folder / "damaged"
    finish(spec, store)
    paths = sorted(store.glob("shards/*.nc"))
    cut, flipped, emptied, exchanged, other = rng.sample(paths, 5)
    cut.write_bytes(cut.read_bytes()[: rng.randrange(1, cut.stat().st_size)])
    image = bytearray(flipped.read_bytes())
    image[rng.randrange(len(image))] ^= 1 << rng.randrange(8)
    flipped.write_bytes(image)
    emptied.write_bytes(b"")
    exchanged.write_bytes(other.read_bytes())
    lost = {cut, flipped, emptied, exchanged}
    must({path for path, _ in Store.open(store).damaged} == lost, "not those shards are found damaged")
    before = len(executed(folder))
    finish(spec, store)
    again = len(executed(folder)) - before
    must(again <= 8, f"{again} batches were computed for four damaged shards")
    must({path.name for path in store.glob("damaged/*.nc")} >= {path.name for path in lost}, "not set aside")
    must_be_equal(contents(store), calm)


def two(folder: Path, spec: Path, calm: Contents) -> str:
    """Start a second run while one goes on."""
    store = folder / "two"
    first = start(spec, store)
    must(wait_for((store / "lock").exists, first), "the first run took no lock")
    said = failing(spec, store, f"is locked by pid {first.pid} on ")
    must(first.wait() == 0, "the first run was disturbed")
    must_be_equal(contents(store), calm)
    return said


def stale(folder: Path, spec: Path, calm: Contents) -> str:
    """Leave a killed run's lock, with its time in the future, and shards as of next year."""
    store = folder / "stale"
    driver = start(spec, store)
    must(wait_for(lambda: any(store.glob("shards/network-*.nc")), driver), "it ended too soon")
    crew = workers_of(driver.pid)
    driver.kill()
    driver.wait()
    for worker in crew:
        worker.wait(timeout=5.0)
    owner = json.loads((store / "lock").read_text())
    (store / "lock").write_text(json.dumps(owner | {"time": "2999-01-01T00:00:00Z"}))
    for path in store.glob("shards/*.nc"):
        os.utime(path, (4e9, 4e9))
    finish(spec, store)
    must_be_equal(contents(store), calm)
    return "taken over, the same bits"


if __name__ == "__main__":
    main()
