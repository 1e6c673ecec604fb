"""Results are read whole, however a run replaces them, and their absence is told."""

import itertools
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from sweep import results as results_module
from sweep.cube import consolidate
from sweep.errors import StoreError
from sweep.results import load
from sweep.store import Store
from tests.cubes import ITEMS, cube, finished_store, layout, write


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store", {"seed": 1}, 'name = "λ"\n')


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finished_store(tmp_path_factory.mktemp("finished") / "store")


@pytest.fixture(scope="module")
def tree(finished):
    return load(finished.path)


def test_a_handle_held_open_keeps_good_bytes_while_results_are_rebuilt(store):
    write(store, ITEMS[:10])
    consolidate(store, layout())
    before = load(store)["network"].S.values
    with xr.open_datatree(store.results) as lazy:
        write(store, ITEMS[10:])
        consolidate(store, layout())
        assert np.array_equal(lazy["network"].S.values, before, equal_nan=True)
    assert np.isfinite(load(store)["network"].S.values).all()


def test_loading_takes_one_generation_while_results_are_replaced(store, monkeypatch):
    write(store, ITEMS[:10])
    consolidate(store, layout())
    opened, open_datatree = [], xr.open_datatree

    def replaced_after_opening(path, **options):
        tree = open_datatree(path, **options)
        if not opened:
            write(store, ITEMS[10:])
            consolidate(store, layout())
        opened.append(path)
        return tree

    monkeypatch.setattr(xr, "open_datatree", replaced_after_opening)
    loaded = load(store)
    assert len(opened) == 2
    assert np.isfinite(loaded["network"].S.values).all()
    assert (loaded["cells"].status == "done").all()


def test_results_that_never_rest_are_given_up_on(finished, monkeypatch):
    stamps = itertools.count()
    monkeypatch.setattr(results_module, "_stamp", lambda _: (next(stamps), 0, 0))
    with pytest.raises(StoreError, match="changed in each of 20 attempts to read it: load it again"):
        load(finished)


def test_loading_keeps_no_file_open(finished, tmp_path):
    copy = shutil.copytree(finished.path, tmp_path / "copy")
    loaded = load(copy)
    shutil.rmtree(copy)
    open_files = [str(entry.resolve()) for entry in Path("/proc/self/fd").iterdir()]
    assert not any(name.startswith(str(copy)) for name in open_files)
    assert cube(loaded) == cube(load(finished))


def test_loading_in_eight_threads_at_once_is_safe(finished, tree):
    loaded = []
    threads = [threading.Thread(target=lambda: loaded.append(load(finished.path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [cube(one) == cube(tree) for one in loaded] == [True] * 8


REBUILD = """
import sys
from sweep.cube import consolidate
from sweep.store import Store
from tests.cubes import ITEMS, layout, write
store = Store.open(sys.argv[1])
print("ready", flush=True)
for item in ITEMS[:12]:
    write(store, [item])
    consolidate(store, layout())
print("done", flush=True)
"""


def test_another_process_loads_whole_results_throughout_a_run(store):
    consolidate(store, layout())
    command = [sys.executable, "-W", "error", "-c", REBUILD, str(store.path)]
    here = Path(__file__).parents[1]
    with subprocess.Popen(
        command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        seen = [0]
        while seen[-1] < 12:
            loaded = load(store)
            stored = int(np.isfinite(loaded["network"].S_sup.values).sum())
            assert int(loaded["cells"].replicas.sum()) == stored >= seen[-1]
            seen.append(stored)
        assert process.wait() == 0, process.stderr.read()


def test_the_absence_of_results_is_told_with_its_cure(store, tmp_path):
    with pytest.raises(StoreError, match=r"store holds no results yet: wait for the run"):
        load(store.path)
    with pytest.raises(
        StoreError, match=r"holds no results: give a store directory or an exported \.nc file"
    ):
        load(tmp_path)
    (tmp_path / "text.nc").write_text("text")
    with pytest.raises(StoreError, match=r"text\.nc cannot be read as results .*give a store"):
        load(tmp_path / "text.nc")


FULL = """
import resource, sys
from sweep.cube import consolidate
from sweep.errors import StoreError
from sweep.store import Store
from tests.cubes import ITEMS, layout, write
store = Store.open(sys.argv[1])
write(store, ITEMS[10:])
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    consolidate(store, layout())
except StoreError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_old_results_whole(store):
    write(store, ITEMS[:10])
    consolidate(store, layout())
    before = store.results.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(store.path)],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "results.nc cannot be written" in done.stdout, done.stderr
    assert "bytes are free on that disk: make room" in done.stdout
    assert store.results.read_bytes() == before
    assert sorted(entry.name for entry in store.path.iterdir()) == [
        "results.nc",
        "shards",
        "spec.toml",
        "store.json",
    ]
