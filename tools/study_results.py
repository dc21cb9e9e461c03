"""Copies what `narrows study dns-transport` wrote into the README that reports it.

python tools/study_results.py FOLDER

The study's folder gets `result.json` (all but the cells) and `cells.parquet`, its README gets its
tables, and docs/images gets the plots. Check the sentences of the README and of docs/findings.md
by hand.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from narrows.study.dns_transport.readme import filled

CHECKOUT = Path(__file__).parents[1]
STUDY = CHECKOUT / "python/narrows/study/dns_transport"
README = STUDY / "README.md"
PLOTS = ("within-1s-operator-cubic", "paper-h")


def main(folder: Path) -> None:
    """Writes the README and its data from a study that is complete."""
    result = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    if result["status"] != "complete":
        sys.exit(f"{folder}: the study is {result['status']}; hint: run the same command again")
    result["cell_count"] = len(result.pop("cells"))
    text = json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    (STUDY / "result.json").write_text(text, encoding="utf-8")
    (STUDY / "cells.parquet").write_bytes((folder / "cells.parquet").read_bytes())
    README.write_text(filled(README.read_text(encoding="utf-8"), result), encoding="utf-8")
    for name in PLOTS:
        image = (folder / "plots" / f"{name}.png").read_bytes()
        (CHECKOUT / "docs/images" / f"study-{name}.png").write_bytes(image)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
