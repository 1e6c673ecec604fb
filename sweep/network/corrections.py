"""Cells of which an earlier version may have stored wrong numbers: they get other keys, and are run anew."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sweep.initial import Invariant, Scaled

if TYPE_CHECKING:
    from sweep.cell import Cell, Limit

#: Levels of an invariant state at most; queues beyond are drawn as S_ℓ falls there.
LEVELS = 1600
#: Levels of tables that were not made longer for a start, and the chance of a queue there that is none.
_COLUMNS, _NEVER = 4096, 1e-9


def may_be_geometric(limit: Limit) -> bool:
    """Whether S_ℓ may fall as a geometric: never where services of infinite variance give it a power."""
    alone = limit.d == 1 or limit.fraction < 1.0
    return limit.G.tail_exponent is None or (alone and limit.G.variance < math.inf)


def was_continued_as_power(cell: Cell) -> bool:
    """Whether long queues of an invariant start may have had a power tail where S_ℓ is geometric.

    Such queues have more than `LEVELS` levels: S_ℓ of an M/G/1 queue falls by about 2 (1 − λ)/(λ (1 + Var S))
    a level, and with a share p of choices as with fewer arrivals once S_ℓ is small. A power law takes over
    after drops of 3 (β − 1) to 6 (β − 1). With choices alone only services of huge variance make long queues.
    """
    if not isinstance(cell.initial, Invariant) or not may_be_geometric(cell):
        return False
    lam = cell.lam if cell.d == 1 else cell.lam * (1.0 - 0.5 * cell.fraction)
    alone = cell.d == 1 or cell.fraction < 1.0
    beta = cell.G.tail_exponent
    most = 80.0 if beta is None else min(80.0, 8.0 * (beta - 1.0))
    near = 2 * LEVELS * (1.0 - lam) < most * lam * (1.0 + cell.G.variance)
    return (alone and near) or (cell.d > 1 and cell.G.variance > 100.0)


def was_beyond_tables(cell: Cell) -> bool:
    """Whether a queue in heavy traffic may have started beyond the tables that distances were made of."""
    initial = cell.initial
    if not isinstance(initial, Scaled) or cell.method != "servers":
        return False
    from sweep.diffusion.start import as_start

    far = _COLUMNS / math.sqrt(initial.m) * (1.0 - 1e-12)  # and its rounding
    if max(initial.fixed, default=0.0) >= far:
        return True
    longer = cell.N * float(as_start(initial.start).survival(far))
    return longer > (_NEVER if initial.exchangeable else 0.5)
