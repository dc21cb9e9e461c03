"""The laboratory page: examples with knobs, simulated in the browser.

`knobs` says what can be turned in an example, `patches` what each knob changes in its plan, and
`build` writes both for the page, whose sources are in `web/`. The page never lowers a scenario
itself: it applies patches. `server` serves it; `own` and `native` are for scenarios with parts of
the user's own, which no browser can run. `jobs` are what narrows computes for the page besides: run
folders, sweeps and kernel runs. Each is a process (`work`), which sets the knobs (`chosen`).
"""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from narrows.controls import Control
    from narrows.lab.server import Server
    from narrows.queues import Queue
    from narrows.scenario import Scenario

__all__ = ["Page", "open_page"]


class Page:
    """A page that is served until `close`, or until the program ends."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.address = server.address
        """Where it is, on this machine."""
        self._thread = threading.Thread(target=server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server and its runs."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Page {self.address}>"

    def _repr_html_(self) -> str:
        return f'<a href="{self.address}" target="_blank">{self.address}</a>'


def open_page(
    scenario: str | Path | Scenario | Mapping[str, Any],
    *,
    set: Mapping[str, Any] | None = None,
    queues: Mapping[str, Queue] | None = None,
    controls: Mapping[str, Control] | None = None,
    plugins: Sequence[str | Path] | None = None,
    port: int = 0,
    browser: bool = True,
) -> Page:
    """Opens the laboratory page with a scenario of yours, and with parts of your own.

    Without such parts, the browser computes; with them, this machine does. Only this machine can
    open the page.

    Args:
        scenario: A file, a scenario, or values of TOML's types.
        set: Values by dotted key, as for `narrows.run`.
        queues: Your own queues, by link and direction. Knobs turn the numbers among the arguments
            of their classes.
        controls: Your own congestion controls, by the name that `tcp.congestion` has; likewise.
        plugins: Shared objects whose queues and congestion controls the scenario names.
        port: 0 for any free one.
        browser: Whether to open it in the browser.

    Raises:
        NarrowsError: There is no built page, or a part, the scenario or the port cannot be used.

    Examples:
        >>> from narrows import lab
        >>> page = lab.open_page("scenarios/dns-behind-fifo.toml",
        ...                      queues={"bottleneck.forward": Slope(most=200)})  # doctest: +SKIP
        >>> page.close()  # doctest: +SKIP
    """
    from narrows.backends import parts_from_outside
    from narrows.lab.server import Server, site
    from narrows.scenario import Scenario

    parts = parts_from_outside(queues, controls, plugins)
    source: Path | Scenario = (
        Path(scenario)
        if isinstance(scenario, str | Path) and not set
        else Scenario.of(scenario, set)
    )
    page = Page(Server(site(source, parts), port, parts, source))
    if browser:
        webbrowser.open(page.address)
    return page
