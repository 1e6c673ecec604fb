"""Exact simulation of a replica of the network under a routing rule that sees all queues."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.network import eager_kernels as kernels
from sweep.network.eager_averages import job_averages, time_averages
from sweep.network.eager_state import EagerSupply, Tables, network_at_start, with_entries, with_levels
from sweep.network.path import Path, check_noted, trim
from sweep.routing import as_rule

Floats = NDArray[np.float64]
Loop = Callable[[kernels.Network], int]

#: Most random numbers drawn ahead, per stream; results do not depend on it.
BLOCK = 1 << 14


def run_eager(
    cell: Cell,
    rule: str,
    *,
    times: Floats,
    seed: int,
    replica: int,
    levels: int | None,
    snapshots: Floats,
    averages: bool = False,
    measure: bool = False,
    block: int | None = None,
) -> Path:
    """Run one replica under the routing rule `rule` for arguments that are checked already, as `run_path`.

    All departures are applied in the order of time, those of one time in the order of servers, before an
    arrival at that time chooses its queue: the rule sees every queue as it is. The path depends on neither
    times, levels, snapshots, averages, measure nor `block`. An event costs O(log N).

    Parameters
    ----------
    cell
        The network; `d`, `fraction` and `replacement` mean what they mean to the rule.
    rule
        A name in `sweep.routing.ROUTING`.
    times
        Increasing times ≥ 0 to store, shape (t,), in mean service times.
    seed, replica
        Root seed and number of the replica, ≥ 0.
    levels
        Queue lengths ℓ = 1 … `levels` to count; None for the longest queue at a stored time, at least 1.
    snapshots
        Increasing times at which ages and lengths of all queues are taken, shape (snapshot,).
    averages
        Whether S_ℓ and X are averaged over each interval that ends at a stored time, the first from 0.
    measure
        Whether times in system and waits are averaged over the jobs that leave in each such interval.
    block
        Random numbers drawn at a time.

    Returns
    -------
    Path
        Event counts by time bin and level, ages and lengths at the snapshots.

    Raises
    ------
    ValueError
        A rule that is not known.

    Examples
    --------
    >>> cell = Cell(N=1000, d=1, lam=0.9, G="deterministic")
    >>> none = np.empty(0)
    >>> path = run_eager(
    ...     cell, "shortest", times=np.array([10.0]), seed=1, replica=0, levels=2, snapshots=none
    ... )
    >>> int(path.arrays(none)["S"][0, 1] * 1000)  # nobody waits
    0
    """
    loop = load_loop(as_rule(rule).loop)
    horizon = max([float(times[-1]), *snapshots.tolist()])
    check_noted(cell, horizon)
    expected = 1.1 * cell.lam * cell.N * horizon + 32
    supply = EagerSupply(cell, seed, replica, block or math.ceil(min(BLOCK, expected)))
    network = network_at_start(cell, seed, replica, supply, Tables(times, levels, averages, measure))
    lengths0 = network.lengths.copy()
    ages = np.zeros((snapshots.size, cell.N))
    lengths = np.zeros((snapshots.size, cell.N), dtype=np.int32)
    longest = 0
    for moment in np.union1d(snapshots, times[-1]).tolist():
        network = _run_until(loop, network, supply, moment, automatic=levels is None)
        if moment <= times[-1]:
            longest = int(network.totals[kernels.LONGEST])
        for k in np.flatnonzero(snapshots == moment).tolist():
            lengths[k] = network.lengths
            ages[k] = np.where(network.lengths > 0, moment - network.started, 0.0)
    arrivals, departures = (table[:-1].cumsum(axis=0) for table in (network.arrivals, network.departures))
    if levels is None:
        arrivals, departures = trim(lengths0, arrivals, departures)
    means = time_averages(network, lengths0, arrivals.shape[1] - 1) if averages else {}
    return Path(
        lengths0=lengths0,
        arrivals=arrivals,
        departures=departures,
        ages=ages,
        lengths=lengths,
        R_E=times - np.maximum.accumulate(np.append(supply.last, network.last[:-1]))[1:],
        longest=longest,
        averages={**means, **(job_averages(network) if measure else {})},
    )


def load_loop(name: str) -> Loop:
    """Return the compiled loop that "module:function" names."""
    module, _, function = name.partition(":")
    loop: Loop = getattr(import_module(module), function)
    return loop


def _run_until(
    loop: Loop,
    network: kernels.Network,
    supply: EagerSupply,
    until: float,
    automatic: bool,
) -> kernels.Network:
    """Run up to a time, which included, and provide what runs out on the way."""
    network.time[1] = until
    while True:
        reason, used = loop(network), network.used
        if reason == kernels.DONE:
            return network
        if reason == kernels.NEEDS_GAPS:
            network, used[kernels.GAPS] = network._replace(gaps=supply.gaps()), 0
        elif reason == kernels.NEEDS_SERVICES:
            network, used[kernels.SERVICES] = network._replace(services=supply.services()), 0
        elif reason == kernels.NEEDS_WORDS:
            words = np.concatenate([network.words[used[kernels.WORDS] :], supply.words()])
            network, used[kernels.WORDS] = network._replace(words=words), 0
        elif reason == kernels.NEEDS_JOBS:
            network = network._replace(jobs=with_entries(network.jobs))
        else:
            network = with_levels(network, automatic)
