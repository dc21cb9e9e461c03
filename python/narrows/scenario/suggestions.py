"""The known words that a wrong one may stand for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

_AS = 0.15
"""Words are named together with the nearest one if their likeness is less than this below its."""

_LONGEST = 80

MOST_COMPARED = 8000
"""The product of a word's length and of how many known words it is compared with: a file may name
100,000 nodes, and each comparison takes time for each character."""

_CALLED = {
    **{"do53": "udp", "dot": "tls", "doh": "https", "doq": "quic"},
    **{"doh3": "http3", "h3": "http3"},
}
"""Operators' names of DNS transports, and narrows' own."""


_ABSENT = frozenset(("bbr2", "bbr3", "ledbat"))
"""Well-known queues and congestion controls that narrows lacks; docs/limits.md has the reasons."""


def suggestions(word: str, known: Sequence[str]) -> list[str]:
    """The known words that are nearest to a wrong one, if any are near, the nearest first.

    A word in capitals, or an operator's name of a DNS transport, has one meaning. Otherwise words
    that have the wrong one as a part come before words that look like it.

    Examples:
        >>> suggestions("downlod", ["download", "downlink", "upload", "download-2"])
        ['download', 'download-2']
        >>> suggestions("ecn", ["end", "ecn_share", "pairs"])
        ['ecn_share', 'end']
        >>> suggestions("DoT", ["udp", "tls"]), suggestions("TCP", ["udp", "tcp"])
        (['tls'], ['tcp'])
    """
    lower = word.lower()
    if (called := _CALLED.get(lower, lower)) in known:
        return [called]
    word = word[:_LONGEST]
    some = [each[:_LONGEST] for each in known[: MOST_COMPARED // max(8, len(word))]]
    close = difflib.get_close_matches(word, some, n=len(some) or 1, cutoff=0.6)
    likeness = [difflib.SequenceMatcher(None, each, word).ratio() for each in close]
    alike = [each for each, like in zip(close, likeness, strict=True) if like > likeness[0] - _AS]
    having = [each for each in [*alike, *some] if len(word) >= 3 and word in _parts(each)]
    return list(dict.fromkeys([*having, *alike]))


def _parts(word: str) -> list[str]:
    return re.split(r"[-_.]", word)


def kind_suggestion(word: str, kinds: Sequence[str]) -> str:
    """A hint that names the kinds nearest to a wrong one, and then all kinds.

    Examples:
        >>> kind_suggestion("codle", ["red", "codel"])
        'did you mean "codel"? The kinds are red, codel'
        >>> kind_suggestion("x", ["red", "codel"])
        'one of red, codel'
    """
    hint = suggestion(word, kinds, many=len(kinds))
    return f"{hint} The kinds are {', '.join(kinds)}" if hint.endswith("?") else hint


def suggestion(word: str, known: Sequence[str], *, many: int = 12) -> str:
    """A hint that names the known words nearest to a wrong one, or else some known ones.

    Examples:
        >>> suggestion("limt", ["limit", "min"])
        'did you mean "limit"?'
        >>> suggestion("downlod", ["download", "downlink", "upload", "download-2"])
        'did you mean "download" or "download-2"?'
        >>> suggestion("x", ["limit", "min"])
        'one of limit, min'
        >>> suggestion("x", ["limit"])
        'it can only be "limit"'
        >>> suggestion("ledbat", ["cubic", "reno"])
        'narrows has no ledbat, and docs/limits.md says what to use instead; one of cubic, reno'
    """
    if word.lower() in _ABSENT and word not in known:
        names = ", ".join(list(known)[:many])
        instead = f"narrows has no {word}, and docs/limits.md says what to use instead"
        return f"{instead}; one of {names}"
    close = suggestions(word, known)
    if close:
        words = " or ".join(f'"{each}"' for each in close[:many])
        return f"did you mean {words}{' or ...' if len(close) > many else ''}?"
    if not known:
        return ""
    if len(known) == 1:
        return f'it can only be "{known[0]}"'
    more = ", ..." if len(known) > many else ""
    return f"one of {', '.join(list(known)[:many])}{more}"
