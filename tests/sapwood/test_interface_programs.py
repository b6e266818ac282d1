"""Every program on the pages of interfaces runs as it stands: a server, and a client that asks it."""

import asyncio
import html
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.node import Node
from config.model import AdvisoryLog, Listener, Site
from interfaces.load import load
from interfaces.site.pages import write_pages
from sapwood import NobodyServes

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "interfaces"
sys.path.insert(0, str(ROOT / "tests" / "interfaces"))
from every import FILES, package  # noqa: E402

CODE = re.compile(r"<pre><code>(.*?)</code></pre>", re.DOTALL)


def of_the_examples(folder: Path) -> dict[str, str]:
    sys.path.insert(0, str(EXAMPLES / "python"))
    return write_pages(load(EXAMPLES))


def of_every_type(folder: Path) -> dict[str, str]:
    package(folder, FILES, "generated_for_site")
    return write_pages(load(folder / "idl"), package="generated_for_site")


def program(text: str) -> Any:
    made: dict[str, Any] = {"__name__": "example"}
    exec(compile(text, "example", "exec"), made)
    return made["main"]


@pytest.mark.parametrize(("catalogue", "functions"), [(of_the_examples, 14), (of_every_type, 3)])
async def test_every_program_runs(
    catalogue: Any, functions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = catalogue(tmp_path)
    programs = [html.unescape(each) for text in pages.values() for each in CODE.findall(text)]
    node = Node(
        Site(name="hq", data=tmp_path, listener=Listener(port=0), advisory_log=AdvisoryLog(enabled=False))
    )
    await node.start()
    url = f"http://127.0.0.1:{node.port}"
    try:
        for client, server in zip(programs[::2], programs[1::2], strict=True):
            serving = asyncio.create_task(program(server)(url))
            await answered(program(client), url)
            assert capsys.readouterr().out.count("\n") == (client + server).count("print(")
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
    finally:
        await node.stop()
    assert len(programs) == 2 * functions


async def answered(client: Any, url: str) -> None:
    """The server may not serve yet."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client(url)
            except NobodyServes:
                await asyncio.sleep(0.05)
            else:
                return
