"""One scenario on several machines, over the network between them.

Each command runs one role of the scenario at one node: it opens connections, accepts them and
answers DNS queries, runs the DNS workers, or monitors a queue. All commands connect to the machine
whose clock counts, and agree there on the run and its start. Each leaves a record, and `merge`
makes one run from the records.
"""

from narrows.machines.errors import MachineError
from narrows.machines.lab import Lab
from narrows.machines.merge import merge
from narrows.machines.parts import Part, Parts
from narrows.machines.watching import watch
from narrows.machines.working import work

__all__ = ["Lab", "MachineError", "Part", "Parts", "merge", "watch", "work"]
