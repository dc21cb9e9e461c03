"""Writes the files of the page: its sources, and each example with its knobs and their patches."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows.backends import DEFAULT, chosen_for
from narrows.builds import THIS
from narrows.errors import ScenarioError
from narrows.lab.knobs import Setting, watched
from narrows.lab.own import marked, placed
from narrows.lab.patches import Patches
from narrows.lab.recorded import kernels
from narrows.lab.tour import questions
from narrows.scenario import Example, Scenario, examples
from narrows.scenario.tcp import own_controls
from narrows.scenario.toml_text import inline

SITE = Path(__file__).parent / "site"
"""Where the page is, if it was built."""
BROTLI = ".br"
"""What the name of a file's copy ends with that Brotli has compressed."""
RECORDED = "recorded.json"
"""The file that says which examples have a recorded run on a kernel."""
HERE = "here.json"
"""The file that says what the page's server can do: nothing, unless it is that of `narrows lab`."""

if TYPE_CHECKING:
    from narrows.backends.outside import Outside

_COMMENTS = re.compile(r"^\s*(//.*|/\*\*(?s:.*?)\*/)$", flags=re.MULTILINE)
_REPORT = Path(__file__).parents[1] / "report"


def build(sources: Path, site: Path = SITE) -> None:
    """Writes everything but the engine, which `tools/build_web.sh` compiles.

    Args:
        sources: The checkout's folder `web`.
        site: Where to write.
    """
    (site / "examples").mkdir(parents=True, exist_ok=True)
    for path in sorted(sources.iterdir()):
        if path.is_file():
            _copy(path, site / path.name)
    shutil.copytree(sources / "recorded", site / "recorded", dirs_exist_ok=True)
    _write(site / RECORDED, kernels(sources / "recorded"))
    (site / "draw").mkdir(exist_ok=True)
    for path in (*_REPORT.glob("draw.*"), *_REPORT.glob("draw/*.js")):
        _copy(path, site / path.relative_to(_REPORT))
    for name in ("uPlot.iife.min.js", "uPlot.min.css"):
        shutil.copyfile(_REPORT / "vendor" / name, site / name)
    lessons = sorted(sources.glob("lesson-*.json"))
    titles = [json.loads(path.read_text(encoding="utf-8"))["title"] for path in lessons]
    names = [path.stem.removeprefix("lesson-") for path in lessons]
    _write(
        site / "lessons.json",
        [{"name": n, "title": t} for n, t in zip(names, titles, strict=True)],
    )
    tour = sources.parent / "docs" / "tour.md"
    _write(site / "tour.json", questions(tour.read_text(encoding="utf-8")))
    _write(site / HERE, {"jobs": False})
    listed = examples()
    _write(site / "examples.json", [{"name": e.name, "title": e.title} for e in listed])
    with ProcessPoolExecutor() as processes:
        for each, made in zip(listed, processes.map(described, listed), strict=True):
            _write(site / "examples" / f"{each.name}.json", made)
    _compress(site)


def _compress(site: Path) -> None:
    """Puts a copy that Brotli has compressed beside each file but the many examples."""
    import brotli  # Only those who build the page have it.

    for path in [*site.iterdir(), *(site / "draw").iterdir()]:
        if path.is_file() and path.suffix != BROTLI:
            path.with_name(path.name + BROTLI).write_bytes(brotli.compress(path.read_bytes()))


def _copy(source: Path, target: Path) -> None:
    """Copies a file; a script without indents and without comments that have their own lines."""
    text = source.read_text(encoding="utf-8")
    if source.suffix in (".js", ".mjs"):
        text = _COMMENTS.sub("", text)
        text = "".join(f"{line.strip()}\n" for line in text.splitlines() if line.strip())
    target.write_text(text, encoding="utf-8")


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def described(example: Example, scenario: Scenario | None = None) -> dict[str, Any]:
    """An example as the page reads it; `web/settings.mjs` applies its patches.

    Args:
        example: Its name, its title and its file.
        scenario: What the file holds, if it has been read, or if there is none.

    Raises:
        ScenarioError: The scenario cannot be read, or names queues or congestion controls of the
            user's own, which the browser does not have.
    """
    scenario = scenario or Scenario.load(example.path)
    for link in scenario.plan()["links"]:
        if _has_plugin(link["queue"]):
            raise _not_here(example, f"{link['name']}: queue")
    for key, _ in own_controls(scenario):
        raise _not_here(example, key)
    return written(example, Patches(watched(scenario), example.path.parent))


def described_with(example: Example, scenario: Scenario, parts: Outside) -> dict[str, Any]:
    """The same for a scenario with parts of the user's own, which the page lets the server run.

    Raises:
        NarrowsError: The simulator refuses the scenario or a part, or a part is used nowhere.
    """
    parts.refuse_unused(scenario)
    chosen_for(DEFAULT, parts).check(scenario)
    named = watched(marked(scenario, parts))
    patches = Patches(named, example.path.parent)
    plan, bound = placed(named.plan(), parts)
    if wrong := bound.wrong(plan):
        raise ScenarioError(str(example.path), "", wrong[0])
    return {**written(example, patches), "native": True}


def command(path: Path, parts: Outside | None) -> str:
    """The command that runs a file with these parts, as far as a command can name them."""
    words = ["narrows", "run", str(path)]
    for plugin in parts.plugins if parts else ():
        words += ["--plugin", str(plugin)]
    run = shlex.join(words)
    classes = parts and [*parts.queues.values(), *parts.controls.values()]
    if not classes:
        return run
    names = ", ".join(sorted({type(each).__name__ for each in classes}))
    return f"# Only narrows.run in Python has {names}.\n{run}"


def _has_plugin(queue: Any) -> bool:
    below = queue.values() if isinstance(queue, dict) else queue if isinstance(queue, list) else ()
    return (isinstance(queue, dict) and "plugin" in queue) or any(map(_has_plugin, below))


def _not_here(example: Example, key: str) -> ScenarioError:
    what = "is one of your own, and nothing here offers it"
    return ScenarioError(
        str(example.path), key, what, "--plugin FILE, or narrows.lab.open_page(..., queues={...})"
    )


def written(example: Example, patches: Patches) -> dict[str, Any]:
    """The same with patches that are known; many are alike, and knobs name them by number."""
    there = example.path.is_file()
    numbers: dict[str, int] = {}

    def numbered(patch: Any) -> int:
        return numbers.setdefault(json.dumps(patch), len(numbers))

    made: dict[str, Any] = {
        "name": example.name,
        "title": example.title,
        "narrows": THIS,
        "about": about(example.path.read_text(encoding="utf-8") if there else ""),
        "base": patches.base,
        "own": list(patches.own),
        "knobs": [
            {
                "name": knob.name,
                "label": knob.label,
                "slider": knob.slider,
                "needs": list(knob.needs) if knob.needs else None,
                "settings": [
                    {"text": setting.text, "set": _arguments(setting)} for setting in knob.settings
                ],
                "context": [patches.knobs[other].name for other in patches.contexts[number]],
                "patches": {
                    ",".join(map(str, around)): list(map(numbered, of_settings))
                    for around, of_settings in patches.patches[number].items()
                },
            }
            for number, knob in enumerate(patches.knobs)
        ],
    }
    return {**made, "patches": [json.loads(patch) for patch in numbers]}


def _arguments(setting: Setting) -> list[str]:
    """The setting as arguments of `narrows run --set`."""
    return [
        shlex.quote(f"{key}={value if isinstance(value, str) else inline(value)}")
        for key, value in setting.changes.items()
    ]


def about(text: str) -> str:
    r"""The comment at the top of a scenario's file.

    Examples:
        >>> about("# A title.\n#\n# More.\n\nname = 'a'")
        'A title.\n\nMore.'
    """
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    return "\n".join(lines)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
