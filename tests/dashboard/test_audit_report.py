"""The report of an audit in a real browser: its map leads to the worst sites, it fits a telephone, and a name
from a log is text."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from audit.findings import find
from audit.report import write_report
from audit.verdict import judge

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "<img src=x onerror=alert(1)>"
NOW = datetime(2026, 3, 14, 8, tzinfo=UTC)
STORES = 2200
COUNTS = dict.fromkeys(("repeated", "half", "malformed", "unknown", "untimed", "unread"), 0)
NAMES = (
    "files clocks volume_by_hour volume_by_hour_level volume_by_kind volume_by_region spillage_reasons"
    " spillage_regions spilled advise_down strange_links storms flapping_consumers links resyncs strangers"
    " silent trees holes doubles repeated_adds what_if what_if_one scope_cost capacity consumers knowing"
)


def node(name: str, region: str | None, role: str, parent: str | None) -> dict[str, Any]:
    return {
        "node": name,
        "region": region,
        "role": role,
        "parent": parent,
        "place": name,
        "below": 0,
        "depth": 2,
    }


def tables(count: int = 25) -> dict[str, list[dict[str, Any]]]:
    """A chain of 2,200 stores in `count` regions, of which one was cut off, and one has a wicked name."""
    names = [f"region-{n:02}" for n in range(count)]
    stores = [node(f"store-{n:04}", names[n % count], "leaf", names[n % count]) for n in range(STORES)]
    stores[7] = node(EVIL, names[7 % count], "leaf", names[7 % count])
    regions = [node(name, name, "branch", "hq") for name in names]
    nodes = [node("hq", None, "root", None), *regions, *stores]
    day = {"since": NOW.replace(day=13), "until": NOW}
    away = {"node": "store-0042", "parent": "region-17", "below": 0, "downs": 3, "seconds": 5400.0}
    rows = [("tree", "Sapwood, this tree", 5000, 0, 2e5), ("leaf nodes", "NATS leaf nodes", 9e6, 8e6, 3e8)]
    churn = [
        dict(zip(("scheme", "product", "advisories", "spilled", "bytes"), row, strict=True))
        | {"root_knows": True}
        for row in rows
    ]
    return {name: [] for name in NAMES.split()} | {
        "intake": [COUNTS],
        "nodes": nodes,
        "logs": [{"node": one["node"]} | day for one in nodes],
        "volume_by_node": [{"node": one["node"], "advisories": 2, "bytes": 80} for one in nodes],
        "cut_off": [away | {"longest_s": 1800.0, "since": None}],
        "spillage": [{"verdict": "needed", "kind": "queue", "advisories": 5000, "bytes": 200_000}],
        "same_churn": churn,
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("report") / "report.html", tables())


def written(path: Path, told: dict[str, list[dict[str, Any]]]) -> str:
    verdicts = {"needed": 5000, "spilled": 0, "moved": 0, "unknown": 0, "domain": 0}
    summary = dict.fromkeys(("files", "ignored_files", "lines", "rows", "blank", "newer"), 1) | COUNTS
    summary |= {"plan": False, "nodes": len(told["nodes"]), "advisories": 5000, "bytes": 200_000}
    write_report(path, told, summary | {"verdicts": verdicts}, judge(told, 2226), find(told))
    return path.as_uri()


async def opened(browser: Browser, report: str, width: int) -> tuple[Page, list[str]]:
    page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark")
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(report)
    return page, complaints


@pytest.mark.parametrize("width", [1280, 390])
async def test_the_worst_site_is_first_and_the_map_leads_to_it(
    browser: Browser, report: str, width: int
) -> None:
    page, complaints = await opened(browser, report, width)
    await expect(page.locator(".lead")).to_contain_text(
        "8.0 million of 9.0 million would have been spilled by NATS"
    )
    await expect(page.locator("#map .cell")).to_have_count(STORES + 26)
    await expect(page.locator("#table tr").nth(1)).to_contain_text("store-0042")
    await page.locator("#map .region button").first.click()
    await expect(page.locator("#map .cell")).to_have_count(STORES // 25 + 1)
    await page.locator("#map .cell").first.click()
    await expect(page.locator("#site")).to_contain_text("cut off 90 minutes, 3 times")
    await page.locator("#crumbs button").first.click()
    await expect(page.locator("#map .cell")).to_have_count(STORES + 26)
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    assert complaints == []
    await page.close()


async def test_charts_can_be_read_on_a_telephone(browser: Browser, report: str) -> None:
    """As wide as its screen, their letters are of four pixels."""
    page, complaints = await opened(browser, report, 390)
    charts = "[...document.querySelectorAll('section > svg')].map(one => one.getBoundingClientRect().width)"
    widths = await page.evaluate(charts)
    assert widths
    assert min(widths) >= 600
    assert await page.evaluate("document.documentElement.scrollWidth") == 390
    assert complaints == []
    await page.close()


@pytest.mark.parametrize("width", [1280, 390])
async def test_a_region_of_a_thousand_stores_is_as_wide_as_the_map(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    """As narrow as the others, it was a column of three screens beside nothing."""
    page, complaints = await opened(browser, written(tmp_path / "report.html", tables(2)), width)
    await expect(page.locator("#map .cell")).to_have_count(STORES + 3)
    across = "document.querySelector('#map').getBoundingClientRect().width"
    shares = (
        f"[...document.querySelectorAll('.large')].map(one => one.getBoundingClientRect().width / {across})"
    )
    assert await page.evaluate(shares) == [1, 1]
    assert complaints == []
    await page.close()


async def test_a_telephone_shows_how_bad_the_worst_sites_are(browser: Browser, report: str) -> None:
    page, _ = await opened(browser, report, 390)
    cell = await page.locator("#table tr").nth(1).locator("td", has_text="90").bounding_box()
    assert cell
    assert cell["x"] + cell["width"] < 390
    await page.close()


async def test_the_table_sorts_and_finds_and_shows_a_wicked_name_as_text(
    browser: Browser, report: str
) -> None:
    page, complaints = await opened(browser, report, 1280)
    await page.locator("#table th button", has_text="site").click()
    await expect(page.locator("#table tr").nth(1)).to_contain_text(EVIL)
    await page.locator("#find").fill("store-2199")
    await expect(page.locator("#table tr")).to_have_count(2)
    await expect(page.locator("#map .cell")).to_have_count(1)
    await page.locator("#find").fill("store-2200")
    await expect(page.locator("#map")).to_have_text("No site, region or role is called so.")
    assert complaints == []
    assert await page.locator("#table img").count() == 0
    await page.close()


async def test_no_other_script_runs_on_the_page(browser: Browser, report: str) -> None:
    page, complaints = await opened(browser, report, 1280)
    made = "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
    await page.evaluate(f"{made} document.body.append(s)")
    assert await page.evaluate("window.ran") is None
    assert len(complaints) == 1  # the policy of the page
    await page.close()
