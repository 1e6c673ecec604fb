"""A sweep on a real head: submitted, watched, cancelled, resumed after a lost head, fetched in pieces."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import psutil  # type: ignore[import-untyped,unused-ignore]
import pytest
from typer.testing import CliRunner

import sweep
from sweep.engines import fetch as fetching
from sweep.engines import jobs
from sweep.engines.dashboard import Dashboard, UnreachableError
from sweep.errors import EngineError, MismatchError
from sweep.remote_cli import show_status
from sweep.status import store_status
from tests.engine_sources import wait_for
from tests.job_head import Head, commands
from tests.pages import BOOK, COOKBOOK, starting, write_specs

pytestmark = [pytest.mark.slow, pytest.mark.alone]

#: Of a study and a law whose kernels compile quickly, which every head does anew; with seconds of work for a
#: worker, so that a job lasts long enough to be cancelled.
SPEC = """
name = "cluster"
study = "equilibrium"
seed = 7
[grid]
N = [400, 500]
d = [2]
lam = [0.9]
G = ["exponential"]
[run]
horizon = 800.0
warmup = 10.0
batches = 4
levels = 3
replicas = {replicas}
"""


@pytest.fixture(scope="module")
def open_head() -> Iterator[Head]:
    """A head that lets all in; the kernels that one job compiles there are those of the next."""
    with Head() as head:
        yield head


def write_spec(folder: Path, replicas: int) -> Path:
    file = folder / "cluster.toml"
    file.write_text(SPEC.format(replicas=replicas))
    return file


def bits(store: Path) -> dict[str, bytes]:
    """Every array of results.nc but the account of the cells."""
    with netCDF4.Dataset(store / "results.nc") as file:
        file.set_auto_mask(False)
        return {
            f"{group.name}/{name}": np.asarray(variable[...]).tobytes()
            for group in file.groups.values()
            for name, variable in group.variables.items()
            if group.name != "cells" and name != "G"
        }


def has_progressed(store: Path, replicas: int) -> bool:
    try:
        return store_status(store).replicas > replicas
    except sweep.errors.StoreError:
        return False


def listening(head: Head) -> set[str]:
    """The addresses at which the processes of a head can be reached."""
    sockets = [one for process in head.family() for one in process.net_connections()]
    found = {one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN}
    assert found
    return found


class LineCutError(Exception):
    """What ends a fetch half way."""


def test_a_sweep_survives_a_cancelled_job_a_lost_head_and_a_cut_line(tmp_path: Path, open_head: Head) -> None:
    token, store, here = secrets.token_hex(32), tmp_path / "store", tmp_path / "here"
    spec = write_spec(tmp_path, 350)
    with Head(token) as first:
        head = first.dashboard()
        assert not head.open
        with (
            Dashboard(first.address, token="0" * 64) as stranger,
            pytest.raises(EngineError, match="does not accept the token"),
        ):
            jobs.jobs(stranger)
        started = jobs.submit(head, spec, store=str(store))
        with pytest.raises(EngineError, match=f"job {started.job} is at work on {store}: wait for it, or"):
            jobs.submit(head, spec, store=str(store))
        assert wait_for(lambda: has_progressed(store, 0), 180.0), jobs.logs(head, started.job)
        assert jobs.cancel(head, started.job).status == "STOPPED"
        before = store_status(store)
        assert 0 < before.replicas < before.wanted == 700
        assert np.isfinite(sweep.load(store)["equilibrium"].longest).sum() == before.replicas
        window = fetching.look(head, str(store))
        assert window.job is not None
        assert (window.job.status, window.status and window.status.replicas) == ("STOPPED", before.replicas)
        fetching.fetch(head, str(store), here)

        again = jobs.submit(head, spec, store=str(store), workers=1)
        assert wait_for(lambda: has_progressed(store, before.replicas), 180.0), jobs.logs(head, again.job)
        first.kill()
    left = store_status(store)
    assert before.replicas < left.replicas < left.wanted
    assert not [note for note in left.notes if note.startswith("being written")]
    with pytest.raises(UnreachableError) as caught:
        show_status(str(here), first.address)
    assert f"the head {first.address} is unreachable" in str(caught.value)
    assert f"Last fetched at {fetching.record(here).time} from {store} on" in str(caught.value)

    head = open_head.dashboard()
    assert jobs.find(head, str(store)) is None
    job = jobs.submit(head, spec, store=str(store), workers=1).job
    there = tmp_path / "there"

    def cut(done: int, total: int) -> None:
        if list(there.glob("shards/*.nc")):
            raise LineCutError(f"{done} of {total}")

    assert wait_for(lambda: has_progressed(store, left.replicas), 180.0), jobs.logs(head, job)
    with pytest.raises(LineCutError):  # while the job is at work
        fetching.fetch(head, str(store), there, cut)
    (present,) = there.glob("shards/*.nc")
    was = present.stat().st_ino
    assert jobs.wait(head, job, 300.0).status == "SUCCEEDED", jobs.logs(head, job)
    told = [line for line in jobs.follow(head, job) if line.startswith("2 of 2 cells done")]
    assert len(told) == 1
    assert f"; {700 - left.replicas} replicas computed" in told[0]
    done = fetching.fetch(head, str(store), there)
    assert 0 < done.sent < done.files
    assert present.stat().st_ino == was
    assert fetching.fetch(head, str(store), here).sent > 0
    assert fetching.fetch(head, str(store), here).sent == 0
    sweep.run(spec, store=tmp_path / "local", engine="local")
    assert bits(here) == bits(there) == bits(tmp_path / "local") == bits(store)


def test_an_open_cluster_is_used_by_the_commands_of_the_cookbook_with_a_warning(
    tmp_path: Path, open_head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, run = open_head, CliRunner()
    assert listening(head) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    write_specs(COOKBOOK, tmp_path)
    monkeypatch.chdir(tmp_path)
    said = {}
    for command, _ in starting(COOKBOOK, "sweep"):
        if BOOK in command:
            name, *words = shlex.split(command.replace(BOOK, head.address))[1:]
            said[name] = run.invoke(commands(), [name, *words])
            assert said[name].exit_code == 0, said[name].output
    assert [*said] == ["doctor", "submit", "logs", "status", "fetch"]
    levels = [line.split()[0] for line in said["doctor"].stdout.splitlines()]
    assert levels == ["warning", "ok", "ok", "ok", "ok"]
    warning = f"warning: {head.address} has no authentication: whoever reaches its ports"
    assert warning in said["submit"].stderr
    assert "has begun on the head with Python 3." in said["submit"].stdout
    assert "6 of 6 cells done; 96 replicas computed" in said["logs"].stdout
    assert jobs.MARK not in said["logs"].stdout
    assert "mine: 6 of 6 cells done, 96 of 96 replicas" in said["status"].stdout
    assert "is SUCCEEDED" in said["status"].stdout
    store, place = "~/stores/mine", head.folder / "stores" / "mine"
    assert "MB)\n" in said["fetch"].stdout  # all files were sent, and no others were here
    assert bits(tmp_path / "out" / "fetched") == bits(place)
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", head.address)
    cancelled = run.invoke(commands(), ["cancel", store])
    assert "has ended already (SUCCEEDED)" in cancelled.stdout

    dashboard = head.dashboard()
    known = jobs.jobs(dashboard)
    assert known[0].store == store
    with pytest.raises(MismatchError, match=r"/nothing is not a sweep store on http://.*: give the path"):
        fetching.look(dashboard, str(tmp_path / "nothing"))
    assert jobs.jobs(dashboard) == known
    names = [entry["submission_id"] or "" for entry in dashboard.get("/api/jobs/")]
    assert not [name for name in names if "ask" in name]
    spec = tmp_path / "mine.toml"
    spec.write_text(spec.read_text().replace("seed = 1", "seed = 8"))
    refused = run.invoke(commands(), ["submit", str(spec), "--store", store])
    assert isinstance(refused.exception, ValueError)
    assert f"failed: store {place} was made with seed = 1, now 8: give a new" in str(refused.exception)
    status = run.invoke(commands(), ["status", store])
    assert status.exit_code == 3
    assert "is FAILED" in status.stdout
    assert f"Z: store {place} was made with seed = 1, now 8: give a new" in status.stdout
    needed = jobs.requirements()
    needed["packages"]["numpy"] = ["99.0", ""]
    monkeypatch.setattr("sweep.engines.package.requirements", lambda: needed)
    with pytest.raises(EngineError, match=r"the head must have numpy 99\.0 or newer, got 2.*: install req"):
        jobs.submit(dashboard, spec, store=str(tmp_path / "never"))
    assert not (tmp_path / "never").exists()
