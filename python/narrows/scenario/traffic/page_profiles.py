"""Named web pages.

Source: HTTP Archive, Web Almanac 2024, chapter "Page Weight" (October 2024): medians of desktop
home pages' bytes by type, and of home pages' requests by type. Its KB are taken as 1024 bytes.

The source leaves some things open, and this file chooses them. All objects of a type have the same
size. One server has them all. Styles, scripts, images and the second document wait for the first
document, and fonts for the styles. The medians of the types do not add up to the median page
(2652 KB, 74 requests), which has media and other types as well.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """Objects of a type."""

    name: str
    count: int
    kib: int
    """The size of all of them together."""
    after: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of one."""
        return round(self.kib * 1024 / self.count)


PROFILES: dict[str, tuple[Kind, ...]] = {
    "desktop-2024": (
        Kind("document", 1, 9),
        Kind("style", 7, 78, ("document",)),
        Kind("script", 23, 613, ("document",)),
        Kind("font", 4, 131, ("style",)),
        Kind("frame", 1, 9, ("document",)),
        Kind("image", 20, 1054, ("document",)),
    ),
}
"""The pages by name: home pages for desktop browsers as they were in the middle of 2024."""
