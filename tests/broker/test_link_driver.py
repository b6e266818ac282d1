"""Control frames that wait for peers: a bound for each link, and one for all of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker import link_driver
from broker.link_driver import DrivenLink, LinkDriver
from broker.shares import LoopShare, Shares
from broker.unread import UnreadBytes
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
    driver.driver._unread = UnreadBytes(100_000)
    driver.say("york", 60_000)
    assert hq.core.neighbours["york"].up
    driver.say("leeds", 45_000)
    assert not hq.core.neighbours["york"].up
    assert hq.core.neighbours["leeds"].up
    driver.say("leeds", 40_000)
    assert hq.core.neighbours["leeds"].up
    driver.end()


def test_packets_of_streams_grow_on_a_line_that_takes_them_and_shrink_on_one_that_does_not() -> None:
    driver = Driver(two_children(LinkSettings(max_frame=1024 * 1024)))
    wire = driver.wires["york"]
    taken: list[int] = []

    class Line:
        """Takes packets of so many bytes at once, and is idle again when the driver comes next."""

        room, most, is_idle = 1, 10**9, True

        def send(self, packets: list[bytes]) -> None:
            taken.append(sum(map(len, packets)))
            self.is_idle = taken[-1] <= self.most

        async def until_idle(self) -> None:
            raise AssertionError

        def proven(self) -> None:
            pass

    line: Any = Line()
    wire.carrier = line
    streams = wire.link.streams
    number = streams.begin()
    streams.open[number].credit = 10**9
    wire.link.say.send_stream(number, bytes(8_000_000))

    def sent(turns: int) -> list[int]:
        taken.clear()
        for _ in range(turns):
            line.is_idle, wire.draining = True, None
            driver.driver._pull(wire)
        return [round(size / 1024) for size in taken]

    assert sent(4) == [16, 32, 64, 128, 256, 256, 256, 256]
    line.most = 1000
    assert sent(5) == [256, 16, 8, 4, 4], "the first was on its way when the line became slow"
    line.most = 20_000
    assert sent(3) == [4, 8, 16, 32, 16, 32, 16, 32], (
        "a line that takes some gets what it takes, and looks for more"
    )
    driver.end()


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
