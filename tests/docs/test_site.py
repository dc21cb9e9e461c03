"""The site builds without a warning, its links lead somewhere, and it asks no other host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.test_documents import CHECKOUT, blocks, commands
from tests.report.browser import CHROMIUM
from tests.web.browser import Page

SOURCES = {"audio", "embed", "iframe", "img", "link", "object", "script", "source", "video"}
"""Elements that a browser fetches by itself."""


class Seen(HTMLParser):
    """What a page links to, what it fetches, and the places in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes what an element refers to."""
        for key, value in attrs:
            if key == "id" and value:
                self.places.add(value)
            elif key in ("href", "src") and value:
                (self.fetched if tag in SOURCES else self.links).append(value)


def follow(site: Path, pages: dict[Path, Seen]) -> Iterator[str]:
    """Links and sources within the site that lead nowhere."""
    for path, seen in pages.items():
        for target in [*seen.links, *seen.fetched]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            known = not place or there not in pages or place in pages[there].places
            if not (known and there.is_file() and there.is_relative_to(site)):
                yield f"{path.relative_to(site)}: {target}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as the Makefile builds it."""
    folder = tmp_path_factory.mktemp("site").resolve()
    (recipe,) = re.findall(r"^\t\$\(BIN\)/python (-m sphinx .*)$", MAKEFILE, flags=re.M)
    words = recipe.replace("$(VENV)/tmp", str(folder)).replace("dist/site", str(folder / "site"))
    command = [sys.executable, *words.split()]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr == ""
    return folder / "site"


MAKEFILE = (CHECKOUT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_site_has_every_page_and_no_page_leads_nowhere(site: Path) -> None:
    pages = {path: Seen(path) for path in site.rglob("*.html") if path.parent.name != "lab"}
    assert list(follow(site, pages)) == []
    documents = [*CHECKOUT.glob("docs/**/*.md")]
    for part in ("reproduce", "study"):
        documents += CHECKOUT.glob(f"python/narrows/{part}/*/README.md")
    assert len(documents) > 45
    for document in documents:
        assert site / document.relative_to(CHECKOUT).with_suffix(".html") in pages

    # Nothing comes from elsewhere.
    for path, seen in pages.items():
        assert not [each for each in seen.fetched if "//" in each], path
    for path in [*site.rglob("*.css"), *site.rglob("*.html")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", text), path

    front = (site / "index.html").read_text(encoding="utf-8")
    readme = blocks((CHECKOUT / "README.md").read_text(encoding="utf-8"))
    three = [command for block in readme for command, _ in commands(block)]
    assert len(three) == 3
    for command in three:
        assert command in re.sub(r"<[^>]+>", "", front)

    # A script, not a file that the page would have to ask for.
    script = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)", script, flags=re.S)[1])  # type: ignore[index]
    found = index["terms"]["bufferbloat"]
    names = {index["docnames"][each] for each in ([found] if isinstance(found, int) else found)}
    assert "docs/glossary" in names or "docs/guide" in names


@pytest.mark.slow
def test_the_search_works_from_the_disk(site: Path, tmp_path: Path) -> None:
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    results = "#search-results li a"
    with Page(tmp_path) as page:
        address = f"file://{site}/search.html?q=bufferbloat"
        page.open(address, f"document.querySelector('{results}') !== null")
        found = page.ask(f"[...document.querySelectorAll('{results}')].map((each) => each.href)")
        assert any(url.startswith(f"file://{site}/docs/guide.html") for url in found)
        # It also asks for the pages, to show a part of each; from the disk it gets none.
        assert all(url.startswith(("file://", "data:", "about:")) for url in page.asked)
