"""Folders of narrows alone: other users' links and folders are never followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from narrows.backends import BackendError
from narrows.backends.kernel.slots import slot
from narrows.backends.kernel.workspace import workspace
from narrows.private import cache_folder, open_lock, private_folder

OTHER = 12345
"""A user that is neither root nor the one who runs the tests."""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory, as for a user who has no folder of their own at run time."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.access", lambda *_: False)
    return tmp_path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder with a file that nobody may touch."""
    folder = tmp_path / "victim"
    folder.mkdir(mode=0o700)
    (folder / "0").write_text("precious")
    os.utime(folder, (0.0, 0.0))
    return folder


def kept(victim: Path) -> bool:
    return [each.read_text() for each in victim.iterdir()] == ["precious"]


def test_it_lies_where_only_the_user_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found = private_folder("slots")
    assert found == tmp_path / "narrows" / "slots" == private_folder("slots")
    assert {each.stat().st_mode & 0o777 for each in (found, found.parent)} == {0o700}
    if os.geteuid() == 0:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        assert private_folder("slots") == Path("/run/narrows/slots")


@pytest.mark.parametrize("name", ["narrows-{}", "narrows-{}/slots", "narrows-{}/runs"])
def test_a_link_in_its_place_is_not_followed(name: str, temporary: Path, victim: Path) -> None:
    link = temporary / name.format(os.geteuid())
    link.parent.mkdir(mode=0o700, exist_ok=True)
    link.symlink_to(victim)
    other = link.name == "runs"
    with pytest.raises(BackendError, match=r"hint: set XDG_RUNTIME_DIR"):  # noqa: SIM117
        with workspace() if other else slot(1, lambda: None):
            pass
    assert kept(victim)


@pytest.mark.parametrize("name", ["narrows-kernel-{}", "narrows-slots-{}"])
def test_the_names_of_earlier_versions_are_left_alone(
    name: str, temporary: Path, victim: Path
) -> None:
    (temporary / name.format(os.geteuid())).symlink_to(victim)
    with workspace(), slot(1, lambda: None):
        pass
    assert kept(victim)


def test_a_lock_is_no_link_and_keeps_its_content(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "lock").symlink_to(victim / "0")
    with pytest.raises(OSError, match="symbolic links"):
        open_lock(tmp_path / "lock")
    os.close(open_lock(victim / "0"))
    assert kept(victim)


def test_a_folder_that_is_open_to_others_is_refused(temporary: Path) -> None:
    (temporary / f"narrows-{os.geteuid()}").mkdir()
    (temporary / f"narrows-{os.geteuid()}").chmod(0o755)
    with pytest.raises(PermissionError, match="is open to other users"):
        private_folder("slots")


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIP: only root can give folders away")
def test_root_uses_no_folder_of_another_user(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = temporary / "theirs"
    (theirs / "inside").mkdir(parents=True)
    for name in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(theirs / "inside"))
    assert cache_folder() == theirs / "inside"
    # Whoever owns the folder above can put another one in its place.
    os.chown(theirs, OTHER, OTHER)
    assert cache_folder() == Path.home() / ".cache"
    assert private_folder("slots") == temporary / "narrows-0" / "slots"
    os.chown(temporary / "narrows-0", OTHER, OTHER)
    with pytest.raises(PermissionError, match="belongs to another user"):
        private_folder("slots")


def test_a_folder_that_others_may_write_holds_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "open" / "cache"))
    (tmp_path / "open").mkdir()
    assert cache_folder() == tmp_path / "open" / "cache"
    (tmp_path / "open").chmod(0o777)
    assert cache_folder() != tmp_path / "open" / "cache"
    (tmp_path / "open").chmod(0o1777)
    assert cache_folder() == tmp_path / "open" / "cache"
