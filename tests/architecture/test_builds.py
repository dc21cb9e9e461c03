"""What a build's digest covers: the code that decides what a run gives, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "crates/units/build.rs"

CODE = """\
//! A crate.
#[cfg(test)]
mod tests;
mod other;

/// Adds one.
pub fn more(number: u32) -> u32 {
    // The limit is the type's.
    number + 1
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_more() {}
}
"""
OTHER = "pub const LIMIT: u32 = 1;\n"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build script, compiled."""
    program = tmp_path_factory.mktemp("build") / "script"
    command = ["rustc", "--edition", "2024", str(SCRIPT), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    (tmp_path / "src/tests").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "src/lib.rs").write_text(CODE)
    (tmp_path / "src/other.rs").write_text(OTHER)
    (tmp_path / "src/tests.rs").write_text("mod one;\n")
    (tmp_path / "src/tests/one.rs").write_text("#[test]\nfn one() {}\n")
    (tmp_path / "Cargo.toml").write_text(
        '[package]\nname = "crate"\n\n[dependencies]\nrand_core = "=0.10.1"\n'
        'libm = { version = "=0.2.16" }\nserde = "1"\n'
    )
    return tmp_path


def said(script: Path, crate: Path) -> tuple[str, set[str]]:
    """The digest, and the files that make cargo run the script again when they change."""
    done = subprocess.run([script], cwd=crate, capture_output=True, text=True, check=True)
    digest = re.findall(r"(?m)^cargo::rustc-env=NARROWS_SOURCES=([0-9a-f]{16})$", done.stdout)
    watched = re.findall(r"(?m)^cargo::rerun-if-changed=(.*)$", done.stdout)
    assert len(done.stdout.splitlines()) == 1 + len(watched)
    return digest[0], set(watched)


def edit(path: str, before: str, after: str) -> Callable[[Path], object]:
    def change(crate: Path) -> None:
        text = (crate / path).read_text()
        assert before in text
        (crate / path).write_bytes(text.replace(before, after).encode())

    return change


def write(path: str, text: str) -> Callable[[Path], object]:
    return lambda crate: (crate / path).write_text(text)


@pytest.mark.parametrize(
    "change",
    [
        edit("src/lib.rs", "Adds one.", "Returns one more."),
        edit("src/lib.rs", "    // The limit is the type's.\n", "\n"),
        edit("src/lib.rs", "fn one_more() {}", "fn two_more() {}"),
        edit("src/lib.rs", "#[cfg(test)]\nmod tests;\n", ""),
        edit("src/lib.rs", "\n", "\r\n"),
        edit("src/tests/one.rs", "one", "two"),
        edit("Cargo.toml", "crate", "krate"),
        # As cargo writes it into a package.
        write(
            "Cargo.toml",
            '[dependencies.libm]\nversion = "=0.2.16"\n\n[dependencies.rand_core]\n'
            'version = "=0.10.1"\ndefault-features = false\n\n[package]\nname = "crate"\n',
        ),
        write("README.md", "A crate.\n"),
        write("tests/one.rs", "#[test]\nfn one() {}\n"),
        write("src/.other.rs.swp", "an editor's\n"),
    ],
)
def test_comments_tests_and_documents_do_not_count(
    script: Path, crate: Path, change: Callable[[Path], object]
) -> None:
    before = said(script, crate)
    assert before[1] == {"src/lib.rs", "src/other.rs", "Cargo.toml"}
    change(crate)
    assert said(script, crate) == before


@pytest.mark.parametrize(
    "change",
    [
        edit("src/lib.rs", "number + 1", "number + 2"),
        edit("src/lib.rs", "    number + 1", "    // number + 1"),
        edit("src/other.rs", "1;", "2;"),
        edit("Cargo.toml", "0.2.16", "0.2.17"),
        lambda crate: (crate / "src/other.rs").rename(crate / "src/others.rs"),
        lambda crate: (crate / "src/other.rs").unlink(),
        write("src/more.rs", ""),
    ],
)
def test_code_counts(script: Path, crate: Path, change: Callable[[Path], object]) -> None:
    before, _ = said(script, crate)
    change(crate)
    assert said(script, crate)[0] != before


def test_the_order_of_a_folder_does_not_count(script: Path, tmp_path: Path) -> None:
    names = ["b.rs", "a.rs", "lib.rs", "a"]
    found = set()
    for number, order in enumerate((names, names[::-1])):
        source = tmp_path / str(number) / "src"
        source.mkdir(parents=True)
        (source.parent / "Cargo.toml").touch()
        for name in order:
            if name == "a":
                (source / name).mkdir()
                (source / name / "c.rs").touch()
            else:
                (source / name).write_text(name)
        found.add(said(script, source.parent)[0])
    assert len(found) == 1


def test_every_crate_of_the_engine_counts() -> None:
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    packages = {package["name"]: package for package in json.loads(done.stdout)["packages"]}

    def below(name: str) -> set[str]:
        used = (d["name"] for d in packages[name]["dependencies"] if d["kind"] != "dev")
        return {name}.union(*(below(other) for other in used if other.startswith("narrows-")))

    crates = {name.removeprefix("narrows-") for name in below("narrows-engine")}
    scripts = {path.parent.name for path in ROOT.glob("crates/*/build.rs")}
    assert scripts == crates
    for crate in crates - {"units"}:
        assert (ROOT / f"crates/{crate}/build.rs").readlink() == Path("../units/build.rs")
    counted = (ROOT / "crates/sim/src/lib.rs").read_text()
    for crate in crates - {"sim", "engine"}:
        assert f"    narrows_{crate}::SOURCES,\n" in counted
