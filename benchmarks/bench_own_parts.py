"""Cost of queues and congestion controls of one's own: `python benchmarks/bench_own_parts.py`.

Four uploads cross 10 Mbit/s for 1000 s. Each row compares a part of one's own with the same part in
narrows: processor seconds of whole runs, interleaved. The ratio is that of the least times.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

import narrows
from narrows import controls, queues
from narrows.controls import CompiledControl
from narrows.queues import DROP, PASS, Compiled, Packet, Queue

ROUNDS = 7
LINK = "wan.forward"
HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "crates/plugin/examples"


@numba.cfunc(queues.signature(np.float64))
def tail(state: Any, backlog: int, _bytes: int, _now: int, _packet: Any) -> int:
    """A pfifo."""
    return 2 if backlog >= state[0] else 0


@numba.cfunc(controls.signature(np.float64))
def halve(_state: Any, _ack: Any, sending: Any) -> None:
    """Reno's answer to a loss."""
    sets = numba.carray(sending, 1)
    sets[0].ssthresh = max(np.floor(0.5 * sets[0].cwnd), 2.0)


class Tail(Queue):
    """The same pfifo in plain Python."""

    def admit(self, backlog: int, _bytes: int, _now: float, _packet: Packet) -> int:
        """Drops what finds 20 packets."""
        return DROP if backlog >= 20 else PASS


def compiled(source: Path, folder: str) -> Path:
    """A shared object."""
    out = Path(folder) / f"{source.stem}.so"
    command = ["cc", "-O2", "-shared", "-fPIC", f"-I{queues.INCLUDE}", str(source), "-o", str(out)]
    subprocess.run([*command, "-lm"], check=True)
    return out


def scenario(congestion: str, queue: dict[str, Any] | None = None) -> dict[str, Any]:
    """What all rows run, with a queue for the data."""
    pfifo = {"kind": "pfifo", "limit": 20}
    return {
        "name": "own-parts",
        "duration": "1000 s",
        "links": [
            {"name": "wan", "between": ["a", "b"], "rate": "10 Mbit/s", "delay": "10 ms"}
            | {"queue": pfifo, "forward": {"queue": queue or pfifo}}
        ],
        "traffic": [
            {"kind": "bulk", "name": "up", "sender": "a", "receiver": "b", "connections": 4}
            | {"tcp": {"congestion": congestion}}
        ],
    }


def took(run: Callable[[], narrows.Run]) -> float:
    """Processor seconds."""
    before = time.process_time()
    run()
    return time.process_time() - before


def main() -> None:
    """Prints a row for each part."""
    with tempfile.TemporaryDirectory() as folder:
        measure(compiled(HERE / "own_parts.c", folder), compiled(EXAMPLES / "codel.c", folder))


def measure(fifos: Path, codel: Path) -> None:
    """Does the same with these plugins."""

    def in_c(plugin: Path, name: str) -> Callable[[], narrows.Run]:
        theirs = scenario("cubic", {"kind": "plugin", "name": name})
        return lambda: narrows.run(theirs, plugins=[plugin])

    queue = Compiled(admit=tail, state=np.array([20.0]))
    control = CompiledControl(on_loss=halve)
    cubic, reno, mine = scenario("cubic"), scenario("reno"), scenario("mine")
    rows = {
        "queue, C": (in_c(fifos, "short"), cubic),
        "queue, C, full": (in_c(fifos, "full"), cubic),
        # By RFC 8289, which differs a little from Linux's.
        "CoDel, C": (in_c(codel, "codel-rfc8289"), scenario("cubic", {"kind": "codel"})),
        "queue, numba": (lambda: narrows.run(cubic, queues={LINK: queue}), cubic),
        "queue, Python": (lambda: narrows.run(cubic, queues={LINK: Tail()}), cubic),
        "control, numba": (lambda: narrows.run(mine, controls={"mine": control}), reno),
    }
    for name, (ours, theirs) in rows.items():
        same = ours().flows.equals(narrows.run(theirs).flows)
        assert same or name == "CoDel, C", name
        both = [(took(ours), took(lambda: narrows.run(theirs))) for _ in range(ROUNDS)]  # noqa: B023
        own, built_in = (min(side) for side in zip(*both, strict=True))
        print(f"{name:<15} {own:6.3f} s, built in {built_in:6.3f} s: {own / built_in:.2f} times")


if __name__ == "__main__":
    main()
