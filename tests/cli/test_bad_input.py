"""Bad input: one line on stderr that names the thing and the remedy, exit code 2, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Narrows


def one_line(narrows: Narrows, *arguments: str) -> str:
    done = narrows(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "named", "fix"),
    [
        (["rnu", "x.toml"], "rnu", "narrows --help"),
        (["run"], "SCENARIO", "narrows run --help"),
        (["run", "x.toml", "--sed", "3"], "--sed", "narrows run --help"),
        (["run", "x.toml", "--seed", "three"], "--seed", "narrows run --help"),
        (["run", "x.toml", "--seed", "-3"], "--seed", "narrows run --help"),
        (["run", "x.toml", "--seed", str(2**63)], "--seed", "narrows run --help"),
        (["run", "x.toml", "--event-limit", str(2**63)], "--event-limit", "narrows run --help"),
        (["run", "x.toml", "--event-limit", "0"], "--event-limit", "narrows run --help"),
        (["run", "nowhere.toml"], "nowhere.toml", "check the path"),
        (["run", "nowhere.toml", "--set", "seed"], "--set seed", "KEY=VALUE"),
        (["run", "nowhere.toml", "--set", "seed=1", "--set", "seed=2"], "--set seed", "keep one"),
        (["check", "."], ".", "name a file in it"),
        (["check", "nowhere.toml"], "nowhere.toml", "check the path"),
        (["reproduce", "H12"], "'H12'", "one of H,"),
        (["reproduce", "H", "--seeds", "1"], "--seeds", "narrows reproduce --help"),
        (["reproduce", "H", "--jobs", "0"], "--jobs", "narrows reproduce --help"),
        (["reproduce", "H", "--against", "ns-3"], "ns-3", "kernel"),
        (["reproduce", "H1", "--backend", "moon"], "'moon'", "one of kernel,"),
        (["compare", "one"], "one", "write folders to runs/"),
        (["run", "x.toml", "--seeds", "5"], "--seeds", "narrows sweep FILE --seeds 5"),
        (["run", "x.toml", "--csv", "x"], "--csv", "narrows sweep FILE --csv"),
        (["sweep", "x.toml", "--seeds", "0"], "--seeds 0", "must be 1 to 100,000"),
        (["kernel", "eth0"], "'kernel'", "narrows run FILE --backend kernel"),
        (["schema", "surplus"], "surplus", "narrows schema --help"),
    ],
)
def test_a_wrong_command_line(narrows: Narrows, arguments: list[str], named: str, fix: str) -> None:
    line = one_line(narrows, *arguments)
    assert named in line
    assert fix in line


@pytest.mark.parametrize("command", ["run", "check", "sweep"])
def test_a_backend_that_is_not_known(narrows: Narrows, small: Path, command: str) -> None:
    line = one_line(narrows, command, str(small), "--backend", "moon")
    assert line.startswith("error: backend: 'moon' is not known; hint: one of kernel,")
    assert line.endswith(", sim, or program:COMMAND\n")


@pytest.mark.parametrize("table", ["[vary]\nqueue.limit = [1, 2]\n", "[variants.plain]\n"])
def test_a_plan_is_no_scenario(narrows: Narrows, tmp_path: Path, table: str) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f"seeds = 2\n{table}")
    for command in ("check", "run"):
        line = one_line(narrows, command, str(plan))
        assert "is the plan of a sweep, not a scenario; hint: narrows sweep SCENARIO.toml" in line
        assert line.endswith(f"--plan {plan}\n")


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("links.bottleneck.rat=3 Mbit/s", "rat"),
        ("links.bottleneck.rate=3 Mbit", "rate"),
        ("links.bottleneck.queue.limit=0 B", "limit"),
        ("links.bottleneck.delay=-1 ms", "delay"),
        ("dns.dns.workers=0", "workers"),
        ("dns.dns.client=nobody", "nobody"),
        ("traffic.foreground.connections=1", "foreground"),
        ("seed=-1", "seed"),
        ("seed=" + "9" * 5000, "seed"),
        ("monitor.queues.rate=1e-9", "monitor.queues.rate"),
        ("traffic.background.tcp.min_rto=130 s", "traffic.background.tcp.min_rto"),
        ("traffic.background.tcp.max_rto=300 ms", "traffic.background.tcp.max_rto"),
        (
            "traffic.background.tcp.timer_granularity=1 s",
            "traffic.background.tcp.timer_granularity",
        ),
        ("traffic.background.tcp.receive_buffer=2 kB", "traffic.background.tcp.receive_buffer"),
        ("traffic.background.tcp.reduction=at-once", "traffic.background.tcp.reduction"),
    ],
)
def test_a_wrong_setting(narrows: Narrows, small: Path, setting: str, named: str) -> None:
    for command in ("check", "run"):
        line = one_line(narrows, command, str(small), "--set", setting)
        assert named in line
        assert str(small) in line
    assert not (small.parent / "runs").exists()


@pytest.mark.parametrize("command", ["check", "run", "sweep"])
@pytest.mark.parametrize(
    ("key", "unit"),
    [("duration", "ps"), ("links.bottleneck.rate", "bit/s"), ("queue.limit", "B")],
)
def test_a_quantity_of_more_than_64_bits(
    narrows: Narrows, small: Path, command: str, key: str, unit: str
) -> None:
    for number in (2**64 - 1, 2**64, 10**40):
        line = one_line(narrows, command, str(small), "--set", f"{key}={number} {unit}")
        assert f'{key.rpartition(".")[2]}: "{number} {unit}" is too large' in line
        assert "hint: " in line


def test_a_file_that_is_no_scenario(narrows: Narrows, tmp_path: Path) -> None:
    for name, content in (
        ("binary.toml", bytes(range(256))),
        ("broken.toml", b"name = "),
        ("deep.toml", b"a = " + b"[" * 100_000),
    ):
        (tmp_path / name).write_bytes(content)
        assert name in one_line(narrows, "check", name)


def test_an_empty_file_lacks_several_keys(narrows: Narrows, tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_bytes(b"")
    done = narrows("check", "empty.toml")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert lines == [
        f"error: empty.toml: {key}: is missing" for key in ("name", "duration", "links")
    ]


WRONG = ("duration=5", "queue.limt=9 kB", "dns.dns.client=nobody", "traffic.background.spread=4 s")
LINES = [
    'queue.limt: is not a known key; hint: did you mean "limit"?',
    'duration: is a number without a unit; hint: write it as text with a unit, such as "50 ms"',
    'dns.dns.client: "nobody" is not a node; hint: one of server, client',
]


@pytest.mark.parametrize("command", ["check", "run", "sweep"])
def test_every_error_has_a_line(narrows: Narrows, small: Path, command: str) -> None:
    settings = [part for setting in WRONG for part in ("--set", setting)]
    done = narrows(command, str(small), *settings, "--set", "traffic.background.stop=2 s")
    assert (done.returncode, done.stdout) == (2, "")
    stop = (
        'traffic.background.stop: "2 s" is not after the last start ("4 s"); '
        "hint: stop later, or start earlier"
    )
    assert sorted(done.stderr.splitlines()) == sorted(
        f"error: {small}: {line}" for line in [*LINES, stop]
    )
    assert not (small.parent / "runs").exists()


def test_every_key_that_a_backend_refuses_has_a_line(narrows: Narrows, small: Path) -> None:
    keys = ("links.bottleneck.dns_exempt=true", "queue={kind='blue', limit=10}")
    settings = [part for key in keys for part in ("--set", key)]
    done = narrows("check", str(small), "--backend", "kernel", *settings)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("error: small: links.bottleneck.") for line in lines)
    assert all("the backend kernel cannot honour it: " in line for line in lines)
    assert all("; hint: " in line for line in lines)


@pytest.mark.parametrize("command", ["check", "run"])
def test_everything_that_the_simulator_refuses_has_a_line(narrows: Narrows, command: str) -> None:
    """The language does not know how long QUIC's packets are."""
    over_quic = Path(__file__).parents[2] / "scenarios" / "dns-over-quic.toml"
    settings = ("--set", "links.wan.mtu=1000 B", "--set", "event_limit=7")
    done = narrows(command, str(over_quic), *settings)
    assert (done.returncode, done.stdout) == (2, "")
    where = over_quic if command == "check" else "dns-over-quic"
    assert done.stderr.splitlines() == [
        f"error: {where}: {group}: quic: wan.forward takes packets of 1000 B, and QUIC needs "
        "1228 B; hint: give the link a larger mtu"
        for group in ("quic", "quic-0rtt")
    ]


def test_a_folder_that_cannot_be_written(narrows: Narrows, small: Path) -> None:
    # A file in the folder's place stops root too, while a file mode would not.
    (small.parent / "taken").write_text("mine", encoding="utf-8")
    for arguments in (
        ("run", str(small), "--out", "taken/run"),
        ("run", str(small), "--out", "taken"),
        ("reproduce", "H1", "--out", "taken/reproduction"),
        ("reproduce", "H1", "--out", "taken"),
    ):
        assert "taken" in one_line(narrows, *arguments)
    assert (small.parent / "taken").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_holds_a_run_is_kept(narrows: Narrows, small: Path) -> None:
    folder = small.parent / "run"
    assert narrows("run", str(small), "--out", "run", "--no-report").returncode == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert "choose another folder" in one_line(narrows, "run", str(small), "--out", "run")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_full_disk(narrows: Narrows, small: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "narrows", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert "no space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_dns_that_a_capture_could_not_show(narrows: Narrows, small: Path) -> None:
    text = small.read_text(encoding="utf-8").replace("[monitor]", '[monitor]\ncapture = ["*"]')
    small.write_text(text, encoding="utf-8")
    for key, least in (("query_size", "69 B"), ("reply_size", "83 B")):
        arguments = (str(small), "--set", f"dns.dns.{key}=41 B")
        for command in ("check", "run"):
            line = one_line(narrows, command, *arguments)
            assert f"dns.dns.{key}" in line
            assert least in line


def test_more_captures_than_files_should_be_made(narrows: Narrows, small: Path) -> None:
    text = small.read_text(encoding="utf-8").replace("[monitor]", '[monitor]\ncapture = ["*"]')
    link = '[[links]]\nname = "n{i}"\nbetween = ["a{i}", "b"]\nrate = "1 Mbit/s"\ncount = 50\n'
    small.write_text(text + link, encoding="utf-8")
    assert "monitor.capture: selects 102 links" in one_line(narrows, "check", str(small))


@pytest.mark.parametrize("streams", [">&-", ">&- 2>&- <&-", "2>&-", "2>/dev/full >/dev/null"])
def test_streams_that_take_nothing(small: Path, streams: str) -> None:
    command = f"{sys.executable} -m narrows run {small.name} --out run --no-report {streams}"
    done = subprocess.run(["sh", "-c", command], cwd=small.parent, timeout=60, check=False)
    assert done.returncode == 0
    assert (small.parent / "run" / "run.json").exists()


def test_a_report_that_cannot_be_written_leaves_the_run(narrows: Narrows, small: Path) -> None:
    # Every file of the run fits, and the plots do not.
    assert narrows("run", small, "--out", small.parent / "whole", "--no-report").returncode == 0
    most = max(path.stat().st_size for path in (small.parent / "whole").iterdir())
    limit = f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most})); "
    code = limit + "from narrows.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", str(small), "--out", "run"],
        cwd=small.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert "the run itself is complete, in run" in done.stderr
    assert narrows("compare", "run", "run").stderr.startswith("error: run: this scenario and seed")
