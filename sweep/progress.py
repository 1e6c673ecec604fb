"""Shows how far a run is: a bar on a terminal, a line in a notebook, lines elsewhere, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

#: Seconds between lines where there is no terminal.
_PAUSE = 5.0
#: What `Progress.last` says before the first task is done.
STARTING = "starting"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is; costs in estimated seconds of one core, `busy` in those that the tasks done took."""

    replicas_done: int
    replicas_total: int
    limits_done: int
    limits_total: int
    cost_done: float
    cost_total: float
    busy: float
    workers: int
    failed: int
    elapsed: float
    last: str

    @property
    def rate(self) -> float:
        """Replicas a second so far."""
        return self.replicas_done / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the time left, None until some replicas are done: limits start the workers.

        What is left of the cost, at the pace of the tasks that are done. The start of the workers counts for
        nothing, nor do tasks that are under way, so that the estimate is rather too long.
        """
        if self.cost_done <= 0 or self.replicas_done < min(1, self.replicas_total):
            return None
        return max(self.cost_total - self.cost_done, 0.0) * self.busy / self.cost_done / self.workers


Show = Callable[[Progress], None]


@contextmanager
def show_bar(console: Console) -> Iterator[Show]:
    """Show a live bar on a terminal, and a line every few seconds elsewhere."""
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    live = console.is_terminal
    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f} %"),
        TextColumn("{task.fields[detail]}"),
        console=console,
        disable=not live,
    )
    line = bars.add_task("sweep", total=1.0, detail="")
    printed = 0.0

    def show(state: Progress) -> None:
        nonlocal printed
        detail = sentence(state)
        bars.update(line, total=max(state.cost_total, 1e-9), completed=state.cost_done, detail=detail)
        if not live and state.elapsed - printed >= _PAUSE:
            printed = state.elapsed
            console.print(detail, soft_wrap=True)

    with bars:
        yield show


@contextmanager
def show_cell() -> Iterator[Show]:
    """Show a line below a notebook's cell, written anew after every task."""
    from IPython.display import display

    line = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
    yield lambda state: line.update({"text/plain": sentence(state)}, raw=True)


def shown_by(progress: Show | None) -> AbstractContextManager[Show]:
    """Return how progress is shown: as given, else by a line in a notebook and not at all elsewhere."""
    if progress is not None:
        return nullcontext(progress)
    return show_cell() if Console().is_jupyter else nullcontext(lambda state: None)


@contextmanager
def show_json() -> Iterator[Show]:
    """Print the state after every task as one line of JSON."""
    yield lambda state: print_json(event="progress", **asdict(state))


def print_json(**values: Any) -> None:
    """Print one line of JSON to standard output at once."""
    print(json.dumps(values), file=sys.stdout, flush=True)


def sentence(state: Progress) -> str:
    """Say in one line how far a run is."""
    replicas = f"{state.replicas_done}/{state.replicas_total} replicas"
    if state.last == STARTING:
        detail = "starting workers, compiling"
    elif state.limits_done < state.limits_total:
        detail = f"{state.limits_done}/{state.limits_total} limits, {replicas}"
    else:
        detail = f"{replicas}  {state.rate:.1f}/s"
    if state.seconds_left:
        detail += f"  {duration(state.seconds_left)} left"
    if state.failed:
        detail += f"  {state.failed} failed"
    return detail


def duration(seconds: float) -> str:
    """Return a time in words, to two or three digits."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
