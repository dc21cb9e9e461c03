"""`narrows report` and `narrows plot`: pages and plots of folders that exist already."""

from __future__ import annotations

from pathlib import Path

from .conftest import Narrows


def test_a_run_gets_its_report_later(narrows: Narrows, small: Path) -> None:
    home = small.parent
    assert narrows("run", str(small), "--out", "a").returncode == 0
    assert narrows("run", str(small), "--out", "b", "--no-report").returncode == 0
    assert not (home / "b" / "report.html").exists()
    done = narrows("report", "b")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "wrote b/report.html\n"
    pages = [(home / name / "report.html").read_text(encoding="utf-8") for name in "ab"]
    assert pages[0] == pages[1]
    assert not (home / "a" / "plots").exists()


def test_plots_of_a_run_are_drawn_when_asked_for(narrows: Narrows, small: Path) -> None:
    home = small.parent
    assert narrows("run", str(small), "--out", "a", "--no-report").returncode == 0
    done = narrows("plot", "a", "--name", "backlog", "--plots", "pdf", "--out", "paper")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "paper/backlog-bottleneck.forward.pdf\n"
    assert (home / "paper" / "backlog-bottleneck.forward.pdf").read_bytes().startswith(b"%PDF-")
    done = narrows("plot", "a", "--name", "backlgo")
    assert done.returncode == 2
    assert "there is no plot backlgo; hint: one of attempts, response-cdf" in done.stderr


def test_a_sweep_gets_a_page(narrows: Narrows, small: Path) -> None:
    home = small.parent
    vary = ("--vary", "queue.limit=10 kB,30 kB", "--seeds", "2", "--out", "sweep")
    assert narrows("sweep", str(small), *vary).returncode == 0
    assert narrows("report", "sweep").returncode == 0
    assert "limit of the queue" in (home / "sweep" / "report.html").read_text(encoding="utf-8")
    done = narrows("plot", "sweep")
    assert done.returncode == 2
    assert "narrows sweep plot" in done.stderr


def test_tables_for_latex(narrows: Narrows, small: Path) -> None:
    vary = ("--vary", "queue.limit=10 kB,30 kB", "--seeds", "2", "--out", "sweep")
    run = ("run", str(small), "--no-report")
    plot = ("sweep", "plot", "sweep", "--metric", "dns.within_1s_percent", "--against", "limit")
    for command in (
        (*run, "--out", "a"),
        (*run, "--out", "b", "--set", "queue.limit=10 kB"),
        ("compare", "a", "b"),
        ("sweep", str(small), *vary),
        plot,
    ):
        done = narrows(*command, "--latex")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("% ")
        assert done.stdout.count("\\begin{tabular}") == 1
        assert done.stdout.endswith("\\end{tabular}\n")
    done = narrows(*plot, "--latex", "--json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_what_is_no_folder_of_narrows_is_refused(narrows: Narrows, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for command in ("report", "plot"):
        for folder in ("missing", "empty"):
            done = narrows(command, folder)
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr.count("\n") == 1 and folder in done.stderr, done.stderr
