"""Sweeps with queues and congestion controls of one's own: they travel to the workers."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import narrows
from narrows import sweep
from narrows.controls import Ack, CompiledControl, Control, ControlError
from narrows.queues import DROP, PASS, Queue, QueueError
from narrows.results.compare_sweeps import compare_sweeps
from narrows.results.errors import RunFolderError
from narrows.scenario.toml_text import toml_text
from tests.runs.own import compiled, scenario

LINK = "wan.forward"
CONGESTION = "traffic.up.tcp.congestion"


class _Tail(Queue):
    """A pfifo. It uses a module from around it, as classes do."""

    def __init__(self, most: int = 20) -> None:
        self.most = most

    def admit(self, backlog: int, *_: Any) -> int:
        return DROP if backlog >= math.floor(self.most) else PASS


class _Gentle(Control):
    """Falls to four fifths."""

    def on_loss(self, _now: float) -> None:
        self.ssthresh = 0.8 * self.cwnd


def short() -> dict[str, Any]:
    return scenario(duration="4 s")


def sent(found: narrows.Sweep) -> list[float]:
    return found.table["flows.segments_sent"].to_list()


def test_rows_are_those_of_runs_and_folders_record_the_parts(tmp_path: Path) -> None:
    found = sweep(
        short(),
        vary={CONGESTION: ["reno", "mine"]},
        seeds=2,
        out=tmp_path / "sweep",
        workers=2,
        keep_runs=True,
        queues={LINK: _Tail(most=15)},
        controls={"mine": _Gentle()},
    )
    assert (found.status, len(found.runs)) == ("complete", 4)
    for each in found.runs:
        name = each.settings[CONGESTION]
        run = narrows.run(
            short(),
            set={CONGESTION: name},
            seed=each.seed,
            queues={LINK: _Tail(most=15)},
            controls={"mine": _Gentle()} if name == "mine" else None,
        )
        assert each.summary["flows"] == run.summary["flows"]
        kept = narrows.Run.load(each.folder or "").outside
        assert kept["queues"][LINK]["arguments"] == "most=15"
        assert kept["controls"]["mine"]["source"].startswith("class _Gentle(Control):")
    # The seed changes nothing in this scenario.
    assert len({str(each.summary["flows"]) for each in found.runs}) == 2


QUEUE = "links.wan.forward.queue"


def test_queues_are_values_of_keys_beside_those_of_narrows(tmp_path: Path) -> None:
    def made(**more: Any) -> narrows.Sweep:
        values = [_Tail(most=5), _Tail(most=20), {"kind": "pfifo", "limit": 20}]
        return sweep(
            short(), vary={QUEUE: values}, out=tmp_path / "o", workers=2, keep_runs=True, **more
        )

    found = made()
    assert found.status == "complete"
    tail = {"kind": "plugin", "name": "_Tail"}
    assert [each.settings[QUEUE] for each in found.runs][:2] == [
        tail | {"most": 5},
        tail | {"most": 20},
    ]
    less, same, built_in = (each.summary["flows"] for each in found.runs)
    assert less != same == built_in
    for run in found.runs:
        kept = narrows.Run.load(run.folder or "").outside["queues"]["_Tail"]
        assert kept["source"].startswith("class _Tail(Queue):") and kept["version"] == ""
    more = sweep(
        short(),
        vary={QUEUE: [_Tail(most=n) for n in (20, 8, 5)] + [{"kind": "pfifo", "limit": 20}]},
        out=tmp_path / "o",
        workers=2,
    )
    # The runs that the folder had are the same.
    assert {run.folder for run in found.runs} < {run.folder for run in more.runs}
    words = str(compare_sweeps([more])[0].table())
    assert "_Tail, most 8" in words and "pfifo" in words


def test_variants_settings_and_names_choose_queues(tmp_path: Path) -> None:
    by_variant = sweep(
        short(),
        variants={"few": {QUEUE: _Tail(most=5)}, "many": {QUEUE: _Tail(most=20)}},
        workers=1,
    )
    by_key = sweep(short(), set={QUEUE: _Tail(most=1)}, vary={f"{QUEUE}.most": [5, 20]}, workers=1)
    named = {"kind": "plugin", "name": "mine"}
    by_name = sweep(
        short(), vary={QUEUE: [{**named, "most": 5}, named]}, queues={"mine": _Tail()}, workers=1
    )
    assert sent(by_variant) == sent(by_key) == sent(by_name)
    within = short()
    within["links"][0]["forward"] = {"queue": _Tail(most=5)}
    for run in (narrows.run(short(), set={QUEUE: _Tail(most=5)}), narrows.run(within)):
        assert run.summary["flows"] == by_variant.runs[0].summary["flows"]
    assert sent(sweep(within, workers=1)) == sent(by_variant)[:1]
    band = {"name": "all", "queue": _Tail(most=5)}
    inside = narrows.run(short(), set={QUEUE: {"kind": "prio", "bands": [band]}})
    assert inside.summary["flows"]["segments_sent"] == run.summary["flows"]["segments_sent"]


class _Mode(_Tail):
    """Has an argument that is no number."""

    def __init__(self, most: float = 20, mode: str = "a") -> None:
        super().__init__(int(most))
        self.mode = mode


def test_arguments_that_are_no_numbers_are_part_of_the_name() -> None:
    values = [_Mode(5), _Mode(5.5), _Mode(5, mode="b"), _Mode(6, "b")]
    found = sweep(short(), vary={QUEUE: values}, workers=1)
    names = [run.settings[QUEUE]["name"] for run in found.runs]
    # Whole numbers and others are told apart: an argument keeps its type.
    assert names == ["_Mode", "_Mode 2", "_Mode(mode='b')", "_Mode(mode='b')"]
    assert found.status == "complete"


class _Ruled(Queue):
    """Drops by the limit that a rule takes from a table."""

    def __init__(self, table: Any, rule: Any) -> None:
        self.most = rule(table)

    def admit(self, backlog: int, *_: Any) -> int:
        return DROP if backlog >= self.most else PASS


def _array(most: int) -> np.ndarray[Any, Any]:
    """NumPy's `repr` leaves its middle out."""
    return np.array([0.0] * 1000 + [most] + [0.0] * 1000)


def _middle(table: Any) -> float:
    return float(np.ravel(table)[1000])


def _first(scale: float) -> Callable[[Any], float]:
    return lambda table: scale * table[0]


@pytest.mark.parametrize(
    "queues",
    [
        [_Ruled(_array(most), _middle) for most in (5, 20)],
        [_Ruled([_array(most)], _middle) for most in (5, 20)],
        [_Ruled([5], _first(scale)) for scale in (1, 4)],
        [_Ruled([5], lambda table: table[0]), _Ruled([5], lambda table: 4 * table[0])],
    ],
    ids=["arrays", "arrays in lists", "closures", "functions"],
)
def test_arguments_that_look_the_same_are_told_apart(queues: list[Queue]) -> None:
    variants = {name: {QUEUE: queue} for name, queue in zip(("few", "many"), queues, strict=True)}
    tails = sweep(short(), vary={QUEUE: [_Tail(5), _Tail(20)]}, workers=1)
    assert sent(sweep(short(), variants=variants, workers=1)) == sent(tails)


def test_functions_among_arguments_let_a_sweep_go_on(tmp_path: Path) -> None:
    def made(*rules: Callable[[Any], float], seeds: int = 1) -> narrows.Sweep:
        values = [_Ruled([5], rule) for rule in rules]
        return sweep(short(), vary={QUEUE: values}, seeds=seeds, out=tmp_path / "o", workers=1)

    def rule() -> Callable[[Any], float]:
        return lambda table: 2 * table[0]

    # Both exist at once, so that they have two addresses.
    rules = rule(), rule()
    one, two = made(rules[0]), made(rules[1], seeds=2)
    assert one.runs[0].settings == two.runs[0].settings and len(two.runs) == 2
    with pytest.raises(RunFolderError, match="a sweep with other parts"):
        made(lambda table: 3 * table[0])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"vary": {QUEUE: [_Tail]}}, rf"{QUEUE}: is a class; hint: make one: _Tail\(\)"),
        ({"vary": {QUEUE: _Tail()}}, f"{QUEUE}: is varied over one queue; hint: give a list"),
        ({"variants": {"a": _Tail()}}, 'variant a: is a queue; hint: give its key: {"queue": _Ta'),
        ({"vary": {QUEUE: [_Tail(3), _Tail(3)]}}, "twice; hint: keep one"),
        ({"set": {QUEUE: _Tail()}, "vary": {f"{QUEUE}.mots": [1]}}, "_Tail has no number mots"),
        ({"set": {QUEUE: _Tail()}, "vary": {f"{QUEUE}.most": ["x"]}}, "most = 'x' is no number"),
        ({"queues": {"mine": _Tail()}}, "no queue of the kind plugin has this name"),
        (
            {"set": {QUEUE: _Tail()}, "vary": {QUEUE: [{"kind": "codel"}]}},
            "_Tail: no run uses this queue, because other values replace it; hint: remove it",
        ),
        (
            {"set": {"queue": {"kind": "plugin", "name": "m"}}, "queues": {LINK: _Tail()}},
            'no plugin and no class offers "m"',
        ),
        ({"set": {QUEUE: _Tail()}, "backend": "kernel"}, "not on kernel"),
    ],
)
def test_wrong_queues_among_values_are_refused_in_one_line(
    given: dict[str, Any], words: str
) -> None:
    with pytest.raises(narrows.NarrowsError, match=words) as caught:
        sweep(short(), workers=1, **given)
    assert "\n" not in str(caught.value)


def test_a_sweep_whose_class_has_changed_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    sweep(short(), out=out, workers=1, queues={LINK: _Tail(most=15)})
    again = sweep(short(), out=out, workers=1, seeds=2, queues={LINK: _Tail(most=15)})
    assert len(again.runs) == 2

    class Other(_Tail):
        """The same name, another source."""

        def admit(self, backlog: int, *_: Any) -> int:
            return DROP if backlog > 3 else PASS

    Other.__qualname__ = "_Tail"
    for queues, words in (
        ({LINK: Other(most=15)}, rf"other parts: queues\['{LINK}'\] had other code"),
        ({LINK: _Tail(most=16)}, rf"queues\['{LINK}'\] had other arguments"),
        (None, rf"it alone has queues\['{LINK}'\]"),
        (
            {LINK: _Tail(most=15), "wan.backward": _Tail()},
            r"this alone has queues\['wan.backward'\]",
        ),
    ):
        with pytest.raises(RunFolderError, match=words) as caught:
            sweep(short(), out=out, workers=1, seeds=3, queues=queues)
        assert "\n" not in str(caught.value)
    sweep(short(), out=tmp_path / "plain", workers=1)
    with pytest.raises(RunFolderError, match="this alone has"):
        sweep(short(), out=tmp_path / "plain", workers=1, queues={LINK: _Tail()})


def test_a_part_that_fails_fails_its_runs_alone(tmp_path: Path) -> None:
    class Fails(Control):
        def on_ack(self, ack: Ack) -> None:
            if ack.now > 1:
                raise ZeroDivisionError("after a second")

    found = sweep(
        short(),
        vary={CONGESTION: ["mine", "cubic"]},
        out=tmp_path / "sweep",
        workers=2,
        controls={"mine": Fails()},
    )
    rows = {each.settings[CONGESTION]: each for each in found.runs}
    assert (rows["mine"].status, rows["cubic"].status) == ("failed", "complete")
    assert (
        "a congestion control from outside failed: mine: Fails: ZeroDivisionError: after"
        in rows["mine"].message
    )


class _Needs(Queue):
    def __init__(self, held: Any) -> None:
        self.held = held

    def admit(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("parts", "error", "words"),
    [
        ({"queues": {LINK: _Tail}}, QueueError, r"is a class; hint: make one: _Tail\(\)"),
        ({"controls": {"mine": 3}}, ControlError, "is no congestion control"),
        ({"queues": {"nowhere": _Tail()}}, narrows.NarrowsError, 'no link "nowhere"'),
        ({"queues": {LINK: Queue()}}, TypeError, "has neither admit nor release"),
        (
            {"queues": {LINK: _Needs(sys.stdout)}},
            narrows.NarrowsError,
            rf"queues\['{LINK}'\]: cannot be sent to other processes: TypeError",
        ),
        (
            {"controls": {"mine": CompiledControl(on_loss=1)}},
            narrows.NarrowsError,
            "has compiled functions, which stay in this process; hint: make it a plugin",
        ),
        ({"plugins": ["/nowhere.so"]}, narrows.NarrowsError, "/nowhere.so: is no file"),
        ({"queues": {LINK: _Tail()}, "backend": "kernel"}, narrows.NarrowsError, "not on kernel"),
    ],
)
def test_what_cannot_be_used_is_refused(
    parts: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        sweep(short(), workers=1, **parts)
    assert "\n" not in str(caught.value)


def test_a_name_that_nobody_offers_is_refused_before_anything_runs() -> None:
    with pytest.raises(narrows.NarrowsError, match="no class and no plugin offers other"):
        sweep(short(), vary={CONGESTION: ["mine", "other"]}, controls={"mine": _Gentle()})


PROGRAM = """\
import math
import sys

import narrows
from narrows.queues import DROP, PASS, Queue

MOST = 12


class Mine(Queue):
    def admit(self, backlog, bytes, now, packet):
        return DROP if backlog >= math.floor(MOST) else PASS


if __name__ == "__main__":
    if "without" in sys.argv:
        import importlib.util
        usual = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *more: (
            None if name == "cloudpickle" else usual(name, *more)
        )
    found = narrows.sweep(
        sys.argv[1], out=sys.argv[2], workers=1, queues={"wan.forward": Mine()}
    )
    print(found.status)
"""


def test_a_class_of_the_program_travels_with_cloudpickle_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROGRAM)
    file = tmp_path / "short.toml"
    file.write_text(toml_text(short()))

    def done(*words: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            str(tmp_path / "mine.py"),
            str(file),
            str(tmp_path / "o"),
            *words,
        ]
        # Elsewhere, so that no worker finds the program's file by chance.
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")

    assert (
        done("without")
        .stderr.splitlines()[-1]
        .endswith(
            "queues['wan.forward']: is a class of this program alone; hint: pip install cloudpickle"
        )
    )
    found = done()
    assert found.stdout == "complete\n", found.stderr
    changed = PROGRAM.replace("backlog >= math", "backlog > math")
    (tmp_path / "mine.py").write_text(changed)
    assert "queues['wan.forward'] had other code" in done().stderr.splitlines()[-1]


def test_a_class_without_source_has_a_digest_of_its_code() -> None:
    def made(text: str) -> str:
        names: dict[str, Any] = {"Queue": Queue, "__name__": "typed"}
        exec(textwrap.dedent(text), names)
        return str(names["Mine"]().record()["sha256"])

    one = "class Mine(Queue):\n    def admit(self, *_): return 0\n"
    assert made(one) == made(one) != made(one.replace("return 0", "return 1"))
    assert made(one) != made(one + "    limit = 7\n")


def test_the_command_line_sweeps_with_a_plugin(tmp_path: Path) -> None:
    aimd = compiled("aimd", tmp_path)
    file = tmp_path / "short.toml"
    file.write_text(toml_text(scenario({"congestion": {"name": "aimd"}}, duration="4 s")))
    out = tmp_path / "sweep"
    command = [
        *(sys.executable, "-m", "narrows", "sweep", str(file), "--plugin", str(aimd)),
        *("--vary", f"{CONGESTION}.decrease=0.5,0.8", "--out", str(out), "--workers", "2"),
    ]

    def done(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], capture_output=True, text=True, check=False)

    first = done()
    assert first.returncode == 0, first.stderr
    found = narrows.Sweep.load(out)
    ours = {each.settings[f"{CONGESTION}.decrease"]: each.summary["flows"] for each in found.runs}
    reno = narrows.run(scenario({"congestion": "reno"}, duration="4 s"))
    assert ours[0.5] == reno.summary["flows"] != ours[0.8]
    wrong = done("--vary", f"{CONGESTION}.decrease=2", "--out", str(tmp_path / "other"))
    assert wrong.returncode == 2 and "has the settings increase" in wrong.stderr
    with aimd.open("ab") as file_:
        file_.write(b"\0")
    other = done("--seeds", "2")
    assert other.returncode == 2 and "aimd.so had other code" in other.stderr
    assert other.stderr.count("\n") == 1


def test_workers_refuse_what_is_not_the_same_there(tmp_path: Path) -> None:
    from narrows.backends.outside import Outside

    plugin = tmp_path / "a.so"
    plugin.write_bytes(b"x")
    outside = Outside.of(queues={LINK: _Tail()}, plugins=[plugin])
    assert outside is not None
    sent = outside.sent()
    assert Outside.received(sent).record == outside.record
    plugin.write_bytes(b"y")
    with pytest.raises(narrows.NarrowsError, match=r"a\.so: is another file here"):
        Outside.received(sent)
    plugin.unlink()
    with pytest.raises(narrows.NarrowsError, match=r"a\.so: does not exist here"):
        Outside.received(sent)
    without = {**sent, "plugins": []}
    with pytest.raises(narrows.NarrowsError, match=r"but the classes are of 3\.1"):
        Outside.received({**without, "python": [3, 1]})
    with pytest.raises(narrows.NarrowsError, match="cannot load the classes"):
        Outside.received({**without, "parts": "0"})
