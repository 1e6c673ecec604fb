"""The commands for a Ray cluster: submit, logs, cancel, fetch, and status and doctor of an address."""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.progress import print_json
from sweep.tables import SOME_FAILED, TROUBLE, err, out, print_status

if TYPE_CHECKING:
    from sweep.doctor import Finding
    from sweep.engines.dashboard import Dashboard
    from sweep.engines.fetch import Window
    from sweep.engines.jobs import Job

#: Seconds between lines about a fetch.
_PAUSE = 2.0

Address = Annotated[
    str,
    typer.Option(
        help="Dashboard of the cluster's head, like http://HEAD:8265.", envvar="RAY_API_SERVER_ADDRESS"
    ),
]
Remote = Annotated[str, typer.Argument(help="The store's path on the head, or a job.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command, example in _EXAMPLES.items():
        app.command(epilog=f"Example:\n\n{example}")(command)


def submit(
    spec: Annotated[Path, typer.Argument(help="The sweep's TOML file.", show_default=False)],
    store: Annotated[str, typer.Option(help="Directory of the store on the head: absolute, or from ~/.")],
    address: Address,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Actors; by default one a CPU of the cluster.")
    ] = None,
) -> None:
    """Start a sweep on a cluster; this machine may then go. Submitting again resumes."""
    from sweep.engines.jobs import submit as submit_job

    with _connect(address) as dashboard:
        try:
            job = submit_job(dashboard, spec, store=_path(store), workers=workers)
        except KeyboardInterrupt as stopped:
            if stopped.args:
                err.print(f"\n{stopped}", soft_wrap=True)
            raise
    if job.python:
        out.print(f"job {job.job} has begun on the head with Python {job.python}", soft_wrap=True)
    else:
        out.print(f"job {job.job} waits for the cluster", soft_wrap=True)
    for note in job.notes:
        out.print(f"note: {note}", soft_wrap=True)
    place = f"{shlex.quote(_path(store))} --address {dashboard.address}"
    out.print(f"  sweep status {place}\n  sweep logs {place} --follow", soft_wrap=True)
    out.print(f"  sweep fetch {place} --to DIRECTORY\n  sweep cancel {place}", soft_wrap=True)


def logs(
    name: Remote,
    address: Address,
    follow: Annotated[bool, typer.Option("--follow", help="Until the job ends.")] = False,
) -> None:
    """Print what a job has printed."""
    from sweep.engines import jobs

    with _connect(address, warn=False) as dashboard:
        job = jobs.require(dashboard, _path(name))
        lines = jobs.follow(dashboard, job.id) if follow else jobs.logs(dashboard, job.id).splitlines()
        for text in map(jobs.spoken, lines):
            if text is not None:
                out.print(text, soft_wrap=True)


def cancel(name: Remote, address: Address) -> None:
    """Stop a job; what it has stored stays, and submitting again goes on from there."""
    from sweep.engines import jobs

    with _connect(address, warn=False) as dashboard:
        job = jobs.require(dashboard, _path(name))
        if not job.going:
            out.print(f"job {job.id} has ended already ({job.status})", soft_wrap=True)
            return
        ended = jobs.cancel(dashboard, job.id)
    out.print(f"job {job.id} is cancelled ({ended.status}); {job.store} keeps what it stored", soft_wrap=True)


def fetch(
    name: Remote,
    to: Annotated[Path, typer.Option(help="Directory here: new, or fetched into before.")],
    address: Address,
) -> None:
    """Copy a store from the head, in part during a run; again to go on or to bring what was added."""
    from sweep.engines.fetch import fetch as fetch_store

    with _connect(address, warn=False) as dashboard:
        done = fetch_store(dashboard, _path(name), to, _reporter())
    others = ", the others were here" if done.sent < done.files else ""
    out.print(
        f"{done.sent} of {done.files} files sent ({done.bytes / 1e6:.1f} MB){others}",
        soft_wrap=True,
    )
    out.print("nothing is stored yet" if done.results is None else f"results: {done.results}", soft_wrap=True)
    if not done.complete:
        out.print("the sweep goes on: fetch again to bring what is added", soft_wrap=True)
    if done.damaged:
        files, them = ("1 file is", "it") if done.damaged == 1 else (f"{done.damaged} files are", "them")
        out.print(f"{files} damaged on the head: submit again to recompute {them}", soft_wrap=True)
        raise typer.Exit(SOME_FAILED)


def show_status(store: str, address: str, *, as_json: bool = False) -> None:
    """Print how far a store on a head is; the body of `sweep status STORE --address`.

    Parameters
    ----------
    store
        Its path there, the name of a job, or a directory here that was fetched from there.
    address
        Dashboard of the head.
    as_json
        Whether to print one line of JSON: what `sweep status STORE --json` has, null before there is a store,
        and `time`, `trouble`, `job` and `fetched`.

    Raises
    ------
    EngineError
        The head is unreachable; the text says when something was last fetched.
    """
    from sweep.engines.dashboard import UnreachableError
    from sweep.engines.fetch import look, record

    known = record(store)
    try:
        with _connect(address, warn=False) as dashboard:
            window = look(dashboard, known.store if known else _path(store))
            why = _cause(dashboard, window.job)
    except UnreachableError as error:
        if known is None:
            raise
        raise UnreachableError(
            f"{error} Last fetched at {known.time} from {known.store} on {known.address}: "
            f"`sweep status {shlex.quote(store)}` tells of that"
        ) from error
    fetched, job, state = None if known is None else known.time, window.job, window.status
    ended_badly = job is not None and job.status == "FAILED"
    if as_json:
        _print_window(window, why, fetched)
    else:
        look_again = f"sweep status {shlex.quote(store)} --address {dashboard.address}"
        if state is None:
            out.print(window.trouble or f"{window.store}: nothing is stored yet", soft_wrap=True)
        else:
            print_status(state, look_again, window.time)
        out.print(_describe(job, why), soft_wrap=True)
        if fetched is not None:
            out.print(f"last fetched as of {fetched}", soft_wrap=True)
        if job is not None and ended_badly:
            out.print(f"see `sweep logs {job.id} --address {dashboard.address}`", soft_wrap=True)
    if state is not None and state.failed:
        raise typer.Exit(SOME_FAILED)
    if ended_badly or window.trouble:
        raise typer.Exit(TROUBLE)


def _print_window(window: Window, why: str, fetched: str | None) -> None:
    """Print a head's store as JSON."""
    from sweep.status import Status

    names = [field.name for field in dataclasses.fields(Status)]
    facts = dict.fromkeys(names) if window.status is None else dataclasses.asdict(window.status)
    job = None if window.job is None else dataclasses.asdict(window.job)
    if job is not None and why:
        job["message"] = why
    print_json(**facts, time=window.time, trouble=window.trouble, job=job, fetched=fetched)


def show_cluster(address: str) -> None:
    """Print what a cluster has and lacks; the body of `sweep doctor --address`."""
    from sweep.engines.checkup import check_cluster

    with _connect(address, warn=False) as dashboard:
        show_findings(check_cluster(dashboard))


def show_findings(findings: Iterable[Finding]) -> None:
    """Print what a doctor finds, as it comes; exit code 3 if any is a fault."""
    from sweep.doctor import FAULT

    faults = 0
    for finding in findings:
        faults += finding.level == FAULT
        cure = f"\n{'':8}cure: {finding.cure}" if finding.cure else ""
        out.print(f"{finding.level:8}{finding.name}: {finding.text}{cure}", soft_wrap=True)
    if faults:
        raise typer.Exit(TROUBLE)


def show_cluster_file(file: Path) -> None:
    """Print what is wrong with a file for `ray up`; the body of `sweep doctor --cluster-file`."""
    import yaml

    from sweep.engines.cluster_file import check_cluster_file

    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ValueError(f"cluster file must be readable YAML, got {file}: {error}") from error
    faults = check_cluster_file(config if isinstance(config, dict) else {})
    for line in faults or [f"nothing that Ray would overlook is wrong with {file}"]:
        out.print(f"{'fault' if faults else 'ok':8}{line}", soft_wrap=True)
    if faults:
        raise typer.Exit(TROUBLE)


def _connect(address: str, *, warn: bool = True) -> Dashboard:
    """Return the dashboard of a head, with a warning if it lets everyone in."""
    from sweep.engines.dashboard import OPEN, Dashboard

    dashboard = Dashboard(address)
    if dashboard.open and warn:
        err.print(f"warning: {dashboard.address} {OPEN}", style="yellow", soft_wrap=True)
    return dashboard


def _path(name: str) -> str:
    """Return the one spelling of a path on the head; names of jobs stay as they are."""
    return str(PurePosixPath(name))


def _cause(dashboard: Dashboard, job: Job | None) -> str:
    """Return why a job has failed, if so: in its own words if it has told them, for Ray's quote its log."""
    from sweep.engines.jobs import told_facts

    if job is None or job.status != "FAILED":
        return ""
    facts = told_facts(dashboard, job.id)
    return str(facts.get("failed") or "; ".join(facts.get("faults", ())) or job.message)


def _describe(job: Job | None, why: str) -> str:
    if job is None:
        return "no job: the cluster was started anew since, or the store was made otherwise"
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(job.began))
    ended = (
        "" if job.ended is None else f", ended {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(job.ended))}"
    )
    return f"job {job.id} is {job.status}, began {began}{ended}{why and f': {why}'}"


def _reporter() -> Callable[[int, int], None]:
    """Return what tells of a fetch every few seconds."""
    last = [time.monotonic()]

    def tell(done: int, total: int) -> None:
        if time.monotonic() - last[0] >= _PAUSE:
            last[0] = time.monotonic()
            err.print(f"{done / 1e6:.1f} of {total / 1e6:.1f} MB here", soft_wrap=True)

    return tell


_EXAMPLES: dict[Callable[..., None], str] = {
    submit: "sweep submit spec.toml --address http://HEAD:8265 --store /data/mine",
    logs: "sweep logs /data/mine --address http://HEAD:8265 --follow",
    cancel: "sweep cancel /data/mine --address http://HEAD:8265",
    fetch: "sweep fetch /data/mine --address http://HEAD:8265 --to mine",
}
