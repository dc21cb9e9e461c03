"""Keys and certificates for a run's servers, with the lengths that a scenario asks for.

The program `openssl` makes them. Certificates are self-signed, and nobody checks them. A comment
(the extension `nsComment`) pads each one to its length.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from narrows.backends.backend import BackendError
from narrows.testbed.needs import PATH

_ALGORITHMS = {
    "ecdsa-p256": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "rsa-2048": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
    "rsa-3072": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072"],
    "rsa-4096": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:4096"],
}
_TRIES = 40
_FIRST_GUESS = 200
_TOO_LONG_S = 60.0


@lru_cache(maxsize=64)
def pem(key: str, length: int) -> str:
    """A private key and a certificate of the given length, as PEM text.

    Args:
        key: `ecdsa-p256`, `rsa-2048`, `rsa-3072` or `rsa-4096`.
        length: Length of the certificate in DER, in bytes.

    Raises:
        BackendError: The program `openssl` is missing, or no certificate has this length.
    """
    program = shutil.which("openssl", path=PATH)
    if program is None:
        raise BackendError("", "openssl is not installed", "apt-get install openssl")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key.pem"
        file.touch(0o600)
        file.write_text(_run(program, ["genpkey", *_ALGORITHMS[key]], ""))
        return file.read_text() + _certificate(program, file, length)


def _certificate(program: str, key: Path, length: int) -> str:
    comment, name, found = _FIRST_GUESS, 1, 0
    for _ in range(_TRIES):
        text = _signed(program, key, comment, name)
        found = _length(text)
        if found == length:
            return text
        # DER's length fields grow in steps, and ECDSA signatures vary in length.
        if abs(length - found) <= 2:
            name = name % 4 + 1
        comment += length - found - (1 if found < length <= found + 2 else 0)
        if comment < 1:
            break
    raise BackendError(
        "",
        f"no certificate can have {length} B (the nearest length is {found} B)",
        "give answers.tls.certificates other lengths",
    )


def _signed(program: str, key: Path, comment: int, name: int) -> str:
    words = ["req", "-x509", "-key", str(key), "-config", "/dev/stdin", "-batch"]
    words += ["-subj", f"/CN={'n' * name}", "-set_serial", "1", "-days", "3650"]
    config = "[req]\ndistinguished_name = dn\nx509_extensions = v3\n[dn]\n"
    return _run(program, words, f"{config}[v3]\nnsComment = {'n' * comment}\n")


def _run(program: str, words: Sequence[str], given: str) -> str:
    try:
        done = subprocess.run(
            [program, *words], input=given, capture_output=True, text=True, timeout=_TOO_LONG_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError("", f"openssl cannot be run ({error})") from None
    if done.returncode:
        said = " ".join(done.stderr.split())[-200:]
        raise BackendError("openssl", said, f"see openssl-{words[0]}(1)")
    return done.stdout


def _length(text: str) -> int:
    """The length of a PEM certificate in DER, in bytes."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return len(base64.b64decode(text.partition(begin)[2].partition(end)[0]))
