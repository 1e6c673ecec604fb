"""The studies: which cells a point stands for, and every fault of a spec by name."""

import copy
import math
import tomllib
from pathlib import Path

import pytest

from sweep.cell import Cell
from sweep.diffusion.start import as_start
from sweep.errors import SpecError
from sweep.plan import make_plan
from sweep.reference import EXAMPLES, example, spec_reference
from sweep.spec import STUDIES, parse_spec
from sweep.studies import heavy_traffic
from sweep.studies.base import TOLERANCE

EQUILIBRIUM = {
    "name": "e",
    "study": "equilibrium",
    "seed": 1,
    "grid": {"N": [20, 50], "d": [2], "lam": [0.5], "G": ["exponential"]},
    "run": {"horizon": 4.0, "warmup": 1.0, "batches": 3, "replicas": 2, "levels": 4},
}
HEAVY = {
    "name": "h",
    "study": "heavy-traffic",
    "seed": 1,
    "grid": {"N": [20], "m": [25], "b1": [-2.0], "b0": [1.0], "ell": [2], "G": ["exponential"]},
    "run": {"horizon": 4.0, "times": 5, "replicas": 2, "levels": 4},
}
TRANSIENT = {
    "name": "t",
    "study": "transient",
    "seed": 1,
    "grid": {"N": [20], "d": [1], "lam": [0.5], "G": ["exponential"]},
    "run": {"horizon": 4.0, "times": 5, "replicas": 2, "levels": 4},
}
BY_STUDY = {"equilibrium": EQUILIBRIUM, "heavy-traffic": HEAVY, "transient": TRANSIENT}


def changed(tables, **changes):
    """The tables with dotted keys changed; None takes a key out."""
    tables = copy.deepcopy(tables)
    for path, value in changes.items():
        *above, key = path.split(".")
        table = tables
        for name in above:
            table = table[name]
        table[key] = value
        if value is None:
            del table[key]
    return tables


def faults(tables):
    with pytest.raises(SpecError) as caught:
        parse_spec(tables)
    return caught.value.errors


@pytest.mark.parametrize("study", BY_STUDY)
def test_every_study_reads_back_from_its_toml(study):
    spec = parse_spec(BY_STUDY[study])
    assert parse_spec(tomllib.loads(spec.to_toml())) == spec


def test_a_start_with_a_rest_of_mass_at_0_reads_back_from_toml():
    spec = parse_spec(changed(EQUILIBRIUM, **{"run.initial": "scaled(points(1: 0.9), m=4)"}))
    assert parse_spec(tomllib.loads(spec.to_toml())) == spec
    assert Cell(N=20, d=2, lam=0.5, G="exponential", initial="scaled(points(1: 0.9), m=4)").key in [
        case.key for case in spec.cells()
    ]


def test_the_limit_of_a_critical_network_is_built_once_for_a_case(monkeypatch):
    built = []
    monkeypatch.setattr(
        heavy_traffic, "as_start", lambda text, model: built.append(text) or as_start(text, model=model)
    )
    spec = parse_spec(changed(HEAVY, **{"grid.N": [20, 50], "run.initial": "stationary"}))
    assert len(built) == 2
    first, second = spec.cells()
    assert len(built) == 4
    assert first.limit == second.limit
    assert first.cell.initial.start == first.limit.initial


def test_batches_cut_what_the_warm_up_leaves():
    assert parse_spec(EQUILIBRIUM).edges.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_services_of_infinite_variance_start_invariant_and_are_compared_with_a_start_from_empty():
    spec = parse_spec(changed(EQUILIBRIUM, **{"grid.G": ["exponential", "lomax(beta=1.5)"], "grid.N": [20]}))
    starts = [(str(case.cell.G), case.group, str(case.cell.initial)) for case in spec.cells()]
    assert starts == [
        ("exponential", "equilibrium", "empty"),
        ("lomax(beta=1.5)", "equilibrium", "invariant"),
        ("lomax(beta=1.5)", "equilibrium_from_empty", "empty"),
    ]
    given = parse_spec(changed(EQUILIBRIUM, **{"grid.G": ["lomax(beta=1.5)"], "run.initial": "empty"}))
    assert {(case.group, str(case.cell.initial)) for case in given.cells()} == {("equilibrium", "empty")}


def test_an_invariant_state_is_shared_by_all_starts_arrivals_and_sizes():
    spec = parse_spec(
        changed(EQUILIBRIUM, **{"grid.G": ["lomax(beta=1.5)"], "run.arrivals": "deterministic"})
    )
    assert len({case.key for case in spec.cells()}) == 4
    assert len({case.limit.key for case in spec.cells()}) == 1


def test_critical_networks_have_the_rates_of_their_scale():
    (case,) = parse_spec(HEAVY).cells()
    assert math.isclose(case.cell.lam, 1.0 + (-2.0 + 1.0) / 5.0)
    assert math.isclose(case.cell.lam * case.cell.fraction, 1.0 / 5.0)
    assert (case.cell.d, case.cell.N, case.values) == (2, 20, (20, 25, -2.0, 1.0, 2, "exponential"))


def test_one_network_seen_at_two_scales_makes_two_cells():
    # λ and p depend on b1/√m and b0/√m alone, and both start empty.
    first = changed(HEAVY, **{"grid.m": [25], "grid.b1": [-2.0], "grid.b0": [1.0]})
    second = changed(HEAVY, **{"grid.m": [100], "grid.b1": [-4.0], "grid.b0": [2.0]})
    (a,), (b,) = parse_spec(first).cells(), parse_spec(second).cells()
    assert (a.cell.lam, a.cell.fraction) == (b.cell.lam, b.cell.fraction)
    assert a.key != b.key


@pytest.mark.parametrize(
    ("tables", "changes", "text"),
    [
        (EQUILIBRIUM, {"grid.lam": [1.0]}, "lam must be below 1 in equilibrium, got 1.0"),
        (EQUILIBRIUM, {"run.warmup": 4.0}, "run.warmup must be less than the horizon 4, got 4"),
        (EQUILIBRIUM, {"run.warmup": -1.0}, "run.warmup must be greater than or equal to 0, got -1.0"),
        (EQUILIBRIUM, {"run.warmup": None}, "run.warmup must be given, got none"),
        (EQUILIBRIUM, {"run.batches": 0}, "run.batches must be at least 1, got 0"),
        (
            EQUILIBRIUM,
            {"run.horizon": 1e9, "run.warmup": 1e9 - 1e-6, "run.batches": 99},
            "batches must be fewer in a time of 9.53674e-07 after 1e+09, got 99",
        ),
        (EQUILIBRIUM, {"run.measure": "yes"}, "run.measure must be true or false, got 'yes'"),
        (EQUILIBRIUM, {"run.times": 5}, "run.times is not a key of the spec"),
        (
            EQUILIBRIUM,
            {"run.arrivals": "profile(0: 1, 1: 0.5)"},
            "arrivals must be a law of gaps in equilibrium, got profile(0: 1, 1: 0.5)",
        ),
        (HEAVY, {"grid.ell": [1]}, "grid.ell must be at least 2, got 1"),
        (HEAVY, {"grid.b0": [-1.0]}, "b0 must be at least 0 for a network, got -1.0"),
        (HEAVY, {"grid.G": ["lomax(beta=1.5)"]}, "G must have finite variance in heavy traffic, got lomax"),
        (HEAVY, {"grid.m": [0]}, "grid.m must be at least 1, got 0"),
        (HEAVY, {"grid.b1": [float("nan")]}, "grid.b1 must be a finite number, got nan"),
        (HEAVY, {"grid.b1": [-9.0]}, "m must be at least b1² = 81 for a network, got 25"),
        (HEAVY, {"run.tagged": 21}, "tagged queues must be at most N = 20, got 21: give "),
        (HEAVY, {"run.fixed": [1.0] * 21}, "fixed queues must be at most N = 20, got 21: give "),
        (HEAVY, {"run.fixed": ["1"]}, "run.fixed must be a number, got '1'"),
        (HEAVY, {"grid.b1": [True]}, "grid.b1 must be a number, got true"),
        (HEAVY, {"run.tolerance": 1e-12}, "run.tolerance must be greater than or equal to 0.00000000001"),
        (HEAVY, {"run.replacement": False, "grid.ell": [21]}, "ell must be at most N without replacement"),
        (
            HEAVY,
            {"run.arrivals": "profile(0: 1, 2: 1.5)"},
            "arrivals must be a law of gaps in heavy traffic, got profile(0: 1, 2: 1.5)",
        ),
        (HEAVY, {"run.initial": "full"}, "initial must be a law of X_0, got 'full': write"),
        (HEAVY, {"run.initial": "statonary"}, "got 'statonary' (did you mean stationary?): write"),
        (HEAVY, {"run.initial": "stationary", "grid.b1": [-1.0]}, "b1 + b0"),
        (HEAVY, {"run.positions": [1.0, 0.5]}, "run.positions must be finite, not negative and increase"),
        (TRANSIENT, {"run.times": [0.0, 5e-324]}, "run.times must be 0 or at least 1e-200, got 4.94066e-324"),
        (TRANSIENT, {"run.horizon": 5e-324}, "run.times must be 0 or at least 1e-200, got 0"),
        (
            TRANSIENT,
            {"run.initial": "scaled(point(x=1), m=4)"},
            "initial must be empty, lengths(…) or invariant, got scaled(point(x=1.0), m=4): the limit does",
        ),
        (TRANSIENT, {"run.keep": "all"}, "run.keep must be 'paths' or 'errors', got 'all'"),
        (TRANSIENT, {"run.max_replicas": 9}, "max_replicas must come with target_stderr, got 9 alone"),
        (TRANSIENT, {"run.target_stderr": 0.1}, "max_replicas must be given with target_stderr"),
        (
            TRANSIENT,
            {"run.target_stderr": 0.1, "run.max_replicas": 1},
            "max_replicas must be at least replicas = 2, got 1",
        ),
        (
            TRANSIENT,
            {"run.target_stderr": 0.1, "run.max_replicas": 9, "run.replicas": 1},
            "replicas must be at least 2 with target_stderr, got 1",
        ),
        (
            TRANSIENT,
            {"run.target_stderr": 0.1, "run.max_replicas": 9, "run.target_quantity": "Y"},
            "target_quantity must be one of S, D, X, E,",
        ),
        (
            TRANSIENT,
            {"run.target_stderr": 0.1, "run.max_replicas": 9, "run.target_quantity": "S_supp"},
            "S_sup, got 'S_supp' (did you mean S_sup?)",
        ),
        (
            TRANSIENT,
            {"run.target_stderr": 0.1, "run.max_replicas": 9, "run.routing": "shortest"},
            "target_quantity must be one of S, D, X, E, R_E, longest, got 'S_sup' by default, which this",
        ),
        (
            TRANSIENT,
            {"run.target_stderr": 0.1, "run.max_replicas": 9, "run.target_quantity": "d_S"},
            "target_quantity must be one of S, D, X, E,",
        ),
    ],
)
def test_a_fault_is_named_with_its_value(tables, changes, text):
    (line,) = faults(changed(tables, **changes))
    assert text in line


@pytest.mark.parametrize(
    ("tables", "changes", "text"),
    [
        (
            TRANSIENT,
            {"run.ages": [0.0, 1.0]},
            "ages must come with snapshots, at whose times they are looked at, got [0.0, 1.0] alone",
        ),
        (
            TRANSIENT,
            {"run.ages": [0.0, 1.0], "run.snapshots": []},
            "ages must come with snapshots, at whose times they are looked at, got [0.0, 1.0] alone",
        ),
        (
            TRANSIENT,
            {"run.keep": "errors", "run.routing": "shortest"},
            'keep must be "paths" with routing = "shortest", which has no limit to be at a distance from, '
            'got "errors": leave keep out',
        ),
        (
            TRANSIENT,
            {"run.tolerance": 1e-5, "run.routing": "idle"},
            'tolerance must be left out with routing = "idle", which has no limit to solve, got 1e-05',
        ),
        (
            EQUILIBRIUM,
            {"run.tolerance": 1e-5},
            "tolerance must be left out in equilibrium, got 1e-05: invariant states are always solved as",
        ),
        (
            TRANSIENT,
            {"run.replacement": False, "run.routing": "round-robin"},
            'replacement must be true with routing = "round-robin", which samples no queues, got false',
        ),
        (
            HEAVY,
            {"run.tagged": 8, "run.keep": "errors"},
            'tagged must be 0 or left out with keep = "errors", which stores no lengths, got 8',
        ),
    ],
)
def test_a_key_that_another_makes_useless_is_refused(tables, changes, text):
    (line,) = faults(changed(tables, **changes))
    assert text in line


@pytest.mark.parametrize(
    ("tables", "changes", "keys"),
    [
        (
            TRANSIENT,
            {"run.routing": "idle", "run.keep": "errors", "run.tolerance": 1e-5},
            ["run.tolerance", "run.keep"],
        ),
        (
            TRANSIENT,
            {"run.routing": "shortest", "run.replacement": False, "run.fraction": 0.5, "grid.d": [2]},
            ["run.fraction", "run.replacement", "grid.d"],
        ),
        (
            EQUILIBRIUM,
            {
                "run.routing": "shortest",
                "run.replacement": False,
                "run.initial": "invariant",
                "grid.lam": [2.0],
            },
            ["run.replacement", "run.initial", "grid.lam"],
        ),
        (
            EQUILIBRIUM,
            {"run.max_replicas": 9, "run.target_relative": True, "run.tolerance": 1e-5, "grid.lam": [1.0]},
            ["run.target_relative", "run.max_replicas", "run.tolerance", "grid.lam"],
        ),
        (
            EQUILIBRIUM,
            {"run.target_stderr": 0.1, "run.replicas": 1, "run.arrivals": "profile(0: 1, 1: 0.5)"},
            ["run.max_replicas", "run.replicas", "run.arrivals"],
        ),
        (
            HEAVY,
            {"run.target_stderr": 0.1, "run.target_quantity": "x", "grid.G": ["lomax(beta=1.5)"]},
            ["run.max_replicas", "grid.G"],
        ),
        (
            HEAVY,
            {"run.target_stderr": 0.1, "run.max_replicas": 9, "run.target_quantity": "x", "grid.m": [1]},
            ["grid.m", "run.target_quantity"],
        ),
        (HEAVY, {"run.target_stderr": 0.1, "grid": None}, ["run.max_replicas", "grid"]),
    ],
)
def test_all_faults_of_keys_and_cells_together_are_told_at_once_and_equal_ones_once(tables, changes, keys):
    lines = faults(changed(tables, **changes))
    assert [line.split()[0] for line in lines] == keys


@pytest.mark.parametrize(
    ("tables", "changes"),
    [
        (TRANSIENT, {"run.ages": [0.0, 1.0], "run.snapshots": [2.0]}),
        (TRANSIENT, {"run.tolerance": 1e-5, "run.keep": "errors"}),
        (TRANSIENT, {"run.routing": "idle", "run.replacement": False}),
        (EQUILIBRIUM, {"run.tolerance": TOLERANCE}),
        (HEAVY, {"run.tagged": 8}),
        (HEAVY, {"run.tagged": 0, "run.keep": "errors"}),
    ],
)
def test_the_same_keys_are_taken_where_they_count(tables, changes):
    spec = parse_spec(changed(tables, **changes))
    assert parse_spec(tomllib.loads(spec.to_toml())) == spec


def test_networks_without_a_limit_start_from_any_state_of_queues():
    start = "scaled(point(x=1), m=4)"
    assert parse_spec(changed(TRANSIENT, **{"run.routing": "shortest", "run.initial": start})).run.initial
    assert parse_spec(changed(EQUILIBRIUM, **{"run.initial": start})).cells()[0].limit is not None


def test_a_critical_network_may_be_seen_at_time_0_alone():
    spec = parse_spec(changed(HEAVY, **{"run.times": [0.0]}))
    assert (
        spec.positions.tolist() == parse_spec(changed(HEAVY, **{"run.times": [0.0, 4.0]})).positions.tolist()
    )


def test_errors_alone_need_little_room():
    paths = make_plan(parse_spec(TRANSIENT)).stored_bytes
    errors = make_plan(parse_spec(changed(TRANSIENT, **{"run.keep": "errors"}))).stored_bytes
    assert errors < paths
    limit = 5 * (3 * 4 + 3)  # S, S_error and D over levels, X, E and virtual_wait
    assert errors == 8 * (2 * 2 + limit)  # S_sup and longest


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_specs_of_their_own_name(name):
    spec = parse_spec(tomllib.loads(example(name)))
    assert spec.name == name
    assert make_plan(spec).seconds < 600.0


def test_an_unknown_example_is_refused():
    with pytest.raises(ValueError, match=r"NAME must be one of quickstart, ages, .*, got 'x'"):
        example("x")


def test_the_example_of_the_quickstart_is_the_one_that_the_demo_runs():
    root = Path(__file__).parents[1]
    assert (root / "examples" / "quickstart.toml").read_text(encoding="utf-8") == example("quickstart")


def test_the_reference_is_that_of_the_code_and_says_what_every_key_means():
    text = spec_reference()
    assert (Path(__file__).parents[1] / "docs" / "spec.md").read_text(encoding="utf-8") == text
    for study, model in STUDIES.items():
        part = text.split(f'## study = "{study}"')[1].split("\n## ")[0]
        for table in model.tables().values():
            for key, item in table.model_fields.items():
                assert f"| `{key}` |" in part
                assert item.description or key == "study", (study, key)


def test_a_case_may_have_replicas_of_its_own_even_at_a_point_of_the_grid():
    point = {"d": 1, "lam": 0.5, "G": "exponential"}
    cases = [{"N": 20, **point, "replicas": 5}, {"N": 30, **point}]
    spec = parse_spec({**TRANSIENT, "cases": cases})
    assert [(case.values[0], case.replicas) for case in spec.cells()] == [(20, 5), (30, 2)]
    assert make_plan(spec).missing_replicas == 7
    assert spec.most_replicas == 5
    assert parse_spec(tomllib.loads(spec.to_toml())) == spec
    target = changed(TRANSIENT, **{"run.target_stderr": 0.1, "run.max_replicas": 4})
    (line,) = faults({**target, "cases": cases[:1]})
    assert line == "cases[0].replicas must lie between 2 and max_replicas = 4, got 5"
