"""What the page tells of a query."""

from __future__ import annotations

from narrows.lab.server import Server

from .browser import Page

CHOICES = "#queries > ol button"


def listed(page: Page, address: str) -> list[str]:
    """Opens an example and its list of queries."""
    page.follow(address)
    page.until("!document.getElementById('queries').hidden")
    page.ask("document.getElementById('queries').open = true")
    page.until(f"document.querySelector('{CHOICES}') !== null")
    found: list[str] = page.ask(
        f"[...document.querySelectorAll('{CHOICES}')].map((each) => each.textContent)"
    )
    return found


def story_of(page: Page) -> str:
    page.until("document.querySelector('#queries article h3') !== null")
    text: str = page.ask("document.querySelector('#queries article').textContent")
    return text


def test_a_lost_reply_is_followed_from_hop_to_hop(server: Server, page: Page) -> None:
    queries = listed(page, f"{server.address}#dns-behind-red")
    assert "answered at attempt" in queries[0] or "no answer" in queries[0]
    page.ask(f"document.querySelector('{CHOICES}').focus()")
    for kind in ("keyDown", "keyUp"):
        page("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
             windowsVirtualKeyCode=13)  # fmt: skip
    story = story_of(page)
    assert "lost at bottleneck.forward: the queue's AQM dropped it early" in story
    assert "The queue held" in story and "RED's average" in story
    lanes = page.ask(
        "[...document.querySelectorAll('.sequence > text > title')].map((t) => t.textContent)"
    )
    assert lanes == ["stubs", "cpe", "isp", "resolver"]
    # Each lost attempt has a cross, at the line of the router whose queue dropped it.
    crosses = page.ask(
        """(() => {
          const isp = document.querySelectorAll(".lane")[2].getAttribute("x1");
          return [...document.querySelectorAll("path.lost")].map((cross) =>
            Math.abs(Number(/^M([0-9.]+)/.exec(cross.getAttribute("d"))[1]) + 6 - isp));
        })()"""
    )
    assert len(crosses) == story.count("Attempt") - ("answered after" in story)
    assert crosses and max(crosses) < 0.01
    marked = page.ask(
        "document.querySelector('.card').drawing.levels.filter((l) => l.axis === 'x')"
    )
    assert [each["name"] for each in marked] == ["lost", *[""] * (len(crosses) - 1)]
    assert page.barriers() == []
    # Another run has other queries.
    page.ask("document.getElementById('reset').click()")
    page.until("document.body.dataset.state === 'done'")
    assert page.ask("document.querySelector('#queries article').textContent") == ""


def test_the_packets_of_a_query_take_the_time_that_the_tables_say(
    server: Server, page: Page
) -> None:
    """An answered query: its packets leave when it began, and the reply arrives when it ended."""
    page.follow(f"{server.address}#dns-behind-red")
    off = page.ask(
        """(async () => {
          const { Runner } = await import("./runs.mjs");
          const { lower } = await import("./settings.mjs");
          const { slowest, story, watching } = await import("./queries.mjs");
          const example = await (await fetch("examples/dns-behind-red.json")).json();
          const bytes = await (await fetch("engine.wasm")).arrayBuffer();
          const runner = new Runner(await WebAssembly.compile(bytes));
          const { plan } = lower(example, example.own);
          const { tables } = await runner.whole(plan);
          const found = [];
          for (const row of slowest(tables, 2, 5)) {
            const { plan: captured, story: until } = watching(tables, plan, row);
            const { packets } = await runner.whole(captured, until);
            const { packets: sent } = story(tables, plan, row, packets);
            const reply = sent.filter(({ attempt }) => attempt === 2)[1];
            found.push([
              sent.length,
              Math.abs(sent[0].hops[0].queued - tables.queries.start_s[row]),
              Math.abs(reply.hops.at(-1).arrived - tables.queries.end_s[row]),
            ]);
          }
          return found;
        })()"""
    )
    assert len(off) == 5
    # Four packets: query and reply of two attempts. The host's own link takes a microsecond.
    for count, begin, end in off:
        assert 3 <= count <= 4
        assert begin < 1e-9 and end < 1e-5


def test_a_lost_syn_delays_a_query_over_tcp(server: Server, page: Page) -> None:
    queries = listed(page, f"{server.address}#stateless-tcp")
    assert "of limited" in queries[0]
    page.ask(f"document.querySelector('{CHOICES}').click()")
    assert "over TCP" in story_of(page)
    packets = page.ask(
        """[...document.querySelectorAll(".packet > title")].map((each) => each.textContent)"""
    )
    assert packets[0] == "SYN; lost at wan.forward"
    assert packets[1:3] == ["SYN", "SYN, ACK"] and "query" in packets


def test_encrypted_packets_are_said_to_be_unknown(server: Server, page: Page) -> None:
    listed(page, f"{server.address}#dns-over-tls")
    page.ask(f"document.querySelector('{CHOICES}').click()")
    story = story_of(page)
    assert "over TLS" in story and "TLS and QUIC hide which query they carry" in story


def test_a_bar_and_a_point_choose_queries(server: Server, page: Page) -> None:
    page.follow(f"{server.address}#dns-behind-red")
    page.until("!document.getElementById('queries').hidden")
    page.ask(
        """[...document.querySelectorAll(".bars .name")].find((each) =>
          each.textContent === "attempt 2").nextElementSibling.click()"""
    )
    page.until(f"document.querySelector('{CHOICES}') !== null")
    found = page.ask(f"[...document.querySelectorAll('{CHOICES}')].map((each) => each.textContent)")
    assert found and all("answered at attempt 2" in each for each in found)
    place = page.ask(
        """(() => {
          const card = [...document.querySelectorAll(".card")].find(({ drawn }) =>
            drawn.plot?.axes[0].label.startsWith("response"));
          card.scrollIntoView({ block: "center" });
          const box = card.querySelector(".u-over").getBoundingClientRect();
          return [box.left + 0.75 * box.width, box.top + box.height / 2];
        })()"""
    )
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        page("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left",
             clickCount=1)  # fmt: skip
    story = story_of(page)
    assert "answered at attempt" in story and "answered at attempt 1 " not in story


def test_the_story_fits_a_phone(server: Server, page: Page) -> None:
    page.size(400, 900)
    try:
        listed(page, f"{server.address}#dns-behind-red")
        page.ask(f"document.querySelector('{CHOICES}').click()")
        story_of(page)
        assert page.ask("document.documentElement.scrollWidth") <= 400
        assert page.ask("document.querySelector('.sequence').getBoundingClientRect().right") <= 400
    finally:
        page.size(1280, 900)
