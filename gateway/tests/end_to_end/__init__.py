"""The gateway in front of real servers, with the kernel's TCP as a second arm of the same tests."""
