"""The kinds of traffic: an import each."""

from narrows.scenario.traffic.bulk import Bulk as Bulk
from narrows.scenario.traffic.flood import Flood as Flood
from narrows.scenario.traffic.ftp import Ftp as Ftp
from narrows.scenario.traffic.incast import Incast as Incast
from narrows.scenario.traffic.on_off import OnOff as OnOff
from narrows.scenario.traffic.once import Once as Once
from narrows.scenario.traffic.page import Page as Page
from narrows.scenario.traffic.page import PageObject as PageObject
from narrows.scenario.traffic.ping import Ping as Ping
from narrows.scenario.traffic.trace import Trace as Trace
from narrows.scenario.traffic.transfer import Transfer as Transfer
from narrows.scenario.traffic.udp import Udp as Udp
from narrows.scenario.traffic.voip import Voip as Voip
