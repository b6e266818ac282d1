"""What is remembered of DNS, what is left out, and when it is asked again. Times are literal."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bridges.dns.errors import LocationError
from bridges.dns.lookup import LookupResult
from bridges.dns.records import NamedParent
from broker.location.finder import Finder, ParentWanted
from broker.location.strategies import InOrder, Way
from broker.location.ways import Ways

NORTH = NamedParent("wss://north:7600/link", 10, 5, "acme", "north")
SOUTH = NamedParent("ws://south:7600/link", 20, 5, "acme", "south")
LAPSING = NamedParent("wss://west:7600/link", 1, 5, "acme", "west", "0f", "1", 100.0)
Said = LookupResult | LocationError


class Dns:
    """Gives these answers, one after the other, the last one for ever."""

    def __init__(self, *answers: Said) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.now = 1000.0

    async def __call__(self, domain: str, *, servers: Sequence[str], timeout: float) -> LookupResult:
        assert domain == "uk.example.com"
        self.asked += 1
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(said, LocationError):
            raise said
        return said

    def finder(self, *, secure: bool = False) -> Finder:
        wanted = ParentWanted("acme", secure=secure)
        return Finder(
            "srv://uk.example.com", wanted, look_up=self, clock=lambda: self.now, chance=random.Random(1)
        )


def answer(*places: NamedParent, ttl: float = 60.0) -> LookupResult:
    return LookupResult(places, ttl)


AWAY = LocationError("DNS is away")


async def test_the_last_good_answer_counts_while_dns_is_away() -> None:
    finder = Dns(answer(NORTH), AWAY).finder()
    assert await finder.look()
    assert not await finder.look()
    assert (finder.ways(), finder.error, finder.failures) == ([NORTH.uri], "DNS is away", 1)
    assert finder.status()["next_s"] == 5.0


async def test_without_any_answer_the_error_is_raised() -> None:
    finder = Dns(AWAY).finder()
    with pytest.raises(LocationError, match="away"):
        await finder.look()


async def test_another_tree_is_left_out_and_said() -> None:
    other = NamedParent("wss://x:7600/link", tree="other")
    finder = Dns(answer(NORTH, other)).finder()
    await finder.look()
    assert finder.ways() == [NORTH.uri]
    (note,) = finder.notes
    assert "it is of tree 'other', we are of 'acme'" in note


async def test_dns_cannot_take_tls_away() -> None:
    finder = Dns(answer(NORTH, SOUTH)).finder(secure=True)
    await finder.look()
    assert finder.ways() == [NORTH.uri]
    only = Dns(answer(SOUTH)).finder(secure=True)
    with pytest.raises(LocationError, match="without TLS"):
        await only.look()


async def test_a_lapsed_way_is_left_out_while_there_are_others() -> None:
    dns = Dns(answer(LAPSING, NORTH), answer(LAPSING, NORTH), answer(LAPSING))
    finder = dns.finder()
    await finder.look()
    assert finder.ways() == [LAPSING.uri, NORTH.uri]
    dns.now += 126
    await finder.look()
    assert finder.ways() == [NORTH.uri]
    assert [way["lapsed"] for way in finder.status()["ways"]] == [True, False]
    assert finder.names(LAPSING.uri)
    await finder.look()
    assert finder.ways() == [LAPSING.uri], "a zone that takes no updates must not cut a tree"


async def test_a_link_is_left_after_dns_has_twice_named_others() -> None:
    dns = Dns(answer(NORTH), answer(SOUTH), answer(NORTH), AWAY, answer(SOUTH), answer(SOUTH))
    finder = dns.finder()
    ways = Ways(("srv://uk.example.com",), {"srv://uk.example.com": finder})
    way = await ways.next()
    assert way == Way(NORTH.uri, finder)
    dns.now += 1e6  # every TTL has ended

    async def always_due() -> bool:
        return False

    finder.due = always_due  # type: ignore[method-assign]  # no waiting: the answers are what is tested
    assert "names wss://north:7600/link no more" in await ways.moved(way)
    assert dns.asked == 6


async def test_on_request_once_is_enough() -> None:
    dns = Dns(answer(NORTH), answer(SOUTH))
    finder = dns.finder()
    ways = Ways(("srv://uk.example.com",), {"srv://uk.example.com": finder})
    way = await ways.next()
    finder.ask()
    await ways.moved(way)
    assert dns.asked == 2


@pytest.mark.parametrize(("asked", "looks"), [(False, 2), (True, 1)])
async def test_dns_stays_asked_while_the_link_goes_over_a_way_that_the_parent_has_announced(
    asked: bool, looks: int
) -> None:
    """DNS was away, or named what nobody had made yet: the link stayed where it was for good."""
    dns, uri, reached = Dns(AWAY, AWAY, answer(NORTH)), "srv://uk.example.com", []
    finder = dns.finder()

    async def due() -> bool:
        await asyncio.sleep(0)
        return asked

    async def reach(way: Way) -> float | None:
        reached.append(way.uri)
        return 0.1

    async def sleep(_: float) -> None:
        while asked or dns.asked < 3:  # on request nothing is waited for
            await asyncio.sleep(0)

    finder.due = due  # type: ignore[method-assign]  # no waiting: the answers are what is tested
    ways = Ways((uri,), {uri: finder}, strategy=InOrder(reach), go_back=60.0, sleep=sleep)
    ways.announced = lambda: {SOUTH.uri: "south"}
    with pytest.raises(LocationError):
        await finder.look()
    announced = Way(SOUTH.uri, name="south", place=1)
    async with asyncio.timeout(30):
        assert f"{NORTH.uri} is better than {SOUTH.uri}" in await ways.moved(announced)
    assert reached == [NORTH.uri] * looks


async def test_a_link_goes_back_to_what_dns_gives_the_better_priority() -> None:
    """A store stayed on its region's second address, however costly, until the link was lost."""
    dns, uri, slept, reached = Dns(answer(SOUTH, NORTH)), "srv://uk.example.com", [], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def reach(way: Way) -> float | None:
        reached.append(str(way))
        return 0.1 if len(reached) != 2 else None

    lines = ("10.0.0.1", "10.0.0.2")
    ways = Ways((uri,), {uri: dns.finder()}, lines=lines, strategy=InOrder(reach), go_back=60.0, sleep=sleep)
    pairs = [await ways.next() for _ in range(4)]
    assert [str(pair).partition(" from ") for pair in pairs] == [
        (each.uri, " from ", line) for each in (NORTH, SOUTH) for line in lines
    ]
    assert ways.follows(pairs[2])
    async with asyncio.timeout(30):
        assert f"{NORTH.uri} from 10.0.0.2 is better than {SOUTH.uri}" in await ways.moved(pairs[2])
    assert (slept, reached) == ([60.0] * 2, [str(pairs[0]), str(pairs[0]), str(pairs[1])])


async def test_a_way_that_dns_has_given_the_best_priority_is_left_for_no_other() -> None:
    dns, uri = Dns(answer(SOUTH, NORTH), answer(NORTH, replace(SOUTH, priority=5))), "srv://uk.example.com"
    finder = dns.finder()
    ways = Ways((uri,), {uri: finder}, strategy=InOrder(nobody_looks), go_back=60.0)
    _, south = [await ways.next() for _ in range(2)]
    await finder.look()
    assert await ways._better(south) is None


async def nobody_looks(way: Way) -> float | None:
    raise AssertionError(way)


async def test_dns_is_not_asked_for_ways_behind_the_one_that_is_used() -> None:
    dns, uri = Dns(answer(NORTH)), "srv://uk.example.com"
    assert Ways((SOUTH.uri, uri), {uri: dns.finder()}, go_back=60.0)._of_better_ways(Way(SOUTH.uri)) == []


async def test_it_is_due_when_the_ttl_has_ended() -> None:
    dns = Dns(answer(NORTH))
    finder = dns.finder()
    await finder.look()
    dns.now += 60.0
    assert await finder.due() is False


async def test_ways_of_the_file_and_of_dns_take_turns_in_order() -> None:
    dns = Dns(AWAY, answer(SOUTH, NORTH), AWAY)
    uri = "srv://uk.example.com"
    ways = Ways(("ws://first:1/link", uri, "ws://last:1/link"), {uri: dns.finder()})
    found = [(await ways.next()).uri for _ in range(8)]
    assert found == [
        *("ws://first:1/link", "ws://last:1/link"),
        *("ws://first:1/link", NORTH.uri, SOUTH.uri, "ws://last:1/link"),
        *("ws://first:1/link", NORTH.uri),
    ]
    ways.restart()
    assert (await ways.next()).uri == "ws://first:1/link"


async def test_where_only_dns_is_left_its_error_is_raised_and_the_next_call_asks_again() -> None:
    dns = Dns(AWAY, AWAY, answer(NORTH))
    uri = "srv://uk.example.com"
    ways = Ways((uri,), {uri: dns.finder()})
    for _ in range(2):
        with pytest.raises(LocationError, match="away"):
            await ways.next()
    assert (await ways.next()).uri == NORTH.uri
    assert dns.asked == 3


def test_their_reprs_show_how_it_stands() -> None:
    finder = Dns(AWAY).finder()
    assert repr(finder) == "<Finder uk.example.com places=0 lookups=0 failures=0>"
    assert repr(Ways(("srv://a",), {})) == "<Ways srv://a left=0 found=0>"
