"""The picture, at every width."""

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from broker.cli.top.look import Look, look
from broker.cli.top.view import frame, keys_line


def found(links: int = 30, queues: int = 30, **status: Any) -> Look:
    children = [
        {"name": f"store-{n:04}", "relation": "child", "state": "running", "since_s": 61.0, "in": n, "out": n}
        for n in range(links)
    ]
    if children:
        children[0] |= {"state": "blocked", "error": "12 bundles wait for an acknowledgement", "waiting": 7}
    listed = [
        {"name": f"queue:{'long-' * 8}{n}", "messages": n, "oldest_s": 5.0, "bytes": 2048}
        for n in range(queues)
    ]
    said = {
        "name": "hq", "role": "root", "tree": "acme", "chain": ["hq"], "ready": True, "uptime_s": 3725,
        "sessions": 3, "children": children, "queues": listed,
        "dead": {"messages": 4, "reasons": {"EXPIRED": 4}},
        "store": {"disk_free": 2**30, "used_bytes": 2**20, "commit_s": 0.0012}, "spool": {"up": 2048},
        "rates": {"entered_per_s": 12.5, "delivered_per_s": 0.0, "in_per_s": 1234.0, "out_per_s": 0.25},
        **status,
    }  # fmt: skip
    return look(lambda path: said if path == "/api/status" else {}, now=1.0)


def drawn(what: Look, width: int, height: int | None = None, footer: str = "") -> list[str]:
    console = Console(width=width, height=height, file=StringIO(), highlight=False)
    with console.capture() as captured:
        console.print(frame(what, width, height, footer))
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [20, 30, 40, 59, 60, 80, 89, 90, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = drawn(found(), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for part in ("hq", "Link", "Queue", "blocked"[:5]):
        assert part in text


def test_a_wide_one_says_why_and_a_narrow_one_what() -> None:
    wide, narrow = "\n".join(drawn(found(), 140)), "\n".join(drawn(found(), 44))
    for part in ("12 bundles wait", "1m 1s", "2.0 KiB", "entered 12.5/s", "links in 1234/s", "4 EXPIRED"):
        assert part in wide
    assert "12 bundles wait" not in narrow
    assert "store-0000" in narrow
    assert "blocked" in narrow


@pytest.mark.parametrize("height", [24, 40, 80])
@pytest.mark.parametrize(("links", "queues"), [(500, 200), (0, 200), (500, 0), (2, 200), (500, 1)])
def test_it_fits_into_the_screen_and_says_what_is_left_out(height: int, links: int, queues: int) -> None:
    lines = drawn(found(links, queues), 100, height, keys_line(100, "messages", False, 2.0))
    assert len(lines) <= height
    shown = sum("store-" in line for line in lines)
    assert shown >= min(links, 2)
    if links > 100:
        assert f"and {links - shown} more" in "\n".join(lines)
    assert "q quit" in "\n".join(lines)


def test_children_that_the_node_did_not_list_are_counted() -> None:
    assert "and 1500 more" in "\n".join(drawn(found(5, 0, children_more=1500), 100))


def test_a_node_that_takes_nothing_says_so() -> None:
    text = "\n".join(drawn(found(0, 0, ready=False, refusing="the disk is full"), 100))
    assert "NOT READY the disk is full" in text


def test_keys_are_named_where_there_is_room() -> None:
    assert (
        keys_line(100, "rate", True, 0.5) == "q quit · s sort queues by rate · space go on · + - every 0.5 s"
    )
    assert len(keys_line(40, "messages", False, 2.0)) <= 40


def test_nodes_that_are_down_stand_in_the_place_of_the_queues() -> None:
    rows = [{"name": f"store-{n}", "via": "north", "since_s": 90.0, "at_least": n == 0} for n in range(30)]
    said = found(links=1, below={"nodes": 2200, "down": 40, "down_since_s": 90.0})
    look = replace(said, below={"below": rows, "more": 10})
    lines = drawn(look, 80, 30)
    text = "\n".join(lines)
    assert "40 of 2200 nodes below down, the longest for" in text
    assert "store-0" in text
    assert "at least" in text
    assert "Queue" not in text
    assert len(lines) <= 30
    shown = sum("store-" in line for line in lines) - 1  # the link
    assert f"and {40 - shown} more" in text
    for width in (20, 59, 60, 120):
        assert max(map(len, drawn(look, width))) <= width
