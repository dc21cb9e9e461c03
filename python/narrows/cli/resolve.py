"""`narrows resolve`: a scenario's DNS workers."""

from __future__ import annotations

from narrows.cli.machines import part

EXAMPLES = """\
# On the machine of the node stubs.
narrows resolve lab-scenario.toml --node stubs --machines lab.toml
"""

command = part("resolve", "Send a scenario's DNS queries from this machine.")
