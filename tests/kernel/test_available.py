"""Folders that are no guest kernel, and guests that do not boot: one line, with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows.backends import BackendError, run
from narrows.backends.kernel import available, trial
from narrows.cli import main
from tests.kernel.scenarios import dumbbell


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a guest kernel would be, in the test's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = available.guest_folder()
    found.mkdir(parents=True)
    return found


@pytest.mark.parametrize("about", [None, "", "{", "[]", "{}", '{"version": 6}', "\udcff"])
def test_a_part_of_a_kernel_is_none(
    folder: Path, about: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "linux").write_bytes(b"")
    if about is not None:
        (folder / "about.json").write_bytes(about.encode(errors="surrogateescape"))
    assert available.guest_version() is None
    main(["kernel", "check"])
    assert "no kernel is built (run narrows kernel prepare)" in capsys.readouterr().out
    with pytest.raises(BackendError, match="no kernel is built; hint: run narrows kernel prepare"):
        available.choose("virtual")


def test_a_guest_that_does_not_boot_is_one_line(folder: Path) -> None:
    kernel = folder / "linux"
    kernel.write_text("#!/bin/sh\necho no memory; exit 1\n")
    kernel.chmod(0o755)
    (folder / "about.json").write_text('{"version": "6.1.192"}')
    with pytest.raises(BackendError, match=r"ended early \(no memory\); hint: "):
        run(dumbbell(), backend="kernel-virtual")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000000'", ""),
        (
            "echo 'Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b'",
            "it does not run on this machine: Attempted to kill init! exitcode=0x0000000b",
        ),
        ("echo no memory; exit 1", "it does not run on this machine: no memory"),
        ("exit 1", "it does not run on this machine: it printed nothing"),
        (r"printf '\377\n'", "it does not run on this machine: \ufffd"),
    ],
)
def test_a_guest_is_booted_before_it_is_offered(
    folder: Path, script: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = folder / "linux"
    kernel.write_text(f"#!/bin/sh\n{script}\n")
    kernel.chmod(0o755)
    (folder / "about.json").write_text('{"version": "6.1.192"}')
    assert trial.why_not(kernel, virtual=True) == why
    main(["kernel", "check"])
    line = next(line for line in capsys.readouterr().out.splitlines() if "virtual" in line)
    assert line.endswith(f"no: {why} (run narrows kernel prepare)" if why else "6.1.192: yes")


def test_a_file_that_is_no_program_is_no_guest(tmp_path: Path) -> None:
    kernel = tmp_path / "linux"
    kernel.write_text("")
    assert trial.why_not(kernel, virtual=False) == "permission denied"
