"""What a benchmark measures of narrows: one run in a process of its own.

    python narrows_child.py parameters SECONDS
    python narrows_child.py run DISCIPLINE SECONDS
    python narrows_child.py folder DISCIPLINE SECONDS
    python narrows_child.py flows DISCIPLINE SECONDS FLOWS

`run` and `flows` go from the scenario file to the tables in memory, with every record on, and print
what each part took; `folder` calls `narrows.run` with a run folder, as a user does. Each prints
one JSON object.
"""

import time

# Before the other imports (hence E402 below), since a process pays for them too.
STARTED = time.perf_counter()

import json  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import b1_scenario  # noqa: E402
import narrows  # noqa: E402
import peers  # noqa: E402
from narrows import _core  # noqa: E402

IMPORTED = time.perf_counter()

EVENTS_PER_CALL = 1_000_000


def measured(scenario: narrows.Scenario, seconds: float) -> dict[str, Any]:
    """Runs a scenario to its tables.

    Returns:
        Its results, and wall times: `import_s`, `load_s` (file to plan), `engine_s` (the
        simulation alone) and `run_s` (plan to tables).
    """
    plan = json.dumps(scenario.plan())
    loaded = time.perf_counter()
    simulation = _core.Simulation(plan)
    ready = time.perf_counter()
    while not simulation.advance(EVENTS_PER_CALL):
        pass
    simulated = time.perf_counter()
    tables = simulation.tables()
    finished = time.perf_counter()
    if simulation.stopped != "end":
        raise RuntimeError(f"the run stopped early: {simulation.stopped}")
    return {
        "import_s": IMPORTED - STARTED,
        "load_s": loaded - IMPORTED,
        "engine_s": simulated - ready,
        "run_s": finished - loaded,
        "events": simulation.events,
        **peers.summary(tables, seconds),
    }


def in_folder(scenario: narrows.Scenario) -> dict[str, Any]:
    """Runs a scenario as a user does, run folder and all."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        narrows.run(scenario, out=Path(folder) / "run")
        return {"run_s": time.perf_counter() - began}


def main(arguments: list[str]) -> None:
    """Does what the command line asks for."""
    match arguments:
        case ["parameters", seconds]:
            said: dict[str, Any] = b1_scenario.parameters(float(seconds))
        case ["run", discipline, seconds]:
            said = measured(b1_scenario.scenario(discipline, float(seconds)), float(seconds))
        case ["folder", discipline, seconds]:
            said = in_folder(b1_scenario.scenario(discipline, float(seconds)))
        case ["flows", discipline, seconds, flows]:
            scenario = b1_scenario.scaled(discipline, float(seconds), int(flows))
            said = measured(scenario, float(seconds))
        case _:
            sys.exit(__doc__)
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1:])
