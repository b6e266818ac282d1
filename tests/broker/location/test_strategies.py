"""Which way comes first, and when a link goes back to a better one."""

import asyncio
import gc
import random
import socket
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
import uvloop

from bridges.dns.errors import LocationError
from broker.location import strategies
from broker.location.strategies import InOrder, LeastLatency, LoadShared, Random, Way, reach, strategy_of
from config.errors import ConfigurationError
from config.model import Site, TreeConnector
from config.rules import check
from config.strategies import WORDS

LAN, LTE, VPN = (Way("ws://hq:1/link", local=f"10.0.0.{number}", place=number) for number in range(3))
ALL = [LAN, LTE, VPN]


class Lines:
    """How long a connection takes over each way; a way that is not there is down."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = seconds

    async def __call__(self, way: Way) -> float | None:
        names = {LAN: "lan", LTE: "lte", VPN: "vpn"}
        return self.seconds.get(names[way])


class Backwards(InOrder):
    """The last of the file first; as a package could have it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    async def order(self, ways: list[Way]) -> list[Way]:
        return ways[::-1]


def test_a_strategy_that_is_installed_is_one_more_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ConfigurationError, match="no strategy 'backwards' is installed: expected one of in-order"
    ):
        check(site("backwards"))
    about = tmp_path / "backwards-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: backwards\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[sapwood.address_strategies]\nbackwards = backwards:Backwards\nbroken = backwards:Nothing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "backwards", sys.modules[__name__])
    made = strategy_of(check(site("backwards")).tree_connectors[0].strategy, "york")
    assert isinstance(made, Backwards)
    assert made.name == "york"
    with pytest.raises(LocationError, match="the installed strategy 'broken' cannot be made: AttributeError"):
        strategy_of("broken", "york")


def test_the_words_of_the_file_are_known_without_a_look_at_what_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That takes 20 ms: longer than all else that a site's file costs at a start."""

    def refuse(**_asked: str) -> NoReturn:
        raise AssertionError("looked")

    monkeypatch.setattr("importlib.metadata.entry_points", refuse)
    for word in WORDS:
        assert check(site(word)).tree_connectors[0].strategy == word
    with pytest.raises(AssertionError, match="looked"):
        check(site("backwards"))


def site(strategy: str) -> Site:
    way = TreeConnector(nodetype="leaf", uri="ws://hq.example.com", strategy=strategy)
    return Site(name="york", tree_connectors=(way,))


async def test_in_order_the_first_that_works_is_better_than_those_behind_it() -> None:
    assert await InOrder(Lines()).order(ALL) == ALL
    assert await InOrder(Lines(lan=1.0, lte=1.0)).better(VPN, ALL) == LAN
    assert await InOrder(Lines(lte=1.0, vpn=1.0)).better(VPN, ALL) == LTE
    assert await InOrder(Lines(vpn=1.0)).better(VPN, ALL) is None
    assert await InOrder(Lines(lan=9.0, lte=0.1)).better(LAN, ALL) is None


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_look_that_ends_before_the_name_is_found_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Resolvers may take longer than a look does; what they say then is nobody's any more."""
    monkeypatch.setattr(strategies, "PROBE_TIMEOUT", 0.0)
    said: list[object] = []

    async def look() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        assert await reach(Way("ws://nowhere.invalid:1/link")) is None
        with pytest.raises(OSError, match=r"."):
            await asyncio.get_running_loop().getaddrinfo("nowhere.invalid", 1)
        await asyncio.sleep(0)
        gc.collect()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(look())
    assert said == []


async def test_ways_that_dns_names_together_are_equal() -> None:
    one, other = (Way(f"ws://hq-{number}:1/link", place=1) for number in range(2))

    async def all_work(_way: Way) -> float:
        return 0.1

    assert await InOrder(all_work).better(one, [one, other]) is None


async def test_at_random_all_come_and_none_is_better() -> None:
    strategy = Random(random.Random(1))
    orders = {tuple(await strategy.order(ALL)) for _ in range(200)}
    assert len(orders) == 6
    assert await strategy.better(VPN, ALL) is None


async def test_the_fastest_comes_first_and_what_is_down_comes_last() -> None:
    strategy = LeastLatency(Lines(lan=0.2, vpn=0.1))
    assert await strategy.order(ALL) == [VPN, LAN, LTE]
    assert await strategy.better(LAN, ALL) == VPN


@pytest.mark.parametrize(
    ("lan", "lte", "goes"), [(0.1, 0.07, True), (0.1, 0.09, False), (0.001, 0.0001, False)]
)
async def test_what_is_about_as_fast_is_not_worth_a_new_link(lan: float, lte: float, goes: bool) -> None:
    assert (await LeastLatency(Lines(lan=lan, lte=lte)).better(LAN, ALL) == LTE) is goes


async def test_load_is_shared_by_the_nodes_names_and_each_stays_where_it_is() -> None:
    first = Counter[Way]()
    for number in range(600):
        order = await LoadShared(f"store-{number}").order(ALL)
        assert sorted(order, key=ALL.index) == ALL
        assert await LoadShared(f"store-{number}").order(ALL[::-1]) == order
        first[order[0]] += 1
    assert all(150 < count < 250 for count in first.values())


async def test_a_shared_load_goes_back_to_the_nodes_own_way() -> None:
    strategy = LoadShared("york", Lines(lan=1.0, lte=1.0, vpn=1.0))
    order = await strategy.order(ALL)
    assert await strategy.better(order[2], ALL) == order[0]
    assert await strategy.better(order[0], ALL) is None


def test_every_word_of_the_file_has_a_strategy() -> None:
    kinds = {"in-order": InOrder, "random": Random, "least-latency": LeastLatency, "load-shared": LoadShared}
    assert {word: type(strategy_of(word, "york")) for word in kinds} == kinds


async def test_reaching_binds_the_local_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert await reach(Way(f"ws://127.0.0.1:{port}/link", local="127.0.0.9")) is not None
        connection, caller = server.accept()
        connection.close()
        assert caller[0] == "127.0.0.9"
        assert await reach(Way(f"ws://127.0.0.1:{port}/link", local="192.0.2.1")) is None
    assert await reach(Way(f"ws://127.0.0.1:{port}/link")) is None


async def test_a_line_that_takes_connections_and_drops_them_leads_nowhere() -> None:
    def drop(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(drop, "127.0.0.1", 0)
    async with server:
        assert await reach(Way(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/link")) is None


def test_a_way_says_which_line_it_takes() -> None:
    assert str(LTE) == "ws://hq:1/link from 10.0.0.1"
    assert str(Way("ws://hq:1/link")) == "ws://hq:1/link"
