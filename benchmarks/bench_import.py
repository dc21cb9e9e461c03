"""How fast `narrows import` reads: a million Atlas results, and two captures of 300 MB.

    make bench-import       (QUICK=1: a tenth of each)

The bench makes the inputs: results from the measured sample in samples/atlas, and queries over TCP
from a capture in tests/captures/data. It repeats both with other probes, ports and times. The third
input is the worst case, only small datagrams: 50,000 queries a second from 20,000 clients. A
separate process reads and saves each input. The bench prints the speed by the clock and for each
second of processor time, which other programs on the machine change less, for the whole process and
for the parser alone. The last line is JSON.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "samples" / "atlas" / "nsd-3.2.14.jsonl.gz"
CAPTURE = ROOT / "tests" / "captures" / "data" / "old-two-soa-nanoseconds.pcap"
# A reply with the root's SOA in Atlas's form: about 1,000 digits of base64.
ABUF = "EjSEAAABAAEADQAWAAAGAAE" + "A" * 969 + "=="


class Measured(NamedTuple):
    """The cost of reading one input."""

    exchanges: int
    megabytes: float
    seconds: float
    """Wall-clock time of the process, with its start and Python's imports."""
    cpu_s: float
    memory_mb: float
    start_s: float
    """Wall-clock time until it begins to read."""
    parser_cpu_s: float
    """Processor time of another process, which parses and keeps nothing."""

    def lines(self) -> str:
        """The metrics as lines of text."""
        size, begun = self.megabytes, self.seconds - self.start_s
        return (
            f"{self.exchanges} exchanges, {size:.0f} MB in {self.seconds:.2f} s, of which "
            f"{self.start_s:.2f} s are Python's start; {self.memory_mb:.0f} MB of memory\n"
            f"  by the clock {size / self.seconds:.0f} MB/s, without the start "
            f"{size / begun:.0f} MB/s\n"
            f"  {self.cpu_s:.2f} s of processor time: {size / self.cpu_s:.0f} MB for each second; "
            f"the parser alone {size / self.parser_cpu_s:.0f} MB"
        )


def main() -> None:
    """Makes the inputs, reads each, and prints times and memory."""
    scale = 10 if os.environ.get("QUICK") else 1
    found = {}
    with tempfile.TemporaryDirectory(prefix="bench-import-") as folder:
        for name, make, reader in (
            ("atlas", _make_results, "narrows.atlas read_atlas AtlasReader"),
            ("capture", _make_capture, "narrows.captures read_captures CaptureReader"),
            ("datagrams", _make_datagrams, "narrows.captures read_captures CaptureReader"),
        ):
            source = Path(folder) / name
            make(source, (1_000_000 if name == "atlas" else 300_000_000) // scale)
            found[name] = _measured(*reader.split(), source, Path(folder) / f"{name}-run")
            print(f"{name}: {found[name].lines()}", flush=True)
            source.unlink()
    rounded = {
        name: {key: round(value, 2) for key, value in measured._asdict().items()}
        for name, measured in found.items()
    }
    print(json.dumps(rounded))


def _make_results(path: Path, count: int) -> None:
    lines = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()
    templates = [json.loads(line) for line in lines]
    with path.open("w") as file:
        for number in range(count):
            result = dict(templates[number % len(templates)])
            copy = number // len(templates)
            result["prb_id"] = 1 + 200 * (copy % 60) + result["prb_id"]
            result["timestamp"] += 86_400 * (copy // 60)
            result["result"] = result["result"] | {"abuf": ABUF}
            file.write(json.dumps(result, separators=(",", ":")) + "\n")


def _make_capture(path: Path, size: int) -> None:
    whole = CAPTURE.read_bytes()
    header, rest = whole[:24], whole[24:]
    packets = []
    while rest:
        seconds, fraction, kept, length = struct.unpack("<IIII", rest[:16])
        packets.append((seconds, fraction, length, bytearray(rest[16 : 16 + kept])))
        rest = rest[16 + kept :]
    with path.open("wb") as file:
        file.write(header)
        written, copy = 24, 0
        while written < size:
            copy += 1
            for seconds, fraction, length, data in packets:
                changed = data[:]
                # Another client: two other bytes in its address, as source or as destination.
                at = 17 if data[20:22] == b"\0\x35" else 13
                changed[at : at + 2] = struct.pack(">H", copy & 0xFFFF)
                head = struct.pack("<IIII", seconds + 2 * copy, fraction, len(changed), length)
                file.write(head + changed)
                written += 16 + len(changed)


def _make_datagrams(path: Path, size: int) -> None:
    """Queries and replies of 75 to 91 bytes over UDP, ten microseconds apart."""
    server, option = bytes((192, 0, 2, 53)), b"\0\0\x29\4\xd0\0\0\0\0\0\0"
    with path.open("wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        number = 0
        while file.tell() < size:
            client = struct.pack(">I", 0x0A000000 + number * 7919 % 20011)
            port = 1024 + number * 31 % 60000
            label = b"host%d" % (number % 50000)
            name = bytes([len(label)]) + label + b"\7example\3org\0" + b"\0\1\0\1"
            for answers in (0, 1):
                flags = 0x8180 if answers else 0x0100
                head = struct.pack(">6H", number & 0xFFFF, flags, 1, answers, 0, 1)
                record = b"\xc0\x0c\0\1\0\1\0\0\x0e\x10\0\4\xc0\0\2\1" * answers
                message = head + name + record + option
                ends, ports = (client, server), (port, 53)
                if answers:
                    ends, ports = ends[::-1], ports[::-1]
                udp = struct.pack(">4H", *ports, 8 + len(message), 0) + message
                ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0)
                packet = b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + ip + ends[0] + ends[1] + udp
                at = 20 * number + 10 * answers
                seconds, micros = 1_800_000_000 + at // 1_000_000, at % 1_000_000
                file.write(struct.pack("<4I", seconds, micros, len(packet), len(packet)) + packet)
            number += 1


READ_AND_SAVE = """
import sys, time
from {module} import {function}
print(time.perf_counter())
found = {function}([sys.argv[1]])
found.save(sys.argv[2])
print(found.exchanges.height)
"""
PARSE = """
import sys, time
from narrows import _core
before = time.process_time()
reader = _core.{parser}({arguments})
while reader.chunk(200_000) is not None:
    pass
print(time.process_time() - before)
"""


def _measured(module: str, function: str, parser: str, source: Path, out: Path) -> Measured:
    """The times to read and save an input, and of the parser alone."""
    code = READ_AND_SAVE.format(module=module, function=function)
    with tempfile.TemporaryFile("w+") as said:
        # On Linux, this clock is the same in both processes.
        clock = time.perf_counter()
        words = [sys.executable, "-c", code, str(source), str(out)]
        process = subprocess.Popen(words, stdout=said)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - clock
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"reading {source.name} failed")
        said.seek(0)
        begun, exchanges = said.read().split()
    arguments = "[sys.argv[1]], [53]" if parser == "CaptureReader" else "sys.argv[1]"
    code = PARSE.format(parser=parser, arguments=arguments)
    words = [sys.executable, "-c", code, str(source)]
    alone = subprocess.run(words, capture_output=True, text=True, check=True)
    return Measured(
        int(exchanges),
        source.stat().st_size / 1e6,
        seconds,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 1024,
        float(begun) - clock,
        float(alone.stdout),
    )


if __name__ == "__main__":
    main()
