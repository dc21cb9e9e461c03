"""`narrows traffic drive`: opens a scenario's connections."""

from __future__ import annotations

from narrows.cli.machines import part

EXAMPLES = """\
# On the machine of the node client.
narrows traffic drive lab-scenario.toml --node client --machines lab.toml
"""

command = part("drive", "Open a scenario's connections from this machine.")
