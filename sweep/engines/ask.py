"""Questions to a cluster: jobs of a few seconds that tell facts, and of which nothing is left there."""

from __future__ import annotations

import time
from typing import Any

from sweep.engines import jobs
from sweep.engines.dashboard import Dashboard, RefusedError
from sweep.engines.package import bare_package
from sweep.errors import EngineError

#: Seconds after its end within which Ray looks after a job once more: one that was forgotten by then it
#: brings back as failed, without metadata.
_SETTLE = 2.0
#: Questions of others are forgotten as well so long after their end (seconds), so many at a time.
_LEFT_SECONDS, _LEFT_MOST = 60.0, 20
#: Times that a job is to be forgotten before it is left to the next question.
_TRIES = 3


def ask(
    dashboard: Dashboard, arguments: list[str], wanted: str, patience: float = jobs.BEGIN_SECONDS
) -> dict[str, Any]:
    """Run a job that answers a question, and return its facts; nothing is left of it on the cluster.

    Raises
    ------
    EngineError
        It ended without an answer, or there is none in time.
    """
    job = jobs.start(dashboard, arguments, bare_package(), {"sweep": "ask"})
    try:
        facts = jobs.await_facts(dashboard, job, wanted, patience)
        if wanted not in facts:
            raise EngineError(
                f"job {job} has not begun within {patience:.0f} s: see `ray status` on the head"
            )
        facts["node"] = jobs.wait(dashboard, job, patience).node
    finally:
        _forget(dashboard, jobs.cancel(dashboard, job))
    return facts


def _forget(dashboard: Dashboard, job: jobs.Job) -> None:
    """Have the cluster forget a question that has ended, and those that were left of earlier ones."""
    time.sleep(_SETTLE)
    late = (job.ended or 0.0) - _LEFT_SECONDS  # by the head's clock
    left = [
        entry["submission_id"]
        for entry in dashboard.get("/api/jobs/")
        if (entry.get("submission_id") or "").startswith(f"{jobs.PREFIX}ask-")
        and 0 < (entry.get("end_time") or 0) / 1000.0 < late
    ]
    for name in (job.id, *left[:_LEFT_MOST]):
        for _ in range(_TRIES):
            try:
                dashboard.delete(f"/api/jobs/{name}")
            except RefusedError as error:
                if "non-terminal" in error.text:
                    time.sleep(_SETTLE)
                    continue
            break
