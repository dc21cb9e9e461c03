"""Copies what `narrows study dns-transport` wrote into the documents that report it.

python tools/study_results.py FOLDER

The study's folder gets `result.json` (all but the cells) and `cells.parquet`, its README and
docs/findings.md get their sentences, and docs/images gets the figures that they show.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from narrows.study.dns_transport.readme import filled

CHECKOUT = Path(__file__).parents[1]
STUDY = CHECKOUT / "python/narrows/study/dns_transport"
DOCUMENTS = (STUDY / "README.md", CHECKOUT / "docs/findings.md")
FIGURES = ("within-1s-downloads-ecn", "paper-h")


def main(folder: Path) -> None:
    """Writes the documents from a study that is complete."""
    result = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    if result["status"] != "complete":
        sys.exit(f"{folder}: the study is {result['status']}; hint: run the same command again")
    result["cell_count"] = len(result.pop("cells"))
    text = json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    (STUDY / "result.json").write_text(text, encoding="utf-8")
    (STUDY / "cells.parquet").write_bytes((folder / "cells.parquet").read_bytes())
    for document in DOCUMENTS:
        text = filled(document.read_text(encoding="utf-8"), result)
        document.write_text(text, encoding="utf-8")
    for name in FIGURES:
        image = (folder / "figures" / f"{name}.png").read_bytes()
        (CHECKOUT / "docs/images" / f"study-{name}.png").write_bytes(image)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
