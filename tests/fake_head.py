"""A head that answers as told, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import sweep
from sweep.engines.dashboard import Dashboard
from sweep.engines.listing import Listing, window_name

#: Status and body.
Answer = tuple[int, bytes]
#: The store that jobs are about, as the head names it.
STORE = "/data/store"


class FakeHead:
    """Answers by path, as told, within a `with` block; keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {"/api/authentication_mode": {"authentication_mode": "disabled"}}
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.short: set[str] = set()  # files whose answer is cut
        self.posted: list[Any] = []
        self.queries: list[dict[str, list[str]]] = []
        self.clients = ExitStack()
        head = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                head.answer(self)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.clients.close()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def connect(self, token: str | None = None) -> Dashboard:
        """A client, closed at the end of the test."""
        return self.clients.enter_context(Dashboard(self.address, token=token))

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        self.asked.append((request.command, parts.path, request.headers.get("Authorization", "")))
        if request.command == "POST":
            self.posted.append(json.loads(body))
        self.queries.append(parse_qs(parts.query))
        name = self.queries[-1].get("filename", [""])[0]
        status, content = self.content(parts.path, name)
        request.send_response(status)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if name in self.short:
            self.short.discard(name)
            request.wfile.write(content[: len(content) // 2])
            request.close_connection = True
        else:
            request.wfile.write(content)

    def content(self, path: str, name: str) -> Answer:
        if path == "/api/v0/logs/file":
            return (200, self.files[name]) if name in self.files else (500, f"no file {name}".encode())
        if path not in self.answers:
            return 404, b"unknown"
        found = self.answers[path]
        if callable(found):  # with the method
            found = found(self.asked[-1][0])
        if isinstance(found, tuple):
            return found
        return 200, json.dumps(found).encode()

    def offer(self, store: Path, status: str = "RUNNING") -> None:
        """Let a store of this machine, or that there is none, be seen as `STORE` of a job."""
        logs = store.parent / "logs"
        logs.mkdir(exist_ok=True)
        listing = Listing(str(store), logs)
        listing.write()
        content = (logs / f"{listing.name}.json").read_bytes()
        self.files = {f"{window_name(STORE)}.json": content}
        for path in json.loads(content)["files"]:
            self.files[f"{window_name(STORE)}/{path}"] = (store / path).read_bytes()
        self.answers["/api/jobs/"] = [job_entry(status)]


def job_entry(status: str, name: str = "sweep-run-1", began: int = 1000) -> dict[str, Any]:
    return {
        "submission_id": name,
        "status": status,
        "message": "",
        "metadata": {"sweep": "run", "store": STORE},
        "driver_node_id": "n" * 8,
        "start_time": began,
        "end_time": None,
    }


def small_store(place: Path) -> Path:
    """A finished store of some shards."""
    spec = {
        "name": "small",
        "study": "transient",
        "seed": 1,
        "grid": {"N": [5, 10], "d": 2, "lam": 0.5, "G": "exponential"},
        "run": {"horizon": 1.0, "times": 3, "levels": 2, "replicas": 3},
    }
    sweep.run(spec, store=place, engine="serial")
    return place
