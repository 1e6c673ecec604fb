"""Sweeps on a cluster that loses nodes, loses workers, or has cells that ruin theirs.

Run by name, in a process of their own: `python -m tests.verification.trial_cluster nodes kills poison`. They
start a Ray on the loopback interface and end it, print what they find, and exit 0 if that is as it should be.
The tests run them small.
"""

from __future__ import annotations

import argparse
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped,unused-ignore]
from numpy.typing import NDArray

import sweep
import sweep.plan
from sweep.progress import Progress
from sweep.studies.transient import TransientSpec
from tests.engine_nodes import Nodes
from tests.verification.trial_runs import PLAIN, Show, contents, must, must_be_equal, tables, trial

Arrays = dict[str, NDArray[Any]]

#: N of the cells that end their worker, that raise, and that allocate without bound.
POISON, RAISING, GREEDY = 17, 117, 217


def run_replicas(payload: Mapping[str, Any], shared: Mapping[str, Mapping[str, NDArray[Any]]]) -> Arrays:
    """Simulate as the package does, but for three cells."""
    from sweep.work import run_replicas as simulate

    for case, _ in payload["items"]:
        servers = case.values[0]
        if servers == POISON:
            os._exit(3)
        if servers == RAISING:
            raise ArithmeticError(f"no result for N={servers}")
        if servers == GREEDY:
            blocks = []
            while True:
                blocks.append(np.ones(2**23))
    return simulate(payload, shared)


def pause_and_run_replicas(
    payload: Mapping[str, Any], shared: Mapping[str, Mapping[str, NDArray[Any]]]
) -> Arrays:
    """Simulate as the package does, a little later as long as the trial waits for something to happen."""
    from sweep.work import run_replicas as simulate

    if not hurry().exists():
        time.sleep(0.6)
    return simulate(payload, shared)


def hurry() -> Path:
    """The file that ends the pauses: tasks know the cluster's folder as their home."""
    return Path.home() / "hurry"


@contextmanager
def replicas_by(function: Callable[..., Arrays]) -> Iterator[None]:
    """Have replicas computed by another function than the package's."""
    plain = TransientSpec.REPLICA_TASK
    TransientSpec.REPLICA_TASK = f"tests.verification.trial_cluster:{function.__name__}"
    try:
        yield
    finally:
        TransientSpec.REPLICA_TASK = plain


def spec(servers: list[int], **run: Any) -> dict[str, Any]:
    """Return tables of exponential service, whose kernel compiles quickly."""
    return tables("trial", 11, {**PLAIN, "N": servers}, times=3, levels=2, **run)


def disturbed(
    what: Mapping[str, Any], cluster: Nodes, folder: Path, show: Show, progress: Callable[[Progress], None]
) -> None:
    """Run a sweep on the cluster while something happens, then the same undisturbed, and compare."""
    store = folder / "store"
    began = time.perf_counter()
    summary = sweep.run(what, store=store, engine="ray", address=cluster.address, progress=progress)
    show("cells done", f"{summary.cells_done} of {summary.cells} in {time.perf_counter() - began:.0f} s")
    must(not summary.failures, f"failed: {[failure.case.text for failure in summary.failures]}")
    sweep.run(what, store=folder / "alone", engine="local")
    must_be_equal(contents(store), contents(folder / "alone"))
    show("results", "the same bits")


def nodes(cluster: Nodes, folder: Path, show: Show, arguments: argparse.Namespace) -> None:
    """A node is lost under its tasks, and another joins and gets work."""
    (second,) = cluster.joined
    # Pauses, not replicas, last until Ray has noticed that a node is lost and another has joined.
    what = spec([2000, 3000], horizon=20.0, replicas=arguments.replicas)
    lost = False
    at_work: set[int] = set()

    def progress(state: Progress) -> None:
        nonlocal lost
        if lost:
            at_work.update(actors_of(*cluster.joined))
            if at_work:
                hurry().touch()
        elif state.replicas_done and actors_of(second):
            cluster.lose(second)
            cluster.add()
            lost = True

    with batches_of(1e-3), replicas_by(pause_and_run_replicas):
        disturbed(what, cluster, folder, show, progress)
    must(at_work, "the node that joined got no work")
    show("actors at work on the node that joined", len(at_work))


@contextmanager
def batches_of(seconds: float) -> Iterator[None]:
    """Have many batches, of so many seconds each."""
    before = sweep.plan._SHORTEST, sweep.plan._BATCHES_A_WORKER
    sweep.plan._SHORTEST, sweep.plan._BATCHES_A_WORKER = seconds, 1000
    try:
        yield
    finally:
        sweep.plan._SHORTEST, sweep.plan._BATCHES_A_WORKER = before


def actors_of(node: Any) -> list[int]:
    """The actors at work under one raylet."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    return [process.pid for process in raylet.children() if executing(process)]


def executing(process: psutil.Process) -> bool:
    try:
        return "Executor.execute" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def kills(cluster: Nodes, folder: Path, show: Show, arguments: argparse.Namespace) -> None:
    """Workers are killed at random while they execute."""
    rng, calls = random.Random(1), 0
    struck: list[int] = []

    def strike(worker: psutil.Process) -> None:
        with suppress(psutil.NoSuchProcess):  # it may have ended by itself
            worker.kill()
            struck.append(worker.pid)

    def progress(state: Progress) -> None:
        nonlocal calls
        calls += 1
        # A cell whose worker dies three times is given up, so that work goes on between the blows.
        if not state.replicas_done or len(struck) >= arguments.kills or calls < 4:
            return
        family = [one for one in psutil.Process().children(recursive=True) if executing(one)]
        if family:
            threading.Timer(rng.uniform(0.0, 0.4), strike, [rng.choice(family)]).start()
            calls = 0

    with batches_of(0.25):
        what = spec([20_000, 30_000, 40_000], horizon=60.0, replicas=arguments.replicas)
        disturbed(what, cluster, folder, show, progress)
    must(len(struck) >= arguments.kills, f"workers were killed {len(struck)} times, not {arguments.kills}")
    show("workers killed", len(struck))


def poison(cluster: Nodes, folder: Path, show: Show, _: argparse.Namespace) -> None:
    """Of 300 cells one ends its worker, one raises, one allocates without bound: these alone fail."""
    with replicas_by(run_replicas):
        what = spec(list(range(1, 301)), horizon=5.0, replicas=1)
        summary = sweep.run(what, store=folder / "store", engine="ray", address=cluster.address)
    show("cells done", f"{summary.cells_done} of {summary.cells} in {summary.seconds:.0f} s")
    found = {failure.case.values[0]: failure for failure in summary.failures}
    for servers, failure in sorted(found.items()):
        show(f"failed: N = {servers}", f"{failure.attempts} attempts: {failure.error}")
    must(summary.cells_done == 297, "not all others are done")
    must(set(found) == {POISON, RAISING, GREEDY}, f"not those failed but {sorted(found)}")
    must(found[POISON].error.startswith("worker died ("), "no death is told")
    must(found[RAISING].error == f"ArithmeticError: no result for N={RAISING}", "another error is told")
    must("MemoryError" in found[GREEDY].error, "no lack of memory is told")


TRIALS: Mapping[str, Callable[[Nodes, Path, Show, argparse.Namespace], None]] = {
    "nodes": nodes,
    "kills": kills,
    "poison": poison,
}


def main() -> None:
    """Run trials one after the other on a cluster of two nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trials", nargs="+", choices=TRIALS)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--replicas", type=int, default=400)
    arguments = parser.parse_args()
    with Nodes() as cluster:
        cluster.add()
        for name in arguments.trials:
            with trial(f"{name} on a cluster") as (show, folder):
                TRIALS[name](cluster, folder, show, arguments)


if __name__ == "__main__":
    main()
