"""Which cells of a sweep a run keeps to."""

from typing import Any

import numpy as np
import pytest
import xarray as xr

from sweep.selection import selection
from sweep.spec import parse_spec
from tests.test_spec import changed

SPEC = parse_spec(changed(**{"grid.lam": [0.3, 0.5]}))


@pytest.mark.parametrize(
    ("only", "count"),
    [
        ({}, 16),
        ({"N": 20}, 8),
        ({"N": [20, 50], "d": 1}, 8),
        ({"N": np.array([20, 50])}, 16),
        ({"lam": 0.1 + 0.2}, 8),
        ({"N": np.array(20)}, 8),
        ({"N": xr.DataArray([20]), "lam": xr.DataArray(0.3)}, 4),
        ({"G": "erlang( k=2.0 )", "lam": [0.3], "d": {1}, "N": np.int64(50)}, 1),
    ],
)
def test_one_value_stands_for_a_list_and_values_may_be_written_in_any_way(
    only: dict[str, Any], count: int
) -> None:
    assert sum(map(selection(SPEC, only), SPEC.cells())) == count


@pytest.mark.parametrize(
    ("only", "text"),
    [
        ({"m": 1}, r"only must name an axis \(N, d, lam, G\), got 'm'"),
        ({"N": [20, 21]}, r"only must name values of N in the spec \(20, 50\), got 21"),
        ({"lam": [[0.3]]}, r"only must name values of lam in the spec \(0.3, 0.5\), got \[0.3\]"),
        (
            {"lam": np.float32(0.3)},
            r"only must name values of lam in the spec \(0.3, 0.5\), got 0.30000001192",
        ),
        ({"d": True}, r"only must name values of d in the spec \(1, 2\), got True"),
        ({"G": "lognormal"}, r"only must name values of G in the spec \(.*\), got 'lognormal'"),
    ],
)
def test_what_no_cell_has_is_refused(only: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        selection(SPEC, only)
