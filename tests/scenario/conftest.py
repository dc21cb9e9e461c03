"""Files that pytest must not collect: those of test_new_kind.py and test_new_discipline.py."""

collect_ignore = ["new_kind", "new_discipline"]
