"""Messages name the argument to a caller of the API, and the option on the command line."""

import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import typer

import narrows
from narrows import sizing, sweep
from narrows.cli.app import app
from narrows.cli.arguments import OPTIONS, with_options
from narrows.errors import NarrowsError
from narrows.probe import plan
from narrows.reproduce import select
from narrows.results import Sweep
from narrows.results.compare_folders import compare_folders
from narrows.scenario.amounts import Duration
from narrows.study.dns_transport.factors import factors

from .conftest import Narrows

LIBRARY = Path(narrows.__file__).parent


def test_each_named_argument_is_an_option() -> None:
    named = {
        name
        for path in LIBRARY.rglob("*.py")
        # There, the function of this name declares positional ones.
        if path.parent.name != "cli"
        for name in re.findall(r"\bargument\(['\"](\w+)['\"]", path.read_text(encoding="utf-8"))
    }
    assert named | {factor.name for factor in factors()} == set(OPTIONS)


def test_each_option_is_one_of_a_command() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group) or hasattr(group, "commands")
    known = {
        option
        for name in group.list_commands(None)  # type: ignore[attr-defined]
        for parameter in group.commands[name].params  # type: ignore[attr-defined]
        for option in parameter.opts
    }
    assert set(OPTIONS.values()) <= known


def test_texts_of_the_user_stay_as_they_are() -> None:
    for text in ("`x`", "``out``", "out", "`OUT`", "`out", "`out =1`"):
        assert with_options(text) == text, text


CASES: dict[str, tuple[Callable[[], object], str, str]] = {
    "sweep": (
        lambda: sweep("small.toml", vary={"seed": [1]}),
        "seed: is not varied like other keys; hint: use `seeds`",
        "sweep small.toml --vary seed=1",
    ),
    "workers": (
        lambda: sweep("small.toml", workers=2, dask="tcp://127.0.0.1:1"),
        "`workers`: a Dask cluster has its own; hint: leave it or `dask` out",
        "sweep small.toml --workers 2 --dask tcp://127.0.0.1:1",
    ),
    "compare": (
        lambda: compare_folders([Path("a"), Path("b")], {"seed": 1}),
        "`against`: is for a sweep; hint: name the run to compare with first",
        "compare a b --against seed=1",
    ),
    "size": (
        lambda: sizing.size(10_000_000, int(Duration("1 ms"))),
        "`max_delay` 1 ms: leaves RED no lower threshold at 10 Mbit/s with a ring of 0 packets; "
        "hint: at least 3 ms",
        "size --rate 10mbit --max-delay 1ms",
    ),
    "bench": (
        lambda: select(["H"], Path("a")),
        "`recorded` is only for S; hint: choose S",
        "reproduce H --bench a",
    ),
    "probe": (
        lambda: plan(["192.0.2.1"], count=20, interval_s=0.1),
        "192.0.2.1: would be asked more than 10 times a second; hint: `interval_s` of 0.2 s or "
        "more",
        "probe 192.0.2.1 --count 20 --interval 0.1s",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_both_sides_say_it_in_their_words(
    name: str,
    narrows: Narrows,
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call, said, command = CASES[name]
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    with pytest.raises(NarrowsError) as caught:
        call()
    assert str(caught.value) == said
    done = narrows(*command.split())
    assert done.returncode == 2
    expected = re.sub(r"`(\w+)`", lambda found: OPTIONS[found[1]], said)
    assert done.stderr == f"error: {expected}\n"


def test_only_the_command_line_offers_its_list_of_metrics(
    narrows: Narrows, small: Path, tmp_path: Path
) -> None:
    assert narrows("sweep", str(small), "--seeds", "1", "--out", "s").returncode == 0
    with pytest.raises(NarrowsError) as caught:
        Sweep.load(tmp_path / "s").plot("dns.respons_p95_ms", "seed")
    assert "there is no metric" in str(caught.value) and "--metric" not in str(caught.value)
    wrong = narrows("sweep", "plot", "s", "--metric", "dns.respons_p95_ms", "--against", "seed")
    assert wrong.stderr.endswith('did you mean "dns.response_p95_ms"? --metric "?" lists all\n')
