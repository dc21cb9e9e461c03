"""The disciplines, and tables among their settings, by their Python names: a line for each.

The extension declares what they are (`declared`). Scenario files need no line here.
"""

from narrows.scenario.queues.declared import DISCIPLINES, TABLES

Pfifo = DISCIPLINES["pfifo"]
Bfifo = DISCIPLINES["bfifo"]
Red = DISCIPLINES["red"]
Red1993 = DISCIPLINES["red-1993"]
Pie = DISCIPLINES["pie"]
Blue = DISCIPLINES["blue"]
Codel = DISCIPLINES["codel"]
FqCodel = DISCIPLINES["fq-codel"]
FqPie = DISCIPLINES["fq-pie"]
Cake = DISCIPLINES["cake"]
Dualpi2 = DISCIPLINES["dualpi2"]
Fq = DISCIPLINES["fq"]
Drr = DISCIPLINES["drr"]
Tdrr = DISCIPLINES["tdrr"]
Qsdrr = DISCIPLINES["qsdrr"]
Sfq = DISCIPLINES["sfq"]
Prio = DISCIPLINES["prio"]
Classes = DISCIPLINES["classes"]
Plugin = DISCIPLINES["plugin"]
Tc = DISCIPLINES["tc"]

Adaptive = TABLES["Adaptive"]
Band = TABLES["Band"]
Class = TABLES["Class"]
Match = TABLES["Match"]
