"""The run folder on disk: written whole or not at all, and read with one clear line per error.

A folder holds run.json, one Parquet file for each table, and `captures/LINK.pcapng` for captured
links. It is first written under a temporary name in the same place and then renamed, so that a full
disk or a crash never leaves half a run under the final name. Equal content gives equal bytes:
compression, row groups and the order of keys are fixed, and only `wall` has timestamps.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from narrows.foreign_text import regular_bytes
from narrows.results.checked import clean, fault_of_document, fault_of_table
from narrows.results.documents import Kind
from narrows.results.errors import RunFolderError
from narrows.results.foreign import PROGRAM
from narrows.results.schema import FORMAT, TABLES, Table, completed, mismatch
from narrows.unfinished import is_unfinished, make_unfinished, write_new

SWEEP_FILE = "sweep.json"
"""The file that makes a folder a sweep folder."""
RUN_FILE = "run.json"
"""The file that makes a folder a run folder."""

BENCH = "gateway-bench"
"""The `backend` in the run.json of a folder that `make bench-gateway` wrote."""

MEASUREMENTS = ("probe", "atlas", "capture", "csv", "run")
"""The `backend` in the run.json of a measurement of servers; `run`: of a scenario's servers."""

OTHERS = (BENCH, *MEASUREMENTS)
"""Folders of no scenario: their names are those of servers and files."""

_CAPTURES = "captures"
_ROW_GROUP = 1 << 18


def check_target(folder: Path) -> None:
    """Checks before a run that it can be saved to ``folder`` afterwards.

    Raises:
        RunFolderError: The folder holds a run or other files, or it cannot be written.
    """
    try:
        # A run folder appears whole, by a rename to a free name.
        if folder.is_symlink():
            raise RunFolderError(folder, "is a symbolic link", "choose another name")
        refuse_others(folder)
        make_unfinished(folder).rmdir()
    except OSError as error:
        raise RunFolderError.of_system(folder, error) from None


def refuse_others(
    folder: Path, *, marks: Collection[str] = (), allowed: Collection[str] = ()
) -> None:
    """Checks that a folder holds only what its writer may replace or continue.

    Args:
        folder: The folder, which need not exist.
        marks: Files; if one of them exists, everything in the folder is the writer's.
        allowed: Other files that may be there.

    Raises:
        RunFolderError: It holds a run or other files, or is not a folder.
        OSError: It cannot be read.
    """
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(folder, "is not a folder", "choose another name")
    inside = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    inside = {name for name in inside if not is_unfinished(name)}
    if inside.isdisjoint(marks) and not inside.issubset(allowed):
        if RUN_FILE in inside:
            raise RunFolderError(folder, "already holds a run", "choose another folder")
        raise RunFolderError(folder, "holds other files", "choose a new or empty folder")


def write(
    folder: Path,
    document: Mapping[str, Any],
    tables: Mapping[str, pl.DataFrame],
    captures: Mapping[str, bytes],
    schema: Mapping[str, Table] = TABLES,
) -> str:
    """Writes a run folder whole, or leaves nothing; returns run.json's digest.

    Args:
        folder: The folder, which must not hold anything yet.
        document: The contents of run.json, without the tables' sizes and checksums.
        tables: The tables by name: all that `schema` has.
        captures: pcapng files by link.
        schema: The declared tables; those of a bench differ from those of a scenario.

    Raises:
        RunFolderError: The folder holds a run or other files, or it cannot be written.
    """
    check_target(folder)
    with _unfinished(folder) as temporary:
        digest = _write_files(temporary, document, tables, schema)
        if captures:
            (temporary / _CAPTURES).mkdir()
            with _open(temporary / _CAPTURES) as inside:
                for link, data in sorted(captures.items()):
                    write_new(f"{link}.pcapng", data, inside)
        # A rename replaces only an empty folder, never one that has been filled in the meantime.
        temporary.rename(folder)
    return digest


def renew(
    folder: Path,
    document: Mapping[str, Any],
    tables: Mapping[str, pl.DataFrame],
    schema: Mapping[str, Table],
) -> None:
    """Writes a run into a folder that its caller fills, and replaces an earlier part of the run.

    A crash while it writes leaves no run.json, rather than one that does not match the tables. The
    caller must therefore keep the run elsewhere until this returns.

    Args:
        folder: The folder; it exists, and may hold a run and other files.
        document: The contents of run.json, without the tables' sizes and checksums.
        tables: The tables by name: all that `schema` has.
        schema: The declared tables.

    Raises:
        RunFolderError: It cannot be written.
    """
    with _unfinished(folder) as temporary:
        _write_files(temporary, document, tables, schema)
        (folder / RUN_FILE).unlink(missing_ok=True)
        for table in schema.values():
            (temporary / table.file_name).replace(folder / table.file_name)
        (temporary / RUN_FILE).replace(folder / RUN_FILE)


@contextlib.contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A folder beside this one to write into; what is left of it at the end is removed."""
    temporary = None
    try:
        temporary = make_unfinished(folder)
        yield temporary
    except OSError as error:
        raise RunFolderError.of_system(folder, error) from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def read(
    folder: Path,
    schema: Mapping[str, Table] = TABLES,
    extra: Callable[[str], Table | None] | None = None,
) -> tuple[dict[str, Any], dict[str, pl.DataFrame]]:
    """Reads and checks run.json and the tables of a run folder.

    Args:
        folder: The folder.
        schema: The tables that it must have.
        extra: Returns the declaration of another table that it may have, by name; None: no others
            are read. Unknown tables that a program wrote are read as they are.

    Raises:
        RunFolderError: The folder holds no run, a damaged one, one of another format, or one with
            other tables.
    """
    document = read_document(folder)
    _check_kind(folder, document["backend"], schema)
    files = document.get("files", {})
    if not isinstance(files, dict):
        raise RunFolderError(folder / RUN_FILE, "is damaged (files is not an object)", _RERUN)
    wanted: dict[str, Table | None] = dict(schema)
    names = [name.removesuffix(".parquet") for name in files if name.endswith(".parquet")]
    for name in names:
        if extra is None or name in schema:
            continue
        found = extra(name)
        own = document["backend"].startswith(PROGRAM) and name.isidentifier()
        if found is None and not own:
            what = f"has a table {name} that this version does not know"
            raise RunFolderError(folder, what, "use the narrows that wrote it")
        wanted[name] = found
    tables = {
        name: _read_table(
            folder / f"{name}.parquet",
            table,
            files.get(f"{name}.parquet"),
            is_checked=document["backend"] not in OTHERS,
        )
        for name, table in wanted.items()
    }
    return document, tables


def is_as_written(folder: Path) -> bool:
    """Whether a folder holds a run whose run.json is as narrows wrote it.

    Files of earlier versions and of other folders do not say so themselves.
    """
    try:
        document = json.loads(regular_bytes(folder / RUN_FILE))
        return bool(document.pop("digest") == _digest(document))
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return False


def digest_of(
    document: Mapping[str, Any], tables: Mapping[str, pl.DataFrame], schema: Mapping[str, Table]
) -> str:
    """The digest that run.json would have if the run were written."""
    files = {each.file_name: _facts(parquet(tables[each.name])) for each in schema.values()}
    return _digest({**document, "files": files})


def _digest(document: Mapping[str, Any]) -> str:
    """The digest of run.json without `wall`, which differs from run to run."""
    parts = {key: value for key, value in document.items() if key != "wall"}
    text = json.dumps(json.loads(json.dumps(parts)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_captures(folder: Path) -> dict[str, Path]:
    """Capture files of a run folder by link."""
    return {path.stem: path for path in sorted((folder / _CAPTURES).glob("*.pcapng"))}


def parquet(table: pl.DataFrame) -> bytes:
    """Encodes a table as Parquet; the same content gives the same bytes."""
    buffer = io.BytesIO()
    # With one chunk, the bytes do not depend on how the frame was made.
    table.rechunk().write_parquet(
        buffer,
        compression="zstd",
        compression_level=3,
        statistics=True,
        row_group_size=_ROW_GROUP,
    )
    return buffer.getvalue()


def read_document(folder: Path) -> dict[str, Any]:
    """Reads and checks run.json.

    Raises:
        RunFolderError: There is none, or it is damaged or of another format.
    """
    path = folder / RUN_FILE
    document = _RUN.read(folder)
    for key, kinds in _KEYS.items():
        value = document.get(key)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise RunFolderError(path, f"is damaged ({key} is missing or of a wrong type)", _RERUN)
    for key, kind in (("set", dict), ("outside", dict), ("build", str)):
        if not isinstance(document.get(key, kind()), kind):
            raise RunFolderError(path, f"is damaged ({key} is of a wrong type)", _RERUN)
    if document["status"] not in ("complete", "partial"):
        raise RunFolderError(path, "is damaged (status is neither complete nor partial)", _RERUN)
    fault = "" if document["backend"] in OTHERS else fault_of_document(document)
    if fault:
        raise RunFolderError(path, f"is damaged ({fault})", _RERUN)
    return document


def _check_kind(folder: Path, backend: str, schema: Mapping[str, Table]) -> None:
    """Refuses a folder whose kind is not that of these tables."""
    if backend == BENCH:
        what, hint, own = "a bench", "narrows reproduce S --bench reads it", "intervals"
    elif backend in MEASUREMENTS:
        what, hint, own = "a measurement", "narrows ratio reads it", "exchanges"
    else:
        what, hint, own = "a scenario's run", "narrows compare reads it", "flows"
    if own not in schema:
        raise RunFolderError(folder, f"holds {what}, which this command does not read", hint)


_KEYS: dict[str, tuple[type, ...]] = {
    "narrows": (str,),
    "backend": (str,),
    "scenario": (dict,),
    "seed": (int,),
    "status": (str,),
    "stopped": (str,),
    "end_s": (int, float),
    "events": (int,),
    "summary": (dict,),
    "wall": (dict,),
    "host": (dict,),
}

_RERUN = "run the scenario again"
_HINT = "name a run folder, which narrows run writes"
_SWEEP = ("holds a sweep, not a run", "narrows compare and narrows sweep plot read it")
_RUN = Kind(
    "run", RUN_FILE, FORMAT, _HINT, again=_RERUN, anew=_RERUN, mistaken={SWEEP_FILE: _SWEEP}
)


def _read_table(
    path: Path, table: Table | None, facts: object, *, is_checked: bool
) -> pl.DataFrame:
    try:
        data = regular_bytes(path)
    except FileNotFoundError:
        raise RunFolderError(path, "is missing", _RERUN) from None
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None
    # Checked before the Parquet reader sees the file, because it may not survive every damage.
    if isinstance(facts, dict):
        if facts.get("bytes") != len(data):
            raise RunFolderError(
                path, f"is damaged ({len(data)} bytes instead of {facts.get('bytes')})", _RERUN
            )
        if facts.get("sha256") != hashlib.sha256(data).hexdigest():
            raise RunFolderError(
                path, f"is damaged or changed since {RUN_FILE} was written", _RERUN
            )
    try:
        found = pl.read_parquet(io.BytesIO(data), use_pyarrow=False)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException:
        # A panic in the reader is not an Exception.
        raise RunFolderError(path, "is not a readable Parquet file", _RERUN) from None
    if table is None:
        return clean(found)
    found = completed(table, found)
    why = mismatch(table, found)
    if why is not None:
        raise RunFolderError(path, why, "use the narrows that wrote it, or run the scenario again")
    found = clean(found.select(table.schema.names()))
    fault = fault_of_table(found) if is_checked else ""
    if fault:
        raise RunFolderError(path, f"is damaged ({fault})", _RERUN)
    return found


def _write_files(
    folder: Path,
    document: Mapping[str, Any],
    tables: Mapping[str, pl.DataFrame],
    schema: Mapping[str, Table],
) -> str:
    """Writes the tables, and run.json with their sizes and checksums; returns its digest."""
    files = {}
    with _open(folder) as inside:
        for table in schema.values():
            data = parquet(tables[table.name])
            write_new(table.file_name, data, inside)
            files[table.file_name] = _facts(data)
        whole = {**document, "files": files}
        whole["digest"] = _digest(whole)
        text = json.dumps(whole, indent=2, allow_nan=False)
        write_new(RUN_FILE, (text + "\n").encode(), inside)
        return str(whole["digest"])


def _facts(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@contextlib.contextmanager
def _open(folder: Path) -> Iterator[int]:
    """Opens a folder, which somebody may replace by a link while files are written into it."""
    found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield found
    finally:
        os.close(found)
