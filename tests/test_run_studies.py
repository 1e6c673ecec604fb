"""Sweeps of the other studies, precision targets, and choosing what is run and kept."""

import copy
import re

import numpy as np
import pytest

import sweep
from sweep.driver import run
from sweep.errors import AccuracyError, SpecError, StoreError
from sweep.network.simulate import run_path
from sweep.seeds import NUMBERS_VERSION, keys_of
from sweep.selection import selection
from sweep.spec import parse_spec
from sweep.status import store_status
from sweep.store import Store
from tests.test_run import SPEC, spec
from tests.test_studies import EQUILIBRIUM, HEAVY, TRANSIENT, changed

pytestmark = pytest.mark.alone

LONG = changed(
    EQUILIBRIUM, **{"grid.G": ["exponential", "lomax(beta=1.5)"], "run.replicas": 3, "run.measure": True}
)
SCALED = changed(HEAVY, **{"grid.N": [20, 60], "grid.m": [16, 25], "run.replicas": 3})
GROUPS = {
    "equilibrium": ("equilibrium", "equilibrium_from_empty", "invariant"),
    "heavy-traffic": ("network", "diffusion"),
    "transient": ("network", "fluid"),
}


def contents(store):
    """Every variable outside /cells, with its bytes."""
    tree = sweep.load(store)
    return {
        f"{group}/{name}": (variable.dims, variable.dtype, variable.values.tobytes())
        for group in GROUPS[tree.attrs["study"]]
        for name, variable in tree[group].dataset.variables.items()
    }


@pytest.mark.parametrize("tables", [LONG, SCALED], ids=["equilibrium", "heavy-traffic"])
def test_engines_and_growth_give_the_same_bits(tmp_path, tables):
    run(tables, store=tmp_path / "serial", engine="serial")
    run(changed(tables, **{"grid.N": [20], "run.replicas": 2}), store=tmp_path / "grown", engine="serial")
    grown = run(tables, store=tmp_path / "grown", engine="local", workers=2)
    assert grown.failures == ()
    assert grown.limits_solved == 0
    assert contents(tmp_path / "grown") == contents(tmp_path / "serial")
    cells = sweep.load(tmp_path / "grown")["cells"].dataset
    assert (cells.status == "done").all()
    assert (cells.replicas == 3).all()


def test_a_batch_is_a_piece_of_the_path_of_simulate(tmp_path):
    run(LONG, store=tmp_path / "store", engine="serial")
    there = sweep.load(tmp_path / "store")["equilibrium"].dataset.sel(
        N=50, d=2, lam=0.5, G="exponential", replica=2
    )
    alone = sweep.simulate(
        N=50, d=2, lam=0.5, G="exponential", times=[1.0, 2.0, 3.0, 4.0], seed=1, replica=2, levels=4,
        averages=True, measure=True,
    )  # fmt: skip
    later = alone.isel(t=slice(1, None))
    assert np.array_equal(there.S_batch, later.S_average)
    assert np.array_equal(there.S_end, later.S)
    assert np.array_equal(there.E_batch, np.diff(alone.E))
    assert np.array_equal(there.time_in_system_measured, later.time_in_system, equal_nan=True)
    assert np.allclose(there.time_in_system, there.X_batch / 0.5, rtol=1e-15)
    assert np.allclose(there.waiting_time, (there.X_batch - there.S_batch.sel(level=1)) / 0.5, rtol=1e-14)


def test_the_invariant_state_stands_beside_the_runs(tmp_path):
    run(LONG, store=tmp_path / "store", engine="serial")
    tree = sweep.load(tmp_path / "store")
    alone = sweep.invariant_state(d=2, lam=0.5, G="lomax(beta=1.5)", levels=4)
    there = tree["invariant"].dataset.sel(d=2, lam=0.5, G="lomax(beta=1.5)")
    for name in ("S", "log_S", "mean_queue", "mean_time_in_system"):
        assert np.array_equal(there[name], alone[name]), name
    from_empty = tree["equilibrium_from_empty"].dataset
    assert from_empty.S_batch.sel(G="lomax(beta=1.5)").notnull().all()
    assert from_empty.S_batch.sel(G="exponential").isnull().all()


def test_scaled_queues_are_those_of_the_network(tmp_path):
    run(SCALED, store=tmp_path / "store", engine="serial")
    tree = sweep.load(tmp_path / "store")
    there = tree["network"].dataset.sel(N=60, m=25, replica=1).squeeze()
    (case,) = (c for c in parse_spec(SCALED).cells() if c.values[:2] == (60, 25))
    times = 25 * there.t.values
    path = run_path(case.cell, times=times, seed=1, replica=1, levels=None, snapshots=times)
    assert np.array_equal(there.tagged, path.lengths[:, :4] / 5.0)
    assert np.allclose(there.X, path.lengths.mean(axis=1) / 5.0, rtol=1e-14)
    shares = (path.lengths[:, :, np.newaxis] / 5.0 > there.x.values).mean(axis=1)
    assert np.allclose(there.v, shares, rtol=1e-14)
    assert tree["network"].t.attrs["units"] == "m mean service times"
    assert float(tree["diffusion"].mean_stationary.squeeze()) == pytest.approx(np.log(2.0), abs=1e-6)


TARGET = changed(
    TRANSIENT,
    **{
        "grid.N": [20, 500],
        "run.replicas": 4,
        "run.target_stderr": 0.01,
        "run.target_quantity": "S_sup",
        "run.max_replicas": 32,
    },
)


def test_replicas_are_added_until_the_error_is_small_or_there_are_no_more(tmp_path):
    run(TARGET, store=tmp_path / "store", engine="serial")
    tree = sweep.load(tmp_path / "store")
    counts = tree["cells"].replicas.squeeze()
    assert (tree["cells"].status == "done").all()
    assert 4 <= counts.sel(N=500) < counts.sel(N=20) <= 32
    for N in (20, 500):
        values = tree["network"].S_sup.sel(N=N).squeeze().dropna("replica").values
        assert len(values) == counts.sel(N=N)
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert error <= 0.01 or len(values) == 32


def test_a_precision_ends_with_the_same_replicas_however_it_is_reached(tmp_path):
    run(TARGET, store=tmp_path / "serial", engine="serial")
    resumed = tmp_path / "resumed"
    few = changed(
        TARGET, **{"run.target_stderr": None, "run.target_quantity": None, "run.max_replicas": None}
    )
    run(changed(few, **{"grid.N": [20]}), store=resumed, engine="serial")
    run(changed(TARGET, **{"grid.N": [20]}), store=resumed, engine="serial")
    run(TARGET, store=resumed, engine="local", workers=2)
    again = run(TARGET, store=resumed, engine="serial")
    assert again.replicas_computed == 0
    assert again.cells_done == again.cells == 2
    assert contents(resumed) == contents(tmp_path / "serial")


def test_errors_are_kept_without_their_paths(tmp_path):
    run(spec(keep="errors", N=[10], d=[2]), store=tmp_path / "errors", engine="serial")
    run(spec(N=[10], d=[2]), store=tmp_path / "paths", engine="serial")
    errors, paths = (sweep.load(tmp_path / name)["network"].dataset for name in ("errors", "paths"))
    assert set(errors.data_vars) == {"S_sup", "longest", "d_S", "d_P", "V"}
    for name in errors.data_vars:
        assert np.array_equal(errors[name], paths[name]), name


def test_only_the_chosen_cells_are_run(tmp_path):
    run(SPEC, store=tmp_path / "store", engine="serial", only={"N": [40], "G": ["deterministic"]})
    status = sweep.load(tmp_path / "store")["cells"].status
    assert (status.sel(N=40, G="deterministic") == "done").all()
    assert int((status == "done").sum()) == 2
    assert int((status == "pending").sum()) == 10


@pytest.mark.parametrize(
    ("only", "text"),
    [
        ({"n": [10]}, r"only must name an axis \(N, d, lam, G\), got 'n'"),
        ({"N": [11]}, r"only must name values of N in the spec \(10, 40\), got 11"),
    ],
)
def test_cells_that_do_not_exist_cannot_be_chosen(only, text):
    with pytest.raises(ValueError, match=text):
        selection(parse_spec(SPEC), only)


def test_a_run_that_fails_fast_ends_at_the_first_failure_and_keeps_what_is_done(tmp_path, monkeypatch):
    tables = copy.deepcopy(TRANSIENT)
    tables["grid"]["G"] = ["exponential", "deterministic", "erlang(k=2)"]
    from sweep import work

    def failing(payload, shared):
        if "deterministic" in payload["limit"].text:
            raise RuntimeError("no such limit")
        return solve(payload, shared)

    solve = work.solve_limit
    monkeypatch.setattr(work, "solve_limit", failing)
    fast = run(tables, store=tmp_path / "fast", engine="serial", fail_fast=True)
    slow = run(tables, store=tmp_path / "slow", engine="serial")
    assert [failure.case.values[-1] for failure in fast.failures] == ["deterministic"]
    assert [failure.case.values[-1] for failure in slow.failures] == ["deterministic"]
    assert fast.cells_done < slow.cells_done == 2
    assert run(tables, store=tmp_path / "fast", engine="serial").cells_done == 2
    monkeypatch.undo()
    assert run(tables, store=tmp_path / "fast", engine="serial").cells_done == 3
    assert Store.open(tmp_path / "fast").failures() == {}


def test_a_cell_of_which_one_batch_fails_has_failed_once_whatever_its_other_batches_do(tmp_path, monkeypatch):
    from sweep import work

    def failing(payload, shared):
        if not {1, 3}.isdisjoint(payload["items"][0][1]):
            raise RuntimeError("no such replica")
        return run_replicas(payload, shared)

    run_replicas = work.run_replicas
    monkeypatch.setattr(work, "run_replicas", failing)
    monkeypatch.setattr("sweep.plan._SHORTEST", 1e-9)  # a batch for each replica
    tables = changed(TRANSIENT, **{"grid.N": [20], "grid.lam": [0.5], "run.replicas": 5})
    summary = run(tables, store=tmp_path / "store", engine="serial")
    assert summary.replicas_computed == 3
    (failure,) = summary.failures
    assert store_status(tmp_path / "store").failed[0][1] == failure.error == "RuntimeError: no such replica"
    assert sweep.load(tmp_path / "store")["cells"].status.values.item() == "failed"
    monkeypatch.undo()
    assert run(tables, store=tmp_path / "store", engine="serial").cells_done == 1
    assert Store.open(tmp_path / "store").failures() == {}


def test_a_limit_that_cannot_be_replaced_fails_its_cell_though_all_replicas_are_stored(tmp_path, monkeypatch):
    run(TRANSIENT, store=tmp_path / "store", engine="serial")
    (shard,) = (tmp_path / "store" / "shards").glob("fluid-*")
    shard.unlink()
    monkeypatch.setattr("sweep.work.solve_limit", None)
    (failure,) = run(TRANSIENT, store=tmp_path / "store", engine="serial").failures
    assert "is not callable" in failure.error
    assert {*Store.open(tmp_path / "store").failures()} == {failure.case.key}
    monkeypatch.undo()
    assert run(TRANSIENT, store=tmp_path / "store", engine="serial").limits_solved == 1
    assert Store.open(tmp_path / "store").failures() == {}


@pytest.mark.parametrize("routing", ["shortest", "idle", "round-robin"])
def test_rules_without_a_limit_are_run_and_compared_with_none(tmp_path, routing):
    tables = changed(TRANSIENT, **{"run.routing": routing, "run.replicas": 2})
    run(tables, store=tmp_path / "store", engine="local", workers=2)
    tree = sweep.load(tmp_path / "store")
    assert set(tree.children) == {"network", "cells"}
    there = tree["network"].dataset
    assert set(there.data_vars) == {"S", "D", "X", "E", "R_E", "longest"}
    alone = sweep.simulate(
        N=20, d=1, lam=0.5, G="exponential", times=there.t.values, seed=1, replica=1, levels=4,
        routing=routing,
    )  # fmt: skip
    assert np.array_equal(there.S.sel(replica=1).squeeze(), alone.S)


def test_networks_may_be_lumped_to_their_level_counts(tmp_path):
    tables = changed(EQUILIBRIUM, **{"run.method": "lumped", "grid.N": [20]})
    run(tables, store=tmp_path / "store", engine="local", workers=2)
    there = sweep.load(tmp_path / "store")["equilibrium"].dataset.squeeze()
    alone = sweep.simulate(
        N=20, d=2, lam=0.5, G="exponential", times=[1.0, 2.0, 3.0, 4.0], seed=1, replica=1, levels=4,
        averages=True, method="lumped",
    )  # fmt: skip
    assert np.array_equal(there.S_batch.sel(replica=1), alone.S_average[1:])


@pytest.mark.parametrize(
    ("tables", "changes", "text"),
    [
        (TRANSIENT, {"run.routing": "random"}, "routing must be one of sampled, shortest, idle, round-robin"),
        (TRANSIENT, {"run.routing": "shortest", "grid.d": [2]}, 'd must be 1 with routing = "shortest"'),
        (TRANSIENT, {"run.method": "fast"}, "run.method must be 'servers', 'lumped' or 'auto', got 'fast'"),
        (
            TRANSIENT,
            {"run.method": "lumped", "run.snapshots": [1.0]},
            'snapshots must be none with method = "lumped"',
        ),
        (EQUILIBRIUM, {"run.method": "lumped", "run.measure": True}, "measure must be false with method"),
        (
            TRANSIENT,
            {"run.method": "lumped", "grid.G": ["erlang(k=2)"]},
            'G must be exponential with method = "lumped"',
        ),
        (HEAVY, {"run.routing": "idle"}, "run.routing is not a key of the spec"),
    ],
)
def test_rules_and_methods_that_do_not_fit_are_refused(tables, changes, text):
    with pytest.raises(SpecError) as caught:
        parse_spec(changed(tables, **changes))
    (line,) = caught.value.errors
    assert text in line


def test_limits_of_other_rules_are_refused():
    for call in (
        lambda: sweep.solve_fluid(d=1, lam=0.5, G="exponential", times=[1.0], routing="idle"),
        lambda: sweep.invariant_state(d=1, lam=0.5, G="exponential", routing="idle"),
    ):
        with pytest.raises(ValueError, match='routing must have a limit, none is implemented for "idle"'):
            call()


def test_cells_with_replicas_of_their_own_are_done_when_they_have_them(tmp_path):
    point = {"d": 1, "lam": 0.5, "G": "exponential"}
    tables = {**TRANSIENT, "cases": [{"N": 20, **point, "replicas": 5}, {"N": 30, **point, "replicas": 1}]}
    summary = run(tables, store=tmp_path / "store", engine="serial")
    assert (summary.cells_done, summary.replicas_computed) == (2, 6)
    tree = sweep.load(tmp_path / "store")
    assert tree["cells"].replicas.squeeze().values.tolist() == [5, 1]
    assert (tree["cells"].status == "done").all()
    assert tree["network"].S_sup.notnull().sum("replica").squeeze().values.tolist() == [5, 1]
    again = run(TRANSIENT, store=tmp_path / "store", engine="serial")
    assert again.replicas_computed == 0
    assert sweep.load(tmp_path / "store")["network"].sizes["replica"] == 2


def test_a_store_of_other_numbers_is_refused_or_mixed_when_asked(tmp_path, monkeypatch):
    store, few = tmp_path / "store", changed(TRANSIENT, **{"run.replicas": 2})
    more = changed(TRANSIENT, **{"run.replicas": 3, "grid.N": [20, 30]})
    run(few, store=store, engine="serial")
    old = sweep.load(store)["network"].S_sup.values
    new = NUMBERS_VERSION + 1
    for module in ("driver", "store", "frame", "provenance"):
        monkeypatch.setattr(f"sweep.{module}.NUMBERS_VERSION", new)
    monkeypatch.setattr("sweep.store.provenance_text", lambda: f'{{"numbers_version": {new}}}')
    with keys_of(new):
        with pytest.raises(
            StoreError, match=rf"holds numbers of version {NUMBERS_VERSION}, .* --mix-numbers"
        ):
            run(more, store=store, engine="serial")
        mixed = run(more, store=store, engine="serial", mix_numbers=True)
        assert mixed.replicas_computed == 1 + 3
        assert mixed.limits_solved == 0
        assert run(more, store=store, engine="serial").replicas_computed == 0
    tree = sweep.load(store)
    assert np.array_equal(tree["network"].S_sup.sel(N=20, replica=[0, 1]).values, old[0])
    versions = tree["cells"].numbers.squeeze().values.tolist()
    assert versions == [f"{NUMBERS_VERSION} {new}", f"{new}"]
    assert store_status(store).done == 2


def test_levels_out_of_reach_of_the_invariant_state_are_not_known_and_harm_nothing(tmp_path):
    deep = changed(
        EQUILIBRIUM, **{"grid.G": ["lomax(beta=3.5)"], "grid.N": [20], "run.levels": 20, "run.replicas": 1}
    )
    assert run(deep, store=tmp_path / "store", engine="serial").failures == ()
    state = sweep.load(tmp_path / "store")["invariant"].dataset.squeeze()
    known = state.log_S.notnull().values
    assert 10 <= known.sum() < 20
    assert known[: known.sum()].all()
    with pytest.raises(AccuracyError):
        sweep.invariant_state(d=2, lam=0.5, G="lomax(beta=3.5)", levels=int(known.sum()) + 1)
    alone = sweep.invariant_state(d=2, lam=0.5, G="lomax(beta=3.5)", levels=int(known.sum()))
    assert np.array_equal(state.log_S.values[known], alone.log_S.values)


@pytest.mark.parametrize(
    ("argument", "value", "text"),
    [
        ("store", 3, "store must be text or a path, got 3"),
        ("only", ["N"], "only must map axes to values, like {\"N\": [100]}, got ['N']"),
        ("progress", 3, "progress must be a function of one argument, got 3"),
        ("fail_fast", "yes", "fail_fast must be true or false, got 'yes'"),
        ("mix_numbers", 1, "mix_numbers must be true or false, got 1"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_before_the_spec_is_read(argument, value, text, tmp_path):
    arguments = {"store": tmp_path / "store", argument: value}
    with pytest.raises(TypeError, match=re.escape(text)):
        sweep.run(tmp_path / "none.toml", **arguments)
    assert not (tmp_path / "store").exists()
