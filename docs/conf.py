"""The site (`make site`): Sphinx reads this checkout's Markdown where it stands.

README.md is the front page. A link to a document in CONTENTS leads to its page, and a link to
another file to a copy of it. A link that shows a document's file name shows its title. Links to
folders, and to documents that are no page, become plain text, because the site does not know where
the sources are published.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from narrows.cli.app import COMMANDS, app

ROOT = Path(__file__).parents[1]
LAB = ROOT / "python/narrows/lab/site"
PAPERS = "python/narrows/reproduce"

CONTENTS = {
    "Guides": {
        "docs/install": "",
        "docs/tour": "",
        "docs/guide": "From a first run to an answer",
        "docs/lab": "",
        "docs/sweeps": "",
        "docs/own-aqm": "Your own AQM, in a quarter of an hour",
        "docs/extending": "Your own queue, control or application",
        "docs/suites": "Other people's tests for your queue",
        "docs/test-loops": "",
        "docs/learning": "",
        "docs/machines": "",
        "docs/kernel-backend": "",
    },
    "Concepts": {
        "docs/features": "",
        "docs/queues": "",
        "docs/congestion": "",
        "docs/traffic": "",
        "docs/requests": "Requests, zone transfers, floods",
        "docs/dns-transports": "",
        "docs/dns-tls": "",
        "docs/dns-quic": "",
        "docs/accuracy": "",
        "docs/agreement": "",
        "docs/kernel-notes": "",
        "docs/limits": "",
        "docs/glossary": "",
    },
    "Reference": {
        "docs/reference/scenario": "Scenario: every key",
        "docs/reference/commands": "",
        "docs/reference/python": "",
        "docs/run-folder": "",
        "docs/plots": "",
        "docs/promises": "",
        "crates/qdisc/README": "",
        "crates/link/README": "",
        "crates/transport/README": "",
        "crates/units/README": "",
        "crates/apps/README": "",
        "CHANGELOG": "",
    },
    "Findings": {
        "docs/findings": "",
        "docs/study": "The study of DNS transports",
        "python/narrows/study/dns_transport/README": "What the study found",
        f"{PAPERS}/harhalakis_2011/README": "Harhalakis 2011: DNS behind RED",
        f"{PAPERS}/kantawala_2002/README": "Kantawala 2002: short flows",
        f"{PAPERS}/dana_2010/README": "Dana 2010: RED under FTP",
        f"{PAPERS}/hayes_2010/README": "Hayes 2010: stateless TCP",
        f"{PAPERS}/wijnen_2012/README": "Wijnen 2012: TCP against UDP",
        f"{PAPERS}/ware_2019/README": "Ware 2019: BBR beside CUBIC",
        f"{PAPERS}/l4s_2022/README": "L4S: Prague in DualPI2",
        f"{PAPERS}/hoiland_jorgensen_2018/README": "CAKE",
    },
    "Real servers and machines": {
        "docs/dns-clients": "",
        "docs/dns-servers": "",
        "docs/probe": "",
        "docs/measurements": "",
        "docs/atlas": "",
        "docs/captures": "",
        "docs/ratio": "",
        "docs/monitor": "",
        "docs/trust": "",
        "gateway/README": "",
        "gateway/OPERATING": "",
        "gateway/SETTINGS": "",
        "gateway/USER-SPACE": "",
        "gateway/PROTOCOL": "The gateway on the wire",
        "gateway/benchmarks/README": "The gateway's benchmark",
        "gateway/CHANGELOG": "The gateway's changelog",
    },
    "For contributors": {
        "CONTRIBUTING": "",
        "ARCHITECTURE": "",
        "docs/maintaining": "",
        "docs/provenance": "",
        "benchmarks/README": "",
        "SECURITY": "",
    },
}
"""The pages of each part, with a shorter title where a page's own is long."""
PAGES = {"README"}.union(*CONTENTS.values())

project = "narrows"
release = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = [f"{page}.md" for page in PAGES]
exclude_patterns = [".*", "dist", "runs", "target"]

# As on a forge: headings have anchors, quotes stay as they are, and code is what its fence says.
myst_heading_anchors = 6
myst_enable_extensions = ["html_image"]
smartquotes = False
highlight_language = "none"
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
# `Queue` in a type may be one of a scenario or one of your own.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_title = f"narrows {release}"
html_copy_source = False
html_show_copyright = False
html_theme_options = {"top_of_page_buttons": []}


def contents() -> str:
    """The table of contents, which the theme shows beside each page."""
    text = ""
    for caption, pages in CONTENTS.items():
        lines = [f"{title} </{page}>" if title else f"/{page}" for page, title in pages.items()]
        text += "\n```{toctree}\n:hidden:\n:caption: " + "\n".join([caption, "", *lines, "```\n"])
    return text


def commands() -> str:
    """The help text of each command."""
    group: Any = typer.main.get_command(app)
    text = ""
    for name in COMMANDS:
        command = group.commands[name]
        context = typer.Context(command, info_name=f"narrows {name}", terminal_width=88)
        text += f"\n## narrows {name}\n\n```text\n{command.get_help(context)}\n```\n"
    return text


def interface() -> str:
    """What docs/promises.md calls public in Python; each name once, in the first such module."""
    promises = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
    table = promises.partition("**Python**")[2].partition("**Rust**")[0]
    modules = re.findall(r"`(narrows[\w.]*)`", "".join(re.findall(r"^\|[^|]*\|", table, re.M)))
    text, homes = "", dict[tuple[str, int], str]()
    for name in modules:
        module = import_module(name)
        fresh, known = [], []
        for each in module.__all__:
            home = homes.setdefault((each, id(getattr(module, each))), name)
            (fresh if home == name else known).append((each, home))
        text += f"\n## {name}\n\n"
        text += f"```{{eval-rst}}\n.. automodule:: {name}\n"
        text += f"   :members: {', '.join(each for each, _ in fresh)}\n```\n" if fresh else "```\n"
        text += "".join(f"\n`{name}.{each}` is `{home}.{each}`.\n" for each, home in known)
    return text


ADDED = {
    "README": contents,
    "docs/reference/commands": commands,
    "docs/reference/python": interface,
}
BEFORE = {"README": "## Three commands", "docs/lab": "![The laboratory page"}
OPEN = """\
<p><a href="{}lab/index.html"><strong>Open the laboratory page.</strong></a> From a file on your
disk, use <code>narrows lab</code> instead.</p>

"""


def read(app: Any, page: str, source: list[str]) -> None:
    """Changes a document's text on its way into the site."""
    folder = (ROOT / page).parent

    def link(found: re.Match[str]) -> str:
        target = (folder / found[2].partition("#")[0]).resolve()
        inside = target != folder and target.is_relative_to(ROOT)
        known = inside and str(target.relative_to(ROOT).with_suffix("")) in PAGES
        if inside and not known and (target.is_dir() or target.suffix == ".md"):
            return found[1]
        # A page has a title, and no reader of the site looks for a file.
        return f"[]({found[2]})" if known and found[1].endswith(".md") else found[0]

    text = re.sub(r"(?<!!)\[([^][]*)\]\(([^():\s]+)\)", link, source[0])
    # A language that tests read, such as `python,ignore`.
    text = re.sub(r"^```(\w+),\w+$", r"```\1", text, flags=re.M)
    if LAB.exists() and page in BEFORE:
        opening = OPEN.format("../" * page.count("/"))
        text = text.replace(BEFORE[page], opening + BEFORE[page], 1)
    source[0] = text + (ADDED[page]() if page in ADDED else "")


def finish(app: Any, error: Exception | None) -> None:
    """Gives the front page its usual name, and puts the laboratory page below the site."""
    if error is None:
        out = Path(app.outdir)
        shutil.copy(out / "README.html", out / "index.html")
        if LAB.exists():
            shutil.copytree(LAB, out / "lab", dirs_exist_ok=True)


def setup(app: Any) -> None:
    """Tells Sphinx of the functions above."""
    app.connect("source-read", read)
    app.connect("build-finished", finish)
