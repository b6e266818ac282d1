"""What an operator sees and does, with a made-up chain of 2,000 stores."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from fake import NASTY, FakeNode
from playwright.async_api import Locator, Page, expect

pytestmark = pytest.mark.asyncio(loop_scope="session")
expect.set_options(timeout=120_000)

Opened = Callable[..., Awaitable[Page]]
Served = Callable[[FakeNode], Awaitable[str]]

VIEWS = (
    *(
        "overview",
        "charts",
        "tree",
        "topology",
        "queues",
        "consumers",
        "sessions",
        "routes",
        "channels",
        "node",
        "node//cells",
    ),
    *("dead", "advisories"),
    *("trace/message/6bcc45ee367c476aae4fd50b0000002a-7", "trace/task/till-7/1", "follow"),
)


def rows(page: Page) -> Locator:
    return page.locator(".table .row")


async def widest(page: Page, selector: str) -> float:
    """Pixels."""
    await expect(page.locator(selector).first).to_be_visible()
    found: float = await page.locator(selector).evaluate_all(
        "all => Math.max(...all.map(one => one.getBoundingClientRect().width))"
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_view_shows_itself_in_both_schemes(
    opened: Opened, served: Served, fake: FakeNode, scheme: str
) -> None:
    base = await served(fake)
    page = await opened(base, scheme=scheme)
    grounds = set()
    for view in VIEWS:
        await page.goto(f"{base}/dashboard/#/{view}")
        await expect(page.locator("#content h1")).to_be_visible()
        await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
        if view != "follow":
            await expect(
                page.locator(".row, .tile, .timeline svg, svg.chart, .topology .node").first
            ).to_be_visible()
        grounds.add(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
    (ground,) = grounds
    brightness = sum(int(part) for part in re.findall(r"\d+", ground)[:3]) / 3
    assert brightness > 200 if scheme == "light" else brightness < 60


WATCH = """
window.said = [];
const look = () => {
  const text = document.body ? document.body.innerText : "";
  if (text.includes("does not answer") || text.includes("could not tell")) window.said.push(text);
};
new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
"""


async def test_a_node_that_answers_is_never_said_not_to(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    base = await served(fake)
    page = await opened(base)
    await page.add_init_script(WATCH)
    for view in ("queues", "consumers", "sessions", "routes", "channels", "node", "dead", "advisories"):
        await page.goto(f"{base}/dashboard/#/{view}")
        await page.reload()
        await expect(rows(page).first).to_be_visible()
        assert await page.evaluate("window.said") == [], view
    await page.close()  # the script is bound to it


async def test_the_switch_turns_light_to_dark_and_is_remembered(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake))
    await page.locator("#theme").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.keyboard.press("t")
    assert await page.evaluate("document.documentElement.dataset.theme") is None


async def test_figures_change_without_reloading(opened: Opened, served: Served, fake: FakeNode) -> None:
    page = await opened(await served(fake))
    figure = page.locator(".tile .figure").first
    await expect(figure).to_contain_text("msg/s")
    before = await figure.inner_text()
    await expect(figure).not_to_have_text(before)
    await expect(page.locator(".tile .spark .stroke").first).to_have_attribute("d", re.compile("M.*L"))


async def test_what_needs_attention_is_said_with_its_reason(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake))
    lines = page.locator(".lines li")
    await expect(lines.filter(has_text="region-11 is down")).to_contain_text("the peer was silent for 30 s")
    await expect(lines.filter(has_text="region-17 is blocked")).to_contain_text("its disk is full")
    away = lines.filter(has_text="region-03 is down")
    await expect(away).to_contain_text("its shared queues go to others meanwhile")
    await expect(lines.filter(has_text=re.compile("3 of 2.?200 nodes below are down"))).to_be_visible()
    await expect(lines.filter(has_text="The site's broker is waiting")).to_contain_text("cannot be reached")


async def test_of_a_sites_broker_it_is_said_what_is_wrong_there(
    opened: Opened, served: Served, fake: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = fake.status
    broker = {
        "state": "running",
        "blocked": "low on memory",
        "lacks": {"policies": "policy 'all' sets message-ttl"},
        "other_ways": {"queue:sales": "node 'york' gave it"},
    }
    monkeypatch.setattr(fake, "status", lambda: usual() | {"site_broker": broker})
    lines = (await opened(await served(fake))).locator(".lines li")
    await expect(lines.filter(has_text="takes no messages now")).to_contain_text("low on memory")
    await expect(lines.filter(has_text="broker lacks something")).to_contain_text("sets message-ttl")
    await expect(lines.filter(has_text="queue:sales comes another way")).to_contain_text("node 'york'")


async def test_a_satellite_without_a_core_says_so(
    opened: Opened, served: Served, fake: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = fake.status
    monkeypatch.setattr(fake, "status", lambda: usual() | {"disconnected": True})
    page = await opened(await served(fake))
    await expect(page.locator(".lines li").first).to_contain_text("This satellite is disconnected")
    await expect(page.get_by_title("No core is linked")).to_contain_text("disconnected")


async def test_a_state_is_told_by_shape_and_word_not_by_colour_alone(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "tree")
    shapes = set()
    for state in ("running", "down", "blocked"):
        mark = page.locator(".row .mark", has_text=state).first
        await expect(mark).to_be_visible()
        shapes.add(await mark.locator("svg").evaluate("shape => shape.innerHTML"))
    assert len(shapes) == 3


async def test_one_store_of_2000_is_found_and_only_what_is_seen_is_in_the_page(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "tree")
    await expect(page.locator(".head .sum")).to_contain_text("2,020 nodes below")
    await page.keyboard.press("/")
    await page.keyboard.type("store-1234")
    await expect(rows(page)).to_have_count(3)  # HQ, its region, the store
    await expect(rows(page).last.locator("mark")).to_have_text("store-1234")
    await page.keyboard.press("Escape")
    await expect(rows(page).filter(has_text="region-07")).to_have_count(1)
    await page.get_by_role("searchbox").fill("store")
    await expect(page.locator(".rows")).to_have_attribute("aria-rowcount", "2021")
    assert await rows(page).count() < 60
    await page.locator(".rows").evaluate("rows => { rows.scrollTop = rows.scrollHeight }")
    await expect(rows(page).filter(has_text="store-1999")).to_be_visible()
    assert await rows(page).count() < 60


async def test_a_branch_is_unfolded_with_the_keyboard_and_asked_for_its_links(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "tree")
    await expect(rows(page).filter(has_text="region-00")).to_be_visible()
    await page.locator(".rows").focus()
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowRight")
    silent = rows(page).filter(has_text="store-0011")
    await expect(silent).to_contain_text("the peer was silent for 30 s")
    assert "GET /api/tree/region-00" in fake.asked
    active = page.locator(".row.active")
    await expect(active).to_have_attribute("aria-expanded", "true")
    await page.keyboard.press("ArrowDown")
    await expect(active).to_contain_text("store-0000")
    await page.keyboard.press("ArrowLeft")
    await expect(active).to_contain_text("region-00")
    await page.keyboard.press("ArrowLeft")
    await expect(rows(page)).to_have_count(21)


async def test_only_links_in_one_state_are_shown(opened: Opened, served: Served, fake: FakeNode) -> None:
    page = await opened(await served(fake), "tree")
    await page.get_by_role("button", name=re.compile("^blocked")).click()
    await expect(rows(page)).to_have_count(2)
    await expect(rows(page).last).to_contain_text("region-17")


async def test_a_long_list_is_loaded_as_it_is_scrolled(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "routes")
    body = page.locator(".rows")
    await expect(page.locator(".head .sum")).to_have_text("500 routes of 2,000")
    await body.evaluate("rows => { rows.scrollTop = rows.scrollHeight }")
    await expect(body).to_have_attribute("aria-rowcount", "1000")
    await page.get_by_role("searchbox").fill("store-1999")
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("region-19")


async def test_a_hostile_name_is_shown_as_text(opened: Opened, served: Served, fake: FakeNode) -> None:
    page = await opened(await served(fake), "queues")
    await page.get_by_role("searchbox").fill("onerror")
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text(NASTY)
    await rows(page).click()
    panel = page.locator(".panel")
    await expect(panel.locator("h2")).to_have_text(f"queue:{NASTY}")
    await expect(panel.locator("td.wrap").first).to_have_text(NASTY)
    assert await page.locator("img[src=x]").count() == 0
    assert "hacked" not in await page.title()


async def test_characters_that_nobody_sees_are_shown_as_their_numbers(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake))
    shown = await page.evaluate(
        """async () => {
          const { visible } = await import(new URL("format.js", document.baseURI));
          const unseen = ["a\\u00adb", "a\\u061cb", "a\\ufeffb", "a\\u0085b", "a\\u2028b", "a\\u{e0062}"];
          return [...unseen, "\\u05d0\\u00e9 \\u{1f468}"].map(visible);
        }"""
    )
    assert shown == [r"a\u00adb", r"a\u061cb", r"a\ufeffb", r"a\u0085b", r"a\u2028b", r"a\ue0062", "אé 👨"]


async def test_the_policy_forbids_to_parse_data(
    opened: Opened, served: Served, fake: FakeNode, watched: Any
) -> None:
    watched.expected.add("requires 'TrustedHTML' assignment")
    page = await opened(await served(fake))
    refused = (
        "element => { try { element.innerHTML = '<b>x</b>'; return 'parsed' } catch (e) { return e.name } }"
    )
    assert await page.locator("#content").evaluate(refused) == "TypeError"


async def test_chosen_dead_letters_are_returned(opened: Opened, served: Served, fake: FakeNode) -> None:
    page = await opened(await served(fake), "dead")
    await expect(page.locator(".head .sum").first).to_have_text("37 letters")
    for place in (0, 2):
        await rows(page).nth(place).get_by_role("checkbox").check()
    await page.get_by_role("button", name="Return 2").click()
    await expect(page.locator(".notice")).to_have_text("2 letters returned.")
    await expect(page.locator(".head .sum").first).to_have_text("35 letters")
    assert {letter["id"] for letter in fake.dead}.isdisjoint({"letter-0", "letter-2"})


async def test_all_of_one_reason_are_returned_after_a_question(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "dead")
    await page.get_by_role("button", name=re.compile("^EXPIRED")).click()
    await expect(page.locator(".head .sum").first).to_have_text("12 letters")
    await page.get_by_role("button", name="Return all…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Return them").click()
    await expect(page.locator(".notice")).to_have_text("12 letters returned.")
    assert len(fake.dead) == 25


async def test_after_a_search_only_the_letters_that_it_shows_are_returned(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "dead")
    await page.get_by_role("searchbox").fill("letter-3")
    await expect(page.locator(".head .sum").first).to_have_text("8 letters")
    await page.get_by_role("button", name="Return 8…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("the 8 letters that the search shows")
    await dialog.get_by_role("button", name="Return them").click()
    await expect(page.locator(".notice")).to_have_text("8 letters returned.")
    assert len(fake.dead) == 29


async def test_a_payload_keeps_its_numbers_as_they_were_written(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "queues")
    shown = await page.evaluate(
        """async (payload) => {
          const { wholeMessage } = await import(new URL("whole.js", document.baseURI));
          return wholeMessage({ id: "1", size: 1, payload }, () => {})[3].textContent;
        }""",
        '{"till": 9007199254740993, "sum":1.50,"a,b": [ "x: \\"}" , {} , [] , [1e2,null]]}',
    )
    assert shown.splitlines() == [
        "{",
        '  "till": 9007199254740993,',
        '  "sum": 1.50,',
        '  "a,b": [',
        '    "x: \\"}",',
        "    {},",
        "    [],",
        "    [",
        "      1e2,",
        "      null",
        "    ]",
        "  ]",
        "}",
    ]


async def test_one_question_is_under_way_at_a_time(opened: Opened, served: Served, fake: FakeNode) -> None:
    """Asked anew while a question is under way: its answer is of before, and no second round begins."""
    page = await opened(await served(fake), "charts")
    took = await page.evaluate(
        """async () => {
          const { poll } = await import(new URL("api.js", document.baseURI));
          const asked = [];
          const taken = [];
          const asking = (path, { signal }) => new Promise((answer) => asked.push({ answer, signal }));
          const turn = () => new Promise((done) => setTimeout(done, 50));
          const made = poll("", () => 0.01, () => ({}), (found) => taken.push(found), () => {}, asking);
          await turn();
          made.soon();
          await turn();
          asked[0].answer("old");
          asked[1].answer("new");
          await turn();
          const under_way = asked.length - 2;
          const given_up = asked[0].signal.aborted;
          made.stop();
          return [taken, under_way, given_up, asked[2].signal.aborted];
        }"""
    )
    assert took == [["new"], 1, True, True]


async def test_the_token_is_asked_for_and_kept_for_this_tab(
    opened: Opened, served: Served, fake: FakeNode, watched: Any
) -> None:
    fake.token = "s3cret"
    watched.expected.add("status of 403 ")
    page = await opened(await served(fake), "queues")
    form = page.locator("dialog#token")
    await form.get_by_label("Token", exact=True).last.fill("wrong")
    await form.get_by_role("button", name="Go on").click()
    await expect(form.locator(".problem")).to_be_visible()
    await form.get_by_label("Token", exact=True).last.fill("s3cret")
    await form.get_by_role("button", name="Go on").click()
    await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
    await expect(rows(page).first).to_be_visible()
    assert await page.evaluate("sessionStorage.length") == 1
    assert await page.evaluate("localStorage.length") == 0


async def test_a_token_that_has_ended_is_given_once_and_the_panel_comes_back_with_another(
    opened: Opened, served: Served, fake: FakeNode, watched: Any
) -> None:
    fake.token = "s3cret"
    watched.expected.add("status of 403 ")
    page = await opened(await served(fake), "queues/queue%3Asales")
    form = page.locator("dialog#token")
    await form.get_by_label("Token", exact=True).fill("ended")
    await page.clock.install()
    refused: list[str] = []
    page.on("response", lambda answer: refused.append(answer.url) if answer.status == 403 else None)
    await form.get_by_role("button", name="Go on").click()
    await expect(form.locator(".problem")).to_be_visible()
    await page.clock.run_for(60_000)
    await form.get_by_label("Token", exact=True).fill("s3cret")
    await form.get_by_role("button", name="Go on").click()
    await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
    assert len(refused) == len(set(refused))
    await expect(page.locator(".panel")).to_contain_text("Read by")
    await page.close()  # its clock is bound to it


class StandsStill(FakeNode):
    """Its first stream has one update, and is open for ever."""

    streams = 0

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path == "/api/live" and not self.streams:
            self.streams = 1
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(json.dumps({"at": 0, "status": self.status()}).encode() + b"\n")
            await asyncio.Event().wait()
        return await super()._guard(request, handler)


async def test_a_node_that_stands_still_is_not_said_to_be_live(opened: Opened, served: Served) -> None:
    node = StandsStill()
    base = await served(node)
    page = await opened(base, "charts")
    await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
    await page.clock.install()
    node.streams = 0
    await page.reload()
    await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
    assert node.streams
    await page.clock.fast_forward(10_000)
    await expect(page.locator("#connection")).to_have_attribute("data-connection", "lost")
    await page.clock.resume()
    await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
    await page.close()


async def test_a_section_that_the_node_does_not_know_says_so(
    opened: Opened, served: Served, fake: FakeNode, watched: Any
) -> None:
    fake.missing = ("/api/sessions", "/api/live", "/api/tree", "/api/queues")
    watched.expected.add("status of 404 ")
    base = await served(fake)
    page = await opened(base, "sessions")
    await expect(page.locator(".empty")).to_contain_text("it runs a version without that")
    await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
    await page.goto(f"{base}/dashboard/#/tree")
    await expect(rows(page).filter(has_text="region-11")).to_contain_text("the peer was silent")
    await page.goto(f"{base}/dashboard/#/queues")
    await expect(rows(page).filter(has_text="prices-store-0005")).to_be_visible()


async def test_the_path_of_a_message_has_a_lane_for_each_node(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "trace")
    await page.get_by_role("searchbox").fill("6bcc45ee367c476aae4fd50b0000002a-7")
    await page.keyboard.press("Enter")
    await expect(page.locator(".lane-name > title")).to_have_text(["hq", "region-00", "store-0007"])
    await expect(page.locator(".timeline .arrow")).to_have_count(2)
    await expect(page.locator(".banner")).to_contain_text("store-0040 (the link to 'region-00' has been down")
    even = await widest(page, ".bar.hue-wait")
    await page.get_by_role("button", name="True to scale").click()
    await expect(page.get_by_role("button", name="True to scale")).to_have_attribute("aria-pressed", "true")
    assert await widest(page, ".bar.hue-wait") > even


async def test_a_task_is_one_timeline_with_dashed_replies(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "trace/task/till-7%2F1")
    await expect(page.locator(".lane-name > title")).to_have_text(["store-0007", "hq", "region-03"])
    await expect(page.locator(".timeline .arrow")).to_have_count(4)
    await expect(page.locator(".timeline .arrow.reply")).to_have_count(2)
    await expect(page.locator("dl.facts")).to_contain_text("4 messages")


async def test_a_link_that_is_down_has_one_word_in_every_view(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    """Dormant are routes only: whoever sees a region down in one view finds it down in all of them."""
    base = await served(fake)
    page = await opened(base, "tree")
    await expect(rows(page).filter(has_text="region-03")).to_contain_text("down")
    await page.get_by_role("searchbox").fill("store-0003")
    await expect(rows(page).last).to_contain_text("down")
    for view in ("overview", "tree", "node"):
        await page.goto(f"{base}/dashboard/#/{view}")
        await expect(page.locator("#content")).to_contain_text(re.compile("region-03.*down", re.DOTALL))
        await expect(page.locator("#content")).not_to_contain_text("dormant")


async def test_a_list_is_walked_with_real_keys_from_the_ground_of_the_page(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    """Nothing is focused or clicked but by keys."""
    page = await opened(await served(fake))
    await page.keyboard.press("g")
    await page.keyboard.press("q")
    await expect(page.locator('.row[data-key^="queue:"]').nth(3)).to_be_visible()
    active = page.locator(".row.active")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(active).to_have_attribute("aria-rowindex", "2")
    await page.keyboard.press("End")
    await expect(active).to_have_attribute("aria-rowindex", "300")
    await page.keyboard.press("Home")
    await expect(active).to_have_attribute("aria-rowindex", "1")
    name = await active.locator(".cell").first.inner_text()
    await page.keyboard.press("Enter")
    await expect(page.locator(".panel h2")).to_have_text(name)
    await page.keyboard.press("Escape")
    await expect(page.locator(".panel")).to_have_count(0)
    await page.keyboard.press("ArrowDown")
    await expect(active).to_have_attribute("aria-rowindex", "2")
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await expect(page.locator('.row[aria-level="2"]').first).to_be_visible()  # not the list before any more
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowRight")
    await expect(active).to_have_attribute("aria-expanded", "true")


NARROW = {
    "tree": ("Node", "Link", "Waiting"),
    "queues": ("Queue", "Messages", "Readers"),
    "sessions": ("Session", "Connections", "Last heard"),
    "consumers": ("Destination", "Waiting"),
    "routes": ("Destination", "Gateway", "State"),
    "node": ("Neighbour", "State", "Since"),
    "dead": ("Reason", "Destination", "Dead for"),
}


WIDE = """
() => [document.documentElement, ...document.querySelectorAll("#content, .rows, .table, .card, .topology")]
  .filter((part) => part.scrollWidth > part.clientWidth + 1)
  .map((part) => part.className || part.tagName)
"""


UNNAMED = """
() => [...document.querySelectorAll("[role=row]")]
  .filter((row) => !row.closest("[role=grid], [role=treegrid]"))
  .filter((row) => !document.querySelector(`[aria-owns~="${row.id}"]`))
  .concat([...document.querySelectorAll("th, [role=columnheader]")].filter((head) => !head.textContent))
  .filter((part) => !part.ariaLabel)
  .map((part) => part.outerHTML)
"""


async def fits(page: Page, view: str) -> None:
    """Columns yield once the page has been laid out."""
    wide = ["the page"]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30):
            while wide := await page.evaluate(WIDE):
                await asyncio.sleep(0.05)
    assert not wide, (view, wide)


WHOLE = "one => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight + 1"


async def is_whole(name: Locator) -> None:
    """So does what is beside a name."""
    async with asyncio.timeout(30):
        while not await name.evaluate("name => name.scrollWidth <= name.clientWidth"):
            await asyncio.sleep(0.05)


async def test_on_telephones_name_state_and_count_are_seen_and_nothing_scrolls_sideways(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    base = await served(fake)
    page = await opened(base)
    await page.set_viewport_size({"width": 400, "height": 800})
    for view in VIEWS:
        await page.goto(f"{base}/dashboard/#/{view}")
        await expect(page.locator("#content h1")).to_be_visible()
        if view in NARROW:
            await expect(rows(page).nth(2)).to_be_visible()
        for title in NARROW.get(view, ()):
            head = page.get_by_role("columnheader", name=re.compile(f"^{title}( [▲▼])?$"))
            await expect(head).to_be_in_viewport(ratio=1)
            assert await head.evaluate("head => head.scrollWidth <= head.clientWidth"), (view, title)
        await fits(page, view)
        await page.set_viewport_size({"width": 320, "height": 640})
        await fits(page, view)
        assert await page.evaluate(UNNAMED) == [], view  # of a screen reader
        await page.set_viewport_size({"width": 400, "height": 800})
    for view, text in (("queues", "queue:prices-store-"), ("consumers", "queue:prices-")):
        await page.goto(f"{base}/dashboard/#/{view}")
        name = rows(page).nth(2).locator(".cell", has_text=text)
        await expect(name).to_be_visible()
        assert await name.evaluate(WHOLE), (view, "all names looked alike")
    await page.goto(f"{base}/dashboard/#/tree")
    name = rows(page).nth(2).locator(".label")
    await expect(name).to_have_text("region-01")
    await is_whole(name)


@pytest.mark.parametrize("width", [1280, 1200, 1000, 700])
async def test_columns_yield_in_a_window_that_is_not_wide(
    opened: Opened, served: Served, fake: FakeNode, width: int
) -> None:
    base = await served(fake)
    page = await opened(base)
    await page.set_viewport_size({"width": width, "height": 800})
    for view in NARROW:
        await page.goto(f"{base}/dashboard/#/{view}")
        await expect(rows(page).nth(2)).to_be_visible()
        await fits(page, view)
    await page.goto(f"{base}/dashboard/#/tree")
    name = rows(page).nth(2).locator(".label")
    await is_whole(name)
    why = page.get_by_role("columnheader", name="Why")
    if width < 1000:
        await expect(why).to_be_hidden()
    else:
        await expect(why).to_be_in_viewport(ratio=1)
    await page.set_viewport_size({"width": 1920, "height": 800})
    await expect(page.get_by_role("columnheader", name="Traffic")).to_be_visible()


async def test_views_are_reached_with_keys(opened: Opened, served: Served, fake: FakeNode) -> None:
    page = await opened(await served(fake))
    await expect(page.locator("#content h1")).to_have_text("Overview")
    for key, title in (("q", "Queues"), ("t", "Tree"), ("d", "Dead letters")):
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await expect(page.locator("#content h1")).to_have_text(title)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("search in this view")


async def test_charts_show_hours_with_their_gaps_and_figures(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "charts")
    waiting = page.locator("figure[data-series=waiting]")
    await expect(waiting).to_contain_text("Messages that wait")
    line = await waiting.locator(".stroke").get_attribute("d")
    assert line is not None
    assert line.count("M") == 2, "the hour without samples is no line"
    said = await waiting.locator("svg").get_attribute("aria-label")
    assert said is not None
    assert re.fullmatch(r"Messages that wait: [\d.]+, highest [\d.]+", said)
    await expect(page.locator("figure[data-series=parent_down]")).to_have_count(0)
    await page.get_by_role("button", name="24 h").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="24 h")).to_have_attribute("aria-pressed", "true")
    await expect(page.locator(".head .sum")).to_have_text("84 samples, one each 900 s")
    box = await waiting.locator(".plot").bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 20)
    await expect(waiting.locator(".at")).to_have_text(re.compile(r"^\d\d:\d\d: [\d.]+$"))


async def test_alarms_stand_above_the_charts_and_in_the_overview(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "charts")
    alarms = page.locator(".alarms")
    await expect(alarms.locator("summary")).to_contain_text("3 alarms, 1 raised")
    await expect(alarms.locator("summary")).to_contain_text(
        "alerts.example.com: 12 told, 1 wait: no answer in time"
    )
    await alarms.locator("summary").focus()
    await page.keyboard.press("Enter")
    first = alarms.locator("li").first
    await expect(first).to_contain_text("waiting of queue sales above 5000 for 10m · critical · now 7312")
    await expect(alarms.locator("li").nth(1)).to_contain_text("commit above 1s for 5m · warning · now 1.7s")
    await page.keyboard.press("g")
    await page.keyboard.press("o")
    await expect(page.locator(".lines li").first).to_contain_text("Alarm backlog")
    await page.clock.set_system_time(time.time() - 86_400)
    await page.reload()
    await expect(page.locator(".lines li .side").first).to_have_text("1h")  # by the node's clock
    await page.close()


DATES = "async (times) => times.map((await import('/dashboard/format.js')).date)"


async def test_of_the_hour_that_autumn_has_twice_it_is_said_which(
    opened: Opened, served: Served, fake: FakeNode
) -> None:
    page = await opened(await served(fake), "follow")
    for zone, times in {
        "Europe/Berlin": {
            "2026-10-24T23:59:59Z": "2026-10-25 01:59:59",
            "2026-10-25T00:30:00Z": "2026-10-25 02:30:00 UTC+2",
            "2026-10-25T01:30:00Z": "2026-10-25 02:30:00 UTC+1",
            "2026-10-25T02:00:00Z": "2026-10-25 03:00:00",
            "2026-03-29T01:00:00Z": "2026-03-29 03:00:00",
        },
        "America/St_Johns": {"2026-11-01T03:45:00Z": "2026-11-01 01:15:00 UTC-2:30"},
        "UTC": {"2026-10-25T01:30:00Z": "2026-10-25 01:30:00"},
    }.items():
        line = await page.context.new_cdp_session(page)
        await line.send("Emulation.setTimezoneOverride", {"timezoneId": zone})
        assert await page.evaluate(DATES, list(times)) == list(times.values())
        await line.send("Emulation.setTimezoneOverride", {"timezoneId": ""})
        await line.detach()
