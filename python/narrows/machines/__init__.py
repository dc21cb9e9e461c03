"""One scenario on several machines, over whatever network is between them.

Each command runs one program of the scenario at one node: those that open connections, those that
accept them and answer DNS queries, the DNS workers, the monitor of a queue. They agree on the run
and on its start over a connection to the machine whose clock counts, and each leaves a record.
`merge` makes one run of the records.
"""

from narrows.machines.errors import MachineError
from narrows.machines.lab import Lab
from narrows.machines.merge import merge
from narrows.machines.parts import Part, Parts
from narrows.machines.watching import watch
from narrows.machines.working import work

__all__ = ["Lab", "MachineError", "Part", "Parts", "merge", "watch", "work"]
