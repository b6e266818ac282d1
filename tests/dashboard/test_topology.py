"""The picture of the tree: cards of a made-up chain of 2,226 nodes, and of a real one."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fake import FakeNode
from playwright.async_api import Locator, Page, expect

pytestmark = pytest.mark.asyncio(loop_scope="session")
expect.set_options(timeout=120_000)

Opened = Callable[..., Awaitable[Page]]
Served = Callable[[FakeNode], Awaitable[str]]


@pytest.fixture
def chain() -> FakeNode:
    """HQ with 21 regions of 105 stores: 2,226 nodes below."""
    return FakeNode(regions=21, stores=105)


def cards(page: Page) -> Locator:
    return page.locator(".topology .cards .node")


def here(page: Page) -> Locator:
    return page.locator(".topology [data-here]")


async def squares(card: Locator, state: str) -> int:
    """How many nodes below a card are drawn as up, or as down."""
    drawn = await card.locator(f".squares .{state}").get_attribute("d") or ""
    return drawn.count("M")


async def test_2226_nodes_are_21_cards_that_say_who_is_up_and_down(
    opened: Opened, served: Served, chain: FakeNode
) -> None:
    page = await opened(await served(chain), "topology")
    await expect(cards(page)).to_have_count(21)
    silent = cards(page).filter(has_text="region-11")
    await expect(silent).to_contain_text("branch")
    await expect(silent).to_contain_text("103 up")
    await expect(silent).to_contain_text("3 down")
    await expect(silent).to_contain_text("link down")
    assert await silent.get_attribute("aria-label") == "region-11, branch, down, 103 up, 3 down"
    assert (await squares(silent, "up"), await squares(silent, "down")) == (103, 2)
    assert await page.locator("#content *").count() < 600, "only what is looked at is in the page"


async def test_a_click_leads_into_a_region_and_to_a_store(
    opened: Opened, served: Served, chain: FakeNode
) -> None:
    page = await opened(await served(chain), "topology")
    await cards(page).filter(has_text="region-03").click()
    await expect(here(page)).to_contain_text("region-03")
    await expect(cards(page)).to_have_count(105)
    store = cards(page).filter(has_text="store-0302")
    await expect(store).to_contain_text("leaf")
    await expect(store).to_contain_text("the peer was silent for 30 s")
    await store.click()
    await expect(page.locator(".panel h2")).to_have_text("store-0302")
    await page.keyboard.press("Escape")
    await page.locator(".topology .way .node").first.click()
    await expect(cards(page)).to_have_count(21)


async def test_real_keys_alone_lead_down_to_a_store_and_up_again(
    opened: Opened, served: Served, chain: FakeNode
) -> None:
    page = await opened(await served(chain))
    for key in ("g", "y"):
        await page.keyboard.press(key)
    await expect(cards(page)).to_have_count(21)
    focused = page.locator(".topology .node:focus")
    await page.keyboard.press("ArrowDown")
    await expect(focused).to_contain_text("hq")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowRight")
    await expect(focused).to_contain_text("region-01")
    await page.keyboard.press("ArrowDown")
    below = await focused.get_attribute("data-node")
    assert below != "region-01"
    await page.keyboard.press("ArrowUp")
    await expect(focused).to_contain_text("region-01")
    await page.keyboard.press("Enter")
    await expect(focused).to_contain_text("region-01")  # now the one that is looked at
    await expect(cards(page)).to_have_count(105)
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await expect(page.locator(".panel h2")).to_have_text("store-0204")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Backspace")
    await expect(cards(page)).to_have_count(21)
    await expect(focused).to_contain_text("hq")


async def test_the_focus_stays_on_a_card_whose_figures_change(
    opened: Opened, served: Served, chain: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await opened(await served(chain), "topology")
    await cards(page).filter(has_text="region-05").focus()
    usual = chain.tree

    def all_down() -> dict[str, Any]:
        found = usual()
        for child in found["children"]:
            child["below"] = [{**each, "live": False} for each in child["below"]]
        return found

    monkeypatch.setattr(chain, "tree", all_down)
    await expect(cards(page).filter(has_text="105 down").first).to_be_visible()
    await expect(page.locator(".topology .node:focus")).to_contain_text("region-05")


async def test_the_focus_returns_to_a_card_that_was_drawn_anew_below_its_panel(
    opened: Opened, served: Served, chain: FakeNode
) -> None:
    page = await opened(await served(chain), "topology/region-01")
    store = cards(page).filter(has_text="store-0204")
    await store.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".panel h2")).to_have_text("store-0204")
    await store.evaluate("card => { card.dataset.seen = ''; }")
    await expect(page.locator("[data-node='store-0204']:not([data-seen])")).to_be_attached()
    await page.keyboard.press("Escape")
    await expect(store).to_be_focused()
    await page.keyboard.press("Backspace")
    await expect(cards(page)).to_have_count(21)


async def test_a_picture_that_is_drawn_once_more_while_it_is_left_takes_the_focus_from_none(
    opened: Opened, served: Served, chain: FakeNode
) -> None:
    page = await opened(await served(chain), "topology/region-01")
    await expect(cards(page)).to_have_count(105)
    await here(page).focus()
    await page.evaluate(
        "document.activeElement.dispatchEvent("
        "new KeyboardEvent('keydown', { key: 'Backspace', bubbles: true, cancelable: true }));"
        "[...document.querySelectorAll('#content button')].find((one) => one.textContent === 'All').click();"
    )
    await expect(cards(page)).to_have_count(21)
    await expect(page.locator(".topology .node:focus")).to_contain_text("hq")


async def test_a_store_is_searched_and_only_those_with_one_down_are_shown(
    opened: Opened, served: Served
) -> None:
    page = await opened(await served(FakeNode(regions=26, stores=85)), "topology")
    await expect(cards(page)).to_have_count(26)
    await page.keyboard.press("/")
    await page.keyboard.type("store-1234")
    await expect(cards(page).filter(has_text="store-1234")).to_have_count(1)
    await expect(cards(page)).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(cards(page)).to_have_count(26)
    await page.get_by_role("button", name="With one down").click()
    await expect(cards(page).filter(has_text="region-04")).to_have_count(0)
    await expect(cards(page).filter(has_text="region-03")).to_have_count(1)


async def test_many_children_are_groups_that_open(opened: Opened, served: Served) -> None:
    page = await opened(await served(FakeNode(regions=2226, stores=0)), "topology")
    await expect(cards(page)).to_have_count(23)
    first = cards(page).first
    await expect(first).to_contain_text("group")
    assert await squares(first, "up") + await squares(first, "down") == 100
    await first.focus()
    await page.keyboard.press("Enter")
    await expect(cards(page)).to_have_count(123)
    await expect(cards(page).first).to_be_focused()
    await expect(cards(page).first).to_have_attribute("aria-expanded", "true")
    await page.keyboard.press("Enter")
    await expect(cards(page)).to_have_count(23)


async def test_of_a_region_that_does_not_answer_the_picture_shows_what_the_node_above_knows(
    opened: Opened, served: Served, chain: FakeNode, watched: Any
) -> None:
    chain.missing = ("/api/tree/region-05",)
    watched.expected.add("404")
    page = await opened(await served(chain), "topology/region-05")
    await expect(cards(page)).to_have_count(105)
    await expect(cards(page).first).to_contain_text("as hq says")
    await expect(page.locator(".topology")).to_contain_text("Here is what the node above it knows.")


async def test_at_400_pixels_names_and_states_are_whole(
    opened: Opened, served: Served, chain: FakeNode
) -> None:
    base = await served(chain)
    page = await opened(base)
    await page.set_viewport_size({"width": 400, "height": 800})
    for place in ("topology", "topology/region-03"):
        await page.goto(f"{base}/dashboard/#/{place}")
        await expect(cards(page).nth(20)).to_be_visible()
        cut = await page.locator(".topology").evaluate(
            "picture => [picture, ...picture.querySelectorAll('.node, .node *:not(svg, svg *)')]"
            ".filter(part => part.scrollWidth > part.clientWidth + 1 && part.clientWidth)"
            ".map(part => part.textContent)"
        )
        assert cut == []
