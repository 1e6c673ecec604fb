"""Answers of the report are far from what was expected by Student's t, on the degrees of freedom seen."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import xarray as xr

from analysis.fluctuations import ConstantFit
from analysis.heavy_traffic import MeanFit, PairCovariance, TwoTimes
from analysis.report_constants import _compared
from analysis.report_heavy_traffic import _mean, _two_times, covariances
from analysis.report_page import Draft, Standing, compared


@pytest.mark.parametrize(
    ("freedom", "z", "standing"),
    [
        (2.0, 100.0, Standing.AGREES), (2.0, 130.0, Standing.DIFFERS), (60.0, 4.2, Standing.AGREES),
        (60.0, 4.5, Standing.DIFFERS), (math.inf, 4.1, Standing.DIFFERS),
    ],
)  # fmt: skip
def test_an_exact_limit_is_far_by_the_degrees_of_freedom_of_the_error(
    freedom: float, z: float, standing: str
) -> None:
    # Student's t is as rarely beyond 125.6 and 4.30 with 2 and 60 degrees of freedom as a normal beyond 4.
    fit = ConstantFit(
        d=2, lam=0.9, G="exponential", constant="bias_X", value=4.0, value_stderr=0.1, value_lo=3.8,
        value_hi=4.2, second=1.0, p_value=0.5, N_min=32.0, dropped=0, n=64, exact=4.0, z=z, freedom=freedom,
    )  # fmt: skip
    sure = replace(fit, constant="variance_X", z=3.0, freedom=math.inf)
    assert _compared([fit, sure], "here").standing == standing


@pytest.mark.parametrize(
    ("freedom", "score", "standing"),
    [
        (1.0, 100.0, Standing.INCONCLUSIVE), (7.0, 4.5, Standing.INCONCLUSIVE),
        (7.0, 9.0, Standing.DIFFERS), (math.inf, 4.1, Standing.DIFFERS),
    ],
)  # fmt: skip
def test_results_of_few_replicas_are_far_by_the_degrees_of_freedom_in_heavy_traffic(
    freedom: float, score: float, standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Student's t is as rarely beyond 10,050 and 8.47 with 1 and 7 degrees of freedom as a normal beyond 4.
    place: dict[str, Any] = {
        "b1": -1.0,
        "b0": 0.0,
        "ell": 2,
        "G": "exponential",
        "N": 100,
        "freedom": freedom,
    }
    mean = MeanFit(
        **place, value=1.0 + 0.01 * score, stderr=0.01, slope=0.0, p_value=0.5, scales=(1, 4), limit=1.0,
        stationary=1.0,
    )  # fmt: skip
    assert _mean(mean).standing == standing
    twice = TwoTimes(
        **place, m=4, s=1.0, t=2.0, x=1.0, y=1.0, share=0.25 + 0.01 * score, stderr=0.01, limit=0.25,
        forgetful=0.25, n=8,
    )  # fmt: skip
    pair = PairCovariance(**place, m=4, t=2.0, covariance=0.01 * score, stderr=0.01, correlation=0.1, n=8)
    module = "analysis.report_heavy_traffic."
    monkeypatch.setattr(module + "two_times", lambda _: [twice])
    monkeypatch.setattr(module + "pair_covariances", lambda _: [pair])
    monkeypatch.setattr(module + "pairs_left_out", lambda _: "")
    draft = Draft()
    _two_times(xr.DataTree(), draft)
    covariances(xr.DataTree(), draft)
    seen = Standing.MEASURED if standing == Standing.DIFFERS else standing
    assert [one.standing for one in draft.answers] == [standing, seen]


@pytest.mark.parametrize(("quantile", "far"), [(4.303, 125.6), (2.0003, 4.302), (1.96, 4.0)])
def test_an_exponent_is_far_by_the_degrees_of_freedom_of_its_interval(quantile: float, far: float) -> None:
    # .975 quantiles of Student's t with 2, 60 and very many degrees of freedom.
    interval = 1 - 0.1 * quantile, 1 + 0.1 * quantile
    for side in (-1, 1):
        assert compared(1.0, 0.1, interval, 1 + side * 0.099 * far) == Standing.INCONCLUSIVE
        assert compared(1.0, 0.1, interval, 1 + side * 0.101 * far) == Standing.DIFFERS
