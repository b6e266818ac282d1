"""`sapwood top` as a program, against a real node; and its loop, with literal times."""

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.cli.errors import CommandError
from broker.cli.node_api import NodeApi
from broker.cli.top.keys import Keys
from broker.cli.top.look import Look
from broker.cli.top.run import Settings, _looks, show_top
from broker.node import Node
from config.model import AdvisoryLog, Listener, Site
from sapwood import connect

COMMAND = (sys.executable, "-P", "-m", "broker.cli", "top")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A node with five messages in a queue."""
    one = Node(
        Site(name="hq", data=tmp_path, listener=Listener(port=0), advisory_log=AdvisoryLog(enabled=False))
    )
    await one.start()
    async with connect(f"http://127.0.0.1:{one.port}") as client:
        await client.create("sales")
        await client.send_many("queue:sales", [b"x"] * 5)
        yield one
    await one.stop()


async def run(node: Node, *options: str) -> tuple[int, str]:
    running = await asyncio.create_subprocess_exec(
        *COMMAND, f"http://127.0.0.1:{node.port}", *options,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, _ = await running.communicate()
    return running.returncode or 0, out.decode()


async def test_once_as_text(node: Node) -> None:
    code, text = await run(node, "--once")
    assert code == 0
    for part in ("hq · root of sapwood", "ready", "sales"):
        assert part in text
    assert "\x1b" not in text, "a pipe is no terminal"


async def test_once_as_json(node: Node) -> None:
    code, text = await run(node, "--once", "--json")
    assert code == 0
    (line,) = text.splitlines()
    found = json.loads(line)
    (queue,) = (queue for queue in found["queues"] if queue["name"].removeprefix("queue:") == "sales")
    assert (found["name"], queue["messages"], found["links"]) == ("hq", 5, [])
    assert found["at"].endswith("Z")


async def test_lines_of_json_until_ctrl_c_which_is_no_failure(node: Node) -> None:
    running = await asyncio.create_subprocess_exec(
        *COMMAND,
        f"http://127.0.0.1:{node.port}",
        "--json",
        "--interval",
        "0.2",
        stdout=asyncio.subprocess.PIPE,
    )
    assert running.stdout is not None
    async with asyncio.timeout(60):
        for _ in range(3):
            assert json.loads(await running.stdout.readline())["name"] == "hq"
        running.send_signal(signal.SIGINT)
        assert await running.wait() == 0


@pytest.mark.parametrize("end", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
async def test_a_narrow_terminal_until_a_key(node: Node, end: bytes) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "40", "LINES": "20", "TERM": "xterm"}
    running = await asyncio.create_subprocess_exec(
        *COMMAND, f"http://127.0.0.1:{node.port}", "--interval", "0.2",
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, preexec_fn=os.setsid,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        async with asyncio.timeout(60):
            while b"sales" not in seen or b"q quit" not in seen:
                seen += await asyncio.to_thread(os.read, ours, 65536)
            if end == b"q":
                os.write(ours, b"s+q")
            else:
                running.send_signal(signal.SIGINT)
            reading = asyncio.create_task(asyncio.to_thread(_drain, ours))
            assert await running.wait() == 0
            seen += await reading
    finally:
        if running.returncode is None:
            running.kill()
    assert b"Traceback" not in seen
    assert b"\x1b[?1049l" in seen, "the screen is as it was"


def _drain(number: int) -> bytes:
    """All until the other side of the terminal is closed."""
    found = b""
    try:
        while more := os.read(number, 65536):
            found += more
    except OSError:
        pass
    os.close(number)
    return found


async def test_a_node_that_is_not_there_is_a_failure(node: Node) -> None:
    await node.stop()
    code, text = await run(node, "--once")
    assert code == 1
    assert "does not answer" in text


@pytest.mark.parametrize("options", [{"interval": 0.0}, {"interval": 1e9}, {"sort": "colour"}])
def test_nonsense_is_refused(options: dict[str, object]) -> None:
    given = {"interval": 2.0, "sort": "messages", "once": True, "plain": False, "as_json": False, **options}
    with pytest.raises(CommandError) as caught:
        show_top(NodeApi("http://127.0.0.1:1"), **given)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2


class Pressed(Keys):
    """Keys at their times; the clock stands still but for waiting."""

    def __init__(self, *keys: tuple[float, str]) -> None:
        super().__init__(None)
        self.now = 0.0
        self._keys = list(keys)

    def wait(self, seconds: float) -> str:
        at, key = self._keys[0]
        if at > self.now + seconds:
            self.now += seconds
            return ""
        del self._keys[0]
        self.now = max(self.now, at)
        return key


def test_a_look_after_each_interval_and_after_keys_the_same_again() -> None:
    asked: list[float] = []
    keys = Pressed((2.5, "s"), (4.5, " "), (8.5, " "), (11.0, "q"))

    def ask(path: str) -> object:
        if path == "/api/status":
            asked.append(keys.now)
            return {"name": "hq"}
        return {}

    settings = Settings(interval=2.0)
    shown = list(_looks(ask, settings, Look(0.0, {}, {}, [], []), keys, clock=lambda: keys.now))
    assert asked == [2.0, 4.0, 10.0]
    assert settings.sort == "oldest"
    assert len(shown) == 9


def test_a_node_that_goes_away_stays_on_the_screen() -> None:
    keys = Pressed((3.0, "q"))

    def ask(path: str) -> object:
        raise CommandError("hq does not answer")

    first = Look(0.0, {"name": "hq"}, {}, [], [])
    *_, last = _looks(ask, Settings(interval=2.0), first, keys, clock=lambda: keys.now)
    assert last.found == {"name": "hq"}
    assert "hq does not answer" in last.problem


def test_the_interval_has_bounds() -> None:
    settings = Settings(interval=0.3)
    for _ in range(20):
        settings.pressed("+")
    assert settings.interval == 0.2
    for _ in range(40):
        settings.pressed("-")
    assert settings.interval == 3600.0
