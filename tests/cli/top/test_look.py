"""What `sapwood top` makes of two answers of a node."""

from typing import Any
from urllib.parse import parse_qs

import pytest

from broker.api.queues import ORDERS
from broker.cli.errors import CommandError
from broker.cli.top.look import SORTS, Fields, look, printable, sorted_queues

LINK = {"relation": "child", "state": "running", "since_s": 9.0, "in": 0, "out": 0, "waiting": 0}
STATUS: Fields = {
    "name": "hq", "role": "root", "tree": "acme", "chain": ["hq"], "ready": True, "uptime_s": 5.0,
    "counters": {"entered": 100, "delivered": 50},
    "parent": None,
    "children": [{**LINK, "name": "york", "in": 10, "out": 20}, {**LINK, "name": "leeds", "state": "down",
                 "error": "no route \x1b[31m to host"}],
    "queues": [
        {"name": "queue:a", "messages": 1, "bytes": 9, "oldest_s": 7.0, "readers": 1},
        {"name": "queue:b", "messages": 5, "bytes": 9, "oldest_s": 2.0, "readers": 0},
        {"name": "queue:System@hq", "messages": 0},
    ],
}  # fmt: skip


def answers(**paths: Any) -> Any:
    """Ask for a path; one that is not given does not exist."""

    def ask(path: str) -> Any:
        name = path.removeprefix("/api/").partition("?")[0]
        if name not in paths:
            raise CommandError(f"{path}: 404")
        return paths[name]

    return ask


def test_the_first_look_knows_no_rates_of_its_own() -> None:
    found = look(answers(status=STATUS), now=100.0)
    assert [(line.name, line.in_per_s, line.messages_out) for line in found.links] == [
        ("leeds", None, 0),
        ("york", None, 20),
    ]
    assert found.rates == {"entered_per_s": None, "delivered_per_s": None}


def test_the_second_look_shows_what_moved() -> None:
    before = look(answers(status=STATUS), now=100.0)
    york = {**STATUS["children"][0], "in": 30, "out": 25}
    after = {**STATUS, "counters": {"entered": 300, "delivered": 50}, "children": [york]}
    found = look(answers(status=after), before, now=102.0)
    assert [(line.in_per_s, line.out_per_s) for line in found.links] == [(10.0, 2.5)]
    assert found.rates == {"entered_per_s": 100.0, "delivered_per_s": 0.0}


def test_a_counter_that_began_again_is_no_negative_rate() -> None:
    before = look(answers(status=STATUS), now=100.0)
    after = {**STATUS, "counters": {"entered": 4, "delivered": 0}}
    assert look(answers(status=after), before, now=102.0).rates["entered_per_s"] == 2.0


def test_the_rates_of_the_node_count_where_it_tells_them() -> None:
    told = {**STATUS, "rates": {"in_per_s": 3.5, "entered_per_s": 1}}
    assert look(answers(status=told), now=1.0).rates == {"in_per_s": 3.5, "entered_per_s": 1.0}


def test_queues_are_those_of_administration_where_there_is_one() -> None:
    listed = {"queues": [{"name": "c", "messages": 2, "in_per_s": 1.5, "out_per_s": 0.0}], "more": 7}
    found = look(answers(status=STATUS, queues=listed), now=1.0)
    assert [(line.name, line.in_per_s) for line in found.queues] == [("c", 1.5)]
    assert found.queues_more == 7
    assert [line.name for line in look(answers(status=STATUS), now=1.0).queues] == ["queue:b", "queue:a"]


@pytest.mark.parametrize(
    ("sort", "names"),
    [("messages", "ba"), ("oldest", "ab"), ("name", "ab"), ("rate", "ba")],
)
def test_queues_are_sorted(sort: str, names: str) -> None:
    found = look(answers(status=STATUS), now=1.0).queues
    assert "".join(line.name[-1] for line in sorted_queues(found, sort)) == names


@pytest.mark.parametrize("sort", SORTS)
def test_the_node_sorts_what_does_not_fit_into_an_answer(sort: str) -> None:
    asked: list[str] = []

    def ask(path: str) -> Any:
        asked.append(path)
        return STATUS

    look(ask, sort=sort, now=1.0)
    order = parse_qs(asked[1].partition("?")[2])["sort"][0]
    assert order in ORDERS
    assert order.startswith(sort) or sort == "rate"


def test_the_parent_comes_first_then_what_does_not_run() -> None:
    parent = {"name": "root", "state": "running", "since_s": 1.0}
    found = look(answers(status={**STATUS, "parent": parent}), now=1.0)
    assert [line.name for line in found.links] == ["root", "leeds", "york"]


def test_all_parents_come_first_and_the_others_of_the_mesh() -> None:
    above = [{**LINK, "name": name, "relation": "parent"} for name in ("hq-1", "hq-2")]
    beside = [{"name": "uk-2", "state": "connecting"}]
    status = {**STATUS, "parent": above[1], "parents": above, "mesh": beside}
    links = look(answers(status=status), now=1.0).links
    assert [(line.relation, line.name) for line in links[:3]] == [
        ("mesh", "uk-2"),
        ("parent", "hq-1"),
        ("parent", "hq-2"),
    ]


def test_a_parent_that_was_never_reached_says_why() -> None:
    parent = {"name": "", "state": "connecting", "dialling": {"error": "refused"}}
    (line, *_) = look(answers(status={**STATUS, "parent": parent}), now=1.0).links
    assert (line.relation, line.state, line.why) == ("parent", "connecting", "refused")


def test_names_cannot_drive_the_terminal() -> None:
    assert printable("a\x1b[2J\x9bb\u202e é…") == "a?[2J?b? é…"
    (line, *_) = look(answers(status=STATUS), now=1.0).links
    assert line.why == "no route ?[31m to host"


def test_an_older_node_that_says_little() -> None:
    found = look(answers(status={"name": "hq"}), now=1.0)
    assert (found.links, found.queues) == ([], [])
    assert found.as_json()["name"] == "hq"


def test_a_node_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(CommandError):
        look(answers(), now=1.0)


DOWN: Fields = {"node": "hq", "nodes": 3, "down": 1, "more": 0, "children": [], "below": [
    {"name": "york", "via": "north", "since_s": 90.0, "at_least": True}]}  # fmt: skip


def test_the_nodes_below_are_asked_for_when_they_are_wanted_and_an_older_node_has_none() -> None:
    assert look(answers(status=STATUS, below=DOWN), tree=True).below == DOWN
    assert look(answers(status=STATUS, below=DOWN), tree=True).as_json()["below"] == DOWN
    assert look(answers(status=STATUS, below=DOWN)).below == {}
    assert look(answers(status=STATUS), tree=True).below == {}
