"""Congestion controls of one's own: in Python, in C, and compiled functions."""

from __future__ import annotations

import ctypes
import math
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import narrows
from narrows import laws
from narrows.backends import sim
from narrows.backends.sim import ControlFailed, PartFailed
from narrows.controls import (
    Ack,
    CompiledControl,
    Control,
    ControlError,
    ControlFault,
    ack_type,
    sending_type,
)
from narrows.queues import DROP, PASS, Queue
from narrows.scenario.toml_text import toml_text

from .own import compiled, interrupt_soon, scenario

MINE = {"congestion": "mine"}


class _Reno(Control):
    """RFC 5681 as Linux does it, in whole segments."""

    version = "1.0"

    def __init__(self, decrease: float = 0.5) -> None:
        self.decrease = decrease
        self.count = 0

    def grow(self, ack: Ack) -> None:
        acked = ack.acked
        if self.cwnd < self.ssthresh:
            grown = min(self.cwnd + acked, self.ssthresh)
            acked -= int(grown - self.cwnd)
            self.cwnd = grown
            if acked == 0:
                return
        each = int(self.cwnd)
        if self.count >= each:
            self.count = 0
            self.cwnd += 1
        self.count += acked
        self.cwnd += self.count // each
        self.count %= each

    def on_loss(self, _now: float) -> None:
        self.count = 0
        self.ssthresh = max(int(self.cwnd * self.decrease), 2)

    def on_timeout(self, _now: float) -> None:
        self.count = 0


class _Follows(Control):
    """Rate in, window out: paces at the fastest delivery of ten round trips."""

    owns_window = True

    def __init__(self) -> None:
        self.cwnd = 4
        self.rates: list[tuple[float, float]] = []

    def on_start(self, mss: int, rtt: float | None) -> None:
        self.pacing_rate = 4 * mss * 8 / (rtt or 0.1)

    def on_ack(self, ack: Ack) -> None:
        shortest = ack.shortest_rtt
        if ack.delivery_rate is None or shortest is None:
            return
        self.rates.append((ack.now, ack.delivery_rate))
        self.rates = [each for each in self.rates if each[0] > ack.now - 10 * shortest]
        fastest = max(rate for _, rate in self.rates)
        gain = {0: 1.25, 1: 0.75}.get(int(ack.now / shortest) % 8, 0.99)
        self.pacing_rate = max(gain * fastest, 10_000.0)
        self.cwnd = max(2 * fastest * shortest / 8 / ack.mss, 4)


def run(control: Control, tcp: dict[str, Any] | None = None, **more: Any) -> narrows.Run:
    return narrows.run(scenario({**MINE, **(tcp or {})}), controls={"mine": control}, **more)


@pytest.mark.parametrize("tcp", [{}, {"pacing": True}, {"ecn": "accurate"}, {"sack": False}])
def test_a_reno_in_python_is_reno(tcp: dict[str, Any]) -> None:
    if not tcp.get("sack", True):
        tcp = {**tcp, "recovery": "new-reno"}
    theirs = narrows.run(scenario({"congestion": "reno", **tcp}))
    assert theirs.flows["fast_recoveries"].sum() > 20
    assert run(_Reno(), tcp).flows.equals(theirs.flows)
    assert not run(_Reno(decrease=0.7), tcp).flows.equals(theirs.flows)


def test_one_that_only_says_how_far_the_window_falls_grows_as_reno() -> None:
    class Half(Control):
        def on_loss(self, _now: float) -> None:
            self.cwnd = self.cwnd // 2

    assert run(Half()).flows.equals(narrows.run(scenario({"congestion": "reno"})).flows)


def test_it_paces_at_what_it_has_measured() -> None:
    """One connection fills the link, loses nothing, and leaves no queue of note."""
    one = scenario(MINE)
    one["traffic"][0]["connections"] = 1
    found = narrows.run(one, controls={"mine": _Follows()})
    assert found.flows["segments_retransmitted"].sum() == 0
    share = found.flows["bytes_received"].sum() * 8 / 20 / (10e6 * 1448 / 1514)
    assert 0.9 < share <= 1
    assert 20 < found.flows["srtt_ms"].item() < 30


@pytest.mark.parametrize("control", [_Reno, _Follows])
def test_the_laws_hold(control: type[Control]) -> None:
    laws.check(control)


def test_a_broken_law_is_named() -> None:
    class Shares(Control):
        lost: list[float] = []  # noqa: RUF012 - shared by mistake, which the law finds

        def on_loss(self, now: float) -> None:
            self.lost.append(now)
            self.ssthresh = self.cwnd / (2 + len(self.lost) % 3)

    with pytest.raises(laws.LawBroken, match="the same calls gave a window of"):
        laws.check(Shares)

    class Divides(Control):
        def on_ack(self, ack: Ack) -> None:
            self.cwnd = ack.acked / max(ack.in_flight, 1)

    with pytest.raises(laws.LawBroken, match=r"on_ack set cwnd to 0.*; a window has 1 to"):
        laws.check(Divides)
    with pytest.raises(narrows.NarrowsError, match="needs a queue or a congestion control"):
        laws.check(3)  # type: ignore[arg-type]


def test_random_numbers_follow_the_seed_and_ends_do_not_share_them() -> None:
    drawn: list[float] = []

    class Draws(Control):
        def on_ack(self, ack: Ack) -> None:
            if ack.now < 1:
                drawn.append(self.random.random())

    runs = [run(Draws(), seed=seed).flows for seed in (1, 1, 2)]
    third = len(drawn) // 3
    assert runs[0].equals(runs[1]) and drawn[:third] == drawn[third : 2 * third]
    assert len(set(drawn[:third])) == third


def test_a_control_sees_what_happens() -> None:
    heard: dict[str, list[Any]] = {}

    class Hears(Control):
        def on_start(self, mss: int, rtt: float | None) -> None:
            heard.setdefault("start", []).append((mss, rtt, self.cwnd, self.ssthresh))

        def on_ack(self, ack: Ack) -> None:
            seen = (ack.state, ack.marked > 0, ack.window_limited, ack.app_limited)
            heard.setdefault("ack", []).append(seen)
            assert ack.in_flight >= 0 and ack.prior_in_flight >= 0 and ack.prior_delivered >= 0
            assert ack.delivered >= ack.acked and ack.lost >= 0 and "in flight" in repr(ack)
            assert ack.smoothed_rtt is not None and ack.smoothed_rtt >= 0.02
            assert ack.rtt is None or ack.rtt >= 0.02

        def on_ecn(self, now: float) -> None:
            heard.setdefault("ecn", []).append(now)
            self.ssthresh = max(self.cwnd / 2, 2)

        def on_timeout(self, now: float) -> None:
            heard.setdefault("timeout", []).append(now)
            assert self.cwnd >= 1

        def on_restart(self, now: float, idle: float) -> None:
            heard.setdefault("restart", []).append((now, idle))

    many = scenario({**MINE, "ecn": "accurate"})
    many["traffic"][0]["connections"] = 30
    many["links"][0]["queue"] = {"kind": "red", "ecn": True, "limit": "40 kB"}
    found = narrows.run(many, controls={"mine": Hears()})
    assert heard["start"][0] == (1436, pytest.approx(0.02, abs=0.01), 10, math.inf)
    states = {state for state, *_ in heard["ack"]}
    assert {"open", "cwr", "recovery"} <= states
    assert any(marked for _, marked, *_ in heard["ack"])
    assert len(heard["timeout"]) == found.flows["timeouts"].sum() > 0
    assert len(heard["ecn"]) == found.flows["ecn_reductions"].sum() > 0


def test_a_run_records_its_controls(tmp_path: Path) -> None:
    found = run(_Reno(decrease=0.7), out=tmp_path / "run")
    kept = narrows.Run.load(found.folder or "")
    (record,) = kept.outside["controls"].values()
    assert (record["class"], record["arguments"], record["version"]) == (
        "_Reno", "decrease=0.7", "1.0",
    )  # fmt: skip
    assert record["source"].startswith("class _Reno(Control):")
    # The scenario of the run folder is a scenario: it can be read again.
    assert narrows.Scenario.of(dict(kept.scenario)).traffic[0].tcp.congestion == "mine"


def test_an_exception_ends_the_run_and_what_there_is_is_kept(tmp_path: Path) -> None:
    class Fails(Control):
        def on_ack(self, ack: Ack) -> None:
            if ack.now > 3:
                raise ZeroDivisionError("at three")

    with pytest.raises(
        ControlFailed, match="a congestion control from outside failed: mine: Fails: ZeroDiv"
    ) as caught:
        run(Fails(), out=tmp_path / "run")
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError) and cause.__traceback__ is not None
    assert "on_ack" in [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
    kept = narrows.Run.load(tmp_path / "run")
    assert (kept.status, kept.stopped) == ("partial", "control-failed")
    assert 3 < kept.end_s < 3.1 and kept.flows["bytes_received"].sum() > 0


def _sets(name: str, value: Any) -> Any:
    return lambda self, *_: setattr(self, name, value)


ABUSES: dict[str, tuple[dict[str, Any], str]] = {
    "nan": ({"on_ack": _sets("cwnd", float("nan"))}, "mine: Abuse: on_ack set cwnd to NaN; a wind"),
    "zero": ({"grow": _sets("cwnd", 0)}, "grow set cwnd to 0; a window has 1"),
    "negative": ({"on_loss": _sets("cwnd", -5)}, "on_loss set cwnd to -5"),
    "huge": ({"on_start": _sets("cwnd", 1e12)}, "on_start set cwnd to 1000000000000"),
    "none": ({"on_ack": _sets("cwnd", None)}, "on_ack set cwnd to NaN"),
    "text": ({"on_ack": _sets("cwnd", "10")}, "cwnd is '10', which is no number"),
    "huge whole number": ({"on_ack": _sets("cwnd", 10**400)}, "which is no number"),
    "threshold": ({"on_ack": _sets("ssthresh", 0)}, "on_ack set ssthresh to 0; a threshold"),
    "rate": ({"on_ack": _sets("pacing_rate", 0)}, "set pacing_rate to 0; a pace has 1e3 to 1e15"),
    "negative rate": ({"on_ack": _sets("pacing_rate", -1e6)}, "set pacing_rate to -1000000"),
    "nan rate": ({"on_ack": _sets("pacing_rate", float("nan"))}, "set pacing_rate to NaN"),
    "slow": ({"on_ack": _sets("pacing_rate", 8.0)}, "set pacing_rate to 8; a pace"),
    "from the start": ({"cwnd": 0.1, "on_ack": lambda *_: None}, "began by setting cwnd to 0.1"),
}  # fmt: skip


@pytest.mark.parametrize("abuse", ABUSES)
def test_an_abuse_is_one_line(abuse: str) -> None:
    members, words = ABUSES[abuse]
    with pytest.raises(ControlFailed, match=words) as caught:
        run(type("Abuse", (Control,), members)())
    assert isinstance(caught.value.__cause__, ControlFault)
    assert "\n" not in str(caught.value)


def test_wrong_arguments_are_an_exception_with_its_traceback() -> None:
    class Few(Control):
        def on_ack(self) -> None:
            pass

    with pytest.raises(ControlFailed, match=r"TypeError: .*takes 1 positional argument"):
        run(Few())


class _Owns(Control):
    owns_window = True

    def grow(self, _ack: Ack) -> None:
        pass


@pytest.mark.parametrize(
    ("controls", "error", "words"),
    [
        ({"mine": _Reno}, ControlError, r"is a class; hint: make one: _Reno\(\)"),
        ({"mine": 3}, ControlError, "is no congestion control; hint: subclass narrows.controls"),
        ({"mine": Control()}, TypeError, "has none of on_ack, grow, on_loss"),
        ({"mine": _Owns()}, TypeError, "owns its window, but has no on_ack"),
        (
            {"mine": _Reno(), "more": _Reno()},
            ControlError,
            r"controls\['more'\]: no connection uses it",
        ),
        ({"cubic": _Reno()}, ControlError, "is the name of one of narrows' own"),
        (None, narrows.NarrowsError, r"traffic.up.tcp.congestion: .*no class and no plugin offers"),
        ({"other": _Reno()}, ControlError, 'uses it; hint: tcp.congestion = "other"'),
    ],
)
def test_what_cannot_be_used_is_refused(
    controls: dict[str, Any] | None, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        narrows.run(scenario(MINE), controls=controls)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("tcp", "words"),
    [
        ({"congestion": "cubik"}, '"cubik" is not known here; hint: did you mean "cubic"'),
        ({"congestion": "a b"}, "is not known here"),
        ({"congestion": {"name": "mine", "x": [1]}}, "x: is neither text nor a number"),
        ({"congestion": {"beta": 1}}, "congestion.name: is missing"),
        (
            {"congestion": {"name": "mine", "beta": 1}},
            "is a class; it takes its settings in Python",
        ),
        ({**MINE, "profile": "ns-2"}, "a sender that paces needs reduction prr"),
        ({**MINE, "slow_start": "hystart\u002b\u002b"}, "goes with congestion reno or cubic"),
    ],
)
def test_wrong_scenarios_are_refused(tcp: dict[str, Any], words: str) -> None:
    with pytest.raises(narrows.NarrowsError, match=words):
        narrows.run(scenario(tcp), controls={"mine": _Reno()})


def test_another_backend_and_quic_refuse_them() -> None:
    with pytest.raises(narrows.NarrowsError, match="run in the simulator, not on kernel"):
        run(_Reno(), backend="kernel")
    page = {"kind": "page", "name": "p", "client": "a", "server": "b", "transport": "quic"}
    quic = {**scenario(), "traffic": [{**page, "quic": MINE}]}
    with pytest.raises(narrows.NarrowsError, match=r'congestion: "mine" is not known here'):
        narrows.run(quic, controls={"mine": _Reno()})


def test_ctrl_c_ends_a_control_that_blocks() -> None:
    class Blocks(Control):
        def on_ack(self, ack: Ack) -> None:
            if ack.now > 1:
                interrupt_soon()
            while ack.now > 1:
                pass

    # The first run imports what tables need; an interrupt there would hit the import.
    narrows.run(scenario(duration="1 s"))
    began = time.monotonic()
    found = run(Blocks())
    assert (found.status, found.stopped) == ("partial", "interrupted")
    assert 1 <= found.end_s < 1.1 and time.monotonic() - began < 20


def test_an_interrupt_before_code_that_blocks_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blocks(Control):
        def on_ack(self, ack: Ack) -> None:
            while ack.now > 0:
                pass

    def late(*given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return drive(*given)

    drive = sim._drive
    monkeypatch.setattr(sim, "_drive", late)
    found = run(Blocks())
    assert (found.status, found.stopped, found.end_s) == ("partial", "interrupted", 0)


def test_a_reno_in_c_is_reno(tmp_path: Path) -> None:
    aimd = compiled("aimd", tmp_path)
    theirs = narrows.run(scenario({"congestion": "reno"})).flows
    for congestion in ("aimd", {"name": "aimd"}, {"name": "aimd", "decrease": 0.5}):
        found = narrows.run(scenario({"congestion": congestion}), plugins=[aimd])
        assert found.flows.equals(theirs)
    gentle = {"name": "aimd", "decrease": 0.875, "increase": 0.5}
    assert not narrows.run(scenario({"congestion": gentle}), plugins=[aimd]).flows.equals(theirs)
    with pytest.raises(narrows.NarrowsError, match=r'tcp.congestion: "aimd" has the settings incr'):
        narrows.run(scenario({"congestion": {"name": "aimd", "beta": 1}}), plugins=[aimd])


def test_westwood_keeps_the_window_that_random_losses_take_from_reno(tmp_path: Path) -> None:
    """Grieco and Mascolo 2004, section 4: on a lossy link it has more goodput than Reno."""
    westwood = compiled("westwood", tmp_path)

    def received(congestion: str) -> int:
        lossy = scenario({"congestion": congestion})
        lossy["links"][0] |= {"loss": 0.01, "delay": "40 ms"}
        lossy["traffic"][0]["connections"] = 1
        run = narrows.run(lossy, plugins=[westwood] if congestion == "westwood" else None)
        return int(run.flows["bytes_received"].sum())

    assert received("westwood") > 1.3 * received("reno")


def test_the_command_line_runs_a_plugin_with_a_control(tmp_path: Path) -> None:
    aimd = compiled("aimd", tmp_path)
    narrows_ = [sys.executable, "-m", "narrows"]

    def said(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*narrows_, *words], capture_output=True, text=True, check=False)

    assert said("plugin", str(aimd)).stdout == "control aimd\n"
    file = tmp_path / "mine.toml"
    file.write_text(toml_text(scenario({"congestion": "aimd"})))
    for command in ("run", "check"):
        refused = said(command, str(file))
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stderr
        assert "no class and no plugin offers aimd" in refused.stderr
    assert said("check", str(file), "--plugin", str(aimd)).returncode == 0
    wrong = said(
        "check", str(file), "--plugin", str(aimd),
        "--set", 'traffic.up.tcp.congestion={ name = "aimd", decrease = 3 }',
    )  # fmt: skip
    assert wrong.returncode == 2 and "has the settings increase" in wrong.stderr
    out = tmp_path / "run"
    done = said("run", str(file), "--plugin", str(aimd), "--no-report", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert narrows.Run.load(out).outside["plugins"][0]["file"] == "aimd.so"


def test_queues_and_controls_run_together() -> None:
    class Tail(Queue):
        def admit(self, backlog: int, *_: Any) -> int:
            return DROP if backlog >= 20 else PASS

    found = run(_Reno(), queues={"wan.forward": Tail()})
    assert found.flows.equals(narrows.run(scenario({"congestion": "reno"})).flows)
    assert set(found.outside) == {"queues", "controls", "plugins"}
    assert issubclass(ControlFailed, PartFailed)


HEAR = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_double), ctypes.c_void_p, ctypes.POINTER(ctypes.c_double)
)


def test_compiled_functions_have_a_state_for_each_connection() -> None:
    def on_loss(state: Any, _ack: int, sending: Any) -> None:
        state[0] += 1
        sending[1] = max(sending[0] // 2, 2)

    function = HEAR(on_loss)
    address = ctypes.cast(function, ctypes.c_void_p).value
    control = CompiledControl(on_loss=address, state=np.zeros(1))
    runs = [run(control).flows for _ in range(2)]
    assert runs[0].equals(runs[1])
    assert runs[0].equals(narrows.run(scenario({"congestion": "reno"})).flows)
    assert control._compiled.state[0] == 0
    for functions, words in (({"on_los": 1}, "has no function on_los"), ({}, "needs a function")):
        with pytest.raises(ControlError, match=words):
            CompiledControl(**functions)


def test_the_structures_of_numpy_are_those_of_c() -> None:
    assert (ack_type().itemsize, sending_type().itemsize) == (88, 24)
