"""The pages of interfaces in a real browser: search, examples, light and dark, wide and narrow."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from interfaces.load import load
from interfaces.site.pages import write_pages

pytestmark = pytest.mark.asyncio(loop_scope="session")
EXAMPLES = Path(__file__).parents[2] / "examples" / "interfaces"


async def opened(
    browser: Browser, folder: Path, page: str, scheme: str, width: int
) -> tuple[Page, list[str]]:
    for name, text in write_pages(load(EXAMPLES)).items():
        (folder / name).write_text(text, "utf-8")
    problems: list[str] = []
    made = await browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    made.on("console", lambda message: problems.append(message.text))
    made.on("pageerror", lambda error: problems.append(str(error)))
    await made.goto(f"file://{folder}/{page}")
    return made, problems


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_a_page_is_searched_and_read(browser: Browser, tmp_path: Path, scheme: str, width: int) -> None:
    page, problems = await opened(browser, tmp_path, "index.html", scheme, width)
    await page.keyboard.press("/")
    await page.keyboard.type("movement day")
    found = page.locator("#found a")
    assert await found.all_text_contents() == ["history.movements"]
    await page.keyboard.press("Enter")
    section = page.locator("section:target")
    await section.wait_for()
    assert "The movements of one day" in await section.inner_text()
    await section.locator("summary", has_text="Client in Python").click()
    assert "await stock.history.movements(" in await section.inner_text()
    wide = await page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    dark = await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 17)"
    assert dark == (scheme == "dark")
    assert problems == []
    await page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_program_of_a_page_is_copied(browser: Browser, tmp_path: Path, scheme: str) -> None:
    page, problems = await opened(browser, tmp_path, "tills_v1.html", scheme, 1280)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    sections = page.locator("section.function")
    assert await sections.count() == 5
    titles = [f"{side} in {language}" for language in ("Python", "OCaml") for side in ("Client", "Server")]
    for section in await sections.all():
        assert await section.locator("summary").all_text_contents() == titles
        for title in titles:
            await section.locator("summary", has_text=title).click()
            shown = section.locator("details", has_text=title)
            await shown.locator("button").click()
            await shown.locator("button", has_text="Copied").wait_for()
            copied = await page.evaluate("navigator.clipboard.readText()")
            assert copied == await shown.locator("code").text_content()
            assert copied.startswith("(* (executable" if "OCaml" in title else "import asyncio")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert problems == []
    await page.close()


async def test_where_nothing_may_be_copied_the_program_is_selected(browser: Browser, tmp_path: Path) -> None:
    page, problems = await opened(browser, tmp_path, "tills_v1.html", "light", 1280)
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    shown = page.locator("details", has_text="Client in OCaml").first
    await shown.locator("summary").click()
    await shown.locator("button").click()
    await shown.locator("button", has_text="Selected").wait_for()
    assert (
        await page.evaluate("getSelection().toString().trim()")
        == (await shown.locator("code").text_content() or "").strip()
    )
    assert problems == []
    await page.close()
