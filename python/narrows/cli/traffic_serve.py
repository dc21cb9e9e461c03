"""`narrows traffic serve`: accepts a scenario's connections and answers its DNS queries."""

from __future__ import annotations

from narrows.cli.machines import part

EXAMPLES = """\
# On the machine of the node server; lab.toml names the machines.
narrows traffic serve lab-scenario.toml --node server --machines lab.toml
"""

command = part(
    "serve", "Accept a scenario's connections and answer its DNS queries on this machine."
)
