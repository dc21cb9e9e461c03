"""One scenario on several machines, over whatever network is between them.

Each command runs one role of the scenario at one node: opening connections, accepting them and
answering DNS queries, the DNS workers, or the monitor of a queue. The commands agree on the run and
on its start over a connection to the machine whose clock counts, and each leaves a record. `merge`
makes one run from the records.
"""

from narrows.machines.errors import MachineError
from narrows.machines.lab import Lab
from narrows.machines.merge import merge
from narrows.machines.parts import Part, Parts
from narrows.machines.watching import watch
from narrows.machines.working import work

__all__ = ["Lab", "MachineError", "Part", "Parts", "merge", "watch", "work"]
