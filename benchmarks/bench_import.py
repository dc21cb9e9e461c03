"""How fast `narrows import` reads: a million Atlas results, and a capture of some 300 MB.

    make bench-import            (QUICK=1: a tenth of both)

Both inputs are made here, from the measured sample in samples/atlas and from a capture in
tests/captures/data, repeated with other probes, ports and times. The last line is JSON.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
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
# A reply with the root's SOA as Atlas carries it: some 1,000 digits of base64.
ABUF = "EjSEAAABAAEADQAWAAAGAAE" + "A" * 969 + "=="


class Figures(NamedTuple):
    """Of one process, its start included."""

    seconds: float
    cpu_s: float
    memory_mb: float
    exchanges: int


def main() -> None:
    """Makes both inputs, reads each in a process of its own, prints time and memory."""
    scale = 10 if os.environ.get("QUICK") else 1
    with tempfile.TemporaryDirectory(prefix="bench-import-") as folder:
        results = Path(folder) / "results.jsonl"
        capture = Path(folder) / "capture.pcap"
        _make_results(results, 1_000_000 // scale)
        _make_capture(capture, 300_000_000 // scale)
        atlas = _measured("narrows.atlas", "read_atlas", results, Path(folder) / "atlas")
        packets = _measured("narrows.captures", "read_captures", capture, Path(folder) / "capture")
        sizes = {"atlas": results.stat().st_size, "capture": capture.stat().st_size}
    for name, found in (("atlas", atlas), ("capture", packets)):
        size = sizes[name] / 1e6
        print(f"{name}: {found.exchanges} exchanges, {size:.0f} MB in {found.seconds:.1f} s")
        print(f"  {found.cpu_s:.1f} s of CPU time, {found.memory_mb:.0f} MB of memory")
    print(
        json.dumps(
            {
                "atlas_results": atlas.exchanges,
                "atlas_s": round(atlas.seconds, 2),
                "atlas_cpu_s": round(atlas.cpu_s, 2),
                "atlas_memory_mb": round(atlas.memory_mb),
                "capture_mb": round(sizes["capture"] / 1e6),
                "capture_s": round(packets.seconds, 2),
                "capture_cpu_s": round(packets.cpu_s, 2),
            }
        )
    )


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
                # Another client: two bytes of its address, which is the source's or not.
                at = 17 if data[20:22] == b"\0\x35" else 13
                changed[at : at + 2] = struct.pack(">H", copy & 0xFFFF)
                head = struct.pack("<IIII", seconds + 2 * copy, fraction, len(changed), length)
                file.write(head + changed)
                written += 16 + len(changed)


def _measured(module: str, reader: str, source: Path, out: Path) -> Figures:
    """What reading and saving takes."""
    code = (
        f"import sys\nfrom {module} import {reader}\n"
        f"found = {reader}([sys.argv[1]])\nfound.save(sys.argv[2])\nprint(found.exchanges.height)"
    )
    clock = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), str(out)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - clock
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # The largest of all children so far: atlas is read first, and needs more.
    return Figures(seconds, cpu, after.ru_maxrss / 1024, int(done.stdout))


if __name__ == "__main__":
    main()
