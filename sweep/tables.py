"""What the command prints of plans, stores and finished runs, and its exit codes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from sweep.progress import duration, print_json

if TYPE_CHECKING:
    from sweep.driver import Summary
    from sweep.plan import Plan
    from sweep.status import Status
    from sweep.store import Store
    from sweep.studies.base import SweepSpec

DONE, SOME_FAILED, BAD_INPUT, TROUBLE = 0, 1, 2, 3
#: Failed cells that are named one by one.
_NAMED = 20
#: Compiled kernels are loaded in the driver, then in each worker.
_STARTUP_SECONDS = 6.0

out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)


def selected(spec: SweepSpec, only: list[str] | None) -> dict[str, list[Any]]:
    """Read `--only AXIS=VALUE` options: values of one axis are alternatives, axes must all hold.

    Raises
    ------
    ValueError
        An option of another form.
    """
    selected: dict[str, list[Any]] = {}
    for text in only or []:
        name, sign, value = text.partition("=")
        if not sign:
            raise ValueError(f"--only must be AXIS=VALUE, got {text!r}: write --only N=100")
        known = {str(v): v for v in spec.axis(name)} if name in spec.AXES else {}
        number = known.get(value, next((v for v in known.values() if _same_number(v, value)), value))
        selected.setdefault(name, []).append(number)
    return selected


def _same_number(value: Any, text: str) -> bool:
    try:
        return not isinstance(value, str) and float(text) == value
    except ValueError:
        return False


def show_plan(
    spec: Path,
    store: Path | None,
    workers: int | None,
    only: list[str] | None,
    mix_numbers: bool,
    as_json: bool,
) -> None:
    """Print what a run of a spec would do beyond what a store holds; refuse a store that it would refuse."""
    from sweep.driver import older_keys, plan_for
    from sweep.machine import cpus
    from sweep.selection import selection
    from sweep.spec import read_spec

    checked = read_spec(spec)
    keeper = None if store is None else _existing(store, mix_numbers)
    if keeper is not None:
        checked = checked.settled(keeper.frame)
        keeper.check_frame(checked.frame())
        keeper.adopt(older_keys(checked, keeper.numbers))
    count = workers or cpus()
    made = plan_for(checked, keeper, count, selection(checked, selected(checked, only)))
    if as_json:
        print_json(
            cells=made.positions,
            limits=len(made.missing_limits),
            replicas=made.missing_replicas,
            stored=made.needed_replicas - made.missing_replicas,
            batches=len(made.batches),
            seconds=made.seconds,
            workers=count,
            worker_bytes=made.memory,
            bytes=made.stored_bytes,
        )
    else:
        out.print(_plan_table(made, count))


def _existing(store: Path, mix_numbers: bool) -> Store | None:
    """Open a store as a run does; None where a run would make it."""
    from sweep.store import FRAME_FILE, Store

    if (store / FRAME_FILE).exists():
        return Store.open(store, mixing=mix_numbers)
    Store.check_place(store)
    return None


def _plan_table(plan: Plan, workers: int) -> Table:
    spec = plan.spec
    table = Table(title=f"{spec.name} ({spec.study})", show_header=False, title_justify="left")
    stored = plan.needed_replicas - plan.missing_replicas
    table.add_row("cells", f"{plan.positions}")
    table.add_row("limits to solve", f"{len(plan.missing_limits)} of {len(plan.limits)}")
    table.add_row("replicas", f"{plan.missing_replicas} to compute, {stored} stored")
    if spec.target is not None:
        table.add_row(
            "precision",
            f"more replicas, up to {spec.target.most} a cell, until the standard error of "
            f"{spec.target.quantity} is {spec.target.stderr:g}"
            + (" of its mean" if spec.target.relative else ""),
        )
    table.add_row("batches", f"{len(plan.batches)}")
    time = f"about {duration(_STARTUP_SECONDS + plan.seconds / workers)} on {workers} workers"
    table.add_row("time", time if plan.has_work else "none")
    table.add_row("memory", f"about {size_text(plan.memory)} a worker" if plan.has_work else "none")
    table.add_row("arrays", f"{size_text(plan.stored_bytes)} before compression")
    return table


def print_status(state: Status, look: str, time: str = "") -> None:
    """Print how much of a store is done, as of `time` if that is not now; `look` is the command that asks."""
    counts = f"{state.done} of {state.cells} cells done, {state.replicas} of {state.wanted} replicas"
    out.print(f"{state.name}: {counts}{time and f', as of {time}'}", soft_wrap=True)
    for note in state.notes:
        out.print(note, soft_wrap=True)
    for text, error in state.failed[:_NAMED]:
        out.print(f"failed  {text}\n        {error}", soft_wrap=True)
    if len(state.failed) > _NAMED:
        out.print(f"… and {len(state.failed) - _NAMED} more: see `{look} --json`", soft_wrap=True)


def print_summary(summary: Summary, as_json: bool) -> None:
    """Print what a run has done, and name the cells that failed."""
    from sweep.store import RESULTS_FILE

    if as_json:
        print_json(
            event="end",
            cells=summary.cells,
            cells_done=summary.cells_done,
            replicas=summary.replicas_computed,
            limits=summary.limits_solved,
            seconds=summary.seconds,
            results=str(summary.store / RESULTS_FILE),
            notes=summary.notes,
            failed=[{"cell": failure.case.text, "error": failure.error} for failure in summary.failures],
        )
        return
    out.print(
        f"{summary.cells_done} of {summary.cells} cells done; computed {summary.replicas_computed} replicas "
        f"and {summary.limits_solved} limits in {duration(summary.seconds)}",
        soft_wrap=True,
    )
    out.print(f"results: {summary.store / RESULTS_FILE}", soft_wrap=True)
    for note in summary.notes:
        out.print(note, soft_wrap=True)
    for failure in summary.failures[:_NAMED]:
        err.print(f"failed  {failure.case.text}\n        {failure.error}", style="red", soft_wrap=True)
    if len(summary.failures) > _NAMED:
        more = f"… and {len(summary.failures) - _NAMED} more: sweep status {shlex.quote(str(summary.store))}"
        err.print(more, soft_wrap=True)


def size_text(count: float) -> str:
    """Return a number of bytes in words."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
