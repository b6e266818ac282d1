"""Random histories of a tree: whatever happens, every confirmed message comes, and no doubt is hidden."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulation.chaos import MESH, Chaos
from simulation.roaming import SMALL_MESH, Roaming

SEEDS = st.integers(min_value=0, max_value=1 << 32)


@given(seed=SEEDS)
@settings(max_examples=25)
@example(seed=1)  # a bundle that rested was overtaken when its reader came back
@example(seed=8)  # one producer's bundles of two scopes overtook each other
def test_cuts_and_consumers_that_come_and_go(seed: int) -> None:
    Chaos(seed, frozenset()).run()


@given(seed=SEEDS)
@settings(max_examples=25)
@example(seed=0)
def test_crashes_between_any_two_steps_of_a_commit(seed: int) -> None:
    Chaos(seed, frozenset({"crash"})).run()


@given(seed=SEEDS)
@settings(max_examples=15)
def test_nodes_that_stop_as_they_should_between_crashes_and_moves(seed: int) -> None:
    Chaos(seed, frozenset({"crash", "stop", "move"})).run()


@given(seed=SEEDS)
@settings(max_examples=25)
@example(seed=8)  # what a topic still had for the old region followed the store
@example(seed=98)  # what a store had sent over its old region was taken for a forgery
@example(seed=137)  # a topic's message met the store that moved over both ways
@example(seed=604417142)  # a topic's message on its way up was overtaken by the word of the move
@example(seed=2104)  # two old ways were told that a store had moved, and no new one was known yet
@example(seed=2145)  # a store left a parent that it had told nothing yet
@example(seed=6760)  # the word that a store had moved was lost with its line
@example(seed=8325)  # a region had let go of a store before what topics had for it came
@example(seed=8862)  # what the hq had on its disk of an old way was believed before that way spoke
@example(seed=60022)  # a store came back to a region that it had forgotten, and was given again what it gave
@example(seed=60036)  # a store gave its new region what was given it before, though its readers came back
@example(seed=30258)  # the same, of the hq
def test_stores_that_move_to_other_regions(seed: int) -> None:
    Chaos(seed, frozenset({"crash", "move"})).run()


@given(seed=SEEDS)
@settings(max_examples=25)
@example(seed=0)  # the old region let go of the store and said so when it had dropped what came for it
@example(seed=20452)  # a region that had restarted said that the store was there still
@example(seed=60022)  # a store came back to a region that it had forgotten, and was given again what it gave
@example(seed=60036)  # a store gave its new region what was given it before, though its readers came back
@example(seed=30258)  # the same, of the hq
def test_stores_that_move_while_routes_linger(seed: int) -> None:
    Chaos(seed, frozenset({"crash", "move"}), linger=2.0).run()


@given(seed=SEEDS)
@settings(max_examples=20)
@example(seed=35)  # what a restored database still held was delivered again without a word
def test_databases_restored_from_a_backup(seed: int) -> None:
    Chaos(seed, frozenset({"crash", "restore"})).run()


@given(seed=SEEDS)
@settings(max_examples=15)
def test_machines_that_are_replaced(seed: int) -> None:
    Chaos(seed, frozenset({"crash", "replace"})).run()


@given(seed=SEEDS)
@settings(max_examples=15)
def test_everything_at_once(seed: int) -> None:
    Chaos(seed, frozenset({"crash", "move", "restore", "replace"}), steps=500).run()


@given(seed=SEEDS)
@settings(max_examples=12)
@example(seed=0)  # what had come down went up again to another root, and was taken for a forgery
@example(seed=30192)  # a child gave back what had been handed over, and all that knew of it had crashed
@example(seed=428)  # a change of root let a message be overtaken, and nobody said so
@example(seed=70056)  # what the hq made before a start came after what it made since, over another root
@example(seed=80033)  # the same, of a region
@example(seed=431)  # what passed on its way to a region hid the copy for a root's own reader
def test_a_mesh_of_roots_that_crash_and_cannot_reach_each_other(seed: int) -> None:
    Chaos(seed, frozenset({"crash", "split"}), tree=MESH).run()


@given(seed=SEEDS)
@settings(max_examples=10)
def test_a_mesh_of_roots_that_stop_as_they_should_or_crash(seed: int) -> None:
    Chaos(seed, frozenset({"crash", "stop", "split"}), tree=MESH).run()


@given(seed=SEEDS)
@settings(max_examples=12)
@example(seed=116)  # a store had left the region that a topic's copy was handed over for
@example(seed=206)  # a store dialled the roots that it had known before its file named a region
@example(seed=292)  # a region let go of a store before another root knew the new way
@example(seed=528)  # the same, where that root was just coming back
@example(seed=596)  # the word that a name is still there did not say which bundles it reads
@example(seed=40132)  # two children were given one bundle, and gave back both
@example(seed=40136)  # a child was given one bundle by two roots, and gave back both
@example(seed=50012)  # a region that had let go of a store met a root that had not heard of the move yet
@example(seed=10062)  # a region that was about to let go of a store counted as the place where it is
@example(seed=24110119)  # a region let go of a store that it was told of, and then a loan came for it
def test_stores_that_move_below_a_mesh_of_roots(seed: int) -> None:
    Chaos(seed, frozenset({"crash", "split", "move"}), tree=MESH).run()


@given(seed=SEEDS)
@settings(max_examples=10)
@example(seed=60000)  # a child gave back two parts of one bundle, and the second was taken for a twin
@example(seed=60001)  # the same
def test_readers_that_go_about_and_dead_letters_that_are_given_back(seed: int) -> None:
    Roaming(seed, frozenset()).run()


@given(seed=SEEDS)
@settings(max_examples=10)
@example(seed=60003)  # the same, below a mesh
@example(seed=243)  # part of a whole bundle came back before it was known to have arrived
def test_readers_that_go_about_below_a_mesh(seed: int) -> None:
    Roaming(seed, frozenset({"crash", "split"}), tree=SMALL_MESH).run()


def test_an_account_that_does_not_add_up_is_found() -> None:
    chaos = Chaos(3, frozenset())
    for _ in range(100):
        chaos.step()
    producer = chaos.producers[0]
    producer.send("queue:one", b"p-hq queue:one 999999")
    for consumer in chaos.consumers:
        consumer.connect()
    chaos.forest.heal(5.0)
    for consumer in chaos.consumers:
        consumer.receipts = [each for each in consumer.receipts if b"999999" not in each.payload]
        consumer.open = [each for each in consumer.open if b"999999" not in each.payload]
    with pytest.raises(AssertionError):
        chaos.finish()
