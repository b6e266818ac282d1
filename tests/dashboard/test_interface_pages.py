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
