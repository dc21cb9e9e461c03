"""Files that pytest must not collect: those of test_edits.py."""

collect_ignore = ["edits"]
