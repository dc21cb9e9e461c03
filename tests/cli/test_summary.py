"""The summary that a person reads."""

import io

from narrows.cli.summary import print_summary

from ..reproduce.test_measure import known_run


def test_the_summary_says_what_the_run_has() -> None:
    text = io.StringIO()
    print_summary(known_run(), text)
    shown = text.getvalue()
    assert "on attempt 1" in shown
    assert "90.00" in shown
    assert "bottleneck.forward" in shown
    assert "never" in shown
    # The run has no TCP connection.
    assert "TCP" not in shown
