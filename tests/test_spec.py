"""A spec is read whole, is canonical, and every fault of a bad one is named at once."""

import copy
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.errors import SpecError
from sweep.spec import parse_spec, read_spec
from sweep.studies.base import DEFAULT_LEVELS

GOOD = {
    "name": "small",
    "study": "transient",
    "seed": 1,
    "grid": {"N": [20, 50], "d": [1, 2], "lam": [0.5], "G": ["exponential", "erlang(k=2)"]},
    "run": {"horizon": 4.0, "times": 5, "levels": 4, "replicas": 3, "snapshots": [2.0, 4.0]},
}


def changed(**changes):
    """Return GOOD with dotted keys changed, e.g. changed(**{"grid.N": [0]})."""
    tables = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *tables_above, key = path.split(".")
        table = tables
        for name in tables_above:
            table = table[name]
        table[key] = value
    return tables


def faults(tables):
    with pytest.raises(SpecError) as caught:
        parse_spec(tables)
    return caught.value.errors


def test_a_good_spec_gives_every_cell_of_the_grid_once():
    cells = [case.cell for case in parse_spec(GOOD).cells()]
    assert len(cells) == 8
    assert len({cell.key for cell in cells}) == 8
    assert {(cell.N, cell.d, cell.lam, str(cell.G)) for cell in cells} == {
        (N, d, 0.5, G) for N in (20, 50) for d in (1, 2) for G in ("exponential", "erlang(k=2)")
    }


def test_a_count_of_times_covers_the_horizon_and_a_list_is_taken_as_it_is():
    assert parse_spec(GOOD).times.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    listed = changed(**{"run.times": [0.5, 3.0], "run.snapshots": [3.0]})
    assert parse_spec(listed).times.tolist() == [0.5, 3.0]


def test_equally_spaced_times_are_the_numbers_one_would_type():
    times = parse_spec(changed(**{"run.horizon": 10.0, "run.times": 101})).times
    assert times.tolist() == [float(f"{k / 10:.12g}") for k in range(101)]


def test_the_toml_of_a_spec_reads_back_to_it():
    spec = parse_spec(GOOD)
    assert parse_spec(tomllib.loads(spec.to_toml())) == spec


def test_infinity_and_any_character_survive_in_toml():
    spec = parse_spec(changed(name='\U0001f600 "quoted" \x7f', **{"run.ages": [0.0, 1.0, float("inf")]}))
    assert parse_spec(tomllib.loads(spec.to_toml())) == spec


@given(
    lam=st.lists(st.floats(0.01, 5.0), min_size=1, max_size=4),
    N=st.lists(st.integers(2, 10**6), min_size=1, max_size=4),
    seed=st.integers(0, 2**64),
)
def test_any_spec_reads_back_from_its_toml(lam, N, seed):
    spec = parse_spec(changed(**{"grid.lam": lam, "grid.N": N, "seed": seed}))
    assert parse_spec(tomllib.loads(spec.to_toml())) == spec


def test_two_ways_of_writing_a_number_are_one_grid_point():
    cells = parse_spec(changed(**{"grid.lam": [0.3, 3 * 0.1], "grid.N": [20, 20.0]})).cells()
    assert len(cells) == 4


def test_cases_add_points_to_the_grid_or_stand_alone():
    case = {"N": 7, "d": 3, "lam": 0.25, "G": "deterministic"}
    both = parse_spec({**GOOD, "cases": [case, {"N": 20, "d": 1, "lam": 0.5, "G": "exponential"}]})
    assert len(both.cells()) == 9
    alone = {key: value for key, value in GOOD.items() if key != "grid"}
    assert [case.cell.N for case in parse_spec({**alone, "cases": [case]}).cells()] == [7]


def test_what_may_grow_is_not_in_the_frame():
    frame = parse_spec(GOOD).frame()
    assert "replicas" not in frame
    assert "grid" not in frame
    assert frame == parse_spec(changed(**{"run.replicas": 9, "grid.N": [5]})).frame()
    assert frame != parse_spec(changed(**{"run.horizon": 5.0})).frame()


def test_levels_have_a_stated_default():
    tables = copy.deepcopy(GOOD)
    del tables["run"]["levels"]
    assert parse_spec(tables).run.levels == DEFAULT_LEVELS


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("study", "transientt", "heavy-traffic, got 'transientt' (did you mean transient?)"),
        ("seed", -1, "seed must be at least 0, got -1"),
        ("seed", 1.5, "seed must be a whole number, got 1.5"),
        ("name", "", "name must have at least 1 character, got ''"),
        ("grid.N", [0], "grid.N must be at least 1, got 0"),
        ("grid.N", [], "grid.N must have at least one value, got []"),
        ("grid.N", [True], "grid.N must be a whole number, got true"),
        ("grid.d", [1.5], "grid.d must be a whole number, got 1.5"),
        ("grid.lam", [-0.5], "grid.lam must be positive and finite, got -0.5"),
        ("grid.lam", [float("nan")], "grid.lam must be positive and finite, got nan"),
        ("grid.lam", ["fast"], "grid.lam must be a number, got 'fast'"),
        ("grid.G", ["exponental"], "did you mean 'exponential'?"),
        ("grid.n", [20], "grid.n is not a key of the spec (did you mean N?); keys here: N, d, lam, G"),
        ("run.times", [2.0, 1.0], "run.times must increase, got 1 after 2"),
        ("run.times", [0.0, 5.0], "times must not be later than the horizon 4, got 5"),
        ("run.times", 1, "run.times must be at least 2, got 1"),
        ("run.snapshots", [5.0], "snapshots must not be later than the last stored time 4, got 5"),
        ("run.times", [0.0, 3.0], "snapshots must not be later than the last stored time 3, got 4"),
        ("run.times", ["0", "1"], "run.times must be numbers, got ['0', '1']"),
        ("run.times", 10**11, "run.times must be at most 1000000, got 100000000000"),
        ("run.horizon", "5", "run.horizon must be a number, got '5'"),
        ("run.horizon", 1e300, "run.horizon must be less than or equal to 1000000000, got 1e+300"),
        ("run.replacement", "yes", "run.replacement must be true or false, got 'yes'"),
        ("run.levels", 10**12, "run.levels must be at most 10000, got 1000000000000"),
        ("grid.N", [2**33], "grid.N must be at most 4294967295, got 8589934592"),
        ("grid.N", [10**400], "grid.N must be at most 4294967295, got a number of 401 digits"),
        (
            "grid.lam",
            [10**400],
            "grid.lam must be a number that float64 can hold, got a number of 401 digits",
        ),
        ("grid.lam", [1e300], "grid.lam must be at most 1e+06, got 1e+300"),
        ("grid.d", [2**63], "grid.d must be at most 1000000, got 9223372036854775808"),
        ("run.ages", [1.0, 0.5], "ages must increase, got 0.5 after 1"),
        ("run.replicas", 0, "run.replicas must be at least 1, got 0"),
        ("study", ["transient"], "study must be one of transient, equilibrium, heavy-traffic, got ['trans"),
        ("name", 3, "name must be text, got 3"),
        ("run", [], "run must be a table, got []"),
        ("run.snapshots", 2.0, "run.snapshots must be a list, got 2.0"),
        ("cases", [3], "cases[0] must be a table, got 3"),
        ("run.horizon", 0.0, "run.horizon must be greater than 0, got 0.0"),
        ("run.fraction", 1.5, "run.fraction must lie in [0, 1], got 1.5"),
        ("run.initial", "full", "initial must be an initial state, got 'full': write"),
        ("run.initial", "invarient", "an initial state, got 'invarient' (did you mean invariant?): write"),
        ("run.initial", "length(2: 0.2)", "got 'length(2: 0.2)' (did you mean lengths?): write"),
        ("run.initial", "lengths", "initial must be an initial state, got 'lengths': write"),
        ("run.routing", "shortes", "round-robin, got 'shortes' (did you mean shortest?)"),
        ("run.keep", "Error", "run.keep must be 'paths' or 'errors', got 'Error' (did you mean errors?)"),
        ("run.method", "lump", "'lumped' or 'auto', got 'lump' (did you mean lumped?)"),
        ("run.arrivals", "poisson", "run.arrivals must name a law, got 'poisson'; choices: exponential, "),
        ("run.arrivals", "poisson", "trace(path), renewal(law, age=2), profile(0: 1, 5: 0.5)"),
        ("run.arrivals", "profle(0: 1)", "law, got 'profle(0: 1)' (did you mean 'profile'?); choices: "),
        ("run.arrivals", "renwal(erlang(k=2), age=1)", "(did you mean 'renewal'?); choices: exponential"),
    ],
)
def test_a_fault_is_named_with_its_value(path, value, text):
    (line,) = faults(changed(**{path: value}))
    assert text in line


def test_every_fault_is_listed_at_once():
    bad = {"grid.N": [0, 20], "run.replicas": -1, "study": "x", "run.levls": 3, "run.snapshots": [9.0]}
    assert len(faults(changed(**bad))) == 5


def test_a_fault_of_a_case_says_which_one_it_is():
    good = {"N": 20, "d": 1, "lam": 0.5, "G": "exponential"}
    lines = faults(changed(cases=[good, {**good, "N": 0, "lam": "fast", "G": "x", "speed": 1}]))
    assert lines[0] == "cases[1].N must be at least 1, got 0"
    assert lines[1] == "cases[1].lam must be a number, got 'fast'"
    assert lines[2].startswith("cases[1].G must name a law, got 'x'")
    assert lines[3].startswith("cases[1].speed is not a key of the spec")


def test_missing_tables_are_named():
    assert "run must be given, got none" in faults({"name": "x", "study": "transient", "seed": 1})
    lonely = {key: value for key, value in GOOD.items() if key != "grid"}
    assert faults(lonely) == ("grid must be given, got none: write a [grid] table or [[cases]]",)


def test_cells_that_cannot_be_are_named():
    lines = faults(changed(**{"run.replacement": False, "grid.d": [30], "grid.N": [20]}))
    assert lines == ("grid.d must be at most N without replacement, got d = 30 with N = 20",)
    lines = faults(changed(**{"run.initial": "lengths(1: 0.333)", "grid.N": [50]}))
    assert "run.initial must give whole numbers of queues" in lines[0]


def test_an_impossible_cell_says_whether_the_grid_or_which_case_makes_it():
    case = {"N": 20, "d": 30, "lam": 0.5, "G": "exponential"}
    lines = faults(
        changed(**{"run.replacement": False, "cases": [{**case, "d": 2}, case], "grid.d": [1, 60]})
    )
    assert lines == (
        "grid.d must be at most N without replacement, got d = 60 with N = 20",
        "grid.d must be at most N without replacement, got d = 60 with N = 50",
        "cases[1].d must be at most N without replacement, got d = 30 with N = 20",
    )


def test_one_table_of_cases_is_told_how_to_be_a_list():
    lines = faults(changed(cases={"N": 20, "d": 1, "lam": 0.5, "G": "exponential"}))
    assert lines == ("cases must be a list of tables, got one table: write [[cases]]",)


def test_values_are_shown_as_toml_writes_them():
    assert faults(changed(**{"run.snapshots": True})) == ("run.snapshots must be a list, got true",)
    assert faults(changed(**{"run.levels": [3, True]})) == (
        "run.levels must be a whole number, got [3, true]",
    )
    with pytest.raises(TypeError, match=r"got \(True,\)"):  # that of a program is Python's
        parse_spec((True,))


def test_a_file_that_is_no_toml_and_one_that_is_absent_are_named(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text("[grid]\nG = [exponential]\n")
    with pytest.raises(SpecError) as caught:
        read_spec(path)
    line = "in 'G = [exponential]': texts stand in quotes, numbers and true or false do not"
    assert caught.value.errors == (f"the spec must be TOML: Invalid value (at line 2, column 6), {line}",)
    path.write_text("[grid")
    with pytest.raises(SpecError, match=r"the spec must be TOML: .*\(at end of document\)$"):
        read_spec(path)
    with pytest.raises(SpecError) as caught:
        read_spec(tmp_path / "absent.toml")
    cure = "`sweep example` writes one"
    absent = f"the spec file must be readable text, got no such file or directory: {cure}"
    assert caught.value.errors == (absent,)
    with pytest.raises(SpecError, match=r"must be readable text, got a directory$"):
        read_spec(tmp_path)
    path.write_bytes(b"\xff")
    with pytest.raises(
        SpecError, match="the spec file must be readable text, got 'utf-8' codec can't decode"
    ):
        read_spec(path)


def test_a_relative_path_of_a_trace_starts_from_the_working_directory(tmp_path, monkeypatch):
    spec, here = tmp_path / "specs" / "spec.toml", tmp_path / "here"
    for folder in (spec.parent, here):
        folder.mkdir()
    spec.write_text(parse_spec(GOOD).to_toml().replace('"erlang(k=2)"', '"trace(times.txt)"'))
    (here / "times.txt").write_text("1\n3\n")
    monkeypatch.chdir(here)
    assert read_spec(spec).cells()[1].cell.G.variance == 0.25
    monkeypatch.chdir(spec.parent)
    with pytest.raises(SpecError, match="a relative path starts from"):
        read_spec(spec)


def test_values_are_plain_numbers():
    spec = parse_spec(changed(**{"grid.N": [np.int64(20)], "grid.lam": [np.float64(0.5)]}))
    assert type(spec.cells()[0].cell.N) is int
    assert type(spec.cells()[0].cell.lam) is float
