"""What each section of RFC 7928 asks, what runs for it here, and the metrics that show it."""

from __future__ import annotations

from narrows.suites.parts import Column, Metric, Part, Suite, columns
from narrows.suites.rfc7928.measure import MEASURED
from narrows.suites.rfc7928.scenes import OTHER_RTTS_MS, scenes

METRICS = {
    "delay_mean": Metric("delay, mean", "ms"),
    "delay_p50": Metric("delay, median", "ms"),
    "delay_p95": Metric("delay, 95 % within", "ms"),
    "delay_p99": Metric("delay, 99 % within", "ms"),
    "delay_variation": Metric("variation of delay", "ms"),
    "loss_percent": Metric("loss", "%", 2, high=100.0),
    "marks_percent": Metric("marks", "%", 2, high=100.0),
    "utilisation_percent": Metric("utilisation", "%", high=100.0),
    "goodput": Metric("goodput", "Mbit/s", 2),
    "received": Metric("received", "Mbit/s", 2),
    "jain": Metric("Jain's index", "", 3, high=1.0),
    "sync_percent": Metric("lose together", "%", high=100.0),
    "fct_iw3": Metric("completion, window 3", "s", 3),
    "fct_iw10": Metric("completion, window 10", "s", 3),
    "fct_p99_iw3": Metric("99 % within, window 3", "s", 3),
    "fct_p99_iw10": Metric("99 % within, window 10", "s", 3),
    "unfinished": Metric("unfinished", "", 1),
    "share_percent": Metric("share", "%", high=100.0),
    "ratio": Metric("ratio", "", 2),
    "page_p50": Metric("page, median", "s", 2),
    "page_p95": Metric("page, 95 % within", "s", 2),
    "pages": Metric("pages loaded", "", 0),
    "video_lost_percent": Metric("video lost", "%", 2, high=100.0),
    "video_delay_max": Metric("video's longest delay", "ms", 0),
    "cbr_lost_percent": Metric("CBR lost", "%", 2, high=100.0),
    "mos": Metric("calls, MOS", "", 2, low=1.0, high=4.5),
    "mouth_to_ear": Metric("mouth to ear", "ms", 0),
    "delay_mild": Metric("delay, mild", "ms"),
    "delay_medium": Metric("delay, medium", "ms"),
    "delay_heavy": Metric("delay, heavy", "ms"),
    "delay_before": Metric("delay at 10 Mbit/s", "ms"),
    "delay_drop": Metric("first 5 s at 1 Mbit/s", "ms"),
    "delay_slow": Metric("last 10 s at 1 Mbit/s", "ms"),
    "goodput_after": Metric("goodput back at 10 Mbit/s", "Mbit/s", 2),
    "goodput_there": Metric("goodput, forward", "Mbit/s", 2),
    "goodput_back": Metric("goodput, backward", "Mbit/s", 2),
    "delay_mean_back": Metric("delay backward, mean", "ms"),
    "loss_back_percent": Metric("loss backward", "%", 2, high=100.0),
    "utilisation_back_percent": Metric("utilisation backward", "%", high=100.0),
    "goodput_whole": Metric("goodput through both", "Mbit/s", 2),
    "goodput_first": Metric("goodput, first only", "Mbit/s", 2),
    "goodput_last": Metric("goodput, second only", "Mbit/s", 2),
    "delay_mean_second": Metric("delay at second, mean", "ms"),
    "loss_second_percent": Metric("loss at second", "%", 2, high=100.0),
}

_DELAY = ("delay_mean", "delay_p95", "delay_variation")


_TRADE_OFF = ("goodput", *_DELAY, "loss_percent", "utilisation_percent")


def _level(number: str, name: str, loss: str, count: int) -> Part:
    scene = number
    return Part(
        number,
        f"{name} congestion",
        "Is the delay stable at this level of congestion? The level is the loss that as many TCP "
        "connections would suffer without a queue.",
        f"A loss of {loss}: {count} Reno connections (w = sqrt(0.76 / p), Morris 2000).",
        columns(scene, *_TRADE_OFF, "jain", "sync_percent"),
        (f"{scene}.delay_mean", f"{scene}.goodput"),
        {scene: "trade-off"},
    )


PARTS = [
    Part(
        "5.1.1",
        "TCP-friendly senders with the same initial window",
        "What do long-lived TCP-friendly flows get, and how long do their packets wait?",
        "Four Reno connections with initial windows of 10, which begin within a second.",
        columns("5.1.1", *_TRADE_OFF, "jain", "sync_percent"),
        ("5.1.1.delay_mean", "5.1.1.goodput"),
        {"5.1.1": "trade-off"},
    ),
    Part(
        "5.1.2",
        "TCP-friendly senders with different initial windows",
        "Does a flow with a large initial window take from one with a small window?",
        "40 transfers of 100 kB with an initial window of 3 and 40 with one of 10, evenly over "
        "42 s, beside one long Reno connection. Completion times include the handshake.",
        columns(
            "5.1.2", "fct_iw3", "fct_iw10", "fct_p99_iw3", "fct_p99_iw10", "unfinished",
            "delay_mean", "loss_percent", "goodput",
        ),
        ("5.1.2.fct_iw3", "5.1.2.fct_iw10"),
    ),
    Part(
        "5.2",
        "Aggressive transport sender",
        "Does the queue control the delay of a flow that reacts less than a TCP-friendly one?",
        "BBR v1 beside one Reno connection. (CUBIC, which was once the example of an aggressive "
        "sender, is today's default; sections 9.1 and 9.2 use it.)",
        (
            Column("5.2", "share_percent", "BBR's share"),
            *columns("5.2", *_TRADE_OFF, "jain"),
        ),
        ("5.2.delay_mean", "5.2.share_percent"),
    ),
    Part(
        "5.3",
        "Unresponsive transport sender",
        "Does the queue control the delay of a flow that does not react at all, and does it "
        "protect a flow that does?",
        "Datagrams of 1500 B at a constant rate: alone at 12 Mbit/s, more than the line takes; and "
        "at 5 Mbit/s beside one Reno connection.",
        (
            Column("5.3-alone", "delay_mean", "alone: delay, mean"),
            Column("5.3-alone", "delay_p95", "alone: 95 % within"),
            Column("5.3-alone", "received", "alone: received"),
            Column("5.3-beside", "delay_mean", "beside TCP: delay, mean"),
            Column("5.3-beside", "delay_p95", "beside TCP: 95 % within"),
            Column("5.3-beside", "goodput", "beside TCP: TCP's goodput"),
            Column("5.3-beside", "share_percent", "beside TCP: UDP's share"),
        ),
        ("5.3-alone.delay_mean", "5.3-beside.goodput"),
    ),
    Part(
        "6",
        "Round-trip time fairness",
        "How does the queue change what flows with different round trips get? One has 100 ms, "
        "the other from 5 to 560 ms.",
        "Two Reno connections, 120 s for each pair, of which the last 100 s count. The ratio is "
        "the other flow's goodput over that of the flow with 100 ms: 1 is fair.",
        (
            *(Column(f"6-{rtt}", "ratio", f"ratio, {rtt} ms") for rtt in OTHER_RTTS_MS),
            Column("6-5", "jain", "Jain's index, 5 ms"),
            Column("6-560", "jain", "Jain's index, 560 ms"),
            Column("6-560", "delay_mean", "560 ms: delay, mean"),
        ),
        ("6-5.jain", "6-560.jain"),
    ),
    Part(
        "7.2",
        "Burst absorption",
        "Does the queue let short bursts pass without needless loss? The RFC names web traffic "
        "with an initial window of 10, bursty video frames, constant-rate UDP, and bulk TCP.",
        "All four at once: two browsers that load pages of 380 kB (17 objects, HTTP/1.1), video of "
        "25 frames a second (10 kB each at 40 Mbit/s), 1 Mbit/s of datagrams, one Reno connection.",
        columns(
            "7.2", "page_p50", "page_p95", "video_lost_percent", "video_delay_max",
            "cbr_lost_percent", "delay_mean", "delay_p99", "loss_percent", "goodput",
        ),
        ("7.2.page_p50", "7.2.video_lost_percent"),
    ),
    _level("8.2.2", "Mild", "0.1 %", 3),
    _level("8.2.3", "Medium", "0.5 %", 7),
    _level("8.2.4", "Heavy", "1 %", 10),
    Part(
        "8.2.5",
        "Varying congestion level",
        "Does the delay stay stable while the level of congestion changes?",
        "Mild for 20 s, then medium, then heavy: Reno connections are added.",
        columns(
            "8.2.5", "delay_mild", "delay_medium", "delay_heavy", "delay_p95", "delay_p99",
            "loss_percent", "goodput",
        ),
        ("8.2.5.delay_heavy", "8.2.5.goodput"),
        {"8.2.5": "over-time"},
    ),
    Part(
        "8.2.6",
        "Varying available capacity",
        "Does the queue adapt when the link's rate changes, slowly or quickly?",
        "Two Reno connections over a link that has 10 and 1 Mbit/s in turns: for 20 s each, and "
        "for 100 ms each.",
        (
            *columns("8.2.6-slow", "delay_before", "delay_drop", "delay_slow", "goodput_after"),
            Column("8.2.6-slow", "utilisation_percent", "utilisation, 20 s each"),
            Column("8.2.6-fast", "delay_mean", "100 ms each: delay, mean"),
            Column("8.2.6-fast", "delay_p95", "100 ms each: 95 % within"),
            Column("8.2.6-fast", "goodput", "100 ms each: goodput"),
        ),
        ("8.2.6-slow.delay_slow", "8.2.6-slow.goodput_after"),
        {"8.2.6-slow": "over-time"},
    ),
    Part(
        "9.1",
        "Traffic mix",
        "How does the queue serve several kinds of traffic at once?",
        "Two CUBIC connections, the browsers and the video of 7.2, and four telephone calls.",
        columns(
            "9.1", "page_p50", "page_p95", "mos", "mouth_to_ear", "video_lost_percent",
            "delay_mean", "delay_p95", "loss_percent", "goodput",
        ),
        ("9.1.page_p50", "9.1.mos"),
    ),
    Part(
        "9.2",
        "Traffic in both directions",
        "What happens if data and acknowledgements share each direction's queue?",
        "Two CUBIC connections in each direction; both directions have the queue under test.",
        columns(
            "9.2", "goodput_there", "goodput_back", "delay_mean", "delay_mean_back", "delay_p95",
            "loss_percent", "utilisation_percent", "utilisation_back_percent",
        ),
        ("9.2.delay_mean", "9.2.goodput"),
    ),
    Part(
        "10",
        "Several queues on a path",
        "How do two queues on one path interact?",
        "Two bottlenecks of 10 Mbit/s, one after the other, each with the queue under test. One "
        "Reno connection passes both; each queue has one more of its own.",
        columns(
            "10", "goodput_whole", "goodput_first", "goodput_last", "delay_mean",
            "delay_mean_second", "loss_percent", "loss_second_percent", "jain",
        ),
        ("10.delay_mean", "10.goodput_whole"),
    ),
]  # fmt: skip

LEFT_OUT = (
    "Section 5.4 asks for a less-than-best-effort sender. narrows has neither LEDBAT nor LEDBAT++, "
    "so it does not run.",
    "Section 2.2's flow startup time is not shown; completion times include the start.",
    "Section 4.5 asks how the queue works with ECN. No sender negotiates ECN here; with --ecn, "
    "all TCP senders do.",
    "Sections 8.3 and 12 (sensitivity to parameters, tuning) have no test of their own; compare a "
    "queue with itself under other settings.",
    "Section 11 also asks for memory and for what hardware would need.",
)


def suite(scale: float = 1.0, wanted: tuple[str, ...] = (), *, ecn: bool = False) -> Suite:
    """The suite, with times scaled by a factor; only the sections that begin with `wanted`."""
    parts = [
        part
        for part in PARTS
        if not wanted or any(f"{part.number}.".startswith(f"{each}.") for each in wanted)
    ]
    needed = {scene for part in parts for scene in part.scenes}
    shortened = (
        ""
        if scale == 1.0
        else f" Runs last {100.0 * scale:.0f} % of the times that the parts name."
    )
    return Suite(
        "rfc7928",
        "RFC 7928: characterisation of an AQM",
        "The tests of RFC 7928, section by section, over a bottleneck of 10 Mbit/s and a round "
        "trip of 100 ms. Where the RFC leaves something open, each part says what runs here. "
        "Delays are the time that packets wait in the queue under test; variation is the 95 % "
        f"point less the median.{shortened}",
        [scene for scene in scenes(scale, ecn=ecn) if scene.key in needed],
        parts,
        METRICS,
        MEASURED,
        () if wanted else LEFT_OUT,
    )
