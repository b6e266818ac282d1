"""A real node whose operators log in elsewhere: its dashboard takes their token, and ends with it."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect
from token_issuer import IssuerProcess, Signer

from broker.entrance.id_tokens import LEEWAY
from broker.node import Node
from config.model import AdvisoryLog, Listener, Oidc, Site
from config.oidc import OidcRole

pytestmark = pytest.mark.asyncio(loop_scope="session")
expect.set_options(timeout=120_000)
Opened = Callable[..., Awaitable[Page]]


async def test_the_dashboard_takes_a_token_of_an_issuer_and_asks_again_when_it_has_ended(
    opened: Opened, watched: Any, tmp_path: Path, unused_tcp_port: int
) -> None:
    watched.expected |= {"status of 403 ", "ERR_"}
    issuer, signer = IssuerProcess(tmp_path / "issuer", unused_tcp_port), Signer()
    issuer.publish(signer)
    oidc = Oidc(issuer=issuer.url, audience="sapwood", roles=(OidcRole(name="staff", role="viewer"),))
    node = Node(
        Site(
            name="hq",
            data=tmp_path / "data",
            listener=Listener(port=0),
            advisory_log=AdvisoryLog(enabled=False),
            oidc=oidc,
        )
    )
    issuer.start()
    try:
        await node.start()
        page = await opened(f"http://localhost:{node.port}", "queues")
        form = page.locator("dialog#token")

        async def give(token: str) -> None:
            await form.get_by_label("Token", exact=True).last.fill(token)
            await form.get_by_role("button", name="Go on").click()

        await give(signer.token(iss=issuer.url, groups=["strangers"]))
        await expect(form.locator(".problem")).to_be_visible()
        await give(signer.token(iss=issuer.url, groups=["staff"], exp=int(time.time() - LEEWAY) + 10))
        await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
        await expect(form.locator(".problem")).to_be_visible()
        await give(signer.token(iss=issuer.url, groups=["staff"]))
        await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
    finally:
        issuer.stop()
        await node.stop()
