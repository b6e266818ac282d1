"""What was here before is known again, message by message; what is left of a bundle is no repetition."""

import pytest

from broker.core.rows import SeenRow
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header, Message
from sapwood.protocol.destinations import queue
from simulation.forest import Forest

THREE = (b"a", b"b", b"c")
IDENTITY = b"i" * 16 + b"york"


@pytest.fixture
def tree(forest: Forest) -> Forest:
    forest.add("hq", max_deliveries=2)
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    return forest


def hand_over(
    forest: Forest, node: str, giver: str, *, done: int = 0, flags: int = 0, expires: int = 0
) -> None:
    """A bundle of three messages comes from a neighbour. `done`: the mask of those that it does not bring."""
    body = bundles.join([bundles.encode_message(Message(payload)) for payload in THREE])
    header = Header(
        id=b"i" * 16,
        destination=queue("sales"),
        flags=Flag.PERSISTENT | flags,
        count=3,
        size=len(body),
        origin="york",
        expires_first=expires,
        expires_last=expires,
        done=bundles.mask_bytes(done),
    )
    core = forest[node].core
    core.arrivals.from_neighbour(core.neighbours[giver], header, body)
    forest.settle(1.0)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("first", [0, Flag.MAYBE_DUPLICATE])
@pytest.mark.parametrize("second", [0, Flag.MAYBE_DUPLICATE])
def test_a_repetition_is_dropped_whichever_of_the_two_is_marked(
    tree: Forest, kept: bool, first: int, second: int
) -> None:
    reader = tree.consumer("hq", "queue:sales", auto=not kept)
    tree.settle(1.0)
    hand_over(tree, "hq", "york", flags=first)
    hand_over(tree, "hq", "york", flags=second)
    assert reader.payloads == [*THREE]
    assert tree["hq"].core.counters["duplicates_dropped"] == 3


def test_what_is_left_of_a_bundle_is_given_and_then_the_whole_is_a_repetition(tree: Forest) -> None:
    reader = tree.consumer("hq", "queue:sales")
    tree.settle(1.0)
    hand_over(tree, "hq", "york", done=0b110)
    (row,) = tree["hq"].disk.rows(SeenRow)
    assert (row.bundle, row.part) == (IDENTITY, b"\x01")
    tree["hq"].crash()
    tree["hq"].boot()
    tree.heal(5)
    reader.connect()
    tree.settle(1.0)
    hand_over(tree, "hq", "york", done=0b001, flags=Flag.MAYBE_DUPLICATE)
    assert reader.payloads == [*THREE]
    (row,) = tree["hq"].disk.rows(SeenRow)
    assert row.part == b""
    hand_over(tree, "hq", "york")
    hand_over(tree, "hq", "york", done=0b011)
    assert reader.payloads == [*THREE]
    assert tree["hq"].core.counters["duplicates_dropped"] == 3 + 1


def test_what_came_back_after_a_part_was_dealt_with_here_is_given(tree: Forest) -> None:
    """The first of three is acknowledged here, the others go to york and back; then all come again."""
    here = tree.consumer("hq", "queue:sales", auto=False)
    tree.settle(1.0)
    hand_over(tree, "hq", "york")
    here.acknowledge(1)
    tree.settle(1.0)
    here.disconnect()
    there = tree.consumer("york", "queue:sales", auto=False)
    tree.settle(5.0)
    assert there.payloads == [b"b", b"c"]
    there.disconnect()
    again = tree.consumer("hq", "queue:sales", "again")
    tree.settle(120.0)
    assert again.payloads == [b"b", b"c"]
    hand_over(tree, "hq", "york")
    assert again.payloads == [b"b", b"c"]
    assert tree["hq"].core.counters["duplicates_dropped"] == 3


def refuse_first(tree: Forest, done: int) -> None:
    """The first of three comes to readers at hq who leave with it, until it is a dead letter."""
    for _ in range(2):
        reader = tree.consumer("hq", "queue:sales", "hasty", auto=False, credit=1)
        tree.settle(1.0)
        if not reader.payloads:
            hand_over(tree, "hq", "york", done=done)
        reader.disconnect()
        tree.settle(1.0)
    assert [message.payload for _, message in tree["hq"].dead()] == [b"a"]


@pytest.mark.parametrize("older", [False, True])
def test_a_dead_letter_that_is_given_back_may_go_away_and_come_again(tree: Forest, older: bool) -> None:
    hq = tree["hq"]
    refuse_first(tree, 0b110)
    hand_over(tree, "hq", "york", done=0b110)
    assert hq.waiting() == 0  # the dead letter is the one that there is
    if older:
        hq.core.arrivals.seen.restore(SeenRow(b"i" * 16, int(hq.now * 1000)))
    assert hq.core.dead_letters.give_back([(copy, 1) for copy in hq.core.custody.dead.waiting]) == 1
    there = tree.consumer("york", "queue:sales", auto=False)
    tree.settle(5.0)
    assert there.payloads == [b"a"]
    there.disconnect()
    again = tree.consumer("hq", "queue:sales", "again")
    tree.settle(120.0)
    assert again.payloads == [b"a"]
    assert not tree["york"].waiting()


def test_a_dead_letter_that_is_given_back_before_the_rest_goes_is_known_apart(tree: Forest) -> None:
    """Its messages and the rest of its bundle go away and come back: nothing of either was dealt with."""
    refuse_first(tree, 0)
    hq = tree["hq"]
    assert hq.core.dead_letters.give_back([(copy, 1) for copy in hq.core.custody.dead.waiting]) == 1
    there = tree.consumer("york", "queue:sales", auto=False)
    tree.settle(5.0)
    assert sorted(there.payloads) == [*THREE]
    there.disconnect()
    again = tree.consumer("hq", "queue:sales", "again")
    tree.settle(120.0)
    assert sorted(again.payloads) == [*THREE]
    assert hq.core.counters["duplicates_dropped"] == 0


def test_dead_letters_of_a_bundle_that_are_given_back_one_by_one_bring_one_each(tree: Forest) -> None:
    refuse_first(tree, 0)
    tree.consumer("hq", "queue:sales", "hasty", auto=False, credit=1).disconnect()
    tree.settle(1.0)
    hq = tree["hq"]
    assert [message.payload for _, message in hq.dead()] == [b"a", b"b"]
    for _ in range(2):
        assert hq.core.dead_letters.give_back([(hq.core.custody.dead.waiting[0], -1)]) == 1
        there = tree.consumer("york", "queue:sales", auto=False)
        tree.settle(60.0)
        there.disconnect()
        tree.settle(1.0)
    again = tree.consumer("hq", "queue:sales", "again")
    tree.settle(120.0)
    assert sorted(again.payloads) == [*THREE]


def test_of_what_was_here_in_part_the_rest_is_given_and_marked(tree: Forest) -> None:
    """Two twins that were divided differently must not end each other."""
    reader = tree.consumer("hq", "queue:sales")
    tree.settle(1.0)
    hand_over(tree, "hq", "york", done=0b110)
    hand_over(tree, "hq", "york")
    assert reader.payloads == [*THREE]
    assert [bool(receipt.flags & Flag.MAYBE_DUPLICATE) for receipt in reader.receipts] == [False, True, True]
    assert tree["hq"].core.counters["duplicates_dropped"] == 1


def test_what_was_acknowledged_of_a_bundle_that_died_is_known(tree: Forest) -> None:
    reader = tree.consumer("hq", "queue:sales", auto=False)
    tree.settle(1.0)
    hand_over(tree, "hq", "york", expires=3000)
    reader.acknowledge(1)
    reader.disconnect()
    tree.settle(5.0)
    assert sorted(message.payload for _, message in tree["hq"].dead()) == [b"b", b"c"]
    again = tree.consumer("hq", "queue:sales", "again")
    tree.settle(1.0)
    hand_over(tree, "hq", "york")
    assert again.payloads == [b"b", b"c"]


def test_each_part_is_known_as_long_as_the_window_says(forest: Forest) -> None:
    forest.add("hq", dedup_window=10.0)
    forest.add("york", "hq")
    forest.dial_all()
    reader = forest.consumer("hq", "queue:sales")
    forest.settle(1.0)
    for done in (0b110, 0b001):
        hand_over(forest, "hq", "york", done=done)
        forest.settle(7.0)
    hand_over(forest, "hq", "york")
    assert reader.payloads == [*THREE]
