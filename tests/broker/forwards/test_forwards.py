"""Forwards of a node: dials, how long they last, and the log. The core is played by the test."""

import asyncio
import errno
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from broker.core.neighbours.channels import Channel, Side
from broker.forwards import forwards as module
from broker.forwards.channel_log import AGAIN, MOST, ChannelLog
from broker.forwards.copying import Done, Have, Put, Talk
from broker.forwards.folders import FileFault
from broker.forwards.forwards import Forwards
from broker.forwards.local_end import LocalEnd
from broker.node import Node
from config.channels import Folder, Forward
from config.model import AdvisoryLog, Listener, Site
from sapwood.channels.pipes import PipeBroken
from sapwood.channels.websocket_pipe import OPEN, WebSocketPipe


class Host:
    """Runs what it is given, and writes down what its channels are told."""

    def __init__(self) -> None:
        self.core = self.identity = self.channels = self
        self.name = "york"
        self.told: list[tuple[str, ...]] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.counters: dict[str, int] = {}

    def now(self) -> float:
        return 0.0

    def advance(self, now: float) -> None: ...

    def flush(self) -> None: ...

    def nudge(self) -> None: ...

    def broken(self, side: LocalEnd, reason: str, text: str) -> None:
        self.told.append(("broken", reason, text))

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    def configure(self, serve: Any, told: Any) -> None:
        self.serve, self.log = serve, told

    def opened(self, side: LocalEnd) -> None:
        self.told.append(("opened",))


class Link:
    """The near side, as a neighbour is one."""

    def __init__(self, via: str = "hq") -> None:
        self.via = via


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def asked(name: str = "till", origin: str = "hq", via: str = "hq") -> Channel:
    return Channel(b"n" * 16, "york", name, origin, cast("Side", Link(via)), 0.0)


def offering(to: str, *permit: str) -> tuple[Host, Forwards]:
    host = Host()
    site = Site(name="york", forwards=(Forward(name="till", to=to, permit=permit or ("hq",)),))
    return host, Forwards(cast("Any", host), cast("Any", host), site)


@pytest.fixture
def dials(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Connections that nobody answers; each says how it went."""
    found: list[str] = []

    async def never(_names: Any, host: str, port: int) -> Any:
        found.append(f"dials {host} {port}")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            found.append("given up")
            raise

    monkeypatch.setattr(module, "dialled", never)
    return found


async def test_who_asks_and_goes_leaves_no_connection_that_is_being_made(dials: list[str]) -> None:
    host, offers = offering("till.shop:80")
    for _ in range(50):
        host.serve(asked()).reset("reset", "gone")
        host.serve(asked())
        await settle()
    assert len(offers.ends.open) == 50
    assert len(dials) - 2 * dials.count("given up") <= 50
    for end in list(offers.ends.open):
        end.reset("reset", "gone")
    await asyncio.wait(host.tasks)
    assert dials.count("given up") == len(dials) / 2
    assert not offers.ends.open


async def test_no_more_are_dialled_than_a_node_has_ends(
    dials: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.forwards.local_end.MOST", 2)
    host, _ = offering("till.shop:80")
    found = [host.serve(asked(via=region)) for region in ("north", "south", "east", "west")]
    await settle()
    assert [isinstance(each, str) for each in found] == [False, False, True, True]
    assert dials == ["dials till.shop 80"] * 2
    for task in host.tasks:
        task.cancel()


async def test_a_neighbour_that_asks_for_all_is_refused_before_the_others(
    dials: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.forwards.local_end.MOST", 4)
    host, offers = offering("till.shop:80")
    assert [isinstance(host.serve(asked(via="north")), str) for _ in range(3)] == [False, False, True]
    assert not isinstance(host.serve(asked(via="south")), str)
    assert not offers.ends.why_none(), "somebody here still has room"
    for task in host.tasks:
        task.cancel()


async def test_so_many_files_are_copied_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COPIES", 4)
    host = Host()
    site = Site(name="york", data=tmp_path, folders=(Folder(name="files", path=tmp_path, read=("hq",)),))
    offers = Forwards(cast("Any", host), cast("Any", host), site)
    found = [host.serve(asked("files", via=via)) for via in ("north", "north", "north", "south")]
    assert [isinstance(each, str) for each in found] == [False, False, True, False]
    assert found[2] == "york copies 2 files: none more now"
    await settle()
    for task in host.tasks:
        task.cancel()
    await asyncio.gather(*host.tasks, return_exceptions=True)
    assert not isinstance(host.serve(asked("files", via="north")), str), "their places are free again"
    host.tasks[-1].cancel()
    await asyncio.gather(*host.tasks, return_exceptions=True)
    offers.close()


async def test_one_node_has_so_many_files_copied_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OF_ONE", 2)
    host = Host()
    site = Site(name="york", data=tmp_path, folders=(Folder(name="files", path=tmp_path, read=("*",)),))
    offers = Forwards(cast("Any", host), cast("Any", host), site)
    found = [host.serve(asked("files", origin)) for origin in ("shop-1", "shop-1", "shop-1", "shop-2")]
    assert [isinstance(each, str) for each in found] == [False, False, True, False]
    assert found[2] == "york copies 2 files of shop-1: none more of it now"
    await settle()
    for task in host.tasks:
        task.cancel()
    await asyncio.gather(*host.tasks, return_exceptions=True)
    assert not isinstance(host.serve(asked("files", "shop-1")), str), "their places are free again"
    host.tasks[-1].cancel()
    await asyncio.gather(*host.tasks, return_exceptions=True)
    offers.close()


async def test_a_node_without_descriptors_ends_the_channel_and_keeps_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host()
    site = Site(name="york", data=tmp_path, folders=(Folder(name="files", path=tmp_path, read=("hq",)),))
    offers = Forwards(cast("Any", host), cast("Any", host), site)

    def none_left() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(module.socket, "socketpair", none_left)
    for _ in range(2 * module.MOST_OF_ONE):
        assert not isinstance(host.serve(asked("files")), str)
        await asyncio.wait(host.tasks)
    assert set(host.told) == {("broken", "busy", "york cannot copy files now: Too many open files")}
    assert not offers.ends.open
    offers.close()


async def test_a_node_that_stops_begins_no_work_on_files_that_waits(tmp_path: Path) -> None:
    host = Host()
    site = Site(name="york", data=tmp_path, folders=(Folder(name="files", path=tmp_path, read=("hq",)),))
    offers = Forwards(cast("Any", host), cast("Any", host), site)
    threads, goes_on = offers._threads, threading.Event()
    assert threads is not None
    busy = [threads.submit(goes_on.wait) for _ in range(2)]
    while not all(each.running() for each in busy):
        await asyncio.sleep(0.01)
    waiting = [threads.submit(goes_on.wait) for _ in range(3)]
    closing = asyncio.create_task(asyncio.to_thread(offers.close))
    try:
        async with asyncio.timeout(60):
            while not all(each.cancelled() for each in waiting):
                await asyncio.sleep(0.01)
    finally:
        goes_on.set()
        await closing


async def test_what_the_file_does_not_name_or_not_for_them_is_never_dialled(dials: list[str]) -> None:
    host, _ = offering("till.shop:80", "region-*", "hq")
    for name, origin in (("ssh", "hq"), ("TILL", "hq"), ("till", "region"), ("till", "hq2"), ("till", "xhq")):
        assert host.serve(asked(name, origin)).startswith("PERMIT: york ")
    assert not dials
    assert not isinstance(host.serve(asked("till", "region-7")), str)
    host.tasks[0].cancel()


async def test_a_service_that_does_not_answer_is_given_up(
    dials: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECT", 0.0)
    host, offers = offering("till.shop:80")
    host.serve(asked())
    await asyncio.wait(host.tasks)
    assert host.told == [
        ("broken", "unreachable", "york does not reach till at till.shop:80: no answer within 0 s")
    ]
    assert not offers.ends.open


async def test_a_host_that_no_resolver_takes_ends_the_channel_at_once() -> None:
    host, offers = offering("till..shop:80")
    host.serve(asked())
    await asyncio.wait(host.tasks)
    ((op, reason, text),) = host.told
    assert (op, reason) == ("broken", "unreachable")
    assert "york does not reach till at till..shop:80: " in text
    assert not offers.ends.open


async def test_a_flood_of_other_names_does_not_fill_the_log_nor_hide_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "sapwood.channel")
    log = ChannelLog()
    for number in range(5 * MOST):
        log("refused", asked(f"till-{number}", f"liar-{number}", "liar"))
    assert len(caplog.messages) == MOST + 1
    assert caplog.messages[-1].startswith(f"! {MOST} lines on channels of liar: no more for ")
    for _ in range(3):
        log("open", asked())
    assert caplog.messages[MOST + 1 :] == ["+ channel from hq to till@york is open"]
    later = asyncio.get_running_loop().time() + AGAIN
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: later)
    log("refused", asked("till-0", "liar-0", "liar"))
    assert caplog.messages[-1] == "! channel from liar-0 to till-0@york is refused"
    monkeypatch.undo()
    assert repr(log) == "<ChannelLog of 1 neighbours>"


async def test_files_that_are_copied_are_in_the_trail_and_fill_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host()
    offers = Forwards(cast("Any", host), cast("Any", host), Site(name="york", data=tmp_path))
    with caplog.at_level(logging.INFO):
        for number in range(500):
            offers.trail.add("hq", "", "hq", "file fetched", {"path": f"till-{number}.log"})
    assert not caplog.text
    assert len(list(offers.trail.latest())) == 500
    offers.close()


@asynccontextmanager
async def copying(node: Node, folder: Folder) -> AsyncIterator[Talk]:
    node.report.access.forwards.configure((), (folder,))
    url = f"http://127.0.0.1:{node.port}/channel/hq/files"
    async with asyncio.timeout(60), aiohttp.ClientSession() as http, http.ws_connect(url) as opened:
        pipe = WebSocketPipe(opened)
        assert await pipe.hear() == OPEN
        yield Talk(pipe)


async def test_a_folder_is_as_the_file_has_it_when_something_is_asked_of_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "old").write_bytes(b"old")
    both = Folder(name="files", path=shared, read=("hq",), write=("hq",))
    node = Node(
        Site(name="hq", data=tmp_path, listener=Listener(port=0), advisory_log=AdvisoryLog(enabled=False))
    )
    await node.start()
    forwards = node.report.access.forwards
    async with copying(node, both) as talk:
        forwards.configure((), (replace(both, write=("york",)),))
        await talk.say(Put("new", 3))
        with pytest.raises(FileFault, match="not write files of files"):
            await talk.hear(Have)
    async with copying(node, both) as talk:
        forwards.configure((), (replace(both, max_file=2),))
        await talk.say(Put("new", 3))
        with pytest.raises(FileFault, match="files of 2 at most"):
            await talk.hear(Have)
    async with copying(node, both) as talk:
        await talk.say(Put("new", 3))
        await talk.hear(Have)
        forwards.configure((), (replace(both, write=()),))
        with pytest.raises(PipeBroken):
            await talk.hear(Done)
    assert [each.name for each in shared.iterdir() if not each.name.startswith(".")] == ["old"]
    await node.stop()
