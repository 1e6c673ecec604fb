"""Samples: their law with a twin that must fail, their bits whatever the buffers and the processor."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.laws import Law
from tests.laws_table import LAW_OF, LEVELS, REFERENCES, TEXTS
from tests.processors import WITHOUT_AVX512, printed

SIZE = 1_000_000
#: |z| allowed at each of the ten quantiles: exceeded with probability 6e-4 in a test of a right sampler.
BOUND = 4.0


def largest_z(times: np.ndarray, text: str) -> float:
    """Largest |z| of the numbers of times above the quantiles of the law that scipy.stats gives."""
    above = np.array([(times > age).sum() for age in REFERENCES[text].isf(LEVELS)])
    deviation = np.sqrt(times.size * LEVELS * (1.0 - LEVELS))
    return float(np.abs((above - times.size * LEVELS) / deviation).max())


def draw(law: Law, size: int, seed: int = 2019) -> np.ndarray:
    return law.sample(np.random.default_rng(seed), size)


@pytest.mark.parametrize("text", REFERENCES)
def test_samples_follow_the_law_and_five_percent_longer_ones_do_not(text: str) -> None:
    times = draw(LAW_OF[text], SIZE)
    assert (times >= 0.0).all()
    assert np.isfinite(times).all()
    assert largest_z(times, text) <= BOUND
    assert largest_z(1.05 * times, text) > BOUND


@pytest.mark.parametrize("text", REFERENCES)
def test_successive_samples_are_independent(text: str) -> None:
    times = draw(LAW_OF[text], SIZE)
    long = times > REFERENCES[text].isf(0.5)
    # Pairs (2i, 2i+1) are disjoint, so the number of pairs of two long times is binomial(SIZE/2, 1/4).
    both = int((long[::2] & long[1::2]).sum())
    assert abs(both - SIZE / 8) <= BOUND * math.sqrt(SIZE / 2 * 3 / 16)


def test_deterministic_samples_are_ones() -> None:
    assert (draw(LAW_OF["deterministic"], 5) == np.ones(5)).all()


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(0, 40), min_size=2, max_size=5), seed=st.integers(0, 2**32))
def test_samples_do_not_depend_on_the_sizes_of_buffers(text: str, sizes: list[int], seed: int) -> None:
    law, rng = LAW_OF[text], np.random.default_rng(seed)
    pieces = np.concatenate([law.sample(rng, size) for size in sizes])
    assert pieces.dtype == np.float64
    assert pieces.tobytes() == draw(law, sum(sizes), seed).tobytes()


def digests() -> str:
    """One line a law: hashes of its samples and of its functions of age."""
    # Quotients of whole numbers: np.geomspace itself depends on the processor.
    ages = np.array([i / 4096 for i in range(2048)] + [i / 64 for i in range(32, 2048)])
    lines = []
    for text, law in LAW_OF.items():
        parts = [
            draw(law, 20_000),
            *(
                getattr(law, name)(ages)
                for name in (
                    "survival",
                    "log_survival",
                    "density",
                    "integral",
                    "double_integral",
                    "integrated_tail",
                )
            ),
        ]
        lines.append(f"{text} " + " ".join(hashlib.sha256(part.tobytes()).hexdigest()[:16] for part in parts))
    return "\n".join(lines)


def test_bits_do_not_depend_on_avx512() -> None:
    program = "from tests.test_laws_sampling import digests; print(digests())"
    assert printed(program, environment=WITHOUT_AVX512).strip() == digests()
