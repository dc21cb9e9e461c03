"""The laboratory page, served and opened."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from narrows.lab.build import SITE
from narrows.lab.server import Server, site
from tests.report.browser import CHROMIUM

from .browser import Page

HERE = "http://127.0.0.1:"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if not (SITE / "engine.wasm").exists() or not (SITE / "index.html").exists():
        pytest.skip("needs the page: make web")
    with Server(site()) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    with Page(tmp_path_factory.mktemp("browser")) as made:
        made.size(1280, 900)
        yield made


@pytest.fixture(autouse=True)
def nothing_goes_wrong(request: pytest.FixtureRequest) -> Iterator[None]:
    """No error on the console, and no request to another host, whatever a test does."""
    yield
    if "page" in request.fixturenames:
        page: Page = request.getfixturevalue("page")
        wrong, asked = list(page.wrong), list(page.asked)
        page.wrong.clear()
        page.asked.clear()
        assert not wrong
        assert all(url.startswith((HERE, "data:", "blob:", "about:")) for url in asked)
