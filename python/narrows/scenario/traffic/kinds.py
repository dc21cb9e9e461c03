"""The kinds of traffic: an import each."""

from narrows.scenario.traffic.bulk import Bulk as Bulk
from narrows.scenario.traffic.ftp import Ftp as Ftp
from narrows.scenario.traffic.on_off import OnOff as OnOff
from narrows.scenario.traffic.once import Once as Once
