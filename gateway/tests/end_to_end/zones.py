"""The zones that the servers serve: replies of known sizes, a signed zone, one to transfer, a key.

Sizes are those of the reply's DNS message without OPT, to a query of type TXT.
"""

from __future__ import annotations

import random
import string
import subprocess
from pathlib import Path

SIZES = (60, 100, 300, 512, 1200, 1232, 1398, 1400, 1460, 1470, 1473, 2000, 2920, 4000, 4500)
SIZES += (6000, 9000, 16000, 30000, 60000)

ZONE = "z.test"
SIGNED = "signed.test"
TRANSFER = "transfer.test"
KEY_NAME = "key.test"
KEY_SECRET = "bmFycm93cyB0ZXN0cyBhbG9uZTogbm90IGEgc2VjcmV0"
"""The secret of a TSIG key for HMAC-SHA256."""

HEAD = """$TTL 300
$ORIGIN {zone}.
@ SOA ns.{zone}. hostmaster.{zone}. {serial} 3600 600 86400 300
@ NS ns
ns A 192.0.2.53
"""


def size_name(size: int) -> str:
    """The name whose TXT reply has that many bytes."""
    return f"s{size}.{ZONE}"


def text_of(size: int, seed: str) -> list[str]:
    """The strings of a TXT record whose data have `size` bytes, with their lengths."""
    draw = random.Random(seed)
    strings = []
    while size:
        # No remainder of one byte, except as the last string, which may be empty.
        length = min(255, size - 1)
        strings.append("".join(draw.choices(string.ascii_letters, k=length)))
        size -= length + 1
    return strings


def sized(size: int) -> str:
    """A zone file's line for a reply of that size: header, question, compressed owner, data."""
    question = len(size_name(size)) + 2 + 4
    strings = text_of(size - 12 - question - 12, f"{size}")
    return f"s{size} TXT " + " ".join(f'"{text}"' for text in strings)


def write(folder: Path) -> dict[str, Path]:
    """Writes the zone files, and returns them by zone name."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [HEAD.format(zone=ZONE, serial=1), *(sized(size) for size in SIZES)]
    # A set of records whose order a server may change between replies.
    lines += [f'many TXT "{text_of(200, str(i))[0]}"' for i in range(15)]
    lines += ["a A 192.0.2.99", "a AAAA 2001:db8::99", "alias CNAME a", "*.w TXT wild"]
    lines += [f"mx MX {i} host{i}" for i in range(5)] + [f"host{i} A 192.0.2.{i}" for i in range(5)]
    plain = folder / f"{ZONE}.zone"
    plain.write_text("\n".join(lines) + "\n")

    lines = [HEAD.format(zone=TRANSFER, serial=2026)]
    lines += [f'r{i} TXT "{text_of(120, f"r{i}")[0]}"' for i in range(1500)]
    transfer = folder / f"{TRANSFER}.zone"
    transfer.write_text("\n".join(lines) + "\n")

    lines = [HEAD.format(zone=SIGNED, serial=1)]
    lines += [f"h{i} A 192.0.2.{i}" for i in range(20)] + ["*.w TXT wild"]
    unsigned = folder / f"{SIGNED}.unsigned"
    unsigned.write_text("\n".join(lines) + "\n")
    return {ZONE: plain, TRANSFER: transfer, SIGNED: sign(folder, unsigned)}


def sign(folder: Path, unsigned: Path) -> Path:
    """Signs a zone with NSEC3, which is common."""
    for role in ((), ("-f", "KSK")):
        words = ["dnssec-keygen", "-q", "-a", "ECDSAP256SHA256", *role, "-K", str(folder), SIGNED]
        subprocess.run(words, check=True, capture_output=True)
    signed = folder / f"{SIGNED}.zone"
    words = ["dnssec-signzone", "-S", "-3", "-", "-K", str(folder), "-d", str(folder)]
    words += ["-o", SIGNED, "-f", str(signed), str(unsigned)]
    subprocess.run(words, check=True, capture_output=True)
    return signed
