"""Makes samples/atlas from measured pairs: turns a table of pairs into Atlas's JSON lines.

The tables have a line for each pair: a client's number, milliseconds over UDP and TCP, TCP's time
from query to reply, and the error of a query that failed. samples/atlas/README.md says how they
were measured.

    python tools/atlas_sample.py PAIRS.csv OUT.jsonl.gz 2012-09-20
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path

SERVER = "192.0.2.53"


def main(source: str, target: str, day: str) -> None:
    """Writes the results of one table."""
    start = int(dt.datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp())
    rounds: dict[str, int] = defaultdict(int)
    lines = []
    with Path(source).open(newline="") as file:
        for row in csv.DictReader(file):
            probe = row["octet"]
            at = start + 1800 * rounds[probe] + 7 * int(probe)
            rounds[probe] += 1
            for number, proto in enumerate(("UDP", "TCP")):
                result = {
                    "type": "dns",
                    "msm_name": "Tdig",
                    "msm_id": 100 * number + 1,
                    "prb_id": int(probe),
                    "timestamp": at + 40 * number,
                    "af": 4,
                    "fw": 5080,
                    "proto": proto,
                    "dst_addr": SERVER,
                }
                time = row[f"{proto.lower()}_ms"]
                if time:
                    answer = {"rt": round(float(time), 3), "size": 857}
                    if proto == "TCP" and row["qt_ms"]:
                        answer["qt"] = round(float(row["qt_ms"]), 3)
                    result["result"] = answer
                elif proto == "UDP":
                    # The measurement noted one error for the pair, and that is TCP's.
                    continue
                else:
                    result["error"] = {"timeout": 5000}
                lines.append(json.dumps(result, separators=(",", ":")))
    data = ("\n".join(lines) + "\n").encode()
    Path(target).write_bytes(gzip.compress(data, 9, mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
