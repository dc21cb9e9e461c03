"""`make release` says at once, in one line, what a release lacks; one command sets the version.

The builds themselves take minutes, and `make release` tries what it has built.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from narrows.lab.build import SITE

ROOT = Path(__file__).parents[2]
VERSION, GATEWAY = "9.8.7", "9.8.6"
COPIED = ("crates", "gateway", "fuzz", "benchmarks/memory", "tools", "*.toml", "*.lock")
COPIED += ("CHANGELOG.md", "CITATION.cff", "LICENSE*", "Makefile", ".gitignore")
COMMANDS = "awk cat cut date dirname git grep head ls mv rm sed sh tr uname env"
COMMANDS += " make cc clang pkg-config dpkg-shlibdeps strip mmdebstrap rustup rustc cargo python3"


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org")
    done = subprocess.run(
        ["git", *author, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs that a release needs, also with those that this machine lacks."""
    folder = tmp_path_factory.mktemp("bin")
    for name in COMMANDS.split():
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
        else:
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
    # The environment's own, which has venv.
    (folder / "python3").unlink()
    (folder / "python3").symlink_to(sys.executable)
    return folder


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, committed with other versions."""
    copy = tmp_path_factory.mktemp("copy")
    listed = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *COPIED)
    for name in filter(None, git(ROOT, *listed).split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    for log in ("CHANGELOG.md", "gateway/CHANGELOG.md"):
        if "## Unreleased\n" not in (text := (copy / log).read_text()):
            (copy / log).write_text(text.replace("\n## ", "\n## Unreleased\n\n- New.\n\n## ", 1))
    git(copy, "init", "--quiet")
    git(copy, "add", ".")
    git(copy, "commit", "--quiet", "-m", "Before")
    command = ["sh", "tools/set_version.sh", VERSION, GATEWAY]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    git(copy, "commit", "--quiet", "-a", "-m", "Version")
    return copy


@pytest.fixture
def checkout(ready: Path, tmp_path: Path) -> Path:
    """A clone of it, to change."""
    git(tmp_path, "clone", "--quiet", "--local", str(ready), "clone")
    return tmp_path / "clone"


def checked(checkout: Path, path: str, version: str = VERSION) -> tuple[int, str]:
    """What release.sh says before it builds; its exit code and output."""
    done = subprocess.run(
        ["sh", "tools/release.sh", "--check", version],
        cwd=checkout,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def refused(said: tuple[int, str], *words: str) -> None:
    code, text = said
    assert code == 2, text
    assert text.count("\n") == 1
    assert text.startswith("release: ") and "; hint: " in text
    assert all(word in text for word in words), text


def test_after_one_command_a_commit_can_be_released(checkout: Path, programs: Path) -> None:
    assert checked(checkout, str(programs)) == (0, "")
    # Every lock file agrees with the new versions.
    for folder in (".", "fuzz", "benchmarks/memory"):
        metadata = ("metadata", "--locked", "--offline", "--format-version", "1", "--no-deps")
        manifest = str(checkout / folder / "Cargo.toml")
        command = ["cargo", *metadata, "--manifest-path", manifest]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert f"narrows-gateway {GATEWAY}" in (checkout / "gateway/man/narrows-gateway.8").read_text()
    # The tag's own commit may be built again.
    git(checkout, "tag", f"v{VERSION}")
    assert checked(checkout, str(programs)) == (0, "")


@pytest.mark.parametrize(
    "version", ["", "1", "1.2", "1.2.3.4", "v1.2.3", "1.2.3-rc1", "1..2", "a; false"]
)
def test_a_version_is_three_numbers(version: str, checkout: Path, programs: Path) -> None:
    refused(checked(checkout, str(programs), version), "0.2.0")


@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("Cargo.toml", f'\nversion = "{VERSION}"', '\nversion = "9.8.6"', "has version 9.8.6"),
        ("Cargo.toml", f'sim", version = "{VERSION}"', 'sim", version = "1.0.0"', "of a crate"),
        ("Cargo.lock", f'sim"\nversion = "{VERSION}"', 'sim"\nversion = "1.0.0"', "Cargo.lock"),
        ("fuzz/Cargo.lock", f'"{VERSION}"', '"1.0.0"', "fuzz/Cargo.lock has another version"),
        ("CITATION.cff", f"version: {VERSION}", "version: 1.0.0", f"lacks 'version: {VERSION}'"),
        ("CITATION.cff", "date-released: 2", "date-released: 1", "lacks 'date-released: "),
        ("CHANGELOG.md", f"## {VERSION}", "## Unreleased", "begins with 'Unreleased ("),
        ("CHANGELOG.md", f"## {VERSION} (", f"## {VERSION} (soon, ", "(date)"),
        ("gateway/CHANGELOG.md", f"## {GATEWAY} (", "## Unreleased\n(", "the gateway is 9.8.6"),
    ],
)
def test_versions_that_disagree_are_named(
    file: str, old: str, new: str, why: str, checkout: Path, programs: Path
) -> None:
    text = (checkout / file).read_text()
    assert old in text
    (checkout / file).write_text(text.replace(old, new))
    refused(checked(checkout, str(programs)), "the tree is not clean", file)
    git(checkout, "commit", "--quiet", "-a", "-m", "Changed")
    refused(checked(checkout, str(programs)), why, f"sh tools/set_version.sh {VERSION}")


def test_a_file_that_git_does_not_know_is_named(checkout: Path, programs: Path) -> None:
    (checkout / "notes.txt").write_text("x")
    refused(checked(checkout, str(programs)), "the tree is not clean (notes.txt)")


def test_a_folder_without_a_commit_is_refused(checkout: Path, programs: Path) -> None:
    shutil.rmtree(checkout / ".git")
    refused(checked(checkout, str(programs)), "has no commit")


def test_a_tag_of_another_commit_is_refused(checkout: Path, programs: Path) -> None:
    git(checkout, "tag", f"v{VERSION}", "HEAD~1")
    refused(checked(checkout, str(programs)), f"the tag v{VERSION} is on another commit")


def test_all_missing_programs_are_named_at_once(
    checkout: Path, programs: Path, tmp_path: Path
) -> None:
    few = tmp_path / "few"
    shutil.copytree(programs, few, symlinks=True)
    for name in ("clang", "mmdebstrap"):
        (few / name).unlink()
    said = checked(checkout, str(few))
    refused(said, "missing: clang mmdebstrap", "apt-get install clang mmdebstrap")


def test_make_release_without_a_version_says_how(checkout: Path, programs: Path) -> None:
    done = subprocess.run(
        ["make", "release"],
        cwd=checkout,
        env={k: v for k, v in os.environ.items() if k != "VERSION"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "release: no version; hint: make release VERSION=0.2.0\n" in done.stderr


@pytest.mark.parametrize("words", [["1.0"], [VERSION, "new"], [], [f"{VERSION}\n/"]])
def test_a_version_to_set_is_three_numbers(words: Sequence[str], checkout: Path) -> None:
    command = ["sh", "tools/set_version.sh", *words]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("set_version: ")) == (2, 1)
    assert done.stderr.endswith(
        "is no version; hint: sh tools/set_version.sh 0.2.0 [0.2.0 of the gateway]\n"
    )
    assert git(checkout, "status", "--porcelain") == ""


def test_documents_explain_the_commands_that_are_printed() -> None:
    script = (ROOT / "tools/release.sh").read_text()
    page = (ROOT / "docs/maintaining.md").read_text()
    for command in ("git tag -a", "twine upload", "cargo publish --locked", "gh release create"):
        assert command in script and command in page


def tried(*words: str) -> tuple[int, str]:
    """What try_release.py says; its exit code and output."""
    command = [sys.executable, "tools/try_release.py", *words]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout


def test_files_that_are_not_what_the_checksums_say_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.crate").write_bytes(b"one")
    digest = hashlib.sha256(b"one").hexdigest()
    (tmp_path / "SHA256SUMS").write_text(f"{digest}  a.crate\n")
    code, text = tried(str(tmp_path), "checksums")
    assert code == 0 and text.startswith("checksums: works")
    (tmp_path / "a.crate").write_bytes(b"two")
    assert tried(str(tmp_path), "checksums")[0] == 1
    assert "a.crate is not what SHA256SUMS says" in tried(str(tmp_path), "checksums")[1]
    (tmp_path / "b.whl").write_bytes(b"more")
    assert "lacks b.whl" in tried(str(tmp_path), "checksums")[1]


def test_what_cannot_be_tried_is_refused(tmp_path: Path) -> None:
    for words in ((), (str(tmp_path),)):
        code, text = tried(*words)
        assert (code, text.count("\n")) == (2, 1)
        assert "is no folder of a release; hint: make release" in text
    code, text = tried(str(tmp_path), "rpm")
    assert (code, text.count("\n")) == (2, 1)
    assert re.search("no part rpm; hint: checksums, wheel, .*site", text)
    (tmp_path / "SHA256SUMS").touch()
    assert "has 0 files narrows-lab-*.tar.gz" in tried(str(tmp_path), "page")[1]


@pytest.mark.slow
def test_the_page_in_an_archive_works_on_any_web_server(tmp_path: Path) -> None:
    if not (SITE / "engine.wasm").exists():
        pytest.skip("needs the page: make web")
    name = "narrows-lab-1.0.0"
    shutil.copytree(SITE, tmp_path / name)
    shutil.make_archive(str(tmp_path / name), "gztar", tmp_path, name)
    (tmp_path / "SHA256SUMS").touch()
    code, text = tried(str(tmp_path), "page")
    assert code == 0, text
