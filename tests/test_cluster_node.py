"""Actors of a node compile kernels once, in a place of that node, and keep their tasks within its memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sweep.engines.node import allowance, node_facts, prepare_node

pytestmark = pytest.mark.alone

#: What each actor of a node does when it starts, together with the others.
START = """
import os, sys
from sweep.engines.node import prepare_node
sys.stdin.readline()
prepare_node(("tests.test_cluster_node:leave_a_line", (sys.argv[1],)))
assert open(sys.argv[1]).read().endswith("done\\n"), "went on before it was prepared"
print(os.environ.get("NUMBA_CACHE_DIR"))
"""


def leave_a_line(file: str) -> None:
    """Write that this process has begun, take a while, and write that it is done."""
    with open(file, "a") as log:
        log.write("begun\n")
        log.flush()
        time.sleep(0.5)
        log.write("done\n")


@pytest.mark.parametrize("given", [None, "/somewhere/else"])
def test_actors_that_start_together_prepare_their_node_once(tmp_path: Path, given: str | None) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.getcwd()}
    environment.pop("NUMBA_CACHE_DIR", None)
    if given is not None:
        environment["NUMBA_CACHE_DIR"] = given
    actors = [
        subprocess.Popen(
            [sys.executable, "-c", START, str(tmp_path / "log")],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [actor.communicate("go\n", timeout=60.0)[0].strip() for actor in actors]
    assert [actor.returncode for actor in actors] == [0] * 4
    assert (tmp_path / "log").read_text() == "begun\ndone\n"
    (folder,) = set(said)
    if given is not None:
        assert folder == given
    else:
        assert Path(folder).parent == tmp_path / f"sweep-kernels-{os.geteuid()}"


def test_a_call_that_fails_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    call = ("tests.test_cluster_node:leave_a_line", (str(tmp_path / "no" / "log"),))
    with pytest.raises(FileNotFoundError):
        prepare_node(call)
    (tmp_path / "no").mkdir()
    prepare_node(call)
    prepare_node(call)
    assert (tmp_path / "no" / "log").read_text() == "begun\ndone\n"


def test_a_node_is_prepared_anew_where_a_source_of_kernels_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    call = ("os:mkdir", (str(tmp_path / "made"),))
    prepare_node(call)
    prepare_node(call)
    monkeypatch.setattr("sweep.kernel_cache.state_of_sources", lambda: "another")
    with pytest.raises(FileExistsError):
        prepare_node(call)


def test_a_task_that_allocates_without_bound_ends_alone() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(MemoryError), allowance(1):  # at least a gigabyte is allowed
        _ = [np.ones(2**26) for _ in range(8)]
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    with allowance(0):
        assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_node_tells_its_python() -> None:
    assert node_facts()["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))


def test_the_address_of_a_dashboard_is_told_from_that_of_a_cluster() -> None:
    code = "from sweep.engines import make_engine; make_engine('ray', 1, address='http://127.0.0.1:8265')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        "EngineError: Ray cannot be reached at 'http://127.0.0.1:8265': it is no address of Ray but one of "
        "its dashboard, which `sweep submit` takes" in done.stderr
    )
