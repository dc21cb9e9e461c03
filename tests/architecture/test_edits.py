"""How many places a new thing touches: each is added to a copy, and the places are counted.

All edits go into one copy of the crates and of the package. `cargo check` compiles the crates, and
other processes try in the package what follows from the new key of links and the new plot.
tests/scenario tries a new kind of traffic, a new queue discipline and a new key of TCP.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
EDITS = Path(__file__).parent / "edits"
SCENARIO = ROOT / "tests" / "scenario"
CRATES = ("units", "qdisc", "link", "transport", "apps", "sim")


Texts = dict[str, tuple[str, str] | list[tuple[str, str]]]


def each(texts: Texts) -> list[tuple[str, str, str]]:
    """The texts, each with its file."""
    return [
        (path, *pair)
        for path, pairs in texts.items()
        for pair in (pairs if isinstance(pairs, list) else [pairs])
    ]


class New(NamedTuple):
    """A new thing, and what it may touch."""

    files: int
    """The most files that say what it is or does."""
    lines: int
    """The most lines in lists of other files: those that declare modules, and those of kinds."""
    whole: dict[str, Path]
    """Files of its own."""
    parts: Texts
    """Text in other files that says what it is or does: what is before it, and the text."""
    listed: Texts
    """Lines in lists, in the same form."""


NEW = {
    "queue": New(
        files=1,
        lines=2,
        whole={"crates/qdisc/src/early_drop.rs": SCENARIO / "new_discipline" / "early_drop.rs"},
        parts={},
        listed={
            "crates/qdisc/src/lib.rs": ("pub mod drr;\n", "pub mod early_drop;\n"),
            "crates/qdisc/src/disciplines.rs": (
                "disciplines! {\n    decide when a packet comes {\n",
                '        EarlyDrop(Boxed crate::early_drop::Config) = "early-drop",\n',
            ),
        },
    ),
    "kind of traffic": New(
        files=2,
        lines=3,
        whole={
            "crates/apps/src/beacon.rs": EDITS / "beacon.rs",
            "python/narrows/scenario/traffic/beacon.py": SCENARIO / "new_kind" / "beacon.py",
        },
        parts={},
        listed={
            "crates/apps/src/lib.rs": ("mod application;\n", "pub mod beacon;\n"),
            "crates/apps/src/kinds.rs": (
                "kinds! {\n",
                '    #[doc = "Beacons."] Beacon(crate::beacon::Beacon),\n',
            ),
            "python/narrows/scenario/traffic/kinds.py": (
                "from narrows.scenario.traffic.bulk import Bulk as Bulk\n",
                "from narrows.scenario.traffic.beacon import Beacon as Beacon\n",
            ),
        },
    ),
    "key of TCP": New(
        files=3,
        lines=0,
        whole={},
        parts={
            "crates/transport/src/tcp/config.rs": (
                "        skip_handshake: bool = false, any();\n",
                "        /// Small segments wait until this many are under way.\n"
                "        small_at_once: u32 = 1, whole(1, 1000);\n",
            ),
            "crates/transport/src/tcp/sender/output.rs": (
                "        !cx.config.nagle || ",
                "self.packets_out < cx.config.small_at_once || ",
            ),
        },
        listed={},
    ),
    "key of links": New(
        files=3,
        lines=0,
        whole={},
        parts={
            "crates/sim/src/plan/network.rs": [
                (
                    "        mtu: u16 = ETHERNET_MTU, size(576, 65_535);\n",
                    "        /// Probability that a packet comes twice.\n"
                    "        duplicates: f64 = 0.0, share();\n",
                ),
                ("            loss: link.loss,\n", "            duplicates: link.duplicates,\n"),
            ],
            "crates/link/src/config.rs": [
                (
                    "    pub loss: Loss,\n",
                    "    /// Probability that a packet comes twice.\n    pub duplicates: f64,\n",
                ),
                ("            loss: Loss::Each(0.0),\n", "            duplicates: 0.0,\n"),
            ],
            "crates/link/src/transmitter/impairment.rs": (
                "let varies = !config.loss.is_none() || ",
                "config.duplicates > 0.0 || ",
            ),
        },
        listed={},
    ),
    "plot": New(
        files=2,
        lines=0,
        whole={"python/narrows/report/plots/spare.py": EDITS / "spare.py"},
        parts={
            "python/narrows/report/run_report.py": (
                "    found += [_throughput(run, link) for link in monitored_links(run)]\n",
                "    from narrows.report.plots.spare import spare\n\n"
                "    found += [spare(link) for link in monitored_links(run)]\n",
            )
        },
        listed={},
    ),
}


@pytest.mark.parametrize("name", NEW)
def test_it_touches_few_places(name: str) -> None:
    new = NEW[name]
    assert len(new.whole) + len(new.parts) <= new.files
    assert sum(text.count("\n") for _, _, text in each(new.listed)) <= new.lines


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of crates and package, with everything new."""
    root = tmp_path_factory.mktemp("edits")
    for name in CRATES:
        shutil.copytree(ROOT / "crates" / name, root / "crates" / name)
    skipped = shutil.ignore_patterns("__pycache__", "reproduce", "atlas", "examples")
    shutil.copytree(ROOT / "python" / "narrows", root / "python" / "narrows", ignore=skipped)
    shutil.copy(ROOT / "Cargo.lock", root)
    members = ", ".join(f'"crates/{name}"' for name in CRATES)
    (root / "Cargo.toml").write_text(
        "\n".join(
            f"{line.split(' = ')[0]} = [{members}]" if "members = [" in line else line
            for line in (ROOT / "Cargo.toml").read_text().splitlines()
        )
    )
    for new in NEW.values():
        for path, source in new.whole.items():
            assert not (root / path).exists(), path
            shutil.copy(source, root / path)
        for path, before, text in each(new.parts) + each(new.listed):
            old = (root / path).read_text()
            assert old.count(before) == 1, f"{before!r} is not in {path} once"
            (root / path).write_text(old.replace(before, before + text))
    yield root
    shutil.rmtree(root)


@pytest.mark.slow
def test_rust_needs_nothing_else(copy: Path) -> None:
    done = subprocess.run(
        ["cargo", "check", "-q", "--offline", "-p", "narrows-sim", "--features", "schema"],
        cwd=copy,
        env={**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target" / "new-discipline")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("tour", ["tour.py", "plot.py"])
def test_python_needs_nothing_else(copy: Path, tour: str) -> None:
    package = copy / "python"
    done = subprocess.run(
        [sys.executable, EDITS / tour, ROOT, package],
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "everything knows it\n", done.stderr
