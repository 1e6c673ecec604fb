"""HTTP client of a Ray dashboard, the one port of a cluster that submitting and fetching need."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from sweep.errors import EngineError

#: Seconds that a head may take to answer.
PATIENCE = 60.0
_CONNECT = 10.0
_CHUNK = 1 << 20
#: Seconds after which a node cuts the transfer of a file, even while it is sent. Ray has no "never" here.
_TRANSFER = 86_400
#: What to think of a cluster without authentication.
OPEN = (
    "has no authentication: whoever reaches its ports can run programs there; start it with "
    "RAY_AUTH_MODE=token, or let a firewall keep others out"
)
#: What a connection that was kept open raises when the other side has closed it meanwhile.
_STALE = (
    http.client.RemoteDisconnected,
    BrokenPipeError,
    ConnectionResetError,
    http.client.CannotSendRequest,
)


class UnreachableError(EngineError):
    """No answer from the head: it is down, another address is meant, or a tunnel is missing."""


class RefusedError(EngineError):
    """The head answered with an error; `status` is HTTP's and `text` its body."""

    def __init__(self, what: str, status: int, text: str) -> None:
        self.status = status
        self.text = text.strip()
        last = self.text.splitlines()[-1] if self.text else "no reason given"
        super().__init__(f"the head refused {what}: {last} (HTTP {status})")


class Dashboard:
    """The dashboard of a cluster's head; a context manager that closes its connection.

    The token is sent only to a head that asks for one. Redirects are not followed, so it goes nowhere else.

    Parameters
    ----------
    address
        "http://HEAD:8265" or "https://…"; without a scheme, http.
    token
        Of a cluster that asks for one; by default `cluster_token()`.

    Attributes
    ----------
    address : str
        With its scheme.
    open : bool
        Whether the cluster lets everyone in.

    Raises
    ------
    ValueError
        The address is not of this form.
    EngineError
        The head does not answer, or asks for a token and there is none that can be sent.

    Examples
    --------
    >>> Dashboard("http://127.0.0.1:9")
    Traceback (most recent call last):
    ...
    sweep.engines.dashboard.UnreachableError: the head http://127.0.0.1:9 is unreachable ([Errno 111] ...
    """

    def __init__(self, address: str, *, token: str | None = None) -> None:
        self.address = check_address(address)
        self._connection: http.client.HTTPConnection | None = None
        self._headers: dict[str, str] = {}
        try:
            self.open = self._is_open()
            if not self.open:
                self._headers["Authorization"] = f"Bearer {self._token(token)}"
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str) -> Any:
        """Return what the head answers to a GET, JSON parsed."""
        return json.loads(self._answer("GET", path))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send JSON and return the answer, JSON parsed."""
        return json.loads(self._answer("POST", path, json.dumps(body).encode(), "application/json"))

    def put(self, path: str, content: bytes) -> None:
        """Send bytes."""
        self._answer("PUT", path, content)

    def delete(self, path: str) -> None:
        """Have the head forget `path`."""
        self._answer("DELETE", path)

    def exists(self, path: str) -> bool:
        """Tell whether the head knows of `path`."""
        try:
            self._answer("GET", path)
        except RefusedError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def stream(self, path: str, **query: str) -> Iterator[bytes]:
        """Yield the pieces of an answer, as sent; an answer cut short raises `UnreachableError`."""
        response = self._request("GET", f"{path}?{urlencode(query)}")
        try:
            while piece := response.read(_CHUNK):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error
        finally:
            if not response.isclosed():  # left early: what is still to come must not answer the next request
                self.close()

    def log_file(self, node: str, name: str) -> Iterator[bytes]:
        """Yield the bytes of a file (or of one behind a link) in the log folder of a node's Ray session."""
        return self.stream(
            "/api/v0/logs/file", node_id=node, filename=name, lines="-1", timeout=str(_TRANSFER)
        )

    def _answer(self, method: str, path: str, content: bytes = b"", kind: str = "") -> bytes:
        response = self._request(method, path, content, kind)
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error

    def _request(
        self, method: str, path: str, content: bytes = b"", kind: str = ""
    ) -> http.client.HTTPResponse:
        """Return the head's response, whose body is still to be read."""
        target = f"{urlsplit(self.address).path}{path}"
        kept = self._connection is not None
        try:
            try:
                response = self._send(method, target, content, kind)
            except _STALE:
                if not kept:
                    raise
                self.close()
                response = self._send(method, target, content, kind)
            if response.status == http.HTTPStatus.OK:
                return response
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error
        if response.status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            raise EngineError(
                f"the head {self.address} does not accept the token ({text.strip()}): set RAY_AUTH_TOKEN to "
                "the one that the cluster was started with"
            )
        raise RefusedError(f"{method} {path}", response.status, text)

    def _send(self, method: str, target: str, content: bytes, kind: str) -> http.client.HTTPResponse:
        if self._connection is None:
            parts = urlsplit(self.address)
            secure = parts.scheme == "https"
            make = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            self._connection = make(parts.netloc, timeout=_CONNECT)
            self._connection.connect()
            self._connection.sock.settimeout(PATIENCE)
        headers = {**self._headers, **({"Content-Type": kind} if kind else {})}
        self._connection.request(method, target, content or None, headers)
        return self._connection.getresponse()

    def _token(self, given: str | None) -> str:
        found = cluster_token() if given is None else given
        if found is None:
            raise EngineError(
                f"the head {self.address} asks for a token: set RAY_AUTH_TOKEN, or copy the file "
                "~/.ray/auth_token of the head to the same place here"
            )
        if not (found.isascii() and found.isprintable()):  # such a header would fail, and show the token
            raise EngineError(
                f"the token must be one line of ASCII characters, got {len(found)} characters, others among "
                "them: set RAY_AUTH_TOKEN to what `ray get-auth-token` prints"
            )
        return found

    def _is_open(self) -> bool:
        """Ask how the cluster authenticates, which it tells anyone; versions that cannot tell let all in."""
        try:
            return bool(self.get("/api/authentication_mode")["authentication_mode"] == "disabled")
        except RefusedError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return True
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise UnreachableError(
                f"{self.address} is no Ray dashboard: give the address that `ray start` or `ray up` shows "
                "for it, port 8265 unless chosen otherwise"
            ) from error

    def _lost(self, error: BaseException) -> UnreachableError:
        self.close()
        said = str(error) if str(error).isprintable() else "what answers there does not speak HTTP"
        port = urlsplit(self.address).port or 8265
        return UnreachableError(
            f"the head {self.address} is unreachable ({said}): is it up, and does its dashboard listen "
            f"on an address that can be reached from here, or through `ssh -L {port}:localhost:{port} HEAD`?"
        )


def check_address(address: str) -> str:
    """Return the address of a dashboard with its scheme, without the fragment that a browser shows.

    Raises
    ------
    ValueError
        It cannot be one, or holds a password or a query; a password is not repeated.

    Examples
    --------
    >>> check_address("head:8265/#/jobs")
    'http://head:8265'
    """
    full = address.strip() if "://" in address else f"http://{address.strip()}"
    if "@" in full:  # wherever it is: a password may hold a slash
        raise ValueError(
            "address must hold no user and password, got one with @: leave out what is before it, and give "
            "the cluster's token in RAY_AUTH_TOKEN"
        )
    full = full.partition("#")[0]
    if "?" in full:
        start = full.partition("?")[0]
        raise ValueError(f"address must have no query, got {start}?…: leave out the ? and what follows")
    try:
        parts = urlsplit(full)
        parts.path.encode("ascii")
        (parts.hostname or "").encode("idna")
        fits = parts.scheme in ("http", "https") and bool(parts.hostname)
        fits = fits and parts.port != 0 and not parts.netloc.endswith(":")
    except ValueError:  # a port that is no number, or a name that no machine can have
        fits = False
    if not fits or not full.isprintable() or " " in full:
        raise ValueError(
            f"address must be that of the head's dashboard, like http://HEAD:8265, got {address!r}"
        )
    return full.rstrip("/")


def cluster_token() -> str | None:
    """Return the token that Ray's own tools would send, None if there is none.

    It is sought where they look: RAY_AUTH_TOKEN, the file named by RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token.

    Raises
    ------
    EngineError
        The file cannot be read, or is no text.
    """
    if text := os.environ.get("RAY_AUTH_TOKEN", "").strip():
        return text
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    try:
        file = Path(named) if named else Path.home() / ".ray" / "auth_token"
        return file.read_text(encoding="utf-8").strip() or None
    except UnicodeDecodeError:  # whose own text would tell of the token
        raise EngineError(
            f"the token file {file} must be text, got bytes that are none: copy it anew from the head"
        ) from None
    except (OSError, RuntimeError) as error:
        if named:
            raise EngineError(
                f"the token file {named} (RAY_AUTH_TOKEN_PATH) cannot be read: {error}"
            ) from error
        return None
