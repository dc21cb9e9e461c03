"""Chromium, driven over a pipe by its debugging protocol: no driver and no package is needed."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import subprocess
import time
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.report.browser import CHROMIUM

PATIENCE_S = 300.0

AXE = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
"""Deque's axe-core, which looks for violations of WCAG."""

DONE = "document.body?.dataset.state === 'done'"
DRAWN = "document.body?.dataset.firstMs !== undefined"
"""What a page shows when its run is done, and when the first plots of its run are there."""

LATER = (
    *("examples/", "stories", "queries", "sequence", "here", "machine", "recorded", "tour"),
    *("lesson-", "lesson.", "save", "vector"),
)
"""Files that the page loads after the first picture, or if somebody asks; of the examples, all but
the first one's."""


class Page:
    """A page in a headless browser.

    `wrong` has its errors and warnings, `asked` its requests, and `encodings` how what it got was
    compressed, by address.
    """

    def __init__(self, folder: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # Above the descriptors that the browser expects.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]

        def move() -> None:
            """The browser reads descriptor 3 and writes descriptor 4."""
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._browser = subprocess.Popen(
            [
                CHROMIUM,
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--no-first-run"),
                *(f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe"),
                "about:blank",
            ],
            preexec_fn=move,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.encodings: dict[str, str] = {}
        target = self("Target.createTarget", url="about:blank")["targetId"]
        attached = self("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._browser.terminate()
        self._browser.wait(20)
        os.close(self._write)
        os.close(self._read)

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == number:
                assert "error" not in said, said
                found: dict[str, Any] = said["result"]
                return found

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        self._note(said.get("method", ""), said.get("params", {}))
        return said

    def _note(self, method: str, about: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.wrong.append(json.dumps(about["exceptionDetails"])[:600])
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.wrong.append(json.dumps(about["args"])[:600])
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.wrong.append(about["entry"]["text"] + " " + about["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.asked.append(about["request"]["url"])
        elif method == "Network.responseReceived":
            heads = {key.lower(): value for key, value in about["response"]["headers"].items()}
            self.encodings[about["response"]["url"]] = heads.get("content-encoding", "")

    def ask(self, expression: str) -> Any:
        """The value of an expression, which may be a promise."""
        done = self(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, expression: str) -> Any:
        """Waits until an expression is true."""
        end = time.monotonic() + PATIENCE_S
        while not (value := self.ask(expression)):
            state = self.ask("document.getElementById('state')?.textContent")
            assert time.monotonic() < end, f"never: {expression}; {state}; {self.wrong}"
            time.sleep(0.02)
        return value

    def barriers(self) -> list[str]:
        """What keeps people with disabilities from using the page: axe's serious findings.

        What is inert may be dim (WCAG 1.4.3).
        """
        self.ask(f"{AXE};0")
        found: list[str] = self.ask(
            """axe.run({ exclude: [["[inert]"]] }).then(({ violations }) => violations
              .filter(({ impact }) => ["serious", "critical"].includes(impact))
              .flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target}`)))"""
        )
        return found

    def open(self, address: str, shows: str = DONE) -> None:
        """Opens an address anew, and waits until its run is done, or until it shows something."""
        self("Page.navigate", url="about:blank")
        self("Page.navigate", url=address)
        self.until(shows)

    def follow(self, address: str, shows: str = DONE) -> None:
        """Opens an address as a link on the page does, which starts no new page and no new engine.

        If no page of this server is open, or if it shows this address, it is opened anew.
        """
        here = self.ask("location.href")
        server, _, link = address.partition("#")
        if here == address or not here.startswith(f"{server}#"):
            self.open(address, shows)
            return
        # Following the link makes new knobs, and then the run begins.
        self.ask(
            f"""(() => {{
              document.querySelector("#knobs > *").dataset.left = true;
              location.hash = {json.dumps(link)};
            }})()"""
        )
        self.until(f"!document.querySelector('#knobs > [data-left]') && {shows}")

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """Sets the size of the window, and the colour scheme that the reader prefers."""
        self(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Writes what the page shows as PNG; `whole`: what scrolling would show too."""
        made = self("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(made["data"]))
