"""The table of routing rules: a rule of one's own, what each entry offers, and every error text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import njit

from sweep.cell import Cell
from sweep.network.eager import load_loop, run_eager
from sweep.network.eager_kernels import REASON, WORDS, Network, advance, join
from sweep.network.path import Path
from sweep.network.place_kernels import uniform
from sweep.routing import ROUTING, Rule, as_rule, check_routing, limit_phi


def path(run: tuple[Cell, str], times: Any, levels: int | None = 30, **more: Any) -> Path:
    options = {"seed": 5, "replica": 0, "snapshots": np.empty(0), **more}
    cell, rule = run
    return run_eager(cell, rule, times=np.asarray(times), levels=levels, **options)


@njit(nogil=True)
def longest_of_two(network: Network, word: int) -> Any:
    """Choose the longer of two sampled queues: that at the first of two places."""
    N = np.uint64(network.row.size)
    first, word = uniform(network.words, word, N)
    second, word = uniform(network.words, word, N)
    return network.row[min(first, second)], word


@njit(nogil=True)
def run_longest_of_two(network: Network) -> Any:
    while advance(network) and join(network, *longest_of_two(network, network.used[WORDS])):
        pass
    return network.totals[REASON]


@pytest.fixture
def own_rule(monkeypatch: pytest.MonkeyPatch) -> str:
    """A rule of one's own: an entry in the table and a loop."""
    rule = Rule(
        sentence="Arrivals join the longer of two queues.",
        samples=False,
        sees_all=True,
        loop=f"{__name__}:run_longest_of_two",
    )
    monkeypatch.setitem(ROUTING, "longest", rule)
    return "longest"


def test_a_rule_of_ones_own_is_an_entry_and_a_loop(own_rule: str) -> None:
    """Two queues, services that never end: jobs go to the longer one with probability 3/4 once there is one.

    Of two arrivals the second joins the first with probability 3/4 then; z² of a binomial count, and a
    probability 5 % off fails.
    """
    assert check_routing(own_rule, 1) == "longest"
    cell, count = Cell(N=2, d=1, lam=100.0, G="deterministic", arrivals="deterministic"), 8000
    S = np.array(
        [
            path((cell, own_rule), [0.0125], levels=2, replica=r).arrays(np.empty(0))["S"][0, 1]
            for r in range(count)
        ]
    )
    share = 2.0 * S.mean()
    for probability, agrees in ((0.75, True), (0.75 * 1.05, False)):
        assert bool(abs(share - probability) <= 4.0 * math.sqrt(0.75 * 0.25 / count)) is agrees
    twice = [path((cell, own_rule), [1.0, 3.0], levels=None, block=block) for block in (3, 1000)]
    assert np.array_equal(twice[0].arrivals, twice[1].arrivals)


@pytest.mark.parametrize("name", ROUTING)
def test_every_rule_is_described_and_has_a_loop(name: str) -> None:
    rule = as_rule(name)
    assert rule.sentence.endswith(".")
    assert callable(load_loop(rule.loop))
    assert check_routing(name, 3 if rule.samples else 1) == name


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            ("longest", 1),
            ValueError,
            "routing must be one of sampled, shortest, idle, round-robin, got 'longest'",
        ),
        (
            (None, 1),
            TypeError,
            "routing must be text, got None: choose one of sampled, shortest, idle, round-robin",
        ),
        (
            ("shortest", 2),
            ValueError,
            'd must be 1 with routing = "shortest", which samples no queues, got 2',
        ),
        (
            ("shortest", 1, 1.0, True),
            ValueError,
            'initial must not be invariant with routing = "shortest", whose limit is not implemented: '
            r'choose "empty" or "lengths\(…\)"',
        ),
        (
            ("round-robin", 1, 0.5),
            ValueError,
            'fraction must be 1 with routing = "round-robin", which samples no queues, got 0.5',
        ),
        (("Shortst", 1), ValueError, r"round-robin, got 'Shortst' \(did you mean shortest\?\)"),
    ],
)
def test_rules_that_do_not_fit_are_refused(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        check_routing(*arguments[:3], invariant=len(arguments) > 3)


def test_sampling_without_replacement_needs_a_rule_that_samples() -> None:
    text = 'replacement must be true with routing = "shortest", which samples no queues, got false'
    with pytest.raises(ValueError, match=text):
        check_routing("shortest", 1, replacement=False)
    assert check_routing("idle", 1, replacement=False) == "idle"


@pytest.mark.parametrize("name", ["shortest", "idle", "round-robin"])
def test_rules_without_a_limit_say_so(name: str) -> None:
    with pytest.raises(ValueError, match=f'none is implemented for "{name}": choose "sampled"'):
        limit_phi(name)
    assert limit_phi("sampled")(0.5, 2, 0.5) == 0.375
