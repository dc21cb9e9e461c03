"""Serves the page to this machine's browsers: a few files from memory.

If the page has a scenario with parts of the user's own, the server also runs its plans (native.py):
the browser has neither Python nor shared objects. It runs no other code than these parts. It also
does the page's jobs (jobs.py), for which browsers lack cores, root and Parquet.

Every address begins with a secret that is new at each start, so no other user of the machine can
read a scenario. Requests must name this server as their host; a web site cannot make a browser do
that for it (DNS rebinding). Whoever asks for a run must also be a page of this server.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import secrets
import select
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from narrows.errors import NarrowsError
from narrows.lab.build import BROTLI, HERE, RECORDED, SITE, command, described, described_with
from narrows.lab.jobs import MOST_BYTES, Busy, Jobs
from narrows.scenario import Example, Scenario

if TYPE_CHECKING:
    from narrows.backends.outside import Outside
    from narrows.lab.native import Processes

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".wasm": "application/wasm",
}


_MOST_BYTES = 64 << 20
"""The longest request for a run; a plan of 10,000 hosts has 8 MB."""
_MOST_RUNS = 8
"""The most runs and jobs at the same time. A page has up to six: its own run, one of A, of a seed
and of a query, a sweep or a kernel's run, and a run folder."""


class Served(NamedTuple):
    """A file, as it is sent."""

    type: str
    compressed: bytes
    """With gzip."""
    brotli: bytes | None = None
    """With Brotli, if the page was built with such a copy."""

    def encoded(self, accepted: str | None) -> tuple[str, bytes]:
        """The encoding that a browser prefers (RFC 9110, 12.5.3), and the bytes.

        Args:
            accepted: The request's `Accept-Encoding`. Without one, nothing is compressed.
        """
        weights = {"identity": 1e-4}
        for part in (accepted or "").lower().split(","):
            name, *parameters = (word.strip() for word in part.split(";"))
            weights[name] = _weight(parameters)
        given = {"br": self.brotli, "gzip": self.compressed, "identity": b""}
        other = weights.get("*", 0.0)
        # Of those with the same weight, the first.
        best = max(
            (name for name, content in given.items() if content is not None),
            key=lambda name: weights.get(name, other),
        )
        return best, given[best] or gzip.decompress(self.compressed)


def _weight(parameters: list[str]) -> float:
    """How much a browser wants an encoding; 0 if not at all."""
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def site(
    scenario: Path | Scenario | None = None, parts: Outside | None = None, folder: Path = SITE
) -> dict[str, Served]:
    """The files of the page by their path; it opens the scenario, the first of its examples.

    Args:
        scenario: A file, or a scenario.
        parts: Parts of the user's own that the scenario uses.
        folder: Where the built page is.

    Raises:
        NarrowsError: The page was not built, or a part cannot be used.
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
    copies = {
        name: copy.read_bytes() for name in files if (copy := folder / f"{name}{BROTLI}").is_file()
    }
    if scenario is not None:
        if isinstance(scenario, Scenario):
            path = Path(f"{scenario.name}.toml")
            example = Example(scenario.name, f"{scenario.name}, yours", path)
        else:
            example = Example(scenario.stem, f"{scenario.name}, yours", scenario)
            scenario = Scenario.load(scenario)
        made = described_with(example, scenario, parts) if parts else described(example, scenario)
        made["command"] = command(example.path, parts)
        listed = json.loads(files["examples.json"])
        own = {"name": example.name, "title": example.title, "own": True}
        others = [each for each in listed if each["name"] != example.name]
        files["examples.json"] = json.dumps([own, *others]).encode()
        # Recorded runs are of examples, and not of a scenario that has the name of one.
        runs = json.loads(files[RECORDED])
        runs.pop(example.name, None)
        files[RECORDED] = json.dumps(runs).encode()
        for name in ("examples.json", RECORDED):
            copies.pop(name, None)
        files[f"examples/{example.name}.json"] = json.dumps(made).encode()
    return {name: _served(name, content, copies.get(name)) for name, content in files.items()}


def _served(name: str, content: bytes, brotli: bytes | None = None) -> Served:
    return Served(_TYPES[Path(name).suffix], gzip.compress(content, mtime=0), brotli)


class Server(ThreadingHTTPServer):
    """The page on a port of 127.0.0.1.

    Args:
        files: From `site`.
        port: 0 for any free one.
        parts: Parts of the user's own, with which it runs plans.
        scenario: The user's, of whose name `files` has an example.

    Raises:
        NarrowsError: Another program has the port, or this user may not have it.
    """

    daemon_threads = True

    def __init__(
        self,
        files: dict[str, Served],
        port: int = 0,
        parts: Outside | None = None,
        scenario: Path | Scenario | None = None,
    ) -> None:
        self.jobs = Jobs(scenario, parts)
        self.processes: Processes | None = None
        if parts:
            from narrows.lab.native import Processes

            # Before there is a port, which they must not hold.
            self.processes = Processes(parts)
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            if self.processes:
                self.processes.close()
            why = f"port {port}: cannot be used ({error.strerror}); hint: 0 takes any free one"
            raise NarrowsError(why) from None
        self.files = {**files, HERE: _served(HERE, b'{"jobs":true}')}
        self.secret = secrets.token_urlsafe(16)
        number = self.server_address[1]
        self.hosts = {f"127.0.0.1:{number}", f"localhost:{number}"}
        self.runs = threading.BoundedSemaphore(_MOST_RUNS)

    def server_close(self) -> None:
        """Closes the port, and ends all runs."""
        super().server_close()
        self.jobs.close()
        if self.processes:
            self.processes.close()

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

    def do_POST(self) -> None:
        """Runs a plan or does a job, and sends what it says until it or the page ends."""
        host, asked = self.headers.get("Host"), self._asked_for()
        if asked not in ("run", "job") or (asked == "run" and self.server.processes is None):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        if self.headers.get("Origin") != f"http://{host}":
            self.send_error(HTTPStatus.FORBIDDEN, "only for pages of this server")
            return
        if self.headers.get("Content-Type") != "application/json":
            self.send_error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            self.send_error(HTTPStatus.LENGTH_REQUIRED)
            return
        if int(length) > (_MOST_BYTES if asked == "run" else MOST_BYTES):
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        if not self.server.runs.acquire(blocking=False):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, f"{_MOST_RUNS} runs are under way")
            return
        try:
            # The page is gone, or too slow.
            with contextlib.suppress(OSError):
                self._do(asked, self.rfile.read(int(length)))
        finally:
            self.server.runs.release()

    def _do(self, asked: str, request: bytes) -> None:
        processes = self.server.processes
        try:
            if asked == "job":
                with self.server.jobs.run(request, self.connection) as job:
                    self._relay(job)
            elif processes is not None:
                with processes.run(request) as run:
                    self._relay(run)
        except Busy as error:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, f"{error} is under way")
        except NarrowsError as error:
            self._head("application/octet-stream")
            self.end_headers()
            refused = {"state": "refused", "why": str(error), "bytes": 0}
            self.wfile.write(json.dumps(refused).encode() + b"\n")

    def _relay(self, run: socket.socket) -> None:
        """Sends what a run says."""
        self._head("application/octet-stream")
        self.end_headers()
        while True:
            ready, _, _ = select.select([run, self.connection], [], [])
            # A page that wants no more closes the connection; it says nothing else.
            said = b"" if self.connection in ready else run.recv(1 << 18)
            if not said:
                return
            self.wfile.write(said)

    def _asked_for(self) -> str | None:
        """What of this server a request names, without its secret; None for anything else."""
        path = self.path.partition("?")[0]
        begin = f"/{self.server.secret}/"
        if self.headers.get("Host") not in self.server.hosts or not path.startswith(begin):
            return None
        return path.removeprefix(begin)

    def _head(self, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")

    def _answer(self, *, with_content: bool) -> None:
        asked = self._asked_for()
        served = None if asked is None else self.server.files.get(asked or "index.html")
        if served is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self._head(served.type)
        encoding, content = served.encoded(self.headers.get("Accept-Encoding"))
        if encoding != "identity":
            self.send_header("Content-Encoding", encoding)
        self.send_header("Vary", "Accept-Encoding")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the terminal is for people."""
