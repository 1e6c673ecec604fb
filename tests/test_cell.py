"""Parameters are canonical, checked when made, and keyed by what defines the law alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.arguments import canonical
from sweep.arrivals import as_arrivals
from sweep.cell import Cell, Limit
from sweep.delayed import Delayed
from sweep.initial import Invariant, Lengths, Scaled, as_initial, parse_initial
from sweep.routing import chord_slope, phi
from sweep.seeds import Purpose, digest, stream
from tests.laws_table import laws
from tests.test_arrivals import profiles

BASE = {"N": 100, "d": 2, "lam": 0.3, "G": "exponential"}


@st.composite
def shares(draw, least=1):
    """Lengths or places, increasing, each with a share; quotients, the first of which may be left out."""
    weights = np.array(draw(st.lists(st.floats(1e-3, 1.0), min_size=2, max_size=5)))
    left_out = draw(st.integers(least, 1))
    return list(enumerate((weights / weights.sum()).tolist()[left_out:], start=1))


def lengths():
    return st.builds(Lengths, shares(least=0).map(tuple), st.sampled_from(["fresh", "equilibrium"]))


def scaled():
    """From every kind of law of X_0."""
    x = st.floats(0.01, 50.0)
    starts = st.one_of(
        st.sampled_from(["empty", "stationary(b1=-0.30000000000000004, b0=0.1, ell=2, sigma2=1.1)"]),
        x.map("point(x={!r})".format),
        shares().map(lambda pairs: f"points({', '.join(f'{0.1 * x!r}: {share!r}' for x, share in pairs)})"),
        x.map("law(lomax(beta=2.50), mean={!r})".format),
    )
    fixed = st.lists(x, max_size=3).map(tuple)
    return st.builds(Scaled, start=starts, m=st.floats(1.0, 1e6), exchangeable=st.booleans(), fixed=fixed)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("G", laws()),
        ("arrivals", profiles()),
        ("arrivals", st.builds(Delayed, laws(), st.none() | st.floats(0.0, 50.0))),
        ("initial", st.just(Invariant()) | lengths()),
        ("initial", scaled()),
    ],
    ids=["law", "profile", "delayed", "lengths", "scaled"],
)
@settings(max_examples=30)
@given(data=st.data())
def test_what_is_built_in_python_is_what_its_text_says(name, values, data):
    """Equal, of one text and of one key, hence with the same random streams."""
    value = data.draw(values)
    read = as_initial if name == "initial" else as_arrivals
    again = read(str(value))
    assert again == read(value)
    assert str(again) == str(read(value))
    direct, parsed = (Limit(**{"d": 2, "lam": 0.3, "G": "exponential", name: v}) for v in (value, str(value)))
    assert direct == parsed
    assert direct.key == parsed.key


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Lengths(((2, 0.1 + 0.2), (3, 0.7))), "lengths(2: 0.3, 3: 0.7)"),
        (Lengths(((1, 1.0 + 2e-16),)), "lengths(1: 1.0)"),
        (Scaled(start="points(1: 0.9)", m=0.1 + 0.2 + 1), "scaled(points(0.0: 0.1, 1.0: 0.9), m=1.3)"),
    ],
)
def test_starts_built_in_python_have_numbers_of_12_digits(value, text):
    assert str(value) == text
    assert parse_initial(text) == value


def test_the_key_does_not_depend_on_how_numbers_are_typed():
    assert Cell(**BASE).key == Cell(**{**BASE, "N": 100.0, "lam": 3 * 0.1, "d": True + 1}).key
    assert canonical(0.1 + 0.2) == 0.3


@pytest.mark.parametrize(
    "change",
    [
        {"N": 101},
        {"d": 3},
        {"lam": 0.31},
        {"G": "lomax(beta=1.5)"},
        {"arrivals": "deterministic"},
        {"initial": "lengths(1: 0.5)"},
        {"replacement": False},
        {"fraction": 0.5},
    ],
)
def test_every_law_defining_parameter_changes_the_key(change):
    assert Cell(**BASE).key != Cell(**{**BASE, **change}).key


def test_the_key_of_a_trace_is_that_of_what_the_file_holds(tmp_path):
    first, moved, edited = (tmp_path / name for name in ("a.txt", "b.txt", "c.txt"))
    first.write_text("1\n2\n3\n")
    moved.write_text("1.0\n2.0\n3.0\n")
    edited.write_text("1\n2\n4\n")
    keys = [Cell(**{**BASE, "G": f"trace({path})"}).key for path in (first, moved, edited)]
    assert keys[0] == keys[1] != keys[2]


def test_cells_of_different_N_share_their_limit():
    assert Cell(**BASE).limit.key == Cell(**{**BASE, "N": 10, "replacement": False}).limit.key
    assert Cell(**BASE).limit == Limit(d=2, lam=0.3, G="exponential")


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"N": 0}, ValueError, "N must be at least 1, got 0"),
        ({"N": True}, TypeError, "N must be a whole number, got True"),
        ({"d": "two"}, TypeError, "d must be a whole number, got 'two'"),
        ({"lam": 0.0}, ValueError, "lam must be positive and finite, got 0.0"),
        ({"lam": "0.5"}, TypeError, "lam must be a number, got '0.5'"),
        ({"fraction": -0.1}, ValueError, "fraction must lie in [0, 1], got -0.1"),
        ({"replacement": 1}, TypeError, "replacement must be true or false, got 1"),
        ({"replacement": False, "d": 101}, ValueError, "d must be at most N without replacement"),
        ({"initial": 3}, TypeError, "initial must be text or (lengths, ages), got 3"),
    ],
)
def test_an_impossible_parameter_is_named_with_its_value(change, error, text):
    with pytest.raises(error) as caught:
        Cell(**{**BASE, **change})
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("full", "must be an initial state, got 'full'"),
        ("lengths(2)", "must list length: proportion, got '2'"),
        ("lengths(2: x)", "must list length: proportion, got '2: x'"),
        ("lengths(2: 1e)", "must list length: proportion, got '2: 1e'"),
        ("lengths(2: 0.2, 2: 0.3)", "must name each length once, got 2 twice"),
        ("lengths(2: 1.2)", "must have proportions in [0, 1], got 1.2"),
        ("lengths(2: 0.7, 1: 0.7)", "must have proportions that sum to at most 1"),
    ],
)
def test_a_bad_initial_state_is_refused(text, fault):
    with pytest.raises(ValueError, match="initial") as caught:
        parse_initial(text)
    assert fault in str(caught.value)


def test_an_initial_state_reads_back_and_fills_the_queues_exactly():
    initial = parse_initial("lengths( 3:0.8 , 2: 0.20)")
    assert parse_initial(str(initial)) == initial
    assert initial.longest == 3
    assert sorted(initial.lengths(10).tolist()) == [2, 2] + [3] * 8
    assert initial.tails(4).tolist() == pytest.approx([1.0, 1.0, 0.8, 0.0], abs=1e-15)
    assert parse_initial("lengths(0: 1)") == parse_initial("empty")


def test_a_proportion_that_leaves_no_queue_is_refused():
    with pytest.raises(ValueError, match=r"initial must give whole numbers of queues.*N = 100"):
        parse_initial("lengths(2: 1e-4)").lengths(100)


def test_proportions_that_N_cannot_meet_are_refused():
    with pytest.raises(ValueError, match=r"initial must give whole numbers of queues.*N = 7"):
        parse_initial("lengths(2: 0.5)").lengths(7)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_the_chord_slope_is_the_difference_quotient_of_phi(d, fraction):
    x, y = 0.8, 0.3
    slope = (phi(x, d, fraction) - phi(y, d, fraction)) / (x - y)
    assert chord_slope(x, y, d, fraction) == pytest.approx(slope, rel=1e-14)
    tangent = (1 - fraction) + fraction * d * x ** (d - 1)
    assert chord_slope(x, x, d, fraction) == pytest.approx(tangent, rel=1e-14)


def test_streams_depend_on_seed_cell_replica_and_purpose_alone():
    key, other = digest("a"), digest("b")
    first = stream(1, key, 0, Purpose.ROUTING).integers(2**63, size=4).tolist()
    assert stream(1, key, 0, Purpose.ROUTING).integers(2**63, size=4).tolist() == first
    for seed, cell, replica, purpose in [
        (2, key, 0, Purpose.ROUTING),
        (1, other, 0, Purpose.ROUTING),
        (1, key, 1, Purpose.ROUTING),
        (1, key, 0, Purpose.SERVICES),
    ]:
        assert stream(seed, cell, replica, purpose).integers(2**63, size=4).tolist() != first


@given(
    seed=st.integers(0, 2**200), words=st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4),
    replica=st.integers(0, 2**70), purpose=st.sampled_from(Purpose),
)  # fmt: skip
def test_a_stream_is_that_of_numpys_seed_sequence_with_a_spawn_key(
    seed: int, words: list[int], replica: int, purpose: Purpose
) -> None:
    sequence = np.random.SeedSequence(seed, spawn_key=(*words, replica, int(purpose)))
    key = "".join(f"{word:08x}" for word in words)
    found = stream(seed, key, replica, purpose).bit_generator
    assert found.state == np.random.PCG64(sequence).state


def test_a_stream_takes_any_integer_from_0_on():
    drawn = [stream(number, digest("a"), number, Purpose.ROUTING).random() for number in (7, np.int8(7))]
    assert drawn[0] == drawn[1]
    for seed, replica in [(-1, 0), (0, np.int64(-1))]:
        with pytest.raises(ValueError, match="seed and replica must be at least 0, got -1"):
            stream(seed, digest("a"), replica, Purpose.ROUTING)


@pytest.mark.parametrize(
    ("ell", "exchangeable", "changed"), [(20, True, True), (2, True, False), (20, False, False)]
)
def test_cells_whose_draws_overflowed_have_another_key(
    monkeypatch: pytest.MonkeyPatch, ell: int, exchangeable: bool, changed: bool
) -> None:
    start = f"stationary(b1=-2, b0=1, ell={ell}, sigma2=2)"
    values = {"N": 10, "d": 2, "lam": 0.5, "G": "exponential"}
    cells = [Cell(**values, initial=Scaled(start=start, m=4, exchangeable=exchangeable)) for _ in range(2)]
    key = cells[0].key
    monkeypatch.setattr("sweep.diffusion.start.was_infinite", lambda _: False)
    assert (cells[1].key != key) is changed
