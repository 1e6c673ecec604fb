"""The `sweep` command: plan, run, status, export."""

from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from sweep import __version__
from sweep.errors import EngineError, LockError, MismatchError, SpecError, StoreError
from sweep.progress import duration, print_json, show_bar, show_json

if TYPE_CHECKING:
    from sweep.driver import Summary
    from sweep.plan import Plan
    from sweep.studies.base import SweepSpec

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
Only = Annotated[
    list[str] | None,
    typer.Option(help="Keep to cells with this value, as in N=100; may be repeated.", metavar="AXIS=VALUE"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines for programs to read.")]
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
    only: Only = None,
    as_json: AsJson = False,
) -> None:
    """Check a spec and show cells, replicas, and estimated time, memory and bytes; compute nothing."""
    _show_plan(spec, store, workers, only, as_json)


@app.command()
def run(
    spec: SpecFile,
    store: Annotated[Path, typer.Option(help="Directory of the store; made if absent.")],
    engine: Annotated[str, typer.Option(help="serial, local or ray.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes or actors; by default the CPUs.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of a running Ray cluster.")] = None,
    only: Only = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failed cell.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, compute nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compute what the store lacks; the same command again resumes."""
    from sweep.driver import run as run_sweep
    from sweep.spec import read_spec

    if dry_run:
        _show_plan(spec, store, workers, only, as_json)
        return
    again = f"sweep run {shlex.quote(str(spec))} --store {shlex.quote(str(store))} --engine {engine}"
    again += f" --workers {workers}" if workers else ""
    again += f" --address {shlex.quote(address)}" if address else ""
    again += "".join(f" --only {shlex.quote(part)}" for part in only or [])
    with show_json() if as_json else show_bar(err) as show:
        try:
            summary = run_sweep(
                spec,
                store=store,
                engine=engine,
                workers=workers,
                address=address,
                progress=show,
                only=_selected(read_spec(spec), only),
                fail_fast=fail_fast,
            )
        except KeyboardInterrupt:
            err.print(f"\ninterrupted; what was finished is stored. Resume with:\n  {again}", soft_wrap=True)
            raise
    _print_summary(summary, as_json)
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


@app.command()
def example(
    name: Annotated[str | None, typer.Argument(help="Which one; without a name they are listed.")] = None,
    output: Annotated[Path | None, typer.Option(help="File to write; NAME.toml by default.")] = None,
) -> None:
    """Write a spec to start from."""
    from sweep.reference import EXAMPLES
    from sweep.reference import example as text_of

    if name is None:
        for known, question in EXAMPLES.items():
            out.print(f"{known:<14}{question}", soft_wrap=True)
        return
    text, target = text_of(name), output or Path(f"{name}.toml")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"{target} exists: give another --output") from None
    out.print(f"wrote {target}; next:\n  sweep plan {target}", soft_wrap=True)


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


def _selected(spec: SweepSpec, only: list[str] | None) -> dict[str, list[Any]]:
    """Read `--only AXIS=VALUE` options: values of one axis are alternatives, axes must all hold."""
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


def _show_plan(
    spec: Path, store: Path | None, workers: int | None, only: list[str] | None, as_json: bool
) -> None:
    from sweep.driver import plan_for, selection
    from sweep.machine import cpus
    from sweep.spec import read_spec
    from sweep.store import Store

    checked = read_spec(spec)
    keeper = Store.open(store) if store is not None and store.exists() else None
    if keeper is not None:
        keeper.check_frame(checked.frame())
    count = workers or cpus()
    made = plan_for(checked, keeper, count, selection(checked, _selected(checked, only)))
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
            f"{spec.target.quantity} is {spec.target.stderr:g}",
        )
    table.add_row("batches", f"{len(plan.batches)}")
    table.add_row("time", f"about {duration(_STARTUP_SECONDS + plan.seconds / workers)} on {workers} workers")
    table.add_row("memory", f"about {_size(plan.memory)} a worker")
    table.add_row("arrays", f"{_size(plan.stored_bytes)} before compression")
    return table


def _print_summary(summary: Summary, as_json: bool) -> None:
    if as_json:
        print_json(
            event="end",
            cells=summary.cells,
            cells_done=summary.cells_done,
            replicas=summary.replicas_computed,
            limits=summary.limits_solved,
            seconds=summary.seconds,
            results=str(summary.store / "results.nc"),
            failed=[{"cell": failure.case.text, "error": failure.error} for failure in summary.failures],
        )
        return
    out.print(
        f"{summary.cells_done} of {summary.cells} cells done; computed {summary.replicas_computed} replicas "
        f"and {summary.limits_solved} limits in {duration(summary.seconds)}",
        soft_wrap=True,
    )
    out.print(f"results: {summary.store / 'results.nc'}", soft_wrap=True)
    for failure in summary.failures[:_NAMED]:
        err.print(f"failed  {failure.case.text}\n        {failure.error}", style="red", soft_wrap=True)
    if len(summary.failures) > _NAMED:
        err.print(
            f"… and {len(summary.failures) - _NAMED} more: sweep status {summary.store}", soft_wrap=True
        )


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


if __name__ == "__main__":
    main()
