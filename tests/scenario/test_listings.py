"""Files that scenarios name: what is read, what is refused, and what names are relative to."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows import Scenario, ScenarioError, run
from narrows.scenario.cautions import cautions

TEXT = """
name = "t"
duration = "10 s"
[[links]]
name = "l"
between = ["a", "b"]
rate = "10 Mbit/s"
[[traffic]]
kind = "trace"
name = "t"
sender = "a"
receiver = "b"
file = "list.txt"
"""
GOOD = "# seconds, bytes\n0 100\n\n0.5, 1500 # a comment\n0.5 28\n1.2e0 700\n"


def scenario(tmp_path: Path, content: str | bytes, more: str = "") -> Scenario:
    (tmp_path / "t.toml").write_text(TEXT + more)
    given = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "list.txt").write_bytes(given)
    return Scenario.load(tmp_path / "t.toml")


def test_a_list_is_found_beside_its_scenario_and_sent(tmp_path: Path) -> None:
    parsed = scenario(tmp_path, GOOD, 'repeat = "4 s"')
    assert parsed.resolved()["traffic"][0]["file"] == str(tmp_path / "list.txt")
    assert Scenario.from_dict(parsed.resolved()) == parsed
    rows = run(parsed).table("streams")
    assert rows.get_column("t_s").to_list() == [0.0, 1.0, 4.0, 5.0, 8.0, 9.0]
    assert rows.get_column("sent_bytes").to_list() == [1628, 700] * 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no packets"),
        ("0 100\n1\n", "line 2, does not hold a time and a length"),
        ("0 x\n", "line 1, does not hold two numbers"),
        ("inf 100\n", "line 1, does not hold two numbers"),
        ("nan 100\n", "line 1, does not hold two numbers"),
        ("-1 100\n", "line 1, has a time that is not from 0 s to 240 h"),
        ("2 100\n1 100\n", "line 2, goes back in time"),
        ("0 27\n", "line 1, has a length that is not from 28 to 65535 bytes"),
        (b"\xff\xfe\x00", "is not text"),
    ],
)
def test_what_is_no_list_is_refused_with_its_line(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(tmp_path, content)
    assert caught.value.key == "traffic[0].file"
    assert said in caught.value.message and "list.txt" in caught.value.message


def test_a_list_of_a_gigabyte_is_refused_unread(tmp_path: Path) -> None:
    scenario(tmp_path, GOOD)
    with (tmp_path / "list.txt").open("r+b") as file:
        file.truncate(1 << 30)
    with pytest.raises(ScenarioError, match="has 1073741824 bytes; at most 67108864 are read"):
        Scenario.load(tmp_path / "t.toml")


def test_other_files_are_refused(tmp_path: Path) -> None:
    scenario(tmp_path, GOOD)
    (tmp_path / "list.txt").unlink()
    with pytest.raises(ScenarioError, match="cannot be read: No such file or directory"):
        Scenario.load(tmp_path / "t.toml")
    (tmp_path / "list.txt").mkdir()
    with pytest.raises(ScenarioError, match="is not a regular file"):
        Scenario.load(tmp_path / "t.toml")


def test_a_repetition_before_the_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(tmp_path, GOOD, 'repeat = "1 s"')
    assert caught.value.key == "traffic[0].repeat"


LINK = """
name = "t"
duration = "10 s"
[[links]]
name = "l"
between = ["a", "b"]
rate = "10 Mbit/s"
forward = { rate_trace = "trace.txt" }
[[traffic]]
kind = "udp"
name = "t"
sender = "a"
receiver = "b"
rate = "10 Mbit/s"
packet = "1500 B"
[monitor]
links = { links = ["l.forward"], rate = 1 }
"""


def traced(tmp_path: Path, content: str, text: str = LINK) -> Scenario:
    (tmp_path / "t.toml").write_text(text)
    (tmp_path / "trace.txt").write_text(content)
    return Scenario.load(tmp_path / "t.toml")


def test_a_link_sends_what_its_trace_lets_it(tmp_path: Path) -> None:
    # Three packets every 10 ms are 3.6 Mbit/s.
    parsed = traced(tmp_path, "2\n2\n10\n")
    assert parsed.links[0].direction("forward").rate == 3_600_000
    assert parsed.links[0].direction("backward").rate == 10_000_000
    assert Scenario.from_dict(parsed.resolved()) == parsed
    result = run(parsed)
    received = result.table("streams").get_column("received_bytes").sum()
    assert received == pytest.approx(4_500_000, abs=5_000)
    # Over five seconds, from the third sample to the eighth, both columns add up.
    sent, busy_s = (
        rows[7] - rows[2]
        for rows in (result.table("links").get_column(name) for name in ("bytes", "busy_s"))
    )
    assert sent == pytest.approx(5 * 450_000, abs=3_000)
    assert busy_s == pytest.approx(5.0, abs=0.01)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has a length of zero"),
        ("0\n0\n", "has a length of zero"),
        ("1\n\n2\n", "line 2, is not a whole number of milliseconds"),
        ("1.5\n", "line 1, is not a whole number of milliseconds"),
        ("-1\n", "line 1, is not a whole number of milliseconds"),
        ("9999999999\n", "line 1, is not a whole number of milliseconds"),
        ("2\n1\n", "line 2, goes back in time"),
        ("1\n" * 300_001, "line 300001, is one of more than 300000 in a millisecond"),
    ],
)
def test_what_is_no_trace_of_a_link_is_refused_with_its_line(
    tmp_path: Path, content: str, said: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        traced(tmp_path, content)
    assert caught.value.key == "links[0].forward.rate_trace"
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "key", "said"),
    [
        (
            'forward = { rate_trace = "trace.txt" }',
            'rate_trace = "trace.txt"',
            "links[0].rate_trace",
            "excludes rate",
        ),
        (
            '"trace.txt" }',
            '"trace.txt", ring = { packets = 5 } }',
            "links[0].forward.ring",
            "is not possible in the forward direction, which follows rate_trace",
        ),
        (
            "[monitor]",
            '[[changes]]\nat = "1 s"\nlink = "l"\nrate = "1 Mbit/s"\n[monitor]',
            "changes[0].link",
            "selects l.forward, which follows rate_trace",
        ),
    ],
)
def test_what_no_link_with_a_trace_can_have_is_refused(
    tmp_path: Path, old: str, new: str, key: str, said: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        traced(tmp_path, "1\n", LINK.replace(old, new))
    assert (caught.value.key, caught.value.message) == (key, said)


TABLE = "t_s,rate_bps\n0,8e6\n2,2e6  # slow\n5,0\n7,4000000.4\n"


def tabled(tmp_path: Path, content: str, text: str = LINK) -> Scenario:
    (tmp_path / "rates.CSV").write_text(content)
    return traced(tmp_path, "1\n", text.replace("trace.txt", "rates.CSV"))


def test_a_link_follows_a_table_of_rates(tmp_path: Path) -> None:
    parsed = tabled(tmp_path, TABLE)
    # The mean up to the last line: (2 * 8 + 3 * 2) / 7 Mbit/s.
    assert parsed.links[0].direction("forward").rate == 22_000_000 // 7
    assert parsed.links[0].direction("backward").rate == 10_000_000
    assert Scenario.from_dict(parsed.resolved()) == parsed
    sent = run(parsed).table("links").get_column("bytes").diff().drop_nulls().to_list()
    expected = [1e6, *[250e3] * 3, 0, 0, *[500e3] * 3]
    assert sent == pytest.approx(expected, abs=1500)


def test_a_table_of_rates_comes_to_the_same_as_changes(tmp_path: Path) -> None:
    changes = "".join(
        f'[[changes]]\nat = "{at} s"\nlink = "l.forward"\n{key}\n'
        for at, key in [
            (2, 'rate = "2 Mbit/s"'),
            (5, 'state = "down"'),
            (7, 'state = "up"\nrate = "4 Mbit/s"'),
        ]
    )
    text = LINK.replace('{ rate_trace = "trace.txt" }', '{ rate = "8 Mbit/s" }')
    (tmp_path / "c.toml").write_text(text.replace("[[traffic]]", f"{changes}[[traffic]]"))
    changed = run(Scenario.load(tmp_path / "c.toml"))
    followed = run(tabled(tmp_path, TABLE))
    assert followed.table("streams").equals(changed.table("streams"))
    assert followed.table("links").equals(changed.table("links"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no rate above zero"),
        ("0,0\n", "has no rate above zero"),
        ("1,5\n", "line 1, does not begin at 0 s"),
        ("0,5\n3,5\n3,6\n", "line 3, is not later than the line before"),
        ("0,5\n1 5\n", "line 2, does not hold a time and a rate"),
        ("0,fast\n", "line 1, does not hold two numbers"),
        ("0,nan\n", "line 1, has a rate that is not from 0 to 8e12 bit/s"),
        ("0,-1\n", "line 1, has a rate that is not from 0 to 8e12 bit/s"),
        ("0,1\nnan,1\n", "line 2, has a time that is not from 0 s to 240 h"),
        ("0,1\n" + "".join(f"{at},1\n" for at in range(1, 100_001)), "has more than 100000 rates"),
    ],
)
def test_what_is_no_table_of_rates_is_refused_with_its_line(
    tmp_path: Path, content: str, said: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        tabled(tmp_path, content)
    assert caught.value.key == "links[0].forward.rate_trace"
    assert said in caught.value.message


def test_a_rate_at_which_a_packet_outlasts_it_is_a_caution(tmp_path: Path) -> None:
    parsed = tabled(tmp_path, "0,8e6\n1,1000\n1.5,8e6\n")
    assert any('at "1 kbit/s"' in caution for caution in cautions(parsed))


def test_tables_of_rates_have_a_limit_together(tmp_path: Path) -> None:
    rows = "".join(f"{at},{at + 1}\n" for at in range(50_001))
    both = 'forward = { rate_trace = "trace.txt" }\nbackward = { rate_trace = "trace.txt" }'
    with pytest.raises(ScenarioError) as caught:
        tabled(tmp_path, rows, LINK.replace('forward = { rate_trace = "trace.txt" }', both))
    assert caught.value.key == "links"
