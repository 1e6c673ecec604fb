"""Compiled routing rules that see all queues: which one an arrival joins, and the loop that asks for it.

A choice takes the network and the next unused random word, and returns a server and the word after those it
used. It must change nothing: where words run out, the same arrival chooses again.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sweep.network.eager_kernels import (
    ARRIVED,
    OPTIONS,
    REASON,
    SHORTEST,
    WORDS,
    Network,
    advance,
    any_of_length,
    join,
)
from sweep.network.place_kernels import sample_one


@njit(**OPTIONS, forceinline=True)
def shortest_sampled(network: Network, word: int) -> Any:
    """Choose the shortest of d sampled queues, ties uniformly.

    Queues of one length are exchangeable for it: the last of d sampled places tells the length, and any
    queue of that length is as likely as another.
    """
    place, word = sample_one(network.sampling, network.words, word)
    return any_of_length(network, network.lengths[network.row[place]], word)


@njit(**OPTIONS, forceinline=True)
def shortest_of_all(network: Network, word: int) -> Any:
    """Choose a shortest queue, ties uniformly."""
    return any_of_length(network, network.totals[SHORTEST], word)


@njit(**OPTIONS, forceinline=True)
def idle_first(network: Network, word: int) -> Any:
    """Choose an idle server, uniformly; if there is none, the shortest of d sampled queues."""
    if network.totals[SHORTEST] == 0:
        return any_of_length(network, 0, word)
    return shortest_sampled(network, word)


@njit(**OPTIONS, forceinline=True)
def in_turn(network: Network, word: int) -> Any:
    """Choose the servers one after the other."""
    return network.totals[ARRIVED] % network.row.size, word


@njit(**OPTIONS)
def run_sampled(network: Network) -> Any:
    """Run until the network stops, and return the reason, as all loops here."""
    while advance(network) and join(network, *shortest_sampled(network, network.used[WORDS])):
        pass
    return network.totals[REASON]


@njit(**OPTIONS)
def run_shortest(network: Network) -> Any:
    """Join the shortest queue."""
    while advance(network) and join(network, *shortest_of_all(network, network.used[WORDS])):
        pass
    return network.totals[REASON]


@njit(**OPTIONS)
def run_idle(network: Network) -> Any:
    """Join an idle queue."""
    while advance(network) and join(network, *idle_first(network, network.used[WORDS])):
        pass
    return network.totals[REASON]


@njit(**OPTIONS)
def run_round_robin(network: Network) -> Any:
    """Join the queues in turn."""
    while advance(network) and join(network, *in_turn(network, network.used[WORDS])):
        pass
    return network.totals[REASON]
