"""What the command prints of plans and finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from sweep.progress import duration, print_json

if TYPE_CHECKING:
    from sweep.driver import Summary
    from sweep.plan import Plan
    from sweep.studies.base import SweepSpec

#: Failed cells that are named one by one.
NAMED = 20
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
    spec: Path, store: Path | None, workers: int | None, only: list[str] | None, as_json: bool
) -> None:
    """Print what a run of a spec would do beyond what a store holds."""
    from sweep.driver import older_keys, plan_for
    from sweep.machine import cpus
    from sweep.selection import selection
    from sweep.spec import read_spec
    from sweep.store import Store

    checked = read_spec(spec)
    keeper = Store.open(store, mixing=True) if store is not None and store.exists() else None
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


def print_summary(summary: Summary, as_json: bool) -> None:
    """Print what a run has done, and name the cells that failed."""
    if as_json:
        print_json(
            event="end",
            cells=summary.cells,
            cells_done=summary.cells_done,
            replicas=summary.replicas_computed,
            limits=summary.limits_solved,
            seconds=summary.seconds,
            results=str(summary.store / "results.nc"),
            notes=summary.notes,
            failed=[{"cell": failure.case.text, "error": failure.error} for failure in summary.failures],
        )
        return
    out.print(
        f"{summary.cells_done} of {summary.cells} cells done; computed {summary.replicas_computed} replicas "
        f"and {summary.limits_solved} limits in {duration(summary.seconds)}",
        soft_wrap=True,
    )
    out.print(f"results: {summary.store / 'results.nc'}", soft_wrap=True)
    for note in summary.notes:
        out.print(note, soft_wrap=True)
    for failure in summary.failures[:NAMED]:
        err.print(f"failed  {failure.case.text}\n        {failure.error}", style="red", soft_wrap=True)
    if len(summary.failures) > NAMED:
        err.print(f"… and {len(summary.failures) - NAMED} more: sweep status {summary.store}", soft_wrap=True)


def size_text(count: float) -> str:
    """Return a number of bytes in words."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
