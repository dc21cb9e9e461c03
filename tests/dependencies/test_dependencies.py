"""The locked packages: known vulnerabilities, licences, duplicate versions, and their source.

deny.toml and advisories.toml say what is allowed, the former also the licences of the Python
packages that narrows needs when it runs. `make lint` asks cargo-deny the same if it is
installed; compiling it takes minutes, so CI does without.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from email import message_from_string
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.third_party import PRODUCTS, Product, crates
from tools.update_advisories import LOCKS, advisories, locked, written

CHECKOUT = Path(__file__).parents[2]
POLICY = tomllib.loads((CHECKOUT / "deny.toml").read_text(encoding="utf-8"))
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def is_in(version: str, ranges: Sequence[str]) -> bool:
    """Whether a version is in one of the ranges, as RustSec writes them (semver's `^` included)."""
    return any(Version(version) in SpecifierSet(_plain(each), prereleases=True) for each in ranges)


def _plain(text: str) -> str:
    def bounds(found: re.Match[str]) -> str:
        low = Version(found[1])
        parts = [low.major, low.minor, low.micro]
        first = next((place for place, part in enumerate(parts) if part), 2)
        high = [*parts[:first], parts[first] + 1]
        return f">={found[1]},<{'.'.join(map(str, high))}"

    return re.sub(r"(?<![<>])=\s*(?=\d)", "==", re.sub(r"\^\s*([\w.+-]+)", bounds, text))


@pytest.mark.parametrize(
    ("version", "ranges", "expected"),
    [
        ("0.16.4", [">= 0.18.2"], False),
        ("0.18.2", [">= 0.18.2"], True),
        ("0.3.5", [">= 0.3.47", "< 0.3.6"], True),
        ("0.103.16", [">= 0.103.13, < 0.104.0-alpha.1", ">= 0.104.0-alpha.7"], True),
        ("0.104.0-alpha.2", [">= 0.103.13, < 0.104.0-alpha.1", ">= 0.104.0-alpha.7"], False),
        ("0.4.9", ["^0.4.8"], True),
        ("0.5.0", ["^0.4.8"], False),
        ("1.9.0", ["^1.2"], True),
        ("2.0.0", ["^1.2", "= 2.0.0"], True),
        ("1.0.0", [], False),
    ],
)
def test_ranges_are_semver_s(version: str, ranges: list[str], expected: bool) -> None:
    assert is_in(version, ranges) is expected


@pytest.mark.parametrize("lock", LOCKS)
def test_no_locked_version_has_a_known_vulnerability(lock: str) -> None:
    known = tomllib.loads(Path(__file__).with_name("advisories.toml").read_text(encoding="utf-8"))
    ignored = POLICY["advisories"]["ignore"]
    bad = [
        f"{name} {version}: {advisory}; hint: cargo update -p {name}, or a reason in deny.toml"
        for name, version in locked(lock)
        for advisory, good in known.get(name, {}).items()
        if advisory not in ignored and not is_in(version, good)
    ]
    assert bad == []


def test_advisories_are_read_as_the_database_writes_them(tmp_path: Path) -> None:
    folder = tmp_path / "crates/lru"
    folder.mkdir(parents=True)
    text = '```toml\n[advisory]\nid = "{id}"\n{more}\n[versions]\npatched = [">= 2"]\n{good}\n'
    text += "```\n# T\n"
    for name, more, good in (
        ("RUSTSEC-2026-0001", "", 'unaffected = ["< 1"]'),
        ("RUSTSEC-2026-0002", 'withdrawn = "2026-01-01"', ""),
    ):
        (folder / f"{name}.md").write_text(text.format(id=name, more=more, good=good))
    found = advisories(tmp_path, ["lru", "serde"])
    assert found == {"lru": {"RUSTSEC-2026-0001": [">= 2", "< 1"]}}
    assert tomllib.loads(written(found)) == found


@pytest.mark.parametrize("lock", LOCKS)
def test_a_package_has_one_version(lock: str) -> None:
    """Each further version in a lock file has a reason in deny.toml."""
    packages = locked(lock)
    several = {name for name, count in Counter(name for name, _ in packages).items() if count > 1}
    skipped = {entry["crate"]: entry["reason"] for entry in POLICY["bans"]["skip"]}
    assert all(skipped.values())
    rest = Counter(name for name, version in packages if f"{name}@{version}" not in skipped)
    assert [name for name in several if rest[name] > 1] == [], "give a reason in deny.toml"


def test_no_reason_is_left_over() -> None:
    there = {f"{name}@{version}" for lock in LOCKS for name, version in locked(lock)}
    assert {entry["crate"] for entry in POLICY["bans"]["skip"]} <= there


def is_allowed(expression: str, allowed: Sequence[str]) -> bool:
    """Whether a choice of an SPDX expression's licences is allowed; `/` is an old `OR`."""
    words = re.findall(r"[()]|[\w.+-]+", expression.replace("/", " OR "))

    def either() -> bool:
        found = both()
        while words and words[0] == "OR":
            words.pop(0)
            found = both() or found
        return found

    def both() -> bool:
        found = one()
        while words and words[0] == "AND":
            words.pop(0)
            found = one() and found
        return found

    def one() -> bool:
        word = words.pop(0)
        if word == "(":
            found = either()
            assert words.pop(0) == ")", expression
            return found
        if words and words[0] == "WITH":
            word = " ".join([word, words.pop(0), words.pop(0)])
        return word in allowed

    found = either()
    assert not words, expression
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT/GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR GPL-3.0-only) AND ISC", True),
        ("MIT OR GPL-3.0-only AND ISC", True),
        ("(MIT OR ISC) AND GPL-3.0-only", False),
        ("Apache-2.0 WITH LLVM-exception", False),
    ],
)
def test_licences_are_read_as_spdx_means_them(expression: str, expected: bool) -> None:
    assert is_allowed(expression, ["MIT", "ISC", "Apache-2.0"]) is expected


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_has_an_allowed_licence_and_source(lock: str) -> None:
    manifest = CHECKOUT / lock.replace(".lock", ".toml")
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features"]
    command += ["--manifest-path"]
    done = subprocess.run([*command, str(manifest)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    packages: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    assert len(packages) == len(locked(lock))
    allowed = POLICY["licenses"]["allow"]
    exceptions: dict[str, list[str]] = defaultdict(list)
    for each in POLICY["licenses"]["exceptions"]:
        exceptions[each["crate"]] += each["allow"]
    bad = [
        f"{package['name']}: {package['license']}"
        for package in packages
        if package["source"] is not None
        and not is_allowed(package["license"] or "none", [*allowed, *exceptions[package["name"]]])
    ]
    assert bad == []
    assert {package["source"] for package in packages} <= {None, REGISTRY}


@pytest.mark.parametrize("product", PRODUCTS, ids=["wheel", "gateway"])
def test_what_we_distribute_has_the_licence_of_each_crate_in_it(product: Product) -> None:
    """Those who distribute a wheel, or the gateway's package, must hand on these texts."""
    there = re.findall(r"^[\w-]+ \(.+\)$", product.written.read_text(), flags=re.M)
    wanted = {crate.line for crate in crates(product)}
    assert len(wanted) > 40
    assert set(there) == wanted, "hint: .venv/bin/python tools/third_party.py"
    assert len(there) == len(set(there))


SPDX = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    # With two or three clauses, which the name does not say.
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
"""How packages without an SPDX expression name licences, in a field or a classifier."""


def licence_of(metadata: Any) -> str:
    """A package's licence as an SPDX expression, or what else it says; empty if it says nothing."""
    expression: str | None = metadata.get("License-Expression")
    if expression:
        return expression
    classifiers = metadata.get_all("Classifier") or []
    named = [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: ")]
    # Many write the whole text into the field.
    field = (metadata.get("License") or "").strip()
    if not named and "\n" not in field:
        named = [field]
    return " AND ".join(SPDX.get(name, name) for name in named)


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ("License-Expression: MIT", True),
        ("License-Expression: GPL-3.0-only", False),
        ("License-Expression: MIT AND GPL-3.0-only", False),
        ("License: MIT", True),
        ("License: GNU GPLv3", False),
        ("Classifier: License :: OSI Approved :: BSD License", True),
        ("Classifier: License :: OSI Approved :: GNU General Public License (GPL)", False),
        ("License: MIT\nClassifier: License :: OSI Approved :: Mozilla Public License 2.0", False),
        ("Name: silent", False),
    ],
)
def test_a_package_s_licence_is_read_from_whatever_says_it(said: str, allowed: bool) -> None:
    assert is_listed(licence_of(message_from_string(said)), POLICY["licenses"]["allow"]) is allowed


def is_listed(licence: str, allowed: Sequence[str]) -> bool:
    """Whether what a package says is an expression of licences that are all allowed."""
    try:
        return bool(licence) and is_allowed(licence, allowed)
    except (AssertionError, IndexError):
        # It is no expression, but words.
        return False


def at_run_time() -> dict[str, Distribution]:
    """The installed packages that narrows needs when it runs, with its extras for users."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(each for name in ("dask", "gym") for each in extras[name])]
    assert extras.keys() == {"dask", "gym", "dev"}
    waiting = [Requirement(text) for text in asked]
    found: dict[str, Distribution] = {}
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            pytest.fail(f"{name} is not installed; hint: make setup")
        for text in found[name].requires or ():
            below = Requirement(text)
            if below.marker is None or any(
                below.marker.evaluate({"extra": extra}) for extra in wanted.extras or {""}
            ):
                below.marker = None
                waiting.append(below)
    return found


def test_every_python_package_at_run_time_has_an_allowed_licence() -> None:
    found = at_run_time()
    assert found.keys() >= {"numpy", "pydantic-core", "kiwisolver", "distributed", "tornado"}
    allowed = POLICY["licenses"]["allow"]
    bad = {
        name: licence_of(package.metadata)
        for name, package in found.items()
        if not is_listed(licence_of(package.metadata), allowed)
    }
    assert bad == {}


def pins() -> dict[str, list[str]]:
    """The versions of each package in requirements-dev.txt; Python versions may have their own."""
    found: dict[str, list[str]] = {}
    text = (CHECKOUT / "requirements-dev.txt").read_text(encoding="utf-8")
    for entry in text.replace("\\\n", " ").splitlines():
        if entry and not entry.startswith("#"):
            assert "--hash=sha256:" in entry, entry
            name, _, version = entry.split()[0].partition("==")
            found.setdefault(canonicalize_name(name), []).append(version)
    return found


def test_the_lock_file_has_what_pyproject_asks_for() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = pins()
    for text in (*project["dependencies"], *project["optional-dependencies"]["dev"]):
        asked = Requirement(text)
        versions = pinned.get(canonicalize_name(asked.name), [])
        assert versions and all(version in asked.specifier for version in versions), (
            f"{text}: requirements-dev.txt has {versions}; hint: make lock"
        )
