"""Pairs of lines and addresses, one after the other; and leaving a way that works for a better one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bridges.dns.lookup import LookupResult
from bridges.dns.records import NamedParent
from broker.location.finder import Finder, ParentWanted
from broker.location.strategies import InOrder, LoadShared, Way
from broker.location.ways import Ways, finders_of
from config.model import ClientTls, Site, TreeConnector
from config.uris import LAN

A, B = "ws://a:1/link", "ws://b:1/link"


class Time:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


class Reachable:
    """The ways that work, look by look; the last look's stay."""

    def __init__(self, *looks: set[str]) -> None:
        self.looks = list(looks)

    async def __call__(self, way: Way) -> float | None:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return 0.1 if str(way) in look else None


async def test_each_address_is_tried_over_each_line() -> None:
    ways = Ways((A, B), {}, lines=("10.0.0.1", "10.0.0.2"))
    assert [str(await ways.next()) for _ in range(5)] == [
        f"{A} from 10.0.0.1",
        f"{A} from 10.0.0.2",
        f"{B} from 10.0.0.1",
        f"{B} from 10.0.0.2",
        f"{A} from 10.0.0.1",
    ]
    ways.restart()
    assert await ways.next() == Way(A, local="10.0.0.1", place=0)


async def test_what_is_announced_comes_after_all_of_the_file_and_for_one_name_only() -> None:
    ways = Ways((A,), {}, lines=("10.0.0.1", "10.0.0.2"), go_back=60.0)
    told: dict[str, str] = {}
    ways.announced = lambda: told
    assert not Ways((A,), {}, go_back=60.0).follows(Way(A))
    told |= {A: "hq", B: "hq"}
    assert ways.follows(Way(A))
    assert [(str(way), way.place, way.name) for way in [await ways.next() for _ in range(5)]] == [
        (f"{A} from 10.0.0.1", 0, ""),
        (f"{A} from 10.0.0.2", 1, ""),
        (f"{B} from 10.0.0.1", 2, "hq"),
        (f"{B} from 10.0.0.2", 3, "hq"),
        (f"{A} from 10.0.0.1", 0, ""),
    ]


async def test_a_strategy_orders_all_of_them() -> None:
    ways = Ways((A, B), {}, lines=("10.0.0.1", "10.0.0.2"), strategy=LoadShared("york"))
    one_round = [await ways.next() for _ in range(4)]
    assert {each.place for each in one_round} == {0, 1, 2, 3}
    assert [await ways.next() for _ in range(4)] == one_round


def test_a_link_leaves_a_way_that_works_only_where_there_is_another() -> None:
    assert Ways((A, B), {}, go_back=60.0).follows(Way(A))
    assert Ways((A,), {}, lines=("10.0.0.1", "10.0.0.2"), go_back=60.0).follows(Way(A))
    assert not Ways((A, B), {}, go_back=0.0).follows(Way(A))
    assert not Ways((A,), {}, go_back=60.0).follows(Way(A))


async def test_it_goes_back_once_a_better_way_was_reachable_twice_in_a_row() -> None:
    time = Time()
    reachable = Reachable(set(), {A}, set(), {A}, {A})
    ways = Ways((A, B), {}, strategy=InOrder(reachable), go_back=60.0, sleep=time.sleep, clock=time)
    assert await ways.moved(Way(B, place=1)) == f"{A} is better than {B}, and can be reached"
    assert time.slept == [60.0] * 5


async def test_where_addresses_lead_to_several_parents_only_another_line_is_better() -> None:
    time, looks = Time(), Reachable({f"{A} from 10.0.0.1"}, {f"{B} from 10.0.0.1"})
    lines = ("10.0.0.1", "10.0.0.2")
    ways = Ways((A, B), {}, lines=lines, strategy=InOrder(looks), go_back=60.0, sleep=time.sleep, clock=time)
    ways.one_of_many = lambda: True
    said = await ways.moved(Way(B, local="10.0.0.2", place=3))
    assert said == f"{B} from 10.0.0.1 is better than {B} from 10.0.0.2, and can be reached"
    assert time.slept == [60.0] * 3


async def test_going_back_that_does_not_last_is_tried_less_often() -> None:
    time = Time()
    ways = Ways((A, B), {}, strategy=InOrder(Reachable({A})), go_back=60.0, sleep=time.sleep, clock=time)
    pauses = []
    for _ in range(7):
        await ways.moved(Way(B, place=1))
        pauses.append(time.slept[-1])
    assert pauses == [60.0, 120.0, 240.0, 480.0, 960.0, 960.0, 960.0]
    time.now += 86_400
    await ways.moved(Way(B, place=1))
    assert time.slept[-1] == 60.0


async def test_what_cannot_be_reached_is_waited_for() -> None:
    looks = 0

    class Enough(Exception):
        """The test has seen enough."""

    async def sleep(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks > 50:
            raise Enough

    ways = Ways((A, B), {}, strategy=InOrder(Reachable(set())), go_back=1.0, sleep=sleep)
    with pytest.raises(Enough):
        await ways.moved(Way(B, place=1))


async def test_the_same_network_is_asked_behind_all_that_the_file_says() -> None:
    site = Site(name="york", tree="acme")
    connector = TreeConnector(nodetype="leaf", uri="ws://hq", discover="lan", secret_env="S")
    assert connector.ways == ("ws://hq", "srv://local")
    finders = finders_of(site, connector)
    assert list(finders) == ["srv://local"]


async def test_the_same_network_is_asked_once_where_the_file_says_it_twice() -> None:
    connector = TreeConnector(nodetype="leaf", uri="srv://local", discover="lan", secret_env="S")
    assert connector.ways == ("srv://local",)


class Together(InOrder):
    """Wants all ways at once, and finds that whoever answered by multicast is quicker than any other."""

    lazy = False

    async def better(self, present: Way, ways: Iterable[Way]) -> Way | None:
        return next((each for each in ways if "evil" in each.uri), None)


def with_lan(*uris: str, **more: Any) -> tuple[Ways, list[str]]:
    """Ways in which somebody answers to each question on the network; and the questions."""
    asked: list[str] = []

    async def look_up(domain: str, *, servers: Sequence[str], timeout: float) -> LookupResult:
        asked.append(domain)
        return LookupResult((NamedParent("ws://evil:1/link", tree="acme"),), 0.0, ())

    finder = Finder(LAN, ParentWanted(tree="acme"), look_up=look_up)
    return Ways((*uris, LAN), {LAN: finder}, strategy=Together(), **more), asked


async def test_the_same_network_is_asked_when_all_others_have_failed_whatever_the_strategy() -> None:
    ways, asked = with_lan(A, B)
    assert [(await ways.next()).uri for _ in range(2)] == [A, B]
    assert not asked
    assert (await ways.next()).uri == "ws://evil:1/link"
    assert [(await ways.next()).uri for _ in range(2)] == [A, B]
    assert len(asked) == 1
    ways.restart()
    assert (await ways.next()).uri == A


async def test_where_nothing_else_is_known_the_same_network_is_asked_at_once() -> None:
    ways, asked = with_lan()
    assert [(await ways.next()).uri for _ in range(2)] == ["ws://evil:1/link"] * 2
    assert len(asked) == 2


async def test_whoever_answers_on_the_same_network_moves_no_link() -> None:
    class Enough(Exception):
        """The test has seen enough."""

    slept = 0

    async def sleep(_seconds: float) -> None:
        nonlocal slept
        slept += 1
        if slept > 20:
            raise Enough

    ways, asked = with_lan(A, B, go_back=1.0, sleep=sleep)
    assert not with_lan()[0].follows(Way("ws://hq:1/link", ways.finders[LAN]))
    for way in (Way(A), Way("ws://hq:1/link", ways.finders[LAN], place=2)):
        slept = 0
        with pytest.raises(Enough):
            await ways.moved(way)
    assert not asked


def test_a_way_with_tls_in_the_file_lets_nobody_take_tls_away() -> None:
    site = Site(name="york", tree="acme")
    connector = TreeConnector(nodetype="leaf", uri="wss://hq", discover="lan", secret_env="S")
    assert finders_of(site, connector)[LAN]._wanted.secure
    connector = TreeConnector(nodetype="leaf", uri="ws://hq", discover="lan", secret_env="S")
    assert not finders_of(site, connector)[LAN]._wanted.secure
    connector = replace(connector, uri=LAN, tls=ClientTls(ca=Path("tree.pem")))
    assert finders_of(site, connector)[LAN]._wanted.secure
