"""Which crate may depend on which, and what the core must not touch."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from narrows.new import PARTS

ROOT = Path(__file__).parents[2]

# units <- qdisc <- link <- sim; units <- transport <- apps <- sim; wire stands alone; capture sits
# on sim and wire; live plays a plan of sim on the sockets of client; python binds, and so does web.
MAY_USE: dict[str, set[str]] = {
    "narrows-units": set(),
    "narrows-qdisc": {"narrows-units"},
    "narrows-link": {"narrows-units", "narrows-qdisc"},
    "narrows-link-c": {"narrows-units", "narrows-qdisc", "narrows-link"},
    "narrows-transport": {"narrows-units"},
    "narrows-oracle": set(),
    "narrows-apps": {"narrows-units", "narrows-qdisc", "narrows-transport"},
    "narrows-sim": {
        "narrows-units",
        "narrows-qdisc",
        "narrows-link",
        "narrows-transport",
        "narrows-apps",
    },
    "narrows-wire": set(),
    "narrows-capture": {"narrows-units", "narrows-qdisc", "narrows-sim", "narrows-wire"},
    "narrows-intake": {"narrows-wire"},
    "narrows-client": {"narrows-wire"},
    "narrows-live": {
        "narrows-units",
        "narrows-transport",
        "narrows-apps",
        "narrows-sim",
        "narrows-engine",
        "narrows-client",
        "narrows-wire",
    },
    "narrows-gateway": {"narrows-units", "narrows-wire"},
    "narrows-engine": {"narrows-sim"},
    "narrows-plugin": {"narrows-units", "narrows-qdisc", "narrows-transport"},
    "narrows-example": {"narrows-units", "narrows-qdisc", "narrows-sim", "narrows-engine"},
    "narrows-web": {"narrows-sim", "narrows-engine"},
    "narrows-python": {
        "narrows-units",
        "narrows-qdisc",
        "narrows-link",
        "narrows-sim",
        "narrows-engine",
        "narrows-plugin",
        "narrows-capture",
        "narrows-intake",
        "narrows-client",
    },
}
# The core depends on a random generator, on libm and, with features, on serde and schemas of what
# it reads.
CORE = (
    "narrows-units",
    "narrows-qdisc",
    "narrows-link",
    "narrows-transport",
    "narrows-apps",
    "narrows-sim",
)
CORE_MAY_USE = {"libm", "rand_core", "rand_pcg", "schemars", "serde"}
PURE = ("sim", "apps", "link", "qdisc", "transport")


def packages() -> dict[str, Any]:
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {package["name"]: package for package in json.loads(done.stdout)["packages"]}


def used(package: Any) -> set[str]:
    """The crates that a crate uses, except in tests and benchmarks."""
    return {d["name"] for d in package["dependencies"] if d["kind"] != "dev"}


def test_every_crate_has_a_rule() -> None:
    assert packages().keys() == MAY_USE.keys()


_SCRIPT = (ROOT / "tools/package_crates.sh").read_text()
PACKAGED = "".join(re.findall(r'^crates="(.*)"$', _SCRIPT, flags=re.M)).split()
ALONE = {"narrows-units", "narrows-qdisc", "narrows-link", "narrows-transport"}
"""Crates for other programs, which need no standard library."""


def test_what_the_crates_of_narrows_new_need_is_packaged() -> None:
    """In an order in which a registry takes them: each after those that it needs."""
    assert set(PACKAGED) >= {f"narrows-{crate}" for part in PARTS.values() for crate in part.crates}
    for place, name in enumerate(PACKAGED):
        needs = {each["name"] for each in packages()[name]["dependencies"]}
        assert {each for each in needs if each.startswith("narrows-")} <= set(PACKAGED[:place])


def test_no_other_crate_can_be_published() -> None:
    open_ = {name for name, package in packages().items() if package["publish"] is None}
    assert open_ == set(PACKAGED)


@pytest.mark.parametrize("name", PACKAGED)
def test_crates_can_be_packaged(name: str) -> None:
    """Their documents and licences are in the package, and point at nothing outside.

    `make package` builds it.
    """
    command = ["cargo", "package", "--list", "--allow-dirty", "--offline", "--locked", "-p", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = done.stdout.split()
    assert {"README.md", "Cargo.toml", "src/lib.rs"} <= set(listed)
    folder = ROOT / "crates" / name.removeprefix("narrows-")
    assert ("build.rs" in listed) == (folder / "build.rs").exists()
    for licence in ("LICENSE-APACHE", "LICENSE-MIT"):
        assert licence in listed
        assert (folder / licence).read_text() == (ROOT / licence).read_text()
    assert ("#![no_std]" in (folder / "src/lib.rs").read_text()) is (name in ALONE)
    page = (folder / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)", page):
        assert target.startswith("https://") or target in listed
    for path in listed:
        if path.endswith(".rs"):
            text = (folder / path).read_text()
            assert "../../" not in text, f"{path} reads what is not in the package"
            for word in ("scenario", "Python", "docs/") if name in ALONE else ():
                assert word not in text, f"{path} speaks of what a user of the crate does not have"
    manifest = packages()[name]
    assert manifest["readme"] == "README.md"
    assert manifest["documentation"] == f"https://docs.rs/{name}"
    assert 3 <= len(manifest["keywords"]) <= 5 and manifest["categories"]


@pytest.mark.parametrize("name", MAY_USE)
def test_dependencies_point_one_way(name: str) -> None:
    ours = {other for other in used(packages()[name]) if other.startswith("narrows-")}
    assert ours <= MAY_USE[name]


@pytest.mark.parametrize("name", CORE)
def test_the_core_uses_a_random_generator_libm_and_serde_alone(name: str) -> None:
    package = packages()[name]
    foreign = {other for other in used(package) if not other.startswith("narrows-")}
    assert foreign <= CORE_MAY_USE
    forms = [d for d in package["dependencies"] if d["name"] in ("schemars", "serde")]
    assert all(d["optional"] for d in forms if d["kind"] != "dev")


@pytest.mark.parametrize("crate", PURE)
def test_the_pure_crates_are_kept_from_clocks_files_threads_and_hash_maps(crate: str) -> None:
    rules = tomllib.loads((ROOT / "crates" / crate / "clippy.toml").read_text())
    types = {entry["path"] for entry in rules["disallowed-types"]}
    assert {
        "std::time::Instant",
        "std::time::SystemTime",
        "std::collections::HashMap",
        "std::fs::File",
        "std::net::UdpSocket",
    } <= types
    methods = {m if isinstance(m, str) else m["path"] for m in rules["disallowed-methods"]}
    assert {"std::thread::spawn", "f64::ln", "f64::powf", "f64::exp"} <= methods


@pytest.mark.parametrize("crate", PURE)
def test_the_pure_crates_name_no_module_of_the_outer_world(crate: str) -> None:
    """What clippy's lists of single items would let through."""
    outer = ("std::time", "std::fs", "std::net", "std::thread", "std::env", "std::process")
    outer += ("print!(", "println!(", "thread_local!", "static mut")
    for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("//")[0]
            found = [name for name in outer if name in code]
            assert not found, f"{path.relative_to(ROOT)}:{number} uses {found[0]}"


PROGRAMS = [*ROOT.glob("crates/*/tests/all.rs"), *ROOT.glob("gateway/tests/*/main.rs")]


@pytest.mark.parametrize("program", sorted(PROGRAMS), ids=lambda path: "-".join(path.parts[-4:-1]))
def test_every_file_of_tests_is_in_their_program(program: Path) -> None:
    """Cargo does not see a file that the program's first forgets, so its tests would never run."""
    own = re.sub(r"#\[path.*\]\nmod \w+;", "", program.read_text())
    declared = set(re.findall(r"^mod (\w+);", own, re.MULTILINE))
    files = {path.stem for path in program.parent.glob("*.rs")} - {program.stem}
    assert declared == files | {path.parent.name for path in program.parent.glob("*/mod.rs")}
