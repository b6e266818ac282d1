"""Control frames that wait for peers: a bound for each link, and one for all of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker import link_driver
from broker.buffers import Buffers
from broker.link_driver import DrivenLink, LinkDriver
from broker.shares import LoopShare, Shares
from sapwood.protocol.errors import Refusal
from simulation.forest import LINKS, Forest
from simulation.site import Site
from treeconnector.link import Link, LinkSettings


@pytest.fixture
def hq() -> Site:
    return two_children(LINKS)


def two_children(links: LinkSettings) -> Site:
    """A node with two children that read nothing from now on."""
    forest = Forest(links=links)
    hq = forest.add("hq")
    for name in ("york", "leeds"):
        forest.add(name, "hq")
    forest.dial_all()
    forest.settle(1.0)
    return hq


class Driver:
    """The driver of a core whose carriers have no room."""

    def __init__(self, site: Site) -> None:
        self.tasks: list[Any] = []
        node: Any = SimpleNamespace(core=site.core, spawn=self.tasks.append, site=site)
        node.wake, node.look_at = lambda: None, lambda deadline: None
        self.node, node.buffers = node, Buffers()
        self.driver = LinkDriver(node)
        carrier: Any = SimpleNamespace(room=0, proven=lambda: None, drain=self.never)
        share = LoopShare(Shares(), lambda: None)
        self.wires = {
            name: DrivenLink(self.link(site, name), carrier, share, node) for name in ("york", "leeds")
        }
        self.driver._wires = {wire.link: wire for wire in self.wires.values()}

    def link(self, site: Site, name: str) -> Link:
        found = site.core.neighbours[name].link
        assert found is not None
        return found

    async def never(self) -> None:
        raise AssertionError

    def say(self, name: str, size: int) -> None:
        """Frames of that size together, and the driver looks at the line."""
        link = self.wires[name].link
        before = link.control_bytes
        number = 0
        while link.control_bytes < before + size:
            number += 1
            link.say.hold(f"queue:{number:0200d}")
        self.driver._pull(self.wires[name])

    def end(self) -> None:
        for task in self.tasks:
            task.close()


def test_a_child_that_leaves_too_many_control_frames_unread_is_linked_no_more(
    hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert link_driver.MOST_UNREAD == 64 * 1024 * 1024
    monkeypatch.setattr(link_driver, "MOST_UNREAD", 100_000)
    driver = Driver(hq)
    driver.say("york", 90_000)
    assert hq.core.neighbours["york"].up
    driver.say("york", 20_000)
    assert not hq.core.neighbours["york"].up
    assert driver.wires["york"].link.refusal is Refusal.PROTOCOL
    assert hq.core.neighbours["leeds"].up
    driver.end()


def test_of_all_children_together_the_one_with_most_unread_is_linked_no_more(hq: Site) -> None:
    driver = Driver(hq)
    driver.node.buffers = Buffers(200_000)
    driver.say("york", 120_000)
    assert hq.core.neighbours["york"].up
    driver.say("leeds", 90_000)
    assert not hq.core.neighbours["york"].up
    assert hq.core.neighbours["leeds"].up
    driver.say("leeds", 80_000)
    assert hq.core.neighbours["leeds"].up
    driver.end()


async def test_packets_of_streams_grow_on_a_line_that_takes_them_and_shrink_on_one_that_is_slow() -> None:
    driver = Driver(two_children(LinkSettings(max_frame=1024 * 1024)))
    wire = driver.wires["york"]
    taken: list[int] = []

    class Line:
        """Takes packets of `most` bytes at once, and others `soon` or not."""

        room, most, is_idle, soon, least = 1, 10**9, True, False, 10**9

        @property
        def takes(self) -> int:
            return self.least if self.is_idle else 0

        def send_in_parts(self, parts: list[bytes]) -> None:
            taken.append(sum(map(len, parts)))
            self.is_idle = taken[-1] <= self.most

        async def until_idle(self) -> bool:
            was_idle, self.is_idle = self.is_idle, True
            return was_idle or self.soon

        def proven(self) -> None:
            pass

    line: Any = Line()
    wire.carrier = line
    streams = wire.link.streams
    number = streams.begin()
    streams.open[number].credit = 10**9
    wire.link.say.send_stream(number, bytes(8_000_000))

    async def sent(turns: int) -> list[int]:
        taken.clear()
        for _ in range(turns):
            wire.draining = None
            driver.driver._pull(wire)
            await driver.tasks.pop()
            driver.end()
            driver.tasks.clear()
        return [round(size / 1024) for size in taken]

    assert (await sent(1))[:6] == [16, 32, 64, 128, 256, 480]
    line.most, line.soon = 1000, True
    assert set(await sent(3)) == {480}, "a line that takes them soon is a quick one"
    line.soon = False
    assert (await sent(5))[-4:] == [8, 4, 4, 4]
    line.most, line.least = 10**9, 2048
    assert set(await sent(1)) == {2}, "a packet is no larger than what would not queue on the way"


def test_a_peer_s_window_is_no_wider_than_our_own(hq: Site) -> None:
    forest = hq.world
    assert isinstance(forest, Forest)
    wide = LinkSettings(window_bundles=1 << 40, window_bytes=1 << 50)
    forest.add("bath", "hq", links=wide)
    forest.add("mesh", "hq", links=LinkSettings(window_bundles=2, window_bytes=4096))
    forest.dial_all()
    forest.settle(1.0)
    bath, narrow = hq.core.neighbours["bath"], hq.core.neighbours["mesh"]
    assert (bath.window_bundles, bath.window_bytes) == (
        forest.links.window_bundles,
        forest.links.window_bytes,
    )
    assert (narrow.window_bundles, narrow.window_bytes) == (2, 4096)
