"""The `sweep` command: plan, run, status, export."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from sweep import __version__
from sweep.errors import EngineError, LockError, MismatchError, SpecError, StoreError

if TYPE_CHECKING:
    from sweep.driver import Progress, Summary
    from sweep.plan import Plan
    from sweep.spec import SweepSpec

DONE, SOME_FAILED, BAD_INPUT, TROUBLE, INTERRUPTED = 0, 1, 2, 3, 130
#: Failed cells that are named one by one.
_NAMED = 20
#: Compiled kernels are loaded in the driver, then in each worker.
_STARTUP_SECONDS = 6.0

app = typer.Typer(
    name="sweep",
    help="Parameter sweeps of the N-server SQ(d) network and its hydrodynamic limit.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)

SpecFile = Annotated[Path, typer.Argument(help="The sweep's TOML file.", show_default=False)]
StoreDir = Annotated[Path, typer.Argument(help="The store's directory.", show_default=False)]


def main() -> NoReturn:
    """Run the command; exit 0 done, 1 some cells failed, 2 bad input, 3 trouble, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):  # a λ must not end a run on a terminal of another encoding
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    code = DONE
    try:
        app()  # leaves by SystemExit, usage errors with 2
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (SpecError, MismatchError, ValueError) as error:
        code = _fail(error, BAD_INPUT)
    except (LockError, StoreError, EngineError, OSError) as error:
        code = _fail(error, TROUBLE)
    sys.exit(code)


@app.command()
def plan(
    spec: SpecFile,
    store: Annotated[Path | None, typer.Option(help="Count only what this store lacks.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes or actors.")] = None,
) -> None:
    """Check a spec and show cells, replicas, and estimated time, memory and bytes; compute nothing."""
    from sweep.driver import plan_for
    from sweep.machine import cpus
    from sweep.spec import read_spec
    from sweep.store import Store

    checked = read_spec(spec)
    keeper = Store.open(store) if store is not None and store.exists() else None
    if keeper is not None:
        keeper.check_frame(checked.frame())
    count = workers or cpus()
    out.print(_plan_table(checked, plan_for(checked, keeper, count), count))


@app.command()
def run(
    spec: SpecFile,
    store: Annotated[Path, typer.Option(help="Directory of the store; made if absent.")],
    engine: Annotated[str, typer.Option(help="serial, local or ray.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes or actors; by default the CPUs.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of a running Ray cluster.")] = None,
) -> None:
    """Compute what the store lacks; the same command again resumes."""
    from sweep.driver import run as run_sweep

    again = f"sweep run {shlex.quote(str(spec))} --store {shlex.quote(str(store))} --engine {engine}"
    again += f" --workers {workers}" if workers else ""
    again += f" --address {shlex.quote(address)}" if address else ""
    with _progress() as show:
        try:
            summary = run_sweep(
                spec, store=store, engine=engine, workers=workers, address=address, progress=show
            )
        except KeyboardInterrupt:
            err.print(f"\ninterrupted; what was finished is stored. Resume with:\n  {again}", soft_wrap=True)
            raise
    _print_summary(summary)
    if summary.failures:
        raise typer.Exit(SOME_FAILED)


@app.command()
def status(store: StoreDir) -> None:
    """Say how much of a store is done, what failed, and who is writing; works during a run."""
    from sweep.status import store_status

    state = store_status(store)
    out.print(
        f"{state.name}: {state.done} of {state.cells} cells done, {state.replicas} of {state.wanted} replicas"
    )
    for line in state.notes:
        out.print(line, soft_wrap=True)
    if state.failed:
        for text, error in state.failed[:_NAMED]:
            out.print(f"failed  {text}\n        {error}", soft_wrap=True)
        raise typer.Exit(SOME_FAILED)


@app.command()
def export(
    store: StoreDir,
    file: Annotated[Path, typer.Argument(help="NetCDF file to write.", show_default=False)],
) -> None:
    """Write everything stored so far into one netCDF file of its own."""
    from sweep.status import export as export_store

    export_store(store, file)
    out.print(f"wrote {file} ({_size(file.stat().st_size)})", soft_wrap=True)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


def _fail(error: BaseException, code: int) -> int:
    err.print(f"error: {error}", style="red", soft_wrap=True)
    return code


def _plan_table(spec: SweepSpec, plan: Plan, workers: int) -> Table:
    table = Table(title=spec.name, show_header=False, title_justify="left")
    stored = plan.needed_replicas - plan.missing_replicas
    table.add_row("cells", f"{len(plan.cells)}")
    table.add_row("limits to solve", f"{len(plan.missing_limits)} of {len(plan.limits)}")
    table.add_row("replicas", f"{plan.missing_replicas} to compute, {stored} stored")
    table.add_row("batches", f"{len(plan.batches)}")
    table.add_row(
        "time", f"about {_duration(_STARTUP_SECONDS + plan.seconds / workers)} on {workers} workers"
    )
    if spec.snapshots.size and plan.batches:
        share = plan.distance_seconds / plan.seconds
        table.add_row("distances", f"about {share:.0%} of that, at {spec.snapshots.size} snapshots")
    table.add_row("memory", f"about {_size(plan.memory)} a worker")
    table.add_row("arrays", f"{_size(plan.stored_bytes)} before compression")
    return table


def _print_summary(summary: Summary) -> None:
    out.print(
        f"{summary.cells_done} of {summary.cells} cells done; computed {summary.replicas_computed} replicas "
        f"and {summary.limits_solved} limits in {_duration(summary.seconds)}",
        soft_wrap=True,
    )
    out.print(f"results: {summary.store / 'results.nc'}", soft_wrap=True)
    for failure in summary.failures[:_NAMED]:
        err.print(f"failed  {failure.cell.text}\n        {failure.error}", style="red", soft_wrap=True)
    if len(summary.failures) > _NAMED:
        err.print(
            f"… and {len(summary.failures) - _NAMED} more: sweep status {summary.store}", soft_wrap=True
        )


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Show a live bar on a terminal, and a line every few seconds elsewhere."""
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    from sweep.driver import STARTING

    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f} %"),
        TextColumn("{task.fields[detail]}"),
        console=err,
        disable=not err.is_terminal,
    )
    line = bars.add_task("sweep", total=1.0, detail="")
    last_line = [0.0]

    def show(state: Progress) -> None:
        if state.limits_done < state.limits_total or state.last == STARTING:
            detail = f"starting workers; {state.limits_done}/{state.limits_total} limits solved"
        else:
            detail = f"{state.replicas_done}/{state.replicas_total} replicas  {state.rate:.1f}/s"
        if state.seconds_left is not None:
            detail += f"  {_duration(state.seconds_left)} left"
        if state.failed:
            detail += f"  {state.failed} failed"
        bars.update(line, total=max(state.cost_total, 1e-9), completed=state.cost_done, detail=detail)
        if not err.is_terminal and state.elapsed - last_line[0] >= 5.0:
            last_line[0] = state.elapsed
            err.print(detail, soft_wrap=True)

    with bars:
        yield show


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


if __name__ == "__main__":
    main()
