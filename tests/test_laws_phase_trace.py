"""Phase-type laws and traces: what the common tests of all laws leave out."""

from __future__ import annotations

import math
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import linalg

from sweep.laws import Exponential, PhaseType, Trace, parse_law
from sweep.wording import shown
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
    third, rate = 1.0 / 3.0, 47.0 / 15.0
    T = [[-rate, rate * third, rate * 2.0 * third], [rate / 2.0, -rate, rate / 2.0], [0.0, 0.0, -rate / 2.0]]
    law = parse_law(str(PhaseType(alpha=[third] * 3, T=T)))
    assert isinstance(law, PhaseType)
    assert law.start.tolist() == [third] * 3
    assert law.exits.tolist()[:2] == [0.0, 0.0]
    assert_allclose(law.exits[2], rate / 2.0, rtol=1e-12)


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
    text = "phase_type(alpha=[0.5, 0.5], T=[[-1.5, 0], [0.5, -1]])"
    law = PhaseType(alpha=np.array([0.5, 0.5]), T=[[-1.5, -0.0], (0.5, -1)])
    assert str(law) == text
    assert law == parse_law(" phase_type( T = [ [-15e-1,0],[+.5, -1.0] ] ,alpha=[.5,.50])")
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
    with pytest.raises(ValueError, match=f"^G must be a possible law, got .*: {re.escape(message)}$"):
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


@pytest.mark.parametrize("value", [[math.inf], [10**400], [], [0.0] * 51])
def test_rows_of_no_finite_numbers_or_too_many_are_refused(value: list[float]) -> None:
    message = f"alpha must be written as [a, b, …], 1 to 50 finite numbers a row, got {shown(value)}"
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
