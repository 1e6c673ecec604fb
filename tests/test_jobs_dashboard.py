"""Heads are found, or not, by the address and the token that are given."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.engines import jobs
from sweep.engines.dashboard import Dashboard, UnreachableError, check_address, cluster_token
from sweep.errors import EngineError
from tests.fake_head import Answer, FakeHead


@pytest.fixture
def head() -> Iterator[FakeHead]:
    with FakeHead() as fake:
        yield fake


@pytest.mark.parametrize(
    "address",
    [
        *["ray://head:10001", "ftp://head", "http://", "", "head:port", "http://head:99999999"],
        *[
            "http://[::1",
            "head /x",
            "http://head:0",
            "head:",
            "http://head/\u00fc",
            "http://" + 64 * "h",
            "head\n:8265",
        ],
    ],
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(
        ValueError, match="address must be that of the head's dashboard, like http://HEAD:8265"
    ):
        check_address(address)


def test_an_address_without_scheme_is_of_http() -> None:
    assert check_address("head:8265") == "http://head:8265"
    assert check_address("https://proxy/ray/") == "https://proxy/ray"


@pytest.mark.parametrize(
    "address", ["http://head:8265/#/jobs", "head:8265/#", "http://head:8265#/jobs/x?a=b", " head:8265/\n"]
)
def test_what_a_browser_shows_beyond_the_address_is_cut(address: str) -> None:
    assert check_address(address) == "http://head:8265"


def test_a_query_in_an_address_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"^address must have no query, got http://h/x\?…: leave out the \? and what follows$",
    ):
        check_address("h/x?token=secret#/jobs")


@given(st.text().map("\u00a7".__add__), st.sampled_from(["", "http://", "https://", "ftp://"]))
def test_a_password_in_an_address_is_refused_and_not_printed(secret: str, scheme: str) -> None:
    with pytest.raises(
        ValueError, match=r"^address must hold no user and password, got one with @: "
    ) as told:
        check_address(f"{scheme}me:{secret}@head:8265")
    assert secret not in str(told.value)


@given(st.text() | st.text("/:[]#?.h8 \u00fc%").map("http://h".__add__))
def test_any_text_is_an_address_or_refused_as_one(text: str) -> None:
    try:
        address = check_address(text)
    except ValueError as error:
        assert str(error).startswith("address must ")  # noqa: PT017 (a refusal is one of two good answers)
    else:
        assert address.startswith(("http://", "https://"))
        assert check_address(address) == address


def test_a_head_that_is_down_is_unreachable_with_a_cure() -> None:
    with pytest.raises(
        UnreachableError, match=r"the head http://127\.0\.0\.1:9 is unreachable .*ssh -L 9:localhost:9 "
    ):
        Dashboard("127.0.0.1:9")


def test_what_speaks_no_http_is_told_without_its_bytes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            line, _ = server.accept()
            with line:
                line.recv(1000)
                line.sendall(b"\0\0\x03\x04\0\x1b[31m\r\n")

        other = threading.Thread(target=answer)
        other.start()
        port = server.getsockname()[1]
        text = rf"unreachable \(what answers there does not speak HTTP\): .* -L {port}:localhost:{port} "
        with pytest.raises(UnreachableError, match=text):
            Dashboard(f"127.0.0.1:{port}")
        other.join()


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


@pytest.mark.parametrize(
    "token", ["zq1\nzq2", "zq1\r\nX: zq2", "zqh\u00efm", "\u043a\u043b\u044e\u0447", "zq\x00"]
)
@pytest.mark.parametrize("source", ["argument", "variable", "file"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_printed(
    head: FakeHead, token: str, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    if source == "variable":
        monkeypatch.setattr("os.environ", {"RAY_AUTH_TOKEN": token})  # the true one cannot hold a null
    if source == "file":
        (tmp_path / "token").write_text(token, encoding="utf-8", newline="")
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    head.answers["/api/authentication_mode"] = {"authentication_mode": "token"}
    with pytest.raises(
        EngineError,
        match=r"^the token must be one line of ASCII characters, got \d+ characters, others among",
    ) as told:
        head.connect(token if source == "argument" else None)
    assert not any(part in str(told.value) for part in (token, "zq"))


@pytest.mark.parametrize("named", [True, False])
def test_a_token_file_that_is_no_text_is_told_and_not_printed(
    named: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".ray" / "auth_token"
    file.parent.mkdir()
    file.write_bytes(b"secret\xff")
    if named:
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    with pytest.raises(
        EngineError, match=r"^the token file .*auth_token must be text, got bytes that are none"
    ) as told:
        cluster_token()
    assert "secret" not in str(told.value)
    assert "ff" not in str(told.value).replace(str(file), "")
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__


def test_a_file_may_take_a_day_to_arrive(head: FakeHead) -> None:
    head.files["big"] = b"x"
    assert b"".join(head.connect().log_file("n" * 8, "big")) == b"x"
    [seconds] = head.queries[-1]["timeout"]  # Ray's limit of the whole transfer, not of a pause in it
    assert int(seconds) == 24 * 60 * 60


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
