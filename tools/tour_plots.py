"""Runs the commands of docs/tour.md, and puts the plots that they write into docs/images.

python tools/tour_plots.py                all sections; prints how long each command took
python tools/tour_plots.py satellite      only sections with this word in the picture's name
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOUR = ROOT / "docs" / "tour.md"


def main(words: list[str]) -> None:
    """Draws the pictures of some sections."""
    text = re.sub(r"\\\n\s*", "", TOUR.read_text(encoding="utf-8"))
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        picture = re.search(r"^!\[.*?\]\((images/.*?\.png)\)", section, flags=re.MULTILINE)
        if picture and all(word in picture[1] for word in words):
            draw(re.findall(r"^    \$ (.*)", section, flags=re.MULTILINE), TOUR.parent / picture[1])


def draw(commands: list[str], picture: Path) -> None:
    """Copies the PNG that some commands write, and prints how long they took.

    If they write several, the picture has the name of one of them.
    """
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "scenarios").symlink_to(ROOT / "scenarios")
        for command in commands:
            begun = time.monotonic()
            words = command.replace("narrows ", f"{sys.executable} -m narrows ", 1)
            subprocess.run(["sh", "-c", words], cwd=name, check=True, capture_output=True)
            print(f"{time.monotonic() - begun:5.1f} s  {command}")
        plots = list(Path(name).glob("runs/**/plots/*.png"))
        of_name = [each for each in plots if each.stem == picture.stem.removeprefix("tour-")]
        (plot,) = of_name or plots
        shutil.copyfile(plot, picture)


if __name__ == "__main__":
    main(sys.argv[1:])
