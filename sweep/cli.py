"""The `sweep` command."""

from __future__ import annotations

import dataclasses
import io
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from sweep import __version__, remote_cli
from sweep.engines.termination import Termination
from sweep.errors import EngineError, MismatchError, StoreError
from sweep.progress import print_json, show_bar, show_json
from sweep.tables import (
    BAD_INPUT,
    DONE,
    SOME_FAILED,
    TROUBLE,
    err,
    out,
    print_status,
    print_summary,
    selected,
    show_plan,
    size_text,
)

app = typer.Typer(
    name="sweep",
    help="Parameter sweeps of the N-server SQ(d) network and its hydrodynamic limit.",
    epilog="Begin with:\n\nsweep example quickstart\n\nsweep plan quickstart.toml\n\n"
    "sweep run quickstart.toml --store out/quickstart\n\nsweep report out/quickstart",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

SpecFile = Annotated[Path, typer.Argument(help="The sweep's TOML file.", show_default=False)]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Keep to cells with this value, as in N=100; may be repeated.", metavar="AXIS=VALUE"),
]
MixNumbers = Annotated[
    bool, typer.Option("--mix-numbers", help="Go on with a store of another version of the numbers.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines for programs to read.")]
StoreDir = Annotated[Path, typer.Argument(help="The store's directory.", show_default=False)]
#: Ray's own variable, which submit, logs, cancel and fetch read. Status and doctor do not: without an address
#: they ask about this machine, and a variable that was set once must not turn that into another question.
_ADDRESS_VARIABLE = "RAY_API_SERVER_ADDRESS"


def _engines() -> list[str]:
    from sweep.engines import ENGINES

    return list(ENGINES)


def _examples() -> list[tuple[str, str]]:
    from sweep.reference import EXAMPLES

    return list(EXAMPLES.items())


def main() -> NoReturn:
    """Run the command; exit 0 done, 1 some failed, 2 bad input, 3 trouble, 130 Ctrl-C, 143 SIGTERM."""
    for stream in (sys.stdout, sys.stderr):  # a λ must not end a run on a terminal of another encoding
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    code = DONE
    try:
        app()  # leaves by SystemExit, usage errors with 2, Ctrl-C with 130
    except (MismatchError, ValueError) as error:
        code = _fail(error, BAD_INPUT)
    except (StoreError, EngineError, OSError) as error:
        code = _fail(error, TROUBLE)
    sys.exit(code)


@app.command(epilog="Examples:\n\nsweep plan spec.toml --store out/mine")
def plan(
    spec: SpecFile,
    store: Annotated[Path | None, typer.Option(help="Count only what this store lacks.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes or actors.")] = None,
    only: Only = None,
    mix_numbers: MixNumbers = False,
    as_json: AsJson = False,
) -> None:
    """Check a spec and show cells, replicas, and estimated time, memory and bytes; compute nothing."""
    show_plan(spec, store, workers, only, mix_numbers, as_json)


@app.command(
    epilog="Examples:\n\nsweep run spec.toml --store out/mine --workers 4\n\n"
    "sweep run spec.toml --store out/mine --only N=1000 --fail-fast"
)
def run(
    spec: SpecFile,
    store: Annotated[Path, typer.Option(help="Directory of the store; made if absent.")],
    engine: Annotated[str, typer.Option(help="serial, local or ray.", autocompletion=_engines)] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes or actors; by default the CPUs.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of a running Ray cluster.")] = None,
    only: Only = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failed cell.")] = False,
    mix_numbers: MixNumbers = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, compute nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compute what the store lacks; the same command again resumes."""
    from sweep.driver import run as run_sweep
    from sweep.spec import read_spec

    if dry_run:
        show_plan(spec, store, workers, only, mix_numbers, as_json)
        return
    again = ["sweep", "run", str(spec), "--store", str(store), "--engine", engine]
    again += ["--workers", str(workers)] if workers else []
    again += ["--address", address] if address else []
    again += [word for part in only or [] for word in ("--only", part)]
    switches = {"--fail-fast": fail_fast, "--mix-numbers": mix_numbers, "--json": as_json}
    again += [name for name, given in switches.items() if given]
    with show_json() if as_json else show_bar(err) as show, Termination() as termination:
        try:
            summary = run_sweep(
                spec,
                store=store,
                engine=engine,
                workers=workers,
                address=address,
                progress=show,
                only=selected(read_spec(spec), only) if only else None,
                fail_fast=fail_fast,
                mix_numbers=mix_numbers,
            )
        except KeyboardInterrupt:
            how = "terminated" if termination.asked else "interrupted"
            text = f"\n{how}; what was finished is stored. Resume with:\n  {shlex.join(again)}"
            err.print(text, soft_wrap=True)
            raise typer.Exit(termination.code) from None
    print_summary(summary, as_json)
    if summary.failures:
        raise typer.Exit(SOME_FAILED)


@app.command(
    epilog="Examples:\n\nsweep status out/mine\n\nsweep status /data/mine --address http://HEAD:8265"
)
def status(
    store: Annotated[str, typer.Argument(help="The store's directory, or its path on a head.")],
    address: Annotated[
        str | None,
        typer.Option(
            help="Dashboard of a cluster's head; not read from RAY_API_SERVER_ADDRESS, for without it the "
            "store is looked for on this machine."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how much of a store is done, what failed, and who is writing; works during a run."""
    if address is not None:
        remote_cli.show_status(store, address, as_json=as_json)
        return
    from sweep.status import store_status

    try:
        state = store_status(store)
    except MismatchError as missing:
        known = os.environ.get(_ADDRESS_VARIABLE)
        if Path(store).exists() or not (known or store.startswith("~")):
            raise
        cure = f"if it is on the cluster, add --address {f'${_ADDRESS_VARIABLE}' if known else 'URL'}"
        raise MismatchError(f"{missing}; {cure}") from missing
    if as_json:
        print_json(**dataclasses.asdict(state))
    else:
        print_status(state, f"sweep status {shlex.quote(store)}")
    if state.failed:
        raise typer.Exit(SOME_FAILED)


@app.command(epilog="Examples:\n\nsweep export out/mine mine.nc")
def export(
    store: StoreDir,
    file: Annotated[Path, typer.Argument(help="NetCDF file to write.", show_default=False)],
) -> None:
    """Write all that the store's spec asks for, as far as it is stored, into one netCDF file of its own."""
    from sweep.status import export as export_store

    export_store(store, file)
    out.print(f"wrote {file} ({size_text(file.stat().st_size)})", soft_wrap=True)


@app.command(epilog="Examples:\n\nsweep doctor --store out/mine\n\nsweep doctor --address http://HEAD:8265")
def doctor(
    store: Annotated[Path | None, typer.Option(help="Also look at the place of this store.")] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Look at a Ray cluster instead, by the dashboard of its head; not read from "
            "RAY_API_SERVER_ADDRESS, for without it this machine is looked at."
        ),
    ] = None,
    cluster_file: Annotated[Path | None, typer.Option(help="Look at a file for `ray up` instead.")] = None,
) -> None:
    """Look for what makes runs fail or crawl, and say how to mend it."""
    if address is not None:
        remote_cli.show_cluster(address)
    elif cluster_file is not None:
        remote_cli.show_cluster_file(cluster_file)
    else:
        from sweep.doctor import examine

        remote_cli.show_findings(examine(store))


@app.command(epilog="Examples:\n\nsweep report out/mine --figures out/figures")
def report(
    store: StoreDir,
    output: Annotated[Path | None, typer.Option(help="Page to write; report.html in the store.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Directory for the figures as files.")] = None,
) -> None:
    """Write one page of HTML: questions, answers with errors, figures, what is inconclusive."""
    from analysis.report import report as write_report

    out.print(f"wrote {write_report(store, output=output, figures=figures)}", soft_wrap=True)
    if figures is not None:
        out.print(f"figures: {figures}", soft_wrap=True)


remote_cli.register(app)


@app.command(epilog="Examples:\n\nsweep example equilibrium")
def example(
    name: Annotated[
        str | None,
        typer.Argument(help="Which one; without a name they are listed.", autocompletion=_examples),
    ] = None,
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
    if not target.parent.is_dir():
        raise ValueError(f"--output must lie in an existing directory, got {target}: make {target.parent}")
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


if __name__ == "__main__":
    main()
