"""What pytest leaves alone: files that test_new_kind.py copies into a package of their own."""

collect_ignore = ["new_kind"]
