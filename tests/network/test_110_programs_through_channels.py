"""Programs that know nothing of the tree, through `sapwood forward`: a browser, ssh, rsync.

Three levels below: hq <- north <- york <- shop
"""

import asyncio
import contextlib
import getpass
import os
import random
import shutil
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import commands
import pytest
from aiohttp import web
from commands import told
from harness import PATIENCE, Network
from playwright.async_api import async_playwright

from broker.cli.demo.plan import free_ports

CHAIN = ("hq", "north", "york", "shop")
PERMITS = {"consume": ["#"], "send": ["#"], "nodes": ["*"], "serves": ["*@shop"]}
PAGE = """<!doctype html><title>Till 1</title><h1>Till 1</h1><p id="sum">0</p><img src="logo.svg" alt="">
<script>
const sum = document.getElementById("sum");
fetch("sum").then((answer) => answer.text()).then((text) => { sum.textContent = text; });
</script>"""
LOGO = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><rect width="40" height="40"/></svg>'
SSHD = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/login.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
"""


def program(name: str, package: str, *places: str) -> str:
    """A program of this machine; without it a test fails and says what to install."""
    found = next(filter(None, (shutil.which(name, path=path) for path in (None, *places))), None)
    if not found:
        pytest.fail(f"{name} is not there: as root 'apt-get install -y {package}'", pytrace=False)
    return found


async def start(network: Network, name: str, port: int) -> None:
    for place, node in enumerate(CHAIN):
        more: dict[str, Any] = {"permits": PERMITS}
        if node == "shop":
            more = {"forwards": [{"name": name, "to": f"127.0.0.1:{port}", "permit": ["hq"]}]}
        network.add(
            node, CHAIN[place - 1] if place else "", role="leaf" if node == "shop" else "branch", **more
        )
    await network.start()
    for parent, child in pairwise(CHAIN):
        await network.until_child(parent, child)
    async with asyncio.timeout(PATIENCE):
        while not any(row.kind == "domain" and row.destination == "shop" for row in network.log_rows("hq")):
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def running(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@contextlib.asynccontextmanager
async def forwarding(network: Network, target: str) -> AsyncIterator[int]:
    (port,) = free_ports(1)
    async with commands.running("forward", str(port), target, "--url", network.url("hq")) as command:
        assert "leads to" in await command.prints()
        yield port


async def ran(*words: str) -> tuple[int | None, str]:
    """Exit code and all that a program said."""
    async with running(*words) as process:
        output, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
        return process.returncode, (output + errors).decode()


async def test_a_browser_shows_a_till_s_page(network: Network) -> None:
    chromium = os.environ.get("SAPWOOD_CHROMIUM") or program("chromium", "chromium")
    app = web.Application()
    for path, text, kind in (
        ("/", PAGE, "text/html"),
        ("/logo.svg", LOGO, "image/svg+xml"),
        ("/sum", "42.50", "text/plain"),
    ):

        async def answer(_: web.Request, text: str = text, kind: str = kind) -> web.Response:
            return web.Response(text=text, content_type=kind)

        app.router.add_get(path, answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        await start(network, "till-web", runner.addresses[0][1])
        async with forwarding(network, "shop:till-web") as port, async_playwright() as playwright:
            flags = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage")
            browser = await playwright.chromium.launch(executable_path=chromium, args=flags)
            page = await browser.new_page()
            await page.goto(f"http://127.0.0.1:{port}/", timeout=PATIENCE * 1000)
            await page.get_by_text("42.50").wait_for(timeout=PATIENCE * 1000)
            assert await page.title() == "Till 1"
            assert await page.evaluate("document.images[0].naturalWidth") == 40
            assert (await told(network, "york", "channels"))["opened"] >= 1
            await browser.close()
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def sshd(folder: Path) -> AsyncIterator[int]:
    """A login at this machine, with keys of its own."""
    server = program("sshd", "openssh-server", "/usr/sbin", "/usr/local/sbin")
    keys = program("ssh-keygen", "openssh-client")
    folder.mkdir()
    for name in ("host", "login"):
        assert (await ran(keys, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)))[0] == 0
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # as its own start script does
    port = free_ports(1)[0]
    (folder / "config").write_text(SSHD.format(port=port, folder=folder))
    async with (
        running(server, "-D", "-e", "-f", str(folder / "config")) as process,
        asyncio.timeout(PATIENCE),
    ):
        while True:
            assert process.returncode is None, (await process.communicate())[1].decode()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.05)
        yield port


async def test_ssh_and_rsync_come_to_a_store_and_what_was_broken_off_goes_on(
    network: Network, tmp_path: Path
) -> None:
    ssh, rsync = program("ssh", "openssh-client"), program("rsync", "rsync")
    keys, there, here = tmp_path / "keys", tmp_path / "there", tmp_path / "here"
    there.mkdir()
    body = random.Random(1).randbytes(4_000_000)
    (there / "sales.db").write_bytes(body)
    (there / "till.log").write_text("beep\n")
    async with sshd(keys) as login:
        await start(network, "ssh", login)
        async with forwarding(network, "shop:ssh") as port:
            options = (
                *("-p", str(port), "-i", str(keys / "login"), "-F", "none"),
                *(
                    "-o",
                    "StrictHostKeyChecking=no",
                    "-o",
                    f"UserKnownHostsFile={keys}/known",
                    "-o",
                    "BatchMode=yes",
                ),
            )
            host = f"{getpass.getuser()}@127.0.0.1"
            code, said = await ran(ssh, *options, host, "echo", "hello", "from", "the", "shop")
            assert (code, "hello from the shop" in said) == (0, True), said
            copy = (rsync, "-a", "--partial", "-e", " ".join((ssh, *options)))
            code, said = await ran(*copy, f"{host}:{there}/", f"{here}/")
            assert code == 0, said
            assert (here / "sales.db").read_bytes() == body
            assert sorted(os.listdir(here)) == ["sales.db", "till.log"]

            async with running(ssh, *options, host, "sleep 600") as stays:
                async with asyncio.timeout(PATIENCE):
                    while not (await told(network, "north", "channels"))["channels"]:
                        await asyncio.sleep(0.05)
                network.kill("york")
                _, errors = await asyncio.wait_for(stays.communicate(), PATIENCE)
                assert stays.returncode == 255, errors
            await network.start("york")
            for parent, child in pairwise(CHAIN):
                await network.until_child(parent, child)
            (there / "sales.db").write_bytes(body + b"more")
            code, said = await ran(*copy, f"{there}/", f"{host}:{here}/")
            assert code == 0, said
            assert (here / "sales.db").read_bytes() == body + b"more"
