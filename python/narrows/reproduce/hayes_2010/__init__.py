"""Hayes, Rossi, Armitage 2010: improving DNS performance using "stateless" TCP in FreeBSD 9."""

from narrows.reproduce.hayes_2010.paper import PAPER

__all__ = ["PAPER"]
