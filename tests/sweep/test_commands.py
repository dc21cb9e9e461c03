"""Commands that read a sweep's folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from narrows.results.errors import RunFolderError
from narrows.results.sweep import read_rows

pytestmark = pytest.mark.slow


def narrows(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "narrows", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sweeps of the same keys, `slow` and `fast`, and a run."""
    from .conftest import TEXT

    path = tmp_path_factory.mktemp("sweeps")
    (path / "small.toml").write_text(TEXT, encoding="utf-8")
    for name, delay in (("fast", "1 ms"), ("slow", "50 ms")):
        done = narrows(
            path, "sweep", "small.toml", "--vary", "traffic.connections=1,4", "--seeds", "4",
            "--set", f"links.bottleneck.delay={delay}", "--out", name, "--workers", "1", "--quiet",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert done.stdout.startswith("small: 8 of 8 runs\n")
    assert narrows(path, "run", "small.toml", "--out", "run", "--no-report").returncode == 0
    return path


def test_a_plot_is_one_command(folder: Path) -> None:
    done = narrows(
        folder, "sweep", "plot", "fast", "--metric", "completion_mean_s", "--against",
        "connections", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [point["settings"] for point in document["points"]] == [
        {"traffic.connections": 1},
        {"traffic.connections": 4},
    ]
    assert document["points"][1]["ci_low"] < document["points"][1]["mean"]
    for name in document["files"]:
        assert (folder / name).stat().st_size > 1000
    assert {Path(name).suffix for name in document["files"]} == {".png", ".svg"}


def test_sweeps_are_compared_combination_by_combination(folder: Path) -> None:
    done = narrows(folder, "compare", "fast", "slow", "--json", "--out", "comparison")
    assert done.returncode == 0, done.stderr
    comparisons = json.loads(done.stdout)["comparisons"]
    assert [c["setting"] for c in comparisons] == [
        "connections 1",
        "connections 4",
    ]
    labels = [group["label"] for group in comparisons[0]["groups"]]
    assert labels == ["delay 1 ms", "delay 50 ms"]
    (rtt,) = [
        m
        for m in comparisons[0]["metrics"]
        if m["metric"] == "flows.srtt_median_ms" and m["group"] == labels[1]
    ]
    # 98 ms of the difference are propagation; the rest is queueing.
    assert rtt["verdict"] == "higher"
    assert 50 < rtt["ci_low"] < rtt["ci_high"] < 150
    assert rtt["sentence"].endswith("significant with 4 paired seeds.")
    page = (folder / "comparison" / "report.html").read_text(encoding="utf-8")
    assert "<h2>connections 4</h2>" in page


def test_metrics_are_listed_as_of_a_sweep(folder: Path) -> None:
    of_sweep = narrows(folder, "sweep", "plot", "fast", "--metric", "?").stdout
    for names in (("fast", "slow"), ("fast",)):
        done = narrows(folder, "compare", *names, "--metric", "?")
        assert (done.returncode, done.stderr) == (0, "")
        title, *lines = done.stdout.splitlines()
        assert title.endswith(": metrics")
        named = [line.split() for line in lines]
        assert ["metric", "in", "words", "unit"] in named
        (line,) = [line for line in lines if line.startswith("flows.srtt_median_ms ")]
        assert " ".join(line.split()) in " ".join(of_sweep.split())
    both = narrows(folder, "compare", "fast", "slow", "--metric", "srtt_median_ms", "--metric", "?")
    assert "smoothed round-trip time" in both.stdout.partition(": metrics")[0]
    assert "flows.timeouts" in both.stdout.partition(": metrics")[2]
    wrong = narrows(folder, "compare", "fast", "slow", "--metric", "nothing")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert wrong.stderr.endswith('; --metric "?" lists all\n')


def test_what_is_wrong_is_one_line(folder: Path) -> None:
    for arguments, message in (
        (["compare", "fast", "run"], "run: is a run, but fast is a sweep; hint: compare runs with"),
        (["compare", "fast", "slow", "--metric", "nothing"], "there is no metric nothing"),
        (["sweep", "plot", "run", "--metric", "x", "--against", "y"], "run: holds no sweep"),
        (["sweep", "plot", "missing", "--metric", "x", "--against", "y"], "does not exist"),
        (["sweep", "plot", "fast", "--metric", "x"], "there is no metric x; hint: one of"),
        (
            ["sweep", "plot", "fast", "--metric", "completion_mean_s", "--against", "limit"],
            "limit was not varied; hint: one of traffic.connections",
        ),
    ):
        done = narrows(folder, *arguments)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert message in done.stderr


def test_a_damaged_folder_is_one_line(folder: Path, tmp_path: Path) -> None:
    whole = {name: (folder / "fast" / name).read_bytes() for name in ("sweep.json", "rows.jsonl")}
    damages = {
        "sweep.json": [b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1}', b"\xff" * 100],
        "rows.jsonl": [b"x\n", b"{}\n", b'{"run": 1}\n', whole["rows.jsonl"][5:]],
    }
    for name, texts in damages.items():
        for number, text in enumerate(texts):
            damaged = tmp_path / f"{name}-{number}"
            damaged.mkdir()
            for other, data in whole.items():
                (damaged / other).write_bytes(text if other == name else data)
            done = narrows(
                tmp_path, "sweep", "plot", damaged.name, "--metric", "x", "--against", "y"
            )
            assert done.returncode == 2, done.stderr
            assert done.stderr.count("\n") == 1, done.stderr
            assert name in done.stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("run", 7),
        ("run", [1]),
        ("values", {}),
        ("seed", 2.0),
        ("seed", True),
        ("status", "done"),
        ("status", [1]),
        ("stopped", None),
        ("message", 5),
        ("end_s", "x"),
        ("events", -1),
        ("events", "x"),
        ("folder", 9),
        ("summary", 5),
        ("summary", {"flows": "x"}),
    ],
)
def test_a_row_of_other_kinds_is_damage(
    folder: Path, tmp_path: Path, key: str, value: object
) -> None:
    first, *rest = (folder / "fast" / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{first}\n{rest[0]}\n", encoding="utf-8")
    assert len(read_rows(path)) == 2
    row = json.dumps({**json.loads(first), key: value})
    path.write_text("\n".join([row, *rest, ""]), encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"rows\.jsonl: is damaged \(line 1\)"):
        read_rows(path)


def test_help_has_an_example(folder: Path) -> None:
    done = narrows(folder, "sweep", "plot", "--help")
    assert done.stdout.count("narrows sweep plot") >= 2
    assert "sweep plot" in narrows(folder, "--help").stdout
