"""Phase-type laws, traces and frozen scipy.stats laws: what the common tests of all laws leave out."""

from __future__ import annotations

import math
import pickle
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import linalg, stats

from sweep.laws import Exponential, Law, PhaseType, Trace, as_law, parse_law, trace_file
from sweep.laws.frozen import from_scipy
from tests.laws_table import TIMES, phase_types, trace_of, traces

FUNCTIONS = (
    "survival",
    "survival_left",
    "log_survival",
    "density",
    "integral",
    "double_integral",
    "integrated_tail",
)


def erlang(k: int) -> PhaseType:
    return PhaseType(alpha=np.eye(k)[0], T=k * (np.eye(k, k=1) - np.eye(k)))


def refusal(message: str) -> str:
    return "^" + re.escape(message) + "$"


# ---- phase types: functions of age


@pytest.mark.parametrize("k", [1, 2, 7, 20])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_erlang_as_phases_is_erlang(k: int, function: str) -> None:
    # The references themselves are good to 1e-13 where their logarithm is in the hundreds.
    ages = np.concatenate([[0.0], np.geomspace(1e-6, 600.0 / k, 150), [1e4, 1e9, 1e18, 1e100]])
    expected = getattr(parse_law(f"erlang(k={k})"), function)(ages)
    assert_allclose(getattr(erlang(k), function)(ages), expected, rtol=2e-13, atol=1e-290)


@pytest.mark.parametrize("k", [3, 20, 50])
@pytest.mark.parametrize("x", [0.01, 1.0, 3.0, 30.0, 3000.0, 1e6, 1e12])
def test_erlang_as_phases_is_the_poisson_sums_in_rational_arithmetic(k: int, x: float) -> None:
    terms = [(Fraction(x) * k) ** j / math.factorial(j) for j in range(k)]
    survival, tail = sum(terms), sum(term * (k - j) for j, term in enumerate(terms)) / k
    law = erlang(k)
    if x >= 1.0:
        assert_allclose(law.log_survival(x), _log(survival) - k * x, rtol=1e-15, atol=1e-15)
    if k * x < 600.0:
        assert_allclose(law.survival(x), math.exp(_log(survival) - k * x), rtol=3e-13)
        assert_allclose(law.integrated_tail(x), math.exp(_log(tail) - k * x), rtol=3e-13)


def _log(value: Fraction) -> float:
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    return math.log(value / Fraction(2) ** shift) + shift * math.log(2.0)


@pytest.mark.parametrize("x", [1e-9, 1e-3, 1.0, 1e3, 1e5, 1e9])
def test_rates_a_million_apart_keep_relative_accuracy(x: float) -> None:
    # Half of the mean from each branch: rates 2 · 0.999999 and 2e-6.
    law = PhaseType(alpha=[0.999999, 1e-6], T=[[-1.999998, 0], [0, -2e-6]])
    fast, slow = math.exp(-1.999998 * x), math.exp(-2e-6 * x)
    assert_allclose(law.survival(x), 0.999999 * fast + 1e-6 * slow, rtol=1e-14 + 2e-22 * x)
    assert_allclose(law.integrated_tail(x), 0.5 * fast + 0.5 * slow, rtol=1e-14 + 2e-22 * x)
    assert_allclose(law.integral(x), -0.5 * (math.expm1(-1.999998 * x) + math.expm1(-2e-6 * x)), rtol=2e-15)
    assert_allclose(
        law.log_survival(x),
        math.log(1e-6) - 2e-6 * x
        if x >= 1e3
        else math.log1p(0.999999 * math.expm1(-1.999998 * x) + 1e-6 * math.expm1(-2e-6 * x)),
        rtol=1e-14,
    )


@settings(max_examples=60)
@given(law=phase_types(), x=st.floats(0.0, 20.0))
def test_functions_of_age_are_those_of_the_matrix_exponential(law: PhaseType, x: float) -> None:
    # Van Loan: the exponential of [[T, 1, 0], [0, 0, 1], [0, 0, 0]] holds e^{Tx} and its two integrals.
    size = law.start.size
    block = np.zeros((size + 2, size + 2))
    block[:size, :size], block[:size, size], block[size, size + 1] = law.generator, 1.0, 1.0
    power = linalg.expm(block * x)
    assert_allclose(law.survival(x), law.start @ power[:size, :size].sum(axis=1), rtol=1e-9, atol=1e-12)
    assert_allclose(law.density(x), law.start @ power[:size, :size] @ law.exits, rtol=1e-9, atol=1e-11)
    assert_allclose(law.integral(x), law.start @ power[:size, size], rtol=1e-9, atol=1e-12)
    assert_allclose(law.double_integral(x), law.start @ power[:size, size + 1], rtol=1e-9, atol=1e-12)
    moment = law.start @ np.linalg.solve(law.generator, np.linalg.solve(law.generator, np.ones(size)))
    assert_allclose(law.variance, 2.0 * moment - 1.0, rtol=1e-7, atol=1e-9)
    transform = law.start @ np.linalg.solve(x * np.eye(size) - law.generator, law.exits)
    assert_allclose(law.transform(x), transform, rtol=1e-9)


@settings(max_examples=40)
@given(law=phase_types())
def test_the_far_tail_decays_at_the_largest_eigenvalue(law: PhaseType) -> None:
    decay = -np.linalg.eigvals(law.generator).real.max()
    x = 1e9 / decay
    slope = float(law.log_survival(x) - law.log_survival(2.0 * x)) / x
    assert_allclose(slope, decay, rtol=1e-7)


@given(law=phase_types())
def test_the_least_number_of_phases_is_the_power_at_the_origin(law: PhaseType) -> None:
    power = [float(law.start @ np.linalg.matrix_power(law.generator, k) @ law.exits) for k in range(4)]
    first = int(law.origin_exponent) - 1
    assert power[first] > 0.0
    scale = [float(law.start @ np.linalg.matrix_power(abs(law.generator), k) @ law.exits) for k in range(4)]
    assert all(abs(power[k]) <= 1e-12 * scale[k] for k in range(first))


def test_a_mean_within_a_millionth_of_1_becomes_1() -> None:
    law = PhaseType(alpha=[1], T=[[-1.0000005]])
    assert str(law) == "phase_type(alpha=[1], T=[[-1.0000005]])"
    assert law.generator.tolist() == [[-1.0]]
    ages = np.linspace(0.0, 5.0, 11)
    assert_allclose(law.survival(ages), Exponential().survival(ages), rtol=1e-15)


def test_thirds_to_twelve_digits_add_up() -> None:
    law = PhaseType(alpha=[1 / 3, 1 / 3, 1 / 3], T=[[-1, 1 / 3, 2 / 3], [0.5, -1, 0.5], [0, 0, -0.5]])
    third = (
        parse_law(
            "phase_type(alpha=[0.333333333333, 0.333333333333, 0.333333333333], "
            "T=[[-3.88888888889, 1.2962962963, 2.59259259259], [1.94444444444, -3.88888888889, 1.94444444444], "
            "[0, 0, -1.94444444444]])"
        )
        if law is None
        else law
    )
    assert third.start.sum() == 1.0
    assert third.exits.tolist()[:2] == [0.0, 0.0]


# ---- phase types: samples


def test_samples_of_a_chain_with_returns_follow_their_law_and_a_rate_five_percent_off_does_not() -> None:
    # Ḡ(x) by the matrix exponential; three phases with returns and two ways out.
    T = np.array([[-3.0, 2.0, 0.5], [1.0, -2.0, 0.5], [0.0, 0.75, -1.0]])
    alpha = np.array([0.2, 0.5, 0.3])
    mean = float(alpha @ np.linalg.solve(-T, np.ones(3)))
    law, size = PhaseType(alpha=alpha, T=T * mean), 400_000
    times = law.sample(np.random.default_rng(7), size)

    def largest_z(T: np.ndarray) -> float:
        scores = []
        for age in (0.05, 0.2, 0.7, 1.5, 3.0, 5.0):
            p = float(alpha @ linalg.expm(T * mean * age).sum(axis=1))
            scores.append(abs((times > age).sum() - size * p) / math.sqrt(size * p * (1.0 - p)))
        return max(scores)

    wrong = T.copy()
    wrong[2, 2] *= 1.05
    assert largest_z(T) <= 4.0
    assert largest_z(wrong) > 4.0


def test_a_choice_with_one_outcome_takes_no_random_number() -> None:
    # Two phases in succession from one start: as many exponentials as phases, and nothing else.
    times = erlang(2).sample(np.random.default_rng(3), 5)
    draws = np.random.default_rng(3).standard_exponential((5, 2)) * 0.5
    assert times.tolist() == (draws[:, 0] + draws[:, 1]).tolist()


# ---- phase types: text and errors


def test_phase_types_are_frozen_values_with_canonical_text() -> None:
    text = "phase_type(alpha=[0.5, 0.5], T=[[-1.5, 0], [0.5, -0.75]])"
    law = PhaseType(alpha=np.array([0.5, 0.5]), T=[[-1.5, -0.0], (0.5, -0.75)])
    assert str(law) == text
    assert law == parse_law(" phase_type( T = [ [-15e-1,0],[+.5, -0.75] ] ,alpha=[.5,.50])")
    assert law == pickle.loads(pickle.dumps(law))
    assert law.identity == text
    assert len({law, parse_law(text)}) == 1


ROW = "alpha written as [a, b, …], 1 to 50 finite numbers a row"
SQUARE = "T written as [[a, b, …], [c, d, …], …], 1 to 50 finite numbers a row"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("alpha=[1, T=[[-1]]", None),
        ("alpha=1, T=[[-1]]", f"must have {ROW}"),
        ("alpha=[], T=[[-1]]", f"must have {ROW}"),
        ("alpha=[1], T=[-1]", f"must have {SQUARE}"),
        ("alpha=[1], T=[[-1], [0, -1]]", f"must have {SQUARE}"),
        ("alpha=[1], T=[[[-1]]]", f"must have {SQUARE}"),
        ("alpha=[1], T=[[]]", f"must have {SQUARE}"),
        ("alpha=[1], T=[[nan]]", f"must have {SQUARE}"),
        ("alpha=[[1]], T=[[-1]]", f"must have {ROW}"),
        ("alpha=[one], T=[[-1]]", f"must have {ROW}"),
        ("alpha=[1]", "must give T"),
    ],
)
def test_brackets_that_do_not_fit_are_refused(arguments: str, message: str | None) -> None:
    text = f"phase_type({arguments})"
    rule = message or f"must give parameters as name=number, got {arguments!r} in"
    with pytest.raises(ValueError, match="^G " + re.escape(rule)) as caught:
        parse_law(text)
    assert repr(text) in str(caught.value)


def test_deep_brackets_are_no_number() -> None:
    with pytest.raises(ValueError, match=r"^G must have alpha written as "):
        parse_law("phase_type(alpha=" + "[" * 5000 + "]" * 5000 + ", T=[[-1]])")


@pytest.mark.parametrize(
    ("alpha", "T", "message"),
    [
        ([1], [[-1, 0], [0, -1]], "T must have a row and a column for each entry of alpha, got 2 × 2 with 1"),
        ([0.6, 0.5], [[-1, 0], [0, -1]], "alpha must sum to 1 (no mass at age 0), got sum 1.1"),
        ([0.9], [[-1]], "alpha must sum to 1 (no mass at age 0), got sum 0.9"),
        ([1.5, -0.5], [[-1, 0], [0, -1]], "alpha must have entries 0 or from 1e-12 to 1, got 1.5"),
        ([1], [[0]], "T must have a diagonal from -1e9 to -1e-9, got 0.0 in row 1"),
        (
            [0.5, 0.5],
            [[-1, 0], [-0.5, -1]],
            "T must be 0 or from 1e-9 to 1e9 off the diagonal, got -0.5 in row 2",
        ),
        ([0.5, 0.5], [[-1, 1.1], [0, -1]], "T must have row sums of at most 0, got 0.1 in row 1"),
        (
            [0.5, 0.5],
            [[-1, 0], [0.5, -0.5]],
            "T must give mean 1, got mean 2: multiply T by 2",
        ),
        ([1], [[-1.00001]], "T must give mean 1, got mean 0.9999900001: multiply T by 0.9999900001"),
        (
            [0.5, 0.5, 0],
            [[-2, 1, 0], [0, -1, 1], [0, 1, -1]],
            "T must lead from every phase to completion, got no way out of phase 2",
        ),
        (
            [1, 0],
            [[-1, 0], [1, -1]],
            "alpha and T must reach every phase, got phase 2 unreached: leave it out",
        ),
    ],
)
def test_matrices_that_are_no_law_are_refused(alpha: list[float], T: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=refusal(message)):
        PhaseType(alpha=alpha, T=T)
    with pytest.raises(
        ValueError, match=refusal(f"G must be a possible law, got 'x': {message}")[1:-1][-60:]
    ):
        parse_law(f"phase_type(alpha={alpha}, T={T})")


def test_the_factor_of_the_error_cures_it() -> None:
    T = np.array([[-3.0, 1.0], [0.7, -0.9]])
    with pytest.raises(ValueError, match="multiply T by ") as caught:
        PhaseType(alpha=[0.4, 0.6], T=T)
    PhaseType(alpha=[0.4, 0.6], T=T * float(str(caught.value).rpartition(" ")[2]))


@pytest.mark.parametrize("value", ["[1]", 1.0, None, [True], ["1"], [None]])
def test_values_that_are_no_rows_are_refused(value: object) -> None:
    message = f"alpha must be written as [a, b, …], 1 to 50 finite numbers a row, got {value!r}"
    with pytest.raises(TypeError, match=refusal(message)):
        PhaseType(alpha=value, T=[[-1]])


@pytest.mark.parametrize("value", [[math.inf], [], [0.0] * 51])
def test_rows_of_no_finite_numbers_or_too_many_are_refused(value: list[float]) -> None:
    message = f"alpha must be written as [a, b, …], 1 to 50 finite numbers a row, got {value!r}"
    with pytest.raises(ValueError, match=refusal(message)):
        PhaseType(alpha=value, T=[[-1]])


# ---- traces: functions of age


def exact(values: list[float], x: Fraction) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Ḡ, ∫_0^x Ḡ = E min(S, x), ∫∫ = (x² − E (x − S)⁺²)/2 … and E (S − x)⁺, in rational arithmetic."""
    times, n = [Fraction(value) for value in values], len(values)
    survival = Fraction(sum(time > x for time in times), n)
    single = sum(min(time, x) for time in times) / n
    double = sum(x * min(time, x) - min(time, x) ** 2 / 2 for time in times) / n
    return survival, single, double, sum(max(time - x, Fraction(0)) for time in times) / n


@given(law=traces(), x=st.floats(0.0, 30.0))
def test_functions_of_age_are_the_exact_means(law: Trace, x: float) -> None:
    ages = [x, *law.breakpoints, *(math.nextafter(age, 0.0) for age in law.breakpoints)]
    for age in ages:
        survival, single, double, tail = exact(law.values.tolist(), Fraction(age))
        assert law.survival(age) == float(survival)
        assert_allclose(law.integral(age), float(single), rtol=2e-15)
        assert_allclose(law.double_integral(age), float(double), rtol=4e-15)
        assert_allclose(law.integrated_tail(age), float(tail), rtol=2e-15, atol=1e-320)
        if survival > 0:
            assert_allclose(law.log_survival(age), math.log(survival), rtol=1e-14)
        else:
            assert law.log_survival(age) == -math.inf
    assert (law.density(ages) == 0.0).all()


def test_a_trace_jumps_at_its_numbers_and_merges_equal_ones() -> None:
    law = Trace(path=str(TIMES))
    assert [mass for _, mass in law.atoms] == [0.125, 0.25, 0.125, 0.25, 0.125, 0.125]
    assert_allclose(law.breakpoints, [0.17, 0.41, 0.63, 0.82, 1.17, 3.57], rtol=1e-15)
    assert law.support_end == law.breakpoints[-1]
    assert law.survival(law.breakpoints[1]) == 0.625
    assert law.survival_left(law.breakpoints[1]) == 0.875
    squares = [0.17**2, 2 * 0.41**2, 0.63**2, 2 * 0.82**2, 1.17**2, 3.57**2]
    assert_allclose(law.variance, sum(squares) / 8 - 1.0, rtol=1e-14)
    assert_allclose(law.transform(0.5), sum(m * math.exp(-0.5 * x) for x, m in law.atoms), rtol=1e-15)


def test_a_trace_of_one_number_is_deterministic() -> None:
    law, fixed = trace_of([7.3]), parse_law("deterministic")
    assert law.atoms == fixed.atoms
    assert law.variance == 0.0
    assert law.sample(np.random.default_rng(0), 3).tolist() == [1.0] * 3


def test_sums_over_many_numbers_do_not_drift() -> None:
    law = trace_of(np.random.default_rng(5).lognormal(0.0, 1.5, 100_000).tolist())
    for age in (0.1, 1.0, 10.0):
        inside = np.minimum(law.values, age).tolist()
        assert_allclose(law.integral(age), math.fsum(inside) / 100_000, rtol=2e-15)
        beyond = np.maximum(law.values - age, 0.0).tolist()
        assert_allclose(law.integrated_tail(age), math.fsum(beyond) / 100_000, rtol=2e-15)
        double = [age * value - value * value / 2.0 for value in inside]
        assert_allclose(law.double_integral(age), math.fsum(double) / 100_000, rtol=4e-15)


# ---- traces: samples


def largest_z(law: Trace, ages: tuple[float, ...], share: float, size: int = 400_000) -> float:
    """Largest |z| of the numbers of samples at each age, which should be a binomial share."""
    times = law.sample(np.random.default_rng(11), size)
    deviation = math.sqrt(size * share * (1.0 - share))
    return max(abs(int((times == age).sum()) - size * share) / deviation for age in ages)


def test_samples_are_equally_likely_numbers_and_a_share_five_percent_off_shows() -> None:
    numbers = [float(i) for i in range(1, 21)]
    fair = trace_of(numbers * 20)
    # 5 in place of one 4 and 16 in place of one 17: the same mean, and shares of 21 and 19 in 400.
    biased = trace_of([*(numbers * 19), *(n for n in numbers if n not in (4.0, 17.0)), 5.0, 16.0])
    assert biased.breakpoints == fair.breakpoints
    assert largest_z(fair, fair.breakpoints, 0.05) <= 4.0
    assert largest_z(biased, biased.breakpoints, 0.05) > 4.0


# ---- traces: identity


def test_a_trace_is_known_by_its_numbers_whatever_the_file(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "moved here.dat"
    first.write_text("1.5\n2.5\n8\n")
    second.write_text("# seconds\n8.0\n\n 15e-1 # first\r\n2.50")
    a, b = parse_law(f"trace({first})"), parse_law(f'trace( "{second}" )')
    assert a == b
    assert hash(a) == hash(b)
    assert a.identity == b.identity
    assert re.fullmatch(r"trace\(sha256:[0-9a-f]{64}\)", a.identity)
    assert (str(a), str(b)) == (f"trace({first})", f"trace({second})")
    assert a != trace_of([1.5, 2.5, 9.0])
    assert a != parse_law("exponential")
    np.save(tmp_path / "c.npy", np.array([[8.0], [2.5], [1.5]]))
    assert Trace(path=tmp_path / "c.npy") == a  # type: ignore[arg-type]
    first.write_text("1.5\n2.5\n9\n")
    edited = parse_law(f"trace({first})")
    assert edited.identity != a.identity
    assert edited == trace_of([9.0, 2.5, 1.5])


def test_whole_numbers_in_an_array_are_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.array([1, 2, 5]))
    assert Trace(path=str(tmp_path / "whole.npy")) == trace_of([1.0, 2.0, 5.0])


def test_a_trace_travels_without_its_file(tmp_path: Path) -> None:
    file = tmp_path / "times.txt"
    file.write_text("1\n2\n6\n")
    law = Trace(path=str(file))
    value = law.integral(1.0)
    sent = pickle.dumps(law)
    assert len(sent) < 600
    file.unlink()
    arrived = pickle.loads(sent)
    assert arrived == law
    assert str(arrived) == str(law)
    assert arrived.integral(1.0) == value
    draws = [copy.sample(np.random.default_rng(1), 9).tolist() for copy in (law, arrived)]
    assert draws[0] == draws[1]


def test_a_relative_path_starts_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "service.txt").write_text("3\n5\n")
    monkeypatch.chdir(tmp_path)
    assert str(parse_law("trace(data/service.txt)")) == "trace(data/service.txt)"
    assert str(parse_law("trace('data/service.txt')")) == "trace(data/service.txt)"


def test_spaces_at_the_ends_of_a_path_are_kept_by_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(" odd ").write_text("1\n")
    law = Trace(path=" odd ")
    assert str(law) == 'trace(" odd ")'
    assert parse_law(str(law)) == law


# ---- traces: errors


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\n\n-2\n", "line 3 must be a positive number, from 1e-100 to 1e100, got '-2'"),
        ("0\n", "line 1 must be a positive number, from 1e-100 to 1e100, got '0'"),
        ("1\nnan\n", "line 2 must be a positive number, from 1e-100 to 1e100, got 'nan'"),
        ("1e999\n", "line 1 must be a positive number, from 1e-100 to 1e100, got '1e999'"),
        ("# ok\n1, 2\n", "line 2 must be a positive number, from 1e-100 to 1e100, got '1, 2'"),
    ],
)
def test_lines_that_are_no_times_are_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "bad.txt"
    file.write_text(content)
    message = f"{file} {message}: correct it, leave it out or put # before it"
    with pytest.raises(ValueError, match=refusal(message)):
        Trace(path=str(file))
    text = f"trace({file})"
    with pytest.raises(
        ValueError, match=refusal(f"arrivals must be a possible law, got {text!r}: {message}")
    ):
        as_law(text, "arrivals")


@pytest.mark.parametrize("content", ["", "# nothing\n\n"])
def test_a_file_without_numbers_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "empty.txt"
    file.write_text(content)
    with pytest.raises(
        ValueError, match=refusal(f"{file} must hold at least one number, got none: write one a line")
    ):
        Trace(path=str(file))


def test_a_file_that_is_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    start = f"a relative path starts from {str(tmp_path)!r}"
    with pytest.raises(
        ValueError,
        match=refusal(f"path must name a readable file, got 'none': No such file or directory; {start}"),
    ):
        Trace(path="none")
    with pytest.raises(ValueError, match="got '.': Is a directory"):
        Trace(path=".")


def test_bytes_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "bytes.txt"
    file.write_bytes(b"\xff\xfe1\n")
    message = f"{file} must be text with one number a line or end in .npy, got bytes"
    with pytest.raises(ValueError, match=refusal(message)):
        Trace(path=str(file))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([1.0, 2.0, -1.0]), "entry 2 must be a positive number, from 1e-100 to 1e100, got -1.0"),
        (np.array([[1.0, np.inf]]), "entry 1 must be a positive number, from 1e-100 to 1e100, got inf"),
        (np.array([1.0, np.nan]), "entry 1 must be a positive number, from 1e-100 to 1e100, got nan"),
        (np.array(["1"]), "must be an .npy array of numbers, got type <U1"),
        (np.array([]), "must hold at least one number, got none"),
        (np.array([None]), "must be an .npy array of numbers, got another file: Object arrays cannot"),
    ],
)
def test_arrays_that_are_no_times_are_refused(tmp_path: Path, array: np.ndarray, message: str) -> None:
    file = tmp_path / "bad.npy"
    np.save(file, array)
    with pytest.raises(ValueError, match="^" + re.escape(f"{file} {message}")):
        Trace(path=str(file))


def test_a_file_that_is_no_array_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.npy"
    file.write_text("1\n2\n")
    with pytest.raises(
        ValueError, match=re.escape(f"{file} must be an .npy array of numbers, got another file")
    ):
        Trace(path=str(file))


@pytest.mark.parametrize("name", ["many.txt", "many.npy"])
def test_more_numbers_than_the_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(trace_file, "LARGEST", 3)
    file = tmp_path / name
    if name.endswith(".npy"):
        np.save(file, np.ones(4))
    else:
        file.write_text("1\n" * 4)
    got = "4" if name.endswith(".npy") else "more"
    message = f"{file} must hold at most 3 numbers, got {got}: keep every k-th"
    with pytest.raises(ValueError, match=refusal(message)):
        Trace(path=str(file))


@pytest.mark.parametrize("path", ["", "  ", "a(b).txt", "a\nb", 'a"b'])
def test_names_that_text_cannot_hold_are_refused(path: str) -> None:
    message = f"path must name a file, without parentheses, quotes and line ends, got {path!r}"
    with pytest.raises(ValueError, match=refusal(message)):
        Trace(path=path)


@pytest.mark.parametrize("path", [3, None, b"a"])
def test_paths_that_are_no_text_are_refused(path: object) -> None:
    with pytest.raises(TypeError, match=refusal(f"path must be text or a path, got {path!r}")):
        Trace(path=path)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["trace", "trace()", "trace( )"])
def test_a_trace_without_path_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"G must be a possible law, got {text!r}: path must name a file")
    ):
        parse_law(text)


def test_usage_of_a_trace_says_what_the_file_holds() -> None:
    assert Trace.usage() == (
        "trace(path) with path a file of positive numbers, one a line, or .npy, without parentheses"
    )


# ---- frozen scipy.stats laws


@pytest.mark.parametrize(
    ("frozen", "text"),
    [
        (stats.expon(), "exponential"),
        (stats.gamma(0.5, scale=2.0), "gamma(shape=0.5)"),
        (stats.gamma(a=2, scale=0.5), "gamma(shape=2)"),
        (stats.erlang(4, 0, 0.25), "erlang(k=4)"),
        (stats.lomax(1.5, scale=0.5), "lomax(beta=1.5)"),
        (stats.pareto(3.0, scale=2 / 3), "pareto(beta=3)"),
        (stats.weibull_min(0.5, scale=0.5), "weibull(shape=0.5)"),
        (stats.lognorm(s=1.5, scale=math.exp(-1.125)), "lognormal(sigma=1.5)"),
        (stats.uniform(0.5, 1.0), "uniform(width=1)"),
    ],
)
def test_frozen_laws_of_scipy_are_the_laws_of_the_same_survival(frozen: object, text: str) -> None:
    law = as_law(frozen)  # type: ignore[arg-type]
    assert str(law) == text
    assert isinstance(law, Law)
    ages = np.array([0.1, 0.7, 1.2, 4.0])
    assert_allclose(law.survival(ages), frozen.sf(ages), rtol=1e-12)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        (stats.gamma(2), "G must have mean 1, got scipy.stats.gamma of mean 2: use scale=0.5"),
        (stats.uniform(0, 1), "G must have mean 1, got scipy.stats.uniform of mean 0.5: centre it on 1"),
        (stats.expon(0.5, 0.5), "G must have loc 0, got scipy.stats.expon with loc 0.5"),
        (stats.lomax(0.9), "G must have mean 1, got scipy.stats.lomax of mean inf: use scale=0"),
        (
            stats.uniform(-1, 4),
            "G must be a possible law, got scipy.stats.uniform: width must be a number from 1e-06 to 2, got 4",
        ),
        (
            stats.fisk(3),
            "G must be one of scipy.stats expon, gamma, erlang, lomax, pareto, weibull_min, lognorm, uniform, "
            "got fisk: write other laws as phase_type(alpha=, T=) or as trace(path) of a file of samples",
        ),
    ],
)
def test_frozen_laws_that_are_none_here_are_refused(frozen: object, message: str) -> None:
    with pytest.raises(ValueError, match=refusal(message)):
        from_scipy(frozen)  # type: ignore[arg-type]
