"""What should DNS run over, behind which queue?"""

from __future__ import annotations

from narrows.study.dns_transport.study import Study, dns_transport

__all__ = ["Study", "dns_transport"]
