"""Serves the page to this machine's browsers: a few files from memory, and nothing else.

Every address begins with a secret that is new at each start, so no other user of the machine can
read a scenario. Requests must name this server as their host; a web site cannot make a browser do
that for it (DNS rebinding).
"""

from __future__ import annotations

import gzip
import json
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from narrows.errors import NarrowsError
from narrows.lab.build import SITE, described
from narrows.scenario import Example

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".wasm": "application/wasm",
}


class Served(NamedTuple):
    """A file, as it is sent."""

    type: str
    compressed: bytes


def site(scenario: Path | None = None, folder: Path = SITE) -> dict[str, Served]:
    """The files of the page by their path; a scenario becomes the first of its examples.

    Raises:
        NarrowsError: The page was not built.
        ScenarioError: The scenario cannot be read.
    """
    if not (folder / "engine.wasm").is_file() or not (folder / "index.html").is_file():
        raise NarrowsError(
            "this copy of narrows has no laboratory page; hint: run `make web` in the checkout, "
            "or install a wheel"
        )
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in _TYPES
    }
    if scenario is not None:
        example = Example(scenario.stem, f"{scenario.name}, yours", scenario)
        made = described(example)
        listed = json.loads(files["examples.json"])
        own = {"name": example.name, "title": example.title}
        others = [each for each in listed if each["name"] != example.name]
        files["examples.json"] = json.dumps([own, *others]).encode()
        files[f"examples/{example.name}.json"] = json.dumps(made).encode()
    return {
        name: Served(_TYPES[Path(name).suffix], gzip.compress(content, mtime=0))
        for name, content in files.items()
    }


class Server(ThreadingHTTPServer):
    """The page on a port of 127.0.0.1.

    Args:
        files: From `site`.
        port: 0 for any free one.

    Raises:
        NarrowsError: Another program has the port, or this user may not have it.
    """

    daemon_threads = True

    def __init__(self, files: dict[str, Served], port: int = 0) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            why = f"port {port}: cannot be used ({error.strerror}); hint: 0 takes any free one"
            raise NarrowsError(why) from None
        self.files = files
        self.secret = secrets.token_urlsafe(16)
        number = self.server_address[1]
        self.hosts = {f"127.0.0.1:{number}", f"localhost:{number}"}

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.secret}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 30

    def do_GET(self) -> None:
        """Sends a file."""
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        """Sends the head of one."""
        self._answer(with_content=False)

    def _answer(self, *, with_content: bool) -> None:
        path = self.path.partition("?")[0]
        begin = f"/{self.server.secret}/"
        served = None
        if self.headers.get("Host") in self.server.hosts and path.startswith(begin):
            served = self.server.files.get(path.removeprefix(begin) or "index.html")
        if served is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", served.type)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(served.compressed)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        if with_content:
            self.wfile.write(served.compressed)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the terminal is for people."""
