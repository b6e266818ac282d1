"""Where replies go, and that the reply queues are bounded."""

from collections.abc import Set

import pytest

from bridges.site_brokers.rabbitmq.replies import MOST, MOST_LEFT, Replies


@pytest.fixture
def changes() -> list[Set[str]]:
    return []


@pytest.fixture
def replies(changes: list[Set[str]]) -> Replies:
    return Replies("york", changes.append)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("answers", "answers@york"),
        ("amq.gen-x/y+z", "amq.gen-x/y+z@york"),
        ("sapwood.reply.answers@leeds", "answers@leeds"),
        ("sapwood.reply.topic:a/b", "topic:a/b"),
        ("who@where", ""),
        ("/queues/answers", "answers@york"),
        ("/queues/till%2F7%20b", "till/7 b@york"),
        ("/queues/sapwood.reply.answers%40leeds", "answers@leeds"),
        ("/amq/queue/answers", "answers@york"),
        ("/queues/", "/queues/@york"),
    ],
)
def test_a_reply_queue_of_this_site_has_an_address_in_the_tree(
    replies: Replies, name: str, address: str
) -> None:
    assert replies.read(name) == address


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("answers@york", "answers"),
        ("answers@leeds", "sapwood.reply.answers@leeds"),
        ("queue:answers@leeds", "sapwood.reply.queue:answers@leeds"),
        ("topic:a/b", "sapwood.reply.topic:a/b"),
        ("answers", "sapwood.reply.answers"),
        ("x" * 250 + "@leeds", ""),
        ("no\nname@leeds", ""),
    ],
)
def test_an_address_in_the_tree_has_a_queue_at_this_site(replies: Replies, address: str, name: str) -> None:
    assert replies.spell(address) == name
    assert replies.queues == ({name} if name.startswith("sapwood.") else frozenset())


def test_each_queue_is_told_of_once(replies: Replies, changes: list[Set[str]]) -> None:
    for _ in range(3):
        replies.spell("a@leeds")
    assert changes == [frozenset({"sapwood.reply.a@leeds"})]


def test_each_request_says_where_somebody_waits_but_not_where_we_do() -> None:
    asked: list[str] = []
    replies = Replies("york", lambda queues: None, asked.append)
    name = "amq.rabbitmq.reply-to.g1h2AA/+="
    assert replies.read(name) == f"{name}@york"
    for other in ("answers", "sapwood.reply.answers@leeds", "who@where"):
        replies.read(other)
    assert asked == [name, "answers"]


def test_the_one_not_used_for_longest_goes_first(replies: Replies) -> None:
    for number in range(MOST):
        replies.spell(f"q{number}@leeds")
    replies.spell("q0@leeds")
    replies.spell("one more@leeds")
    assert len(replies.queues) == MOST
    assert "sapwood.reply.q0@leeds" in replies.queues
    assert "sapwood.reply.q1@leeds" not in replies.queues


@pytest.mark.parametrize("flood", ["q{}@mallory", "topic:mallory/{}", "mallory/{}"])
def test_a_node_that_asks_with_ever_new_names_makes_room_for_itself(replies: Replies, flood: str) -> None:
    honest = {replies.spell(f"answers@{node}") for node in ("hq", "leeds")}
    for number in range(3 * MOST):
        replies.spell(flood.format(number))
    assert len(replies.queues) == MOST
    assert honest <= replies.queues
    assert sum(replies._of.values()) == MOST


def test_queues_that_were_left_are_bounded_too(replies: Replies) -> None:
    """Nobody deletes any: the node that floods gets no more, and the others do."""
    made = [replies.spell(f"q{number}@mallory") for number in range(2 * MOST_LEFT)]
    assert len([name for name in made if name]) == MOST + MOST_LEFT
    assert replies.spell(f"q{MOST}@mallory"), "there already"
    assert replies.spell("answers@leeds")
    assert repr(replies) == f"<Replies of york queues={MOST} left={MOST_LEFT + 1}>"


def test_of_those_that_were_left_the_oldest_are_to_be_deleted(replies: Replies) -> None:
    for number in range(MOST + MOST_LEFT // 2):
        replies.spell(f"q{number}@leeds")
    assert not replies.too_many
    replies.spell("one more@leeds")
    assert replies.too_many
    spare = replies.spare()
    assert (spare, replies.too_many) == ("sapwood.reply.q0@leeds", False)
    replies.adopt([spare])
    assert spare in replies.queues, "something had come into it"


def test_a_list_brings_back_some_of_those_that_are_there_still(replies: Replies) -> None:
    for number in range(2 * MOST):
        replies.spell(f"q{number}@leeds")
    there = {f"sapwood.reply.q{number}@leeds" for number in range(501, 2 * MOST)}
    replies.listed(dict.fromkeys(there | {"sapwood.reply.late@hq"}, True))
    assert f"sapwood.reply.q{MOST - 1}@leeds" in replies.queues
    assert "sapwood.reply.late@hq" in replies.queues
    assert repr(replies) == f"<Replies of york queues={MOST} left=500>"
    replies.listed({})
    assert repr(replies) == f"<Replies of york queues={MOST} left=0>"


def test_a_list_takes_no_place_from_those_that_were_used_last(replies: Replies) -> None:
    """An answer may be on its way into each of them."""
    names = [f"sapwood.reply.q{number}@leeds" for number in range(2 * MOST)]
    replies.adopt(names)
    replies.listed(dict.fromkeys(names, True))
    assert {*names[-(MOST // 2) :]} < replies.queues
    assert names[0] in replies.queues
    replies.listed(dict.fromkeys(names, True))
    assert {*names[-(MOST // 2) :]} < replies.queues, "nobody has asked meanwhile"
    assert names[MOST // 2] in replies.queues


def test_a_list_brings_back_one_where_nothing_waits_only_where_there_is_a_place(
    replies: Replies, changes: list[Set[str]]
) -> None:
    names = [f"sapwood.reply.q{number}@leeds" for number in range(MOST + 10)]
    replies.adopt(names)
    replies.listed({**dict.fromkeys(names, False), names[7]: True})
    assert replies.queues == {names[7], *names[-(MOST - 1) :]}
    assert next(iter(changes[-1])) == names[7], "those that were used last come first"
    fresh = Replies("york", lambda queues: None)
    fresh.listed(dict.fromkeys(names, False))
    assert len(fresh.queues) == MOST
