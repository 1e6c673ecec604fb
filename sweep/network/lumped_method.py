"""Whether a replica is simulated server by server or lumped to level counts: a choice by the cell alone."""

from __future__ import annotations

from sweep.arguments import check_choice
from sweep.cell import Cell
from sweep.laws import Exponential

#: Ways to simulate. Both are exact; "auto" takes the faster one.
METHODS = ("servers", "lumped", "auto")
#: Servers from which on lumping is faster: if arrivals, or a share of them, have one choice; if all have two;
#: or more. Measured by benchmarks/lumped.py; others make other paths of "auto", under another
#: `NUMBERS_VERSION`.
_ONE, _TWO, _MORE = 10_000_000, 1_000_000, 200_000
_CURE = 'use method = "servers"'


def choose_method(
    cell: Cell,
    *,
    snapshots: int = 0,
    measure: bool = False,
    tagged: int = 0,
    method: str = "servers",
    routing: str = "sampled",
) -> str:
    """Return "servers" or "lumped".

    The answer depends on the cell alone, as a path does: what is looked at can only be refused.

    Parameters
    ----------
    cell
        The network.
    snapshots, tagged
        How many snapshots of ages and how many single queues are asked for: level counts have none.
    measure
        Whether times of single jobs are asked for: nor do they know jobs.
    method
        One of `METHODS`.
    routing
        Name of the routing rule.

    Raises
    ------
    TypeError
        A method that is not text.
    ValueError
        No such method; a network, or an output, that level counts do not have.

    Examples
    --------
    >>> cell = Cell(N=10**7, d=2, lam=0.9, G="exponential")
    >>> choose_method(cell), choose_method(cell, method="auto")
    ('servers', 'lumped')
    """
    check_choice("method", method, METHODS)
    if method == "servers" or (method == "auto" and not _faster(cell, routing)):
        return "servers"
    if not isinstance(cell.G, Exponential):
        raise ValueError(
            f'G must be exponential with method = "{method}", which keeps level counts alone, got {cell.G}: '
            f"{_CURE}"
        )
    if routing != "sampled":
        raise ValueError(f'routing must be "sampled" with method = "{method}", got "{routing}": {_CURE}')
    for name, value, rule in (
        ("snapshots", snapshots, "be none"),
        ("tagged", tagged, "be 0"),
        ("measure", measure, "be false"),
    ):
        if value:
            raise ValueError(
                f'{name} must {rule} with method = "{method}", which keeps level counts alone, '
                f"got {str(value).lower()}: {_CURE}"
            )
    return "lumped"


def _faster(cell: Cell, routing: str) -> bool:
    """Whether lumping is possible and faster."""
    if not isinstance(cell.G, Exponential) or routing != "sampled":
        return False
    if cell.d == 1 or cell.fraction < 1.0:
        return cell.N >= _ONE
    return cell.N >= _TWO if cell.d == 2 else cell.N >= _MORE
