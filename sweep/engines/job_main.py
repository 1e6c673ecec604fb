"""What a submitted job runs on the head: `python -m sweep.engines.job_main run|publish|survey …`.

Until it has checked this Python it imports the standard library alone, so as to say what the head lacks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweep.driver import Summary
    from sweep.engines.listing import Listing
    from sweep.progress import Progress

#: Begins the lines that a submitter reads; the rest of each is JSON.
MARK = "sweep-job: "
#: Exit codes, those of the command.
DONE, SOME_FAILED, BAD_INPUT, TROUBLE = 0, 1, 2, 3
#: Progress is told after so many seconds, then ever more rarely: the log of a run of days stays short.
TOLD_SECONDS, TOLD_SHARE = 5.0, 0.02
#: Failed cells that are named in the log.
_NAMED = 20


def main(arguments: list[str]) -> int:
    """Check this Python, then do as told; return the exit code."""
    required = json.loads(Path("requires.json").read_text(encoding="utf-8"))
    faults, notes = lacks(required)
    tell(python=platform.python_version(), executable=sys.executable, faults=faults, notes=notes)
    for line in (*notes, *faults):
        say(line)
    if faults:
        return BAD_INPUT
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["run", "publish", "survey"])
    parser.add_argument("--store", default="")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args(arguments)
    if given.command == "survey":
        return survey()
    return publish(given.store) if given.command == "publish" else run(given.store, given.workers)


def lacks(required: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return what this Python lacks of `package.requirements()`, and in what it differs.

    Examples
    --------
    >>> lacks({"python": "3.11", "packages": {"numpy": ["1.0", ""]}, "here": {}})
    ([], [])
    >>> lacks({"python": "99.1", "packages": {}, "here": {}})[0]
    ['the head runs Python ... (...), Python 99.1 or newer is needed: start Ray there with that one']
    """
    from importlib import metadata

    python = platform.python_version()
    if numbers(python) < numbers(required["python"]):
        needed = f"Python {required['python']} or newer is needed: start Ray there with that one"
        return [f"the head runs Python {python} ({sys.executable}), {needed}"], []
    cure = f"install requirements.lock for {sys.executable} on the head and on every machine of the cluster"
    faults, notes = [], []
    for name, (least, new) in sorted(required["packages"].items()):
        wanted = f"{name} {least} or newer" + (f" but before {new}" if new else "")
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            faults.append(f"the head must have {wanted}, got none: {cure}")
            continue
        if numbers(version) < numbers(least) or (new and numbers(version) >= numbers(new)):
            faults.append(f"the head must have {wanted}, got {version}: {cure}")
        elif required["here"].get(name, version) != version:
            notes.append(f"the head has {name} {version}, the submitter {required['here'][name]}")
    return faults, notes


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, to compare with others.

    Examples
    --------
    >>> numbers("2026.9.0rc1"), numbers("1.17") > numbers("1.7.5")
    ((2026, 9, 0), True)
    """
    found = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


def tell(**facts: Any) -> None:
    """Print facts for the submitter to read."""
    say(MARK + json.dumps(facts, ensure_ascii=True))


def say(line: str) -> None:
    """Print a line, at once; where the disk of the logs is full it is lost, and the sweep goes on."""
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def publish(store: str) -> int:
    """List a store, or that there is none, and link it for the dashboard."""
    from sweep.engines.listing import Listing
    from sweep.errors import StoreError

    try:
        listing = Listing(store)
        listing.write()
    except (StoreError, OSError) as error:
        return _unshown(error)
    tell(published=listing.name)
    return DONE


def survey() -> int:
    """Tell what each node of the cluster has."""
    from sweep.engines.ray_cluster import survey_cluster

    tell(nodes=survey_cluster())
    return DONE


def run(store: str, workers: int | None) -> int:
    """Run the sweep on the cluster that this job belongs to."""
    from sweep.engines.listing import Listing
    from sweep.engines.termination import Termination
    from sweep.errors import StoreError

    with Termination() as termination:  # how a job is cancelled, with SIGKILL three seconds later
        try:
            listing = Listing(store)
            listing.write()
            tell(published=listing.name, store=str(listing.store))
            try:
                return _run(listing, workers)
            finally:
                _refresh(listing, at_once=True)
        except KeyboardInterrupt:
            say("cancelled; what was finished is stored, and submitting again goes on from there")
            return termination.code
        except (StoreError, OSError) as error:  # of the window, not of the store: what is stored is safe
            return _unshown(error)


def _refresh(listing: Listing, *, at_once: bool = False) -> None:
    """List what is stored; a full disk of the logs is told of once, for what is stored is safe without."""
    fault = listing.refresh(at_once=at_once)
    if fault:
        say(f"what is stored cannot be shown to the dashboard at present, which is tried again: {fault}")


def _unshown(error: Exception) -> int:
    tell(failed=f"the store cannot be shown to the dashboard: {error}")
    return TROUBLE


def _run(listing: Listing, workers: int | None) -> int:
    """Run the sweep; tell of its end or of what is wrong, and return the exit code."""
    from sweep.driver import run as run_sweep
    from sweep.errors import EngineError, MismatchError, StoreError

    show = _teller(listing)
    try:
        summary = run_sweep(
            "spec.toml", store=listing.store, engine="ray", workers=workers, address="auto", progress=show
        )
    except (MismatchError, ValueError) as error:
        tell(failed=str(error), bad_input=True)
        return BAD_INPUT
    except (StoreError, EngineError, OSError) as error:
        tell(failed=str(error))
        return TROUBLE
    tell(begun=True)  # where nothing was lacking, no progress has told so
    return _conclude(summary)


def _teller(listing: Listing) -> Callable[[Progress], None]:
    """Return what tells of progress and lists what is stored, now and then.

    Its first call means that the store is this job's: the listing then is of the spec that was submitted.
    """
    from sweep.progress import sentence

    began = time.monotonic()
    told: list[float] = []

    def show(state: Progress) -> None:
        now = time.monotonic() - began
        _refresh(listing, at_once=not told)
        if not told:
            tell(begun=True)
        elif now - told[-1] < max(TOLD_SECONDS, TOLD_SHARE * now):
            return
        told[:] = [now]
        say(f"{sentence(state)}  after {now:.0f} s")

    return show


def _conclude(summary: Summary) -> int:
    """Tell of the end; return the exit code."""
    for failure in summary.failures[:_NAMED]:
        say(f"failed  {failure.case.text}\n        {failure.error}")
    if len(summary.failures) > _NAMED:
        say(f"and {len(summary.failures) - _NAMED} more, which `sweep status` names")
    say(
        f"{summary.cells_done} of {summary.cells} cells done; "
        f"{summary.replicas_computed} replicas computed in {summary.seconds:.0f} s"
    )
    return SOME_FAILED if summary.failures else DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
