"""The gateway in front of real servers, and the kernel's TCP beside it: one body, two arms."""
