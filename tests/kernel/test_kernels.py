"""Kernels of other times: edits of a kernel's source, and what may run on the results."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from narrows.backends import BackendError, get
from narrows.backends.kernel import available, kernels, prepare
from narrows.backends.kernel.kernels import PLAIN, Edit, Version
from narrows.cli import main
from tests.kernel.scenarios import DUMBBELL, dumbbell

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
        kernels.apply(kernel.edits, tmp_path, Version(6, 1), kernel.source)
    header = tmp_path / "include" / "net" / "tcp.h"
    header.parent.mkdir(parents=True)
    header.write_bytes(b"\xff")
    with pytest.raises(BackendError, match=r"hint: give `source` a tarball of Linux 6.1"):
        kernels.apply(kernel.edits, tmp_path, Version(6, 1), kernel.source)


def test_an_edit_can_be_for_older_sources_alone(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(SOURCE)
    edit = Edit(file="a.c", below=7, append="int more;\n")
    kernels.apply([edit], tmp_path, Version(7, 0), "7")
    assert (tmp_path / "a.c").read_text() == SOURCE
    kernels.apply([edit], tmp_path, Version(6, 19), "6")
    assert (tmp_path / "a.c").read_text() == f"{SOURCE}int more;\n"


def test_the_version_is_that_of_the_makefile(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="the source has no Makefile of Linux"):
        Version.of(tmp_path)
    (tmp_path / "Makefile").write_text("# SPDX\nVERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n")
    assert Version.of(tmp_path) == (7, 3)
    takes = {name: kernels.find(name).takes(Version(7, 3)) for name in kernels.names()}
    assert takes == {"7": True, "2010": False}
    assert not PLAIN.takes(Version(7, 3))


@pytest.mark.parametrize(
    ("names", "plain", "seven"),
    [
        (["linux-source-6.12", "linux-source-6.1", "linux-source-7.10", "linux-source-7.9"], 1, 2),
        (["linux-source", "linux-source-5.10", "linux-source-6.12"], 2, None),
        ([], None, None),
    ],
)
def test_the_package_is_the_one_that_the_edits_know_or_the_newest(
    names: list[str], plain: int | None, seven: int | None
) -> None:
    for kernel, found in ((PLAIN, plain), (kernels.find("7"), seven)):
        assert prepare.chosen(names, kernel) == (None if found is None else names[found])


def test_a_source_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "linux-6.1"
    source.mkdir()
    (source / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 1\n")
    assert main(["kernel", "prepare", "-q", "--kernel", "7", "--source", str(source)]) == 2
    assert capsys.readouterr().err == (
        "error: linux-6.1: is Linux 6.1, but this guest is made of Linux 7; "
        "hint: give --source a tarball of Linux 7\n"
    )
    assert not list((tmp_path / "cache").glob("narrows/kernel/*building*"))


def test_a_scenario_is_held_against_each_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dumbbell.toml"
    file.write_text(DUMBBELL)
    old = [
        f"{key}.tcp.profile=linux-2.6.30" for key in ("traffic.downloads", "dns.stubs.transport")
    ]
    code = main(["kernel", "check", str(file), *[f"--set={each}" for each in old], "--json"])
    found = json.loads(capsys.readouterr().out)
    refuses = {way["name"]: {each["key"] for each in way["refuses"]} for way in found["kernels"]}
    assert not refuses["2010"]
    assert all("traffic.downloads.tcp.acks" in refuses[name] for name in ("host", "virtual", "7"))
    assert found["chosen"] is None
    assert code == (0 if any(way["usable"] for way in found["kernels"]) else 1)


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
    kernels.apply(edits, tmp_path, Version(6, 1), "6.1")
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
    assert capsys.readouterr().err == "error: 1999: no such kernel; hint: one of 2010, 7\n"


def test_dualpi2_needs_linux_7() -> None:
    scenario = dumbbell(links__bottleneck__forward__queue='{ kind = "dualpi2" }')
    for name in ("kernel-virtual", "kernel-2010"):
        found = {refusal.key: refusal for refusal in get(name).refusals(scenario)}
        key = "links.bottleneck.forward.queue.kind"
        assert found[key].why == "this guest has no dualpi2"
        assert found[key].hint == "use the backend kernel-7"
    for name in ("kernel", "kernel-7"):
        assert not get(name).refusals(scenario)


def test_a_change_without_a_scenario_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "check", "--set", "seed=2"]) == 2
    assert capsys.readouterr().err == (
        "error: --set: there is no scenario to change; hint: name its file\n"
    )
