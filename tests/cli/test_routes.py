"""The commands for routes and ways against a node in this process: what they print, and what they refuse."""

from typing import Any

import pytest

from broker.cli.errors import CommandError
from broker.cli.views.deliveries import check_failed

Sapwood = Any


def test_a_route_is_set_shown_and_removed(running: Any, sapwood: Sapwood) -> None:
    said = sapwood("route", "add", "alias", "till", "checkout")
    assert said == "at hq the route alias queue:till -> queue:checkout is set\n"
    assert "alias" in sapwood("route", "show")
    assert sapwood("routes", "--kind", "alias", "--json")["routes"][0]["gateway"] == "checkout"
    with pytest.raises(CommandError, match="is there already: expected a new one"):
        sapwood("route", "add", "alias", "till", "checkout")
    assert "is removed" in sapwood("route", "remove", "alias", "till", "checkout")
    with pytest.raises(CommandError, match="there is no route alias"):
        sapwood("route", "remove", "alias", "till", "checkout")
    assert sapwood("route", "add", "dumpster", "lost", "--json")["gateway"] == "lost"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("queue", "till", "york"), "'queue' is no kind of route: expected exact, alias, default, dumpster"),
        (("alias", "till"), "expected alias ADDRESS ADDRESS, found alias till"),
        (("default", "till", "york"), "expected default NEIGHBOUR, found default till york"),
        (("default", "york"), "hq has no neighbour 'york': it has none"),
    ],
)
def test_wrong_words_are_said(running: Any, sapwood: Sapwood, words: tuple[str, ...], text: str) -> None:
    with pytest.raises(CommandError, match=text):
        sapwood("route", "add", *words)


def test_ping_traceroute_cells_and_links(running: Any, sapwood: Sapwood) -> None:
    assert sapwood("ping", "System@hq").startswith("System@hq is there: ")
    assert sapwood("ping", "lm@hq", "--json")["here"] is True
    with pytest.raises(CommandError, match=r"hq answers in .* ms, but nobody reads 'till' there"):
        sapwood("ping", "till@hq")
    with pytest.raises(CommandError, match="hq knows no way: it waits there"):
        sapwood("ping", "till")
    assert "local" in sapwood("traceroute", "till@hq")
    with pytest.raises(CommandError, match="the way to till@york ends at hq: hq knows no way"):
        sapwood("traceroute", "till@york")
    assert "RoutingMgr@hq" in sapwood("cells")
    assert sapwood("links").startswith("hq, below nobody")
    listed = sapwood("links", "--json")
    assert listed == {"node": "hq", "chain": ["hq"], "links": [], "wanted": [], "more": 0, "next": None}
    with pytest.raises(CommandError, match="hq has no link with 'york'"):
        sapwood("holds", "york")


def test_names_and_incarnations(running: Any, sapwood: Sapwood) -> None:
    own = sapwood("status", "--json")["incarnation"]
    assert sapwood("who-has", "hq").startswith(f"hq is {own}: local says so")
    assert sapwood("who-has", own, "--json")["name"] == "hq"
    with pytest.raises(CommandError, match="unknown node york: hq knows of none"):
        sapwood("who-has", "york")
    assert sapwood("addresses").startswith(f"hq is {own}; it knows 0 of at most 1000")
    assert "wss://lte.example:7600/link; until it stops" in sapwood("announce", "wss://lte.example:7600/link")
    with pytest.raises(CommandError, match="write ws://HOST:7600/link"):
        sapwood("announce", "tcp://hq:1")


def reach(node: str, readers: int | None, lines: int = 0) -> dict[str, object]:
    return {"node": node, "readers": readers, "lines": lines}


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([reach("york", 0)], "nobody would get topic:prices"),
        ([reach("york", 1)], ""),
        ([reach("york", 0), reach("uk", 0, lines=1)], ""),
        (
            [reach("york", 0), reach("uk", None)],
            "whether anybody would get topic:prices is not known: no answer of uk",
        ),
        ([reach("york", 0, lines=1), reach("uk", None)], ""),
    ],
    ids=["nobody", "a reader", "behind a child that is not named", "no answer", "a child, and no answer"],
)
def test_a_check_of_a_topic_fails_only_where_nobody_is_known_to_get_it(
    nodes: list[dict[str, Any]], said: str
) -> None:
    readers = sum(each["readers"] or 0 for each in nodes)
    assert check_failed({"topic": "topic:prices", "readers": readers, "nodes": nodes}) == said
