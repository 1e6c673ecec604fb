"""A sweep from spec to results.nc: the same bits whoever computes it, resumed, grown or killed."""

import copy
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

import sweep
from sweep.catalogue import Catalogue
from sweep.driver import run
from sweep.errors import LockError, MismatchError, SpecError, StoreError
from sweep.store import Store

pytestmark = pytest.mark.alone

SPEC = {
    "name": "small",
    "study": "transient",
    "seed": 7,
    "grid": {
        "N": [10, 40],
        "d": [1, 2],
        "lam": [0.7],
        "G": ["exponential", "lomax(beta=1.5)", "deterministic"],
    },
    "run": {"horizon": 3.0, "times": 7, "levels": 3, "replicas": 4, "snapshots": [1.5, 3.0]},
}


def spec(**changes):
    tables = copy.deepcopy(SPEC)
    for name, value in changes.items():
        tables["grid" if name in tables["grid"] else "run"][name] = value
    return tables


def contents(store):
    """Every variable outside /cells, with its bytes."""
    tree = sweep.load(store)
    return {
        f"{group}/{name}": (variable.dims, variable.dtype, variable.values.tobytes())
        for group in ("network", "fluid")
        for name, variable in tree[group].dataset.variables.items()
    }


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Contents of the sweep as one process computes it."""
    store = tmp_path_factory.mktemp("serial") / "store"
    run(SPEC, store=store, engine="serial")
    return contents(store)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_local_processes_store_the_same_bits_as_one_process(tmp_path, reference, workers):
    summary = run(SPEC, store=tmp_path / "store", engine="local", workers=workers)
    assert summary.failures == ()
    assert contents(tmp_path / "store") == reference


@pytest.mark.parametrize("workers", [1, 2])
def test_ray_actors_store_the_same_bits_as_one_process(tmp_path, reference, ray_session, workers):  # noqa: ARG001
    run(SPEC, store=tmp_path / "store", engine="ray", workers=workers)
    assert contents(tmp_path / "store") == reference


def test_the_results_hold_what_was_simulated(tmp_path):
    run(SPEC, store=tmp_path / "store", engine="serial")
    tree = sweep.load(tmp_path / "store")
    network, fluid = tree["network"].dataset, tree["fluid"].dataset
    alone = sweep.simulate(
        N=40, d=2, lam=0.7, G="lomax(beta=1.5)", times=network.t.values, seed=7, replica=3, levels=3,
        snapshots=[1.5, 3.0],
    )  # fmt: skip
    there = network.sel(N=40, d=2, lam=0.7, G="lomax(beta=1.5)", replica=3)
    for name in ("S", "D", "X", "E", "nu_cdf"):
        assert np.array_equal(there[name], alone[name]), name
    limit = sweep.solve_fluid(
        d=2, lam=0.7, G="lomax(beta=1.5)", times=network.t.values, levels=3, snapshots=[1.5, 3.0]
    )
    assert np.array_equal(fluid.S.sel(d=2, lam=0.7, G="lomax(beta=1.5)"), limit.S)
    assert float(there.S_sup) == float(abs(there.S - limit.S).max())
    assert np.array_equal(network.nu_cdf.isel(age=-1), network.S.sel(t=[1.5, 3.0]).rename(t="snapshot"))


def test_a_finished_sweep_computes_nothing_again(tmp_path):
    first = run(SPEC, store=tmp_path / "store", engine="serial")
    again = run(SPEC, store=tmp_path / "store", engine="serial")
    assert (first.replicas_computed, first.limits_solved) == (48, 6)
    assert (again.replicas_computed, again.limits_solved) == (0, 0)
    assert again.cells_done == again.cells == 12


def test_a_store_grows_by_what_is_missing_and_keeps_its_bits(tmp_path, reference):
    run(spec(N=[40], replicas=2), store=tmp_path / "store", engine="serial")
    grown = run(SPEC, store=tmp_path / "store", engine="serial")
    assert grown.replicas_computed == 48 - 12
    assert grown.limits_solved == 0
    assert contents(tmp_path / "store") == reference


def test_a_changed_horizon_is_refused_with_the_cure(tmp_path):
    run(spec(N=[10], d=[1], G=["exponential"]), store=tmp_path / "store", engine="serial")
    before = contents(tmp_path / "store")
    with pytest.raises(StoreError, match=r"horizon.*4\.0"):
        run(spec(N=[10], d=[1], G=["exponential"], horizon=4.0), store=tmp_path / "store", engine="serial")
    assert contents(tmp_path / "store") == before


def test_a_bad_spec_makes_no_store(tmp_path):
    with pytest.raises(SpecError):
        run(spec(N=[0]), store=tmp_path / "store", engine="serial")
    assert not (tmp_path / "store").exists()


def test_an_unknown_engine_is_refused_before_a_store_is_made(tmp_path):
    with pytest.raises(ValueError, match=r"engine must be one of .*local.*got 'cloud'"):
        run(SPEC, store=tmp_path / "store", engine="cloud")
    assert not (tmp_path / "store").exists()


def test_two_writers_do_not_share_a_store(tmp_path):
    run(spec(N=[10], d=[1], G=["exponential"]), store=tmp_path / "store", engine="serial")
    with (
        Store.open(tmp_path / "store").lock(command="another"),
        pytest.raises(LockError, match=f"pid {os.getpid()}"),
    ):
        run(spec(N=[10], d=[1], G=["exponential"]), store=tmp_path / "store", engine="serial")


def test_first_runs_at_once_share_the_work_of_making_a_store(tmp_path):
    path, store = toml(tmp_path, N=[10], d=[1], G=["exponential"]), tmp_path / "store"
    runs = [start(path, store, "serial", workers=1) for _ in range(3)]
    ended = sorted((run.communicate()[0].decode(), run.returncode)[::-1] for run in runs)
    assert ended[0][0] == 0
    for code, output in ended[1:]:
        assert code == 0 or (code == 3 and "pid" in output), output
    assert sweep.load(store)["cells"].status.values.tolist() == [[[["done"]]]]


def test_progress_counts_up_to_everything(tmp_path):
    seen = []
    run(SPEC, store=tmp_path / "store", engine="serial", progress=seen.append)
    assert (seen[0].replicas_done, seen[-1].replicas_done) == (0, 48)
    assert seen[-1].replicas_total == 48
    assert seen[-1].cost_done == pytest.approx(seen[-1].cost_total)
    assert seen[-1].seconds_left == pytest.approx(0.0, abs=1e-9)


def toml(tmp_path, **changes):
    path = tmp_path / "spec.toml"
    path.write_text(sweep.spec.parse_spec(spec(**changes)).to_toml())
    return path


BIG = {"N": [2000, 200000], "d": [2], "replicas": 24, "horizon": 6.0, "snapshots": []}


def start(path, store, engine="local", workers=2):
    command = [sys.executable, "-m", "sweep.cli", "run", path, "--store", store, "--engine", engine]
    command += ["--workers", workers]
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_for_shards(store, process, count):
    while process.poll() is None and len(list(store.glob("shards/network-*.nc"))) < count:
        time.sleep(0.005)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Contents of the larger sweep, run through at once."""
    store = tmp_path_factory.mktemp("undisturbed") / "store"
    run(spec(**BIG), store=store, engine="local", workers=2)
    return contents(store)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_killed_run_leaves_no_process_and_resumes_to_the_same_bits(tmp_path, undisturbed, engine):
    path, store = toml(tmp_path, **BIG), tmp_path / "store"
    process = start(path, store, engine)
    wait_for_shards(store, process, 2)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    stored = len(Store.open(store).index("network"))
    psutil.wait_procs(family, timeout=5)
    assert [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE] == []
    assert 0 < stored < 144
    resumed = run(path, store=store, engine="local", workers=2)
    assert resumed.replicas_computed == 144 - stored
    assert contents(store) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blow", "engine", "code", "told"),
    [
        (signal.SIGINT, "local", 130, "interrupted; what was finished is stored"),
        (signal.SIGTERM, "local", 143, "terminated; what was finished is stored"),
        (signal.SIGTERM, "ray", 143, "terminated; what was finished is stored"),
    ],
)
def test_an_interrupt_leaves_no_process_and_says_how_to_resume(tmp_path, blow, engine, code, told):
    path, store = toml(tmp_path, **BIG), tmp_path / "store"
    process = start(path, store, engine)
    wait_for_shards(store, process, 1)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(blow)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == code
    assert told in output.decode()
    assert f"sweep run {path} --store {store} --engine {engine} --workers 2" in output.decode()
    psutil.wait_procs(family, timeout=5)
    assert [child for child in family if child.is_running()] == []
    assert not (store / "lock").exists()
    stored = len(Store.open(store).index("network"))
    assert 0 < np.isfinite(sweep.load(store)["network"].S_sup.values).sum() == stored < 144


def test_what_was_stored_at_the_very_moment_of_an_interrupt_is_among_the_results(tmp_path, monkeypatch):
    note = Catalogue.note

    def interrupted(self, path, entry):
        if entry.kind == "network":
            raise KeyboardInterrupt
        note(self, path, entry)

    monkeypatch.setattr(Catalogue, "note", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(spec(N=[10], d=[2], G=["exponential"]), store=tmp_path / "store", engine="serial")
    assert np.isfinite(sweep.load(tmp_path / "store")["network"].S_sup).all()


def test_a_store_that_is_or_lies_in_a_file_is_bad_input(tmp_path):
    file = toml(tmp_path)
    for store in (file, file / "store", file / "a" / "store"):
        with pytest.raises(
            MismatchError, match=rf"--store must be a directory, got the file {file}: give an"
        ):
            run(file, store=store, engine="serial")
