"""Kernels of other times: edits of a kernel's source, and what may run on the results."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from narrows.backends import BackendError, get
from narrows.backends.kernel import available, kernels
from narrows.backends.kernel.kernels import Edit
from narrows.cli import main
from tests.kernel.scenarios import dumbbell

SOURCE = """\
#define LIMIT\t\t10
#define LIMIT_OF(x) ((x) * LIMIT) /* a comment */
#define LONG ((unsigned)(1*HZ)) /* one second */

static int before(int a);

/* Says how much. */
static int before(int a)
{
\tif (a) {
\t\treturn 1;
\t}
\treturn LIMIT;
}

void both(struct sock *sk, int first,
\t  int second)
{
\tuse(first + second);
}
"""


def edited(**edit: str) -> str | None:
    return Edit(file="a.c", **edit).applied(SOURCE)


def test_a_definition_gets_a_value_and_keeps_its_comment() -> None:
    assert edited(define="LIMIT", value="3") == SOURCE.replace("\t\t10\n", "\t\t3\n")
    assert edited(define="LONG", value="(3)") == SOURCE.replace("((unsigned)(1*HZ))", "(3)")


def test_a_function_gets_a_body() -> None:
    old = "\tif (a) {\n\t\treturn 1;\n\t}\n\treturn LIMIT;\n"
    assert edited(function="before", body="\n\treturn a;\n") == SOURCE.replace(old, "\treturn a;\n")
    changed = SOURCE.replace("\tuse(first + second);\n", "")
    assert edited(function="both", body="") == changed


def test_words_are_found_within_their_function_alone() -> None:
    changed = SOURCE.replace("first + second", "first")
    assert edited(function="both", find="first + second", by="first") == changed
    assert edited(function="before", find="first + second", by="first") is None


def test_code_can_follow_the_last_line() -> None:
    assert edited(append="int more;\n") == f"{SOURCE}int more;\n"


@pytest.mark.parametrize(
    "edit",
    [
        {"define": "NONE", "value": "1"},
        {"function": "none", "body": ""},
        {"function": "sk", "body": ""},
        {"function": "both", "find": "s", "by": ""},
    ],
)
def test_what_does_not_fit_is_left(edit: dict[str, str]) -> None:
    assert edited(**edit) is None


def test_a_source_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    kernel = kernels.find("2010")
    with pytest.raises(BackendError, match=r"TCP_INIT_CWND in include/net/tcp.h does not fit"):
        kernels.apply(kernel.edits, tmp_path)
    header = tmp_path / "include" / "net" / "tcp.h"
    header.parent.mkdir(parents=True)
    header.write_bytes(b"\xff")
    with pytest.raises(BackendError, match=r"hint: give `source` a tarball of Linux 6.1"):
        kernels.apply(kernel.edits, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["meter", "2010"])
def test_the_edits_fit_the_distributions_source(tmp_path: Path, name: str) -> None:
    tarballs = sorted(Path("/usr/src").glob("**/linux-source-6.1.tar.*"))
    if not tarballs:
        pytest.skip("the kernel's source is missing: apt-get install linux-source-6.1")
    edits = kernels.meter() if name == "meter" else kernels.find(name).edits
    files = sorted({edit.file for edit in edits})
    # Each file is there once, so that tar need not read to the end.
    words = ["tar", "xf", str(tarballs[0]), "-C", str(tmp_path), "--strip-components=1"]
    members = [f"linux-source-6.1/{file}" for file in files]
    subprocess.run([*words, "--occurrence=1", *members], check=True)
    before = {file: (tmp_path / file).read_text() for file in files}
    kernels.apply(edits, tmp_path)
    assert all((tmp_path / file).read_text() != before[file] for file in files)


def test_the_tcp_of_a_time_runs_on_its_kernel_alone() -> None:
    profile = "linux-2.6.30"
    of_its_time = dumbbell(
        traffic__downloads__tcp__profile=profile, dns__stubs__transport__tcp__profile=profile
    )
    refused = {refusal.key for refusal in get("kernel-2010").refusals(dumbbell())}
    assert {f"traffic.downloads.tcp.{key}" for key in ("acks", "reduction")} <= refused
    assert not get("kernel-2010").refusals(of_its_time)
    assert not get("kernel").refusals(dumbbell())
    refused = {refusal.key for refusal in get("kernel").refusals(of_its_time)}
    assert {f"traffic.downloads.tcp.{key}" for key in ("acks", "reduction")} <= refused


def test_a_kernel_that_is_not_built_says_how_it_is_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BackendError, match="run narrows kernel prepare --kernel 2010"):
        available.choose("2010")
    assert available.guest_folder() != available.guest_folder(kernels.find("2010"))


def test_a_kernel_that_is_not_known_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "prepare", "--kernel", "1999"]) == 2
    assert capsys.readouterr().err == "error: 1999: no such kernel; hint: one of 2010\n"
