"""Heads are found, or not, by the address and the token that are given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweep.engines import jobs
from sweep.engines.dashboard import Dashboard, UnreachableError, check_address, cluster_token
from sweep.errors import EngineError
from tests.fake_head import Answer, FakeHead


@pytest.fixture
def head() -> Iterator[FakeHead]:
    with FakeHead() as fake:
        yield fake


@pytest.mark.parametrize(
    "address", ["ray://head:10001", "ftp://head", "http://", "", "head:port", "http://head:99999999"]
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(
        ValueError, match="address must be that of the head's dashboard, like http://HEAD:8265"
    ):
        check_address(address)


def test_an_address_without_scheme_is_of_http() -> None:
    assert check_address("head:8265") == "http://head:8265"
    assert check_address("https://proxy/ray/") == "https://proxy/ray"


def test_a_head_that_is_down_is_unreachable_with_a_cure() -> None:
    with pytest.raises(
        UnreachableError, match=r"the head http://127\.0\.0\.1:9 is unreachable .*ssh -L 8265"
    ):
        Dashboard("127.0.0.1:9")


@pytest.mark.parametrize("answer", [(200, b"<html>"), (200, b"{}"), (200, b"[]")])
def test_another_server_is_no_dashboard(head: FakeHead, answer: Answer) -> None:
    head.answers["/api/authentication_mode"] = answer
    with pytest.raises(UnreachableError, match="is no Ray dashboard: give the address that `ray start`"):
        head.connect()


def test_a_redirect_is_not_followed(head: FakeHead) -> None:
    head.answers["/api/authentication_mode"] = (302, b"elsewhere")
    with pytest.raises(EngineError, match=r"refused GET /api/authentication_mode: elsewhere \(HTTP 302\)"):
        head.connect()


def test_a_token_is_sent_only_to_a_head_that_asks(head: FakeHead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    head.answers["/api/jobs/"] = []
    assert jobs.jobs(head.connect()) == []
    assert {sent for _, _, sent in head.asked} == {""}
    head.answers["/api/authentication_mode"] = {"authentication_mode": "token"}
    jobs.jobs(head.connect())
    assert [sent for _, _, sent in head.asked[-2:]] == ["", "Bearer secret"]


def test_a_head_older_than_tokens_lets_all_in(head: FakeHead) -> None:
    del head.answers["/api/authentication_mode"]
    assert head.connect().open


def test_a_missing_and_a_wrong_token_are_told(
    head: FakeHead, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    head.answers["/api/authentication_mode"] = {"authentication_mode": "token"}
    with pytest.raises(EngineError, match="asks for a token: set RAY_AUTH_TOKEN, or copy the file"):
        head.connect()
    head.answers["/api/jobs/"] = (403, b"Forbidden: Invalid authentication token")
    with pytest.raises(EngineError, match=r"does not accept the token \(Forbidden: Invalid .*: set RAY_AUTH"):
        jobs.jobs(head.connect("wrong"))


def test_the_token_is_found_where_ray_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    assert cluster_token() is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("one\n")
    assert cluster_token() == "one"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "other"))
    with pytest.raises(EngineError, match=r"other \(RAY_AUTH_TOKEN_PATH\) cannot be read: "):
        cluster_token()
    (tmp_path / "other").write_text("two")
    assert cluster_token() == "two"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "three")
    assert cluster_token() == "three"
