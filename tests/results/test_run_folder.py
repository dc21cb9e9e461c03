import errno
import hashlib
import json
import os
import resource
from pathlib import Path

import polars as pl
import pytest
from synthetic_run import synthetic_run

from narrows.errors import NarrowsError
from narrows.report import write_run_report
from narrows.results import RUN_FILE, TABLES, Run, RunFolderError, folder
from narrows.results.compare import compare
from narrows.results.summarise import summarise
from narrows.unfinished import write_new

pytestmark = pytest.mark.slow


@pytest.fixture
def run() -> Run:
    return synthetic_run(duration_s=60.0, workers=5)


def test_what_is_saved_is_loaded(run: Run, tmp_path: Path) -> None:
    saved = run.save(tmp_path / "runs" / "a")
    loaded = Run.load(tmp_path / "runs" / "a")
    assert loaded.document() == run.document()
    for name in TABLES:
        assert loaded.tables[name].equals(run.tables[name]), name
    assert loaded.folder == saved.folder == tmp_path / "runs" / "a"
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["a"]


def test_a_folder_of_an_earlier_version_lacks_columns(run: Run, tmp_path: Path) -> None:
    later = ["busy_s", "rwnd_limited_s"]
    run.save(tmp_path / "a")
    path = tmp_path / "a" / "flows.parquet"
    data = folder.parquet(pl.read_parquet(path).drop(later))
    path.write_bytes(data)
    document = json.loads((tmp_path / "a" / RUN_FILE).read_text())
    document["files"]["flows.parquet"] = {
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    (tmp_path / "a" / RUN_FILE).write_text(json.dumps(document))
    loaded = Run.load(tmp_path / "a")
    assert loaded.flows.schema == run.flows.schema
    assert loaded.flows.drop(later).equals(run.flows.drop(later))
    assert loaded.flows.select(later).null_count().row(0) == (run.flows.height,) * 2
    # What is computed anew from the tables is the same.
    assert summarise(loaded.tables, loaded.end_s) == run.summary
    write_run_report(loaded, tmp_path / "a")
    assert compare([loaded, synthetic_run(seed=2)]).groups[0].runs[0].flags == run.flags
    # Other columns must be there.
    path.write_bytes(folder.parquet(pl.read_parquet(path).drop("srtt_ms")))
    del document["files"]["flows.parquet"]
    (tmp_path / "a" / RUN_FILE).write_text(json.dumps(document))
    with pytest.raises(RunFolderError, match="has no column srtt_ms"):
        Run.load(tmp_path / "a")


def test_a_run_names_its_build_if_it_is_known(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path / "early")
    assert Run.load(tmp_path / "early").build == run.build == ""
    assert "build" not in json.loads((tmp_path / "early" / RUN_FILE).read_text())
    synthetic_run(duration_s=60.0, workers=5, build="0123456789ab").save(tmp_path / "a")
    document = json.loads((tmp_path / "a" / RUN_FILE).read_text())
    assert document["build"] == Run.load(tmp_path / "a").build == "0123456789ab"
    for wrong in (None, 1, ["0123456789ab"], {}, True):
        (tmp_path / "a" / RUN_FILE).write_text(json.dumps({**document, "build": wrong}))
        with pytest.raises(RunFolderError, match="build is of a wrong type"):
            Run.load(tmp_path / "a")


def test_every_table_can_be_written_as_csv(run: Run, tmp_path: Path) -> None:
    for name, table in run.tables.items():
        found = pl.read_csv(run.write_csv(name, tmp_path / f"{name}.csv"), infer_schema=False)
        assert found.shape == table.shape
    queries = pl.read_csv(tmp_path / "queries.csv", infer_schema=False)
    several = run.queries.get_column("fates").list.len() > 1
    assert several.any()
    texts = queries.filter(several).get_column("fates")
    assert texts.str.split("; ").to_list() == run.queries.filter(several)["fates"].to_list()
    with pytest.raises(RunFolderError, match="nowhere"):
        run.write_csv("queries", tmp_path / "nowhere" / "x.csv")


def test_equal_content_gives_equal_bytes(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path / "a")
    synthetic_run(duration_s=60.0, workers=5).save(tmp_path / "b")
    loaded = Run.load(tmp_path / "a")
    loaded.save(tmp_path / "c")
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name
        assert path.read_bytes() == (tmp_path / "c" / path.name).read_bytes(), path.name


def test_chunks_of_a_table_do_not_show_in_its_bytes(run: Run) -> None:
    queues = run.queues
    pieces = pl.concat([queues[:100], queues[100:]], rechunk=False)
    assert folder.parquet(pieces) == folder.parquet(queues)


def test_another_seed_gives_other_bytes(run: Run) -> None:
    other = synthetic_run(duration_s=60.0, workers=5, seed=2)
    assert folder.parquet(run.queues) != folder.parquet(other.queues)


def test_a_partial_run_says_so(tmp_path: Path) -> None:
    synthetic_run(duration_s=100.0, workers=5, partial=True).save(tmp_path / "a")
    loaded = Run.load(tmp_path / "a")
    assert (loaded.status, loaded.stopped, loaded.complete) == ("partial", "interrupted", False)
    assert loaded.summary["dns"]["unfinished"] > 0


def test_captures_are_kept(run: Run, tmp_path: Path) -> None:
    synthetic_run(duration_s=20.0, captures={"bottleneck.forward": b"pcapng"}).save(tmp_path / "a")
    assert Run.load(tmp_path / "a").capture("bottleneck.forward") == b"pcapng"


def test_a_folder_that_holds_a_run_is_refused(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path / "a")
    before = {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()}
    with pytest.raises(RunFolderError, match="already holds a run; hint: choose another folder"):
        run.save(tmp_path / "a")
    assert {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()} == before


def test_other_files_are_never_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="holds other files"):
        run.save(tmp_path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunFolderError, match="is not a folder"):
        run.save(tmp_path / "file")
    with pytest.raises(RunFolderError, match=r"file exists|not a directory"):
        run.save(tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_folder_is_filled(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    run.save(tmp_path / "a")
    assert Run.load(tmp_path / "a").seed == run.seed


def test_an_unwritable_place_is_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    # CI may run as root, which is denied nothing.
    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(RunFolderError, match="permission denied; hint: choose a place"):
        run.save(tmp_path / "a")


def test_a_place_that_cannot_be_made_is_one_line(run: Run) -> None:
    with pytest.raises(RunFolderError) as caught:
        run.save("/proc/narrows/a")
    assert_one_line(caught.value)


@pytest.mark.parametrize("file", ["flows.parquet", "links.parquet", RUN_FILE])
def test_a_full_disk_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    def full(name: str, data: bytes, inside: int) -> None:
        if name == file:
            write_new(name, data[: len(data) // 2], inside)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        write_new(name, data, inside)

    monkeypatch.setattr(folder, "write_new", full)
    with pytest.raises(RunFolderError, match="no space left on device; hint: free") as caught:
        run.save(tmp_path / "a")
    assert_one_line(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_limit_of_the_system_leaves_nothing(run: Run, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, hard))
    try:
        with pytest.raises(RunFolderError, match="too large") as caught:
            run.save(tmp_path / "a")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_one_line(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_saving_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(name: str, data: bytes, inside: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folder, "write_new", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON at line 1"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "has no format"),
        (b"{}", "has no format"),
        (b'{"format": 2}', "has format 2, but this narrows reads 1"),
        (b'{"format": true}', "has format true"),
        (b'{"format": 1}', "narrows is missing"),
    ],
)
def test_a_damaged_document_is_one_line(run: Run, tmp_path: Path, text: bytes, what: str) -> None:
    run.save(tmp_path / "a")
    (tmp_path / "a" / RUN_FILE).write_bytes(text)
    with pytest.raises(RunFolderError, match=what) as caught:
        Run.load(tmp_path / "a")
    assert_one_line(caught.value)


@pytest.mark.parametrize("key", ["scenario", "seed", "status", "end_s", "summary", "wall"])
def test_a_document_with_a_wrong_value_is_one_line(run: Run, tmp_path: Path, key: str) -> None:
    run.save(tmp_path / "a")
    document = json.loads((tmp_path / "a" / RUN_FILE).read_text())
    for value in (None, True, [], "x"):
        if key == "status" or not isinstance(value, str):
            (tmp_path / "a" / RUN_FILE).write_text(json.dumps({**document, key: value}))
            with pytest.raises(RunFolderError, match=key):
                Run.load(tmp_path / "a")


def test_folders_without_a_run_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="does not exist"):
        Run.load(tmp_path / "none")
    with pytest.raises(RunFolderError, match=r"holds no run \(run.json is missing\)"):
        Run.load(tmp_path)
    (tmp_path / "sweep.json").touch()
    with pytest.raises(RunFolderError, match="holds a sweep, not a run; hint: narrows compare"):
        Run.load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="is not a folder"):
        Run.load(tmp_path / "file")


@pytest.mark.parametrize("checked", [True, False], ids=["with checksums", "without"])
@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_damaged_table_is_one_line(run: Run, tmp_path: Path, name: str, checked: bool) -> None:
    run.save(tmp_path / "a")
    if not checked:
        forget_checksums(tmp_path / "a")
    path = tmp_path / "a" / f"{name}.parquet"
    whole = path.read_bytes()
    for damaged in (b"", b"PAR1", whole[:-1], whole[: len(whole) // 2], b"x" * 1000, whole[8:]):
        path.write_bytes(damaged)
        with pytest.raises(
            RunFolderError, match=r"\.parquet: is (damaged|not a readable)"
        ) as caught:
            Run.load(tmp_path / "a")
        assert_one_line(caught.value)
    path.unlink()
    with pytest.raises(RunFolderError, match="is missing"):
        Run.load(tmp_path / "a")


def test_a_flipped_byte_is_found(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path / "a")
    path = tmp_path / "a" / "queues.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(RunFolderError, match="damaged or changed"):
        Run.load(tmp_path / "a")


def test_foreign_tables_are_one_line(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path / "a")
    forget_checksums(tmp_path / "a")
    path = tmp_path / "a" / "links.parquet"
    links = run.links
    foreign = {
        "has no column busy_s": links.drop("busy_s"),
        "column bytes is Int32, not UInt64": links.with_columns(pl.col("bytes").cast(pl.Int32)),
        "has a column extra": links.with_columns(extra=1),
        "column t_s has rows without a value": links.with_columns(
            t_s=pl.lit(None, dtype=pl.Float64)
        ),
    }
    for what, table in foreign.items():
        table.write_parquet(path)
        with pytest.raises(RunFolderError, match=what) as caught:
            Run.load(tmp_path / "a")
        assert_one_line(caught.value)


def forget_checksums(path: Path) -> None:
    document = json.loads((path / RUN_FILE).read_text())
    del document["files"]
    (path / RUN_FILE).write_text(json.dumps(document))


def assert_one_line(error: NarrowsError) -> None:
    assert "\n" not in str(error)
    assert len(str(error)) < 500
