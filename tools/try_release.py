"""Tries what `make release` has put into dist/, each file on a clean root.

    .venv/bin/python tools/try_release.py dist [PART...]

The parts are `checksums`, `wheel`, `sdist`, `crates`, `deb`, `page` and `site`; without any, all
are tried. Environments and projects are made in a temporary folder, so nothing of the checkout can
be used by chance. The gateway's package is installed into a Debian (or Ubuntu) of this machine's
release, which mmdebstrap makes from packages alone: apt must find each library that the package
names, and nothing that happens to be on this machine can help. Needs what `make release` needs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin
from urllib.request import urlopen

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tools.check_wheel import call, check, install, runs, serves_the_page  # noqa: E402


class Release(NamedTuple):
    """The files, and a folder for what is made of them."""

    dist: Path
    folder: Path

    def one(self, pattern: str) -> Path:
        """The file that a pattern names.

        Raises:
            SystemExit: There is none, or more than one.
        """
        found = sorted(self.dist.glob(pattern))
        if len(found) != 1:
            sys.exit(f"{self.dist} has {len(found)} files {pattern}; hint: make release")
        return found[0]

    def unpacked(self, pattern: str) -> Path:
        """The folder in an archive."""
        archive = self.one(pattern)
        with tarfile.open(archive) as packed:
            packed.extractall(self.folder / "unpacked", filter="data")
        return self.folder / "unpacked" / archive.name.removesuffix(".tar.gz")

    def command(self, package: Path, name: str) -> Path:
        """The folder of commands of an environment of that name with the package, made once."""
        environment = self.folder / name
        return environment / "bin" if environment.exists() else install(package, environment)


def checksums(release: Release) -> None:
    """SHA256SUMS has each file, and nothing else."""
    lines = (release.dist / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    there = {path.name for path in release.dist.iterdir()} - {"SHA256SUMS"}
    if there != listed.keys():
        sys.exit(f"SHA256SUMS or {release.dist} lacks {', '.join(sorted(there ^ listed.keys()))}")
    for name, digest in listed.items():
        if hashlib.sha256((release.dist / name).read_bytes()).hexdigest() != digest:
            sys.exit(f"{name} is not what SHA256SUMS says; hint: make release")


def wheel(release: Release) -> None:
    """The wheel in a new environment: runs examples, has narrows-live, serves the page."""
    package = release.one("narrows-*.whl")
    here = release.folder / "of-wheel"
    here.mkdir()
    check(release.command(package, "wheel"), package, here, page=True)


def sdist(release: Release) -> None:
    """The source distribution in a new environment: pip builds it, and runs have the same bytes."""
    bin_ = release.command(release.one("narrows-[0-9]*[0-9].tar.gz"), "sdist")
    here = release.folder / "of-sdist"
    here.mkdir()
    built = runs(bin_, here)
    serves_the_page(bin_, here)
    there = release.folder / "again-of-wheel"
    there.mkdir()
    wanted = runs(release.command(release.one("narrows-*.whl"), "wheel"), there)
    if not (tables := list(wanted.glob("*.parquet"))):
        sys.exit("the wheel's run has no tables to compare")
    for table in tables:
        if table.read_bytes() != (built / table.name).read_bytes():
            sys.exit(f"the source distribution's {table.name} differs from the wheel's")


def crates(release: Release) -> None:
    """Each crate alone in a new project, then a queue that `narrows new --registry` has written."""
    packed = release.folder / "crates"
    packages = {}
    for archive in sorted(release.dist.glob("*.crate")):
        with tarfile.open(archive) as package:
            package.extractall(packed, filter="data")
        name, _, version = archive.stem.rpartition("-")
        packages[name] = version
    patch = ["[workspace]", "[patch.crates-io]"]
    patch += [f'{name} = {{ path = "{packed}/{name}-{packages[name]}" }}' for name in packages]
    target = {"CARGO_TARGET_DIR": str(release.folder / "target")}
    for name, version in packages.items():
        project = release.folder / f"uses-{name}"
        (project / "src").mkdir(parents=True)
        head = ["[package]", 'name = "uses"', 'edition = "2024"', "[dependencies]"]
        text = "\n".join([*head, f'{name} = "={version}"', *patch])
        (project / "Cargo.toml").write_text(text)
        (project / "src/lib.rs").write_text(f"pub use {name.replace('-', '_')}::*;\n")
        call("cargo", "build", "--quiet", cwd=project, more=target)
    bin_ = release.command(release.one("narrows-*.whl"), "wheel")
    project = release.folder / "mine"
    call(bin_ / "narrows", *("new", "queue", "mine", "--registry"), cwd=release.folder)
    manifest = project / "Cargo.toml"
    manifest.write_text("\n".join([manifest.read_text().replace("[workspace]", ""), *patch]))
    call("cargo", "test", "--quiet", cwd=project, more=target)
    call("cargo", "build", "--quiet", cwd=project, more=target)
    runs(bin_, project, "--backend", f"program:{release.folder}/target/debug/mine")


IN_THE_ROOT = """\
set -eu
apt-get install -qq -y --no-install-recommends /srv/*.deb >/dev/null
narrows-gateway --version | grep -F "narrows-gateway $1 "
dpkg --verify narrows-gateway
test -s /usr/share/man/man8/narrows-gateway.8.gz
grep -q "Apache License" /usr/share/doc/narrows-gateway/copyright
code=0
said=$(narrows-gateway check --interface none0 --server 192.0.2.53 2>&1) || code=$?
test "$code" -eq 1 || test "$code" -eq 2
echo "$said" | grep -q none0
apt-get purge -qq -y narrows-gateway >/dev/null
test ! -e /etc/narrows-gateway
test ! -e /usr/sbin/narrows-gateway
"""


def deb(release: Release) -> None:
    """The gateway's package in a new root: apt finds what it needs, it runs, nothing is left."""
    package = release.one("narrows-gateway_*.deb")
    script = release.folder / "in-the-root"
    script.write_text(IN_THE_ROOT)
    version = package.name.split("_")[1]
    hooks = [
        f"--customize-hook=copy-in {package} {script} /srv",
        f'--customize-hook=chroot "$1" sh /srv/in-the-root {version}',
    ]
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    command = ("mmdebstrap", "--quiet", "--variant=apt", "--format=null", *hooks)
    call(*command, suite, os.devnull, cwd=release.folder)


def page(release: Release) -> None:
    """The laboratory page, served as any web server would; in Chromium, if it is installed."""
    folder = release.unpacked("narrows-lab-*.tar.gz")
    with served(folder) as address:
        for name, begins in (("", b"<!doctype html>"), ("engine.wasm", b"\0asm")):
            body = get(urljoin(address, name))
            if not body.lower().startswith(begins):
                sys.exit(f"{name or 'the page'} begins with {body[:20]!r}")
        from tests.web.browser import CHROMIUM, Page

        if not CHROMIUM:
            print("page: not opened, because Chromium is missing; hint: apt-get install chromium")
            return
        (release.folder / "browser").mkdir()
        with Page(release.folder / "browser") as browser:
            browser.open(address)
            if browser.wrong or browser.ask("document.querySelectorAll('article').length") < 1:
                sys.exit(f"the page in Chromium: {browser.wrong or 'no plot'}")
            asked = (url for url in browser.asked if url.startswith(("http:", "https:")))
            if others := [url for url in asked if not url.startswith(address)]:
                sys.exit(f"the page asks another server: {others[0]}")


def site(release: Release) -> None:
    """The site from its archive: every link leads to a page or a place that is there."""
    from tests.docs.test_site import Seen, follow

    folder = release.unpacked("narrows-site-*.tar.gz").resolve()
    pages = {path: Seen(path) for path in folder.rglob("*.html") if path.parent.name != "lab"}
    if not pages or (lost := list(follow(folder, pages))):
        sys.exit(f"the site: {lost[0] if pages else 'no page'}")


def get(url: str) -> bytes:
    """What a server answers."""
    with urlopen(url, timeout=20) as answer:
        body: bytes = answer.read()
    return body


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder on a port of this machine; its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


PARTS: dict[str, Callable[[Release], None]] = {
    each.__name__: each for each in (checksums, wheel, sdist, crates, deb, page, site)
}


def main(arguments: list[str]) -> int:
    """Returns 0 if everything works; a part that does not ends the program with a line."""
    dist, *asked = arguments or [""]
    if unknown := set(asked) - PARTS.keys():
        print(f"no part {sorted(unknown)[0]}; hint: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if not (Path(dist) / "SHA256SUMS").is_file():
        print(f"'{dist}' is no folder of a release; hint: make release", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="narrows-release-"))
    try:
        release = Release(Path(dist).resolve(), folder)
        for name in asked or PARTS:
            began = time.monotonic()
            PARTS[name](release)
            print(f"{name}: works ({time.monotonic() - began:.0f} s)", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
