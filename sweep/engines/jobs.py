"""Jobs on a cluster, by its dashboard alone: submitted after a check of both sides, watched, cancelled."""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.engines.dashboard import Dashboard, RefusedError, UnreachableError
from sweep.engines.job_main import MARK, numbers
from sweep.engines.listing import check_head_path
from sweep.engines.package import (
    UPLOAD_LIMIT,
    code_package,
    package_name,
    requirements,
    spec_package,
)
from sweep.errors import EngineError

#: Statuses of a job that goes on; the others are final.
GOING = ("PENDING", "RUNNING")
#: Seconds that a job may take to begin: Ray unpacks its files first.
BEGIN_SECONDS = 90.0
_POLL = 0.25
#: Begins the names of jobs.
PREFIX = "sweep-"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job that this project submitted, as the cluster tells of it."""

    id: str
    store: str  # as given to `submit`
    status: str
    message: str
    node: str
    began: float  # seconds since 1970
    ended: float | None

    @property
    def going(self) -> bool:
        """Whether it waits or runs."""
        return self.status in GOING


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A job, the Python that runs it ("" if it has not begun yet), and remarks."""

    job: str
    python: str
    notes: tuple[str, ...]


def submit(
    dashboard: Dashboard,
    spec: str | Path,
    *,
    store: str,
    workers: int | None = None,
    patience: float = BEGIN_SECONDS,
) -> Submitted:
    """Start a sweep on a cluster, which then needs this machine no more.

    Parameters
    ----------
    dashboard
        Of the cluster's head.
    spec
        The spec file, sent along with the files it names below the current directory.
    store
        Directory of the store on the head, absolute or beginning with ~/.
    workers
        Actors; None for one a CPU of the cluster, as it grows and shrinks.
    patience
        Seconds to wait until the job writes to the store, which tells that all it needs is there and fits.

    Raises
    ------
    SpecError, ValueError
        The spec, a file it names or the store's path is wrong, or the job says that they or the store do not
        fit each other.
    EngineError
        The cluster has another Ray, Python or packages, or is at work on this store already; or the job
        failed otherwise before it wrote to the store. Where the head is lost meanwhile the text names the
        job, as does that of a KeyboardInterrupt.
    """
    from sweep.spec import read_spec

    check_head_path(store)
    read_spec(spec)
    content = spec_package(Path(spec))
    check_ray(dashboard)
    before = find(dashboard, store)
    if before is not None and before.going:
        raise EngineError(
            f"job {before.id} is at work on {store}: wait for it, or `sweep cancel {before.id} "
            f"--address {dashboard.address}`"
        )
    arguments = ["run", "--store", store] + ([] if workers is None else ["--workers", str(workers)])
    job = start(dashboard, arguments, content, {"sweep": "run", "store": store})
    try:
        facts = await_facts(dashboard, job, "begun", patience)
    except (KeyboardInterrupt, UnreachableError) as error:
        left = f"job {job} was submitted and may go on: `sweep cancel {job} --address {dashboard.address}`"
        raise type(error)(f"{left}; {error}" if str(error) else left) from error
    notes = list(facts.get("notes", ()))
    if "python" in facts and "begun" not in facts:
        notes.append(f"it has not opened its store within {patience:.0f} s: see `sweep logs`")
    return Submitted(job=job, python=facts.get("python", ""), notes=tuple(notes))


def check_ray(dashboard: Dashboard) -> str:
    """Return the cluster's version of Ray; EngineError if it is not one that this project runs on."""
    version = str(dashboard.get("/api/version")["ray_version"])
    least, new = requirements()["packages"]["ray"]
    if numbers(version) < numbers(least) or (new and numbers(version) >= numbers(new)):
        raise EngineError(
            f"the cluster must run Ray {least} or newer{f', before {new}' if new else ''}, got {version}: "
            "start it with the version in requirements.lock"
        )
    return version


def start(dashboard: Dashboard, arguments: list[str], working_dir: bytes, metadata: Mapping[str, str]) -> str:
    """Upload what a job needs, start it, and return its name."""
    environment = {
        "working_dir": _upload(dashboard, working_dir),
        "py_modules": [_upload(dashboard, code_package())],
        # The first keeps Python from importing what lies in the working directory.
        "env_vars": {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", "RAY_USAGE_STATS_ENABLED": "0"},
    }
    name = f"{PREFIX}{metadata['sweep']}-{secrets.token_hex(6)}"
    body = {
        "entrypoint": shlex.join(["sh", "start.sh", *arguments]),
        "submission_id": name,
        "runtime_env": environment,
        "metadata": dict(metadata),
    }
    return str(dashboard.post("/api/jobs/", body)["submission_id"])


def jobs(dashboard: Dashboard) -> list[Job]:
    """Return the sweeps that were submitted to a cluster, the latest first."""
    found = [
        _job(entry)
        for entry in dashboard.get("/api/jobs/")
        if (entry.get("metadata") or {}).get("sweep") == "run" and entry.get("submission_id")
    ]
    return sorted(found, key=lambda job: job.began, reverse=True)


def find(dashboard: Dashboard, name: str) -> Job | None:
    """Return the job of this name, or that for this store; None if the cluster knows none.

    Of a store's jobs the one that goes on is meant, else the latest. They are also known by the store's path
    without links or ~, which their logs tell. A cluster that was started anew has forgotten its jobs, but its
    disk keeps their stores.
    """
    known = jobs(dashboard)
    named = [job for job in known if job.id == name] or [job for job in known if job.store == name]
    going = [job for job in named if job.going]
    if going or name in (job.id for job in named):
        return (going or named)[0]
    places = {name, *(told_facts(dashboard, job.id).get("store", name) for job in named[:1])}
    by_turn = sorted(known, key=lambda job: not job.going)  # the latest first among those that have ended
    return next(
        (job for job in by_turn if job in named or told_facts(dashboard, job.id).get("store") in places), None
    )


def require(dashboard: Dashboard, name: str) -> Job:
    """Return the job of this name or store; EngineError if there is none."""
    job = find(dashboard, name)
    if job is None:
        known = ", ".join(one.id for one in jobs(dashboard)[:5]) or "none"
        raise EngineError(f"{dashboard.address} knows no job for {name}: it knows {known}")
    return job


def logs(dashboard: Dashboard, job: str) -> str:
    """Return what a job has printed so far."""
    return str(dashboard.get(f"/api/jobs/{job}/logs")["logs"] or "")


def follow(dashboard: Dashboard, job: str, poll: float = 1.0) -> Iterator[str]:
    """Yield the lines that a job prints, until it ends."""
    seen = 0
    while True:
        going = state(dashboard, job).going
        text = logs(dashboard, job)
        whole = len(text) if not going else text.rfind("\n") + 1
        yield from text[seen:whole].splitlines()
        seen = max(seen, whole)
        if not going:
            return
        time.sleep(poll)


def spoken(line: str) -> str | None:
    """Return what a line of a log says to people, None if it is for programs alone.

    Examples
    --------
    >>> spoken("8 of 8 cells done"), spoken('sweep-job: {"failed": "why"}')
    ('8 of 8 cells done', 'why')
    """
    if not line.startswith(MARK):
        return line
    with contextlib.suppress(ValueError):  # cut off in mid-line
        failed: str | None = _facts(f"{line}\n").get("failed")
        return failed
    return None


def cancel(dashboard: Dashboard, job: str, patience: float = 15.0) -> Job:
    """Stop a job, and return it once it has ended; what it has stored stays.

    Raises
    ------
    EngineError
        It does not end in time.
    """
    if state(dashboard, job).going:
        dashboard.post(f"/api/jobs/{job}/stop", {})
    return wait(dashboard, job, patience)


def wait(dashboard: Dashboard, job: str, patience: float) -> Job:
    """Return a job once it has ended; EngineError if that takes longer than `patience` seconds."""
    end = time.monotonic() + patience
    while (now := state(dashboard, job)).going:
        if time.monotonic() > end:
            raise EngineError(f"job {job} is still {now.status} after {patience:.0f} s: {now.message}")
        time.sleep(_POLL)
    return now


def state(dashboard: Dashboard, job: str) -> Job:
    """Return what the cluster tells of a job; EngineError if it knows none of this name."""
    try:
        return _job(dashboard.get(f"/api/jobs/{job}"))
    except RefusedError as error:
        raise EngineError(f"{dashboard.address} knows no job {job}: {error.text}") from error


def await_facts(dashboard: Dashboard, job: str, wanted: str, patience: float) -> dict[str, Any]:
    """Return the facts that a job tells, once `wanted` is among them or patience is over.

    Raises
    ------
    EngineError
        The job ended without them; the text says why.
    ValueError
        It refused the spec or the store.
    """
    end = time.monotonic() + patience
    while True:
        now = state(dashboard, job)
        told = logs(dashboard, job)
        facts, late = _facts(told), time.monotonic() > end
        if facts.get("faults") or "failed" in facts:
            if now.going and not late:  # its end is a moment away, and then all see it as failed
                time.sleep(_POLL)
                continue
            if facts.get("faults"):
                raise EngineError("; ".join(facts["faults"]))
            kind = ValueError if facts.get("bad_input") else EngineError
            raise kind(f"job {job} failed: {facts['failed']}")
        if wanted in facts or (now.going and late):
            return facts
        if not now.going:
            last = [line for line in told.splitlines() if line.strip()][-5:]
            raise EngineError(f"job {job} ended ({now.status}): {now.message} {' | '.join(last)}".rstrip())
        time.sleep(_POLL)


def told_facts(dashboard: Dashboard, job: str) -> dict[str, Any]:
    """Return the facts that a job has told so far, none if it is not known any more."""
    try:
        return _facts(logs(dashboard, job))
    except RefusedError:
        return {}


def _upload(dashboard: Dashboard, content: bytes) -> str:
    """Give the cluster a package unless it has it, and return the name to use it by."""
    if len(content) > UPLOAD_LIMIT:
        raise ValueError(f"upload must have at most {UPLOAD_LIMIT:,} bytes, got {len(content):,}")
    name = package_name(content)
    path = f"/api/packages/gcs/{name}"
    if not dashboard.exists(path):
        dashboard.put(path, content)
    return f"gcs://{name}"


def _job(entry: Mapping[str, Any]) -> Job:
    ended = entry.get("end_time")
    return Job(
        id=entry["submission_id"],
        store=(entry.get("metadata") or {}).get("store", ""),
        status=entry["status"],
        message=entry.get("message") or "",
        node=entry.get("driver_node_id") or "",
        began=(entry.get("start_time") or 0) / 1000.0,
        ended=ended / 1000.0 if ended else None,
    )


def _facts(text: str) -> dict[str, Any]:
    """Return all facts among the lines of a log."""
    facts: dict[str, Any] = {}
    for line in text.splitlines(keepends=True):
        if line.startswith(MARK) and line.endswith("\n"):  # else it is still being written
            facts.update(json.loads(line.removeprefix(MARK)))
    return facts
