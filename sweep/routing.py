"""How an arrival chooses its queue: φ, the probability to join one of length ≥ ℓ, and the rules by name.

Under the rule "sampled" a share p (`fraction`) of arrivals joins the shortest of d sampled queues, the
others one uniform queue, so φ(x) = (1 − p) x + p x^d with x = S_ℓ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sweep.arguments import check_choice, check_count, check_switch, real
from sweep.wording import shown


def phi(x: float, d: int, fraction: float = 1.0) -> float:
    """Return φ(x) = (1 − p) x + p x^d.

    Examples
    --------
    >>> phi(0.5, d=2), phi(0.5, d=2, fraction=0.5)
    (0.25, 0.375)
    """
    return (1.0 - fraction) * x + fraction * x**d


def chord_slope(x: float, y: float, d: int, fraction: float = 1.0) -> float:
    """Return P(x, y) = (φ(x) − φ(y)) / (x − y) as 1 − p + p Σ_{m<d} x^m y^{d−1−m}, without that division.

    Examples
    --------
    >>> chord_slope(0.5, 0.25, d=2), chord_slope(0.5, 0.5, d=2)
    (0.75, 1.0)
    """
    total, power = 0.0, 1.0
    for _ in range(d):
        total = total * y + power
        power *= x
    return (1.0 - fraction) + fraction * total


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A routing rule.

    Attributes
    ----------
    sentence
        What an arrival does.
    samples
        Whether it samples `d` queues, a share `fraction` of arrivals at least.
    sees_all
        Whether it needs the lengths of all queues, so that departures are applied in the order of time.
    loop
        "module:function" of the compiled loop that runs a network under this rule event by event.
    phi
        φ(x, d, fraction) of the N → ∞ limit; None where no limit is implemented.
    """

    sentence: str
    samples: bool
    sees_all: bool
    loop: str
    phi: Callable[[float, int, float], float] | None = None


_LOOPS = "sweep.network.rule_kernels"
#: The rules by name. A new one is an entry here and a compiled loop over its choice of a server.
ROUTING: dict[str, Rule] = {
    "sampled": Rule(
        sentence="A share `fraction` of arrivals joins the shortest of d sampled queues, others any queue.",
        samples=True,
        sees_all=False,
        loop=f"{_LOOPS}:run_sampled",
        phi=phi,
    ),
    "shortest": Rule(
        sentence="Arrivals join the shortest of all N queues, ties uniformly (JSQ).",
        samples=False,
        sees_all=True,
        loop=f"{_LOOPS}:run_shortest",
    ),
    "idle": Rule(
        sentence="Arrivals join a uniform idle server; if there is none, they are routed as sampled (JIQ).",
        samples=True,
        sees_all=True,
        loop=f"{_LOOPS}:run_idle",
    ),
    "round-robin": Rule(
        sentence="Arrivals join the queues in turn.",
        samples=False,
        sees_all=True,
        loop=f"{_LOOPS}:run_round_robin",
    ),
}


def as_rule(routing: str) -> Rule:
    """Return the rule of that name.

    Raises
    ------
    TypeError
        Not text.
    ValueError
        No such rule.

    Examples
    --------
    >>> as_rule("round-robin").sentence
    'Arrivals join the queues in turn.'
    """
    return ROUTING[check_choice("routing", routing, ROUTING)]


def check_routing(
    routing: str, d: int, fraction: float = 1.0, *, replacement: bool = True, invariant: bool = False
) -> str:
    """Return the name of a rule that goes with d, `fraction`, `replacement` and a start, `invariant` or not.

    Raises
    ------
    TypeError
        A rule that is not text, d that is no whole number, a fraction that is no number, or a replacement
        that is not true or false.
    ValueError
        No such rule; d other than 1, a fraction below 1, or no replacement with a rule that does not sample;
        an invariant start with one whose limit is not implemented.

    Examples
    --------
    >>> check_routing("idle", 2), check_routing("shortest", 1)
    ('idle', 'shortest')
    """
    choices, share = check_count("d", d), real("fraction", fraction)
    replaced = check_switch("replacement", replacement)
    for fault in routing_faults(routing, choices, share, replacement=replaced, invariant=invariant):
        raise ValueError(fault)
    return str(routing)


def routing_faults(
    routing: str, d: int, fraction: float, *, replacement: bool, invariant: bool
) -> Iterator[str]:
    """Yield everything that does not go with a rule: `check_routing` tells the first of it."""
    rule = as_rule(routing)
    if not rule.samples:
        why = f'with routing = "{routing}", which samples no queues'
        if d != 1:
            yield f"d must be 1 {why}, got {shown(d)}"
        if fraction != 1.0:
            yield f"fraction must be 1 {why}, got {fraction:g}"
        if not replacement:
            yield f"replacement must be true {why}, got false"
    if invariant and rule.phi is None:
        yield (
            f'initial must not be invariant with routing = "{routing}", whose limit is not implemented: '
            'choose "empty" or "lengths(…)"'
        )


def has_limit(routing: str) -> bool:
    """Whether the N → ∞ limit of a rule is implemented.

    Raises
    ------
    TypeError, ValueError
        As `as_rule`.

    Examples
    --------
    >>> has_limit("sampled"), has_limit("shortest")
    (True, False)
    """
    return as_rule(routing).phi is not None


def limit_phi(routing: str) -> Callable[[float, int, float], float]:
    """Return φ(x, d, fraction) of a rule's N → ∞ limit.

    Raises
    ------
    TypeError
        Not text.
    ValueError
        No such rule, or one whose limit is not implemented.

    Examples
    --------
    >>> limit_phi("sampled")(0.5, 2, 1.0)
    0.25
    """
    function = as_rule(routing).phi
    if function is None:
        known = " or ".join(f'"{name}"' for name, rule in ROUTING.items() if rule.phi)
        raise ValueError(f'routing must have a limit, none is implemented for "{routing}": choose {known}')
    return function
