"""Bytes are counted where they go, and move with what changes its way."""

import secrets

import pytest

from broker.core.messages.queue_names import Spool
from simulation.forest import Forest
from simulation.site import Site

SIZE = 1000
UP, DOWN, REROUTED = Spool.UP, Spool.DOWN, Spool.REROUTED


def family(forest: Forest) -> Site:
    hq = forest.add("hq")
    forest.add("york", "hq")
    forest.add("bath", "hq")
    forest.dial_all()
    forest.settle(1.0)
    return hq


def kept(site: Site) -> dict[Spool, int]:
    """Bundles of one message each, by spool."""
    sizes = {spool: size // SIZE for spool, size in site.core.custody.spools.items()}
    return {spool: count for spool, count in sizes.items() if count}


def send(forest: Forest, site: str, destination: str, count: int) -> None:
    producer = forest.producer(site, f"producer of {destination}")
    for _ in range(count):
        producer.send(destination, secrets.token_bytes(SIZE))
        forest.settle()


def again(forest: Forest, site: Site) -> dict[Spool, int]:
    site.crash()
    site.boot()
    forest.settle()
    return kept(site)


def test_a_queue_s_bytes_move_with_its_way_and_stand_there_after_a_start(forest: Forest) -> None:
    hq = family(forest)
    reader = forest.consumer("york", "queue:prices")
    forest.settle(1.0)
    forest["york"].crash()
    send(forest, "hq", "queue:prices", 5)
    assert kept(hq) == {DOWN: 5}
    assert again(forest, hq) == {DOWN: 5}
    here = forest.consumer("hq", "queue:prices", name="here", auto=False, credit=2)
    forest.settle()
    assert kept(hq) == {UP: 5}
    here.disconnect()
    forest.settle()
    assert kept(hq) == {DOWN: 5}
    forest["york"].boot()
    reader.connect()
    forest.heal()
    assert (len(reader.payloads), kept(hq)) == (5, {})


def test_what_waits_for_nobody_yet_counts_down_once_a_child_wants_it(forest: Forest) -> None:
    hq = family(forest)
    send(forest, "hq", "queue:prices", 5)
    assert kept(hq) == {UP: 5}
    wire = forest.wire_of("york")
    assert wire is not None
    forest.consumer("york", "queue:prices", credit=1, auto=False)
    forest["york"].run()
    wire.pull()
    wire.deliver(wire.up, hq)
    forest.cut(wire)
    hq.run()
    assert kept(hq) == {DOWN: 5}
    assert again(forest, hq) == {DOWN: 5}


def test_a_fan_out_counts_once_for_each_way(forest: Forest) -> None:
    hq = family(forest)
    for site in ("york", "bath", "hq"):
        forest.consumer(site, "topic:offers/#", name=f"till of {site}", durable="till")
    forest.settle(1.0)
    forest["york"].crash()
    forest["bath"].crash()
    for client in [client for client in forest.clients if client.site is hq]:
        client.disconnect()
    send(forest, "hq", "topic:offers/one", 4)
    assert kept(hq) == {UP: 4, DOWN: 4}
    assert again(forest, hq) == {UP: 4, DOWN: 4}
    hq.core.relocation.forget(hq.core.neighbours["york"], moved=False)
    forest.settle()
    assert kept(hq) == {UP: 4, DOWN: 4}, "bath still waits for the same"
    hq.core.relocation.forget(hq.core.neighbours["bath"], moved=False)
    forest.settle()
    assert kept(hq) == {UP: 4}


def test_what_came_from_the_parent_came_down_though_it_is_read_here(forest: Forest) -> None:
    family(forest)
    forest.consumer("york", "queue:prices", auto=False, credit=1)
    forest.settle(1.0)
    send(forest, "hq", "queue:prices", 5)
    send(forest, "york", "queue:prices", 2)
    forest.settle(1.0)
    assert kept(forest["york"]) == {DOWN: 5, UP: 2}
    assert again(forest, forest["york"]) == {DOWN: 5, UP: 2}


def test_what_waited_for_a_node_that_is_forgotten_was_sent_back(forest: Forest) -> None:
    hq = family(forest)
    forest.consumer("york", "queue:prices", auto=False)
    forest.settle(1.0)
    wire = forest.wire_of("york")
    assert wire is not None
    send_numbered = forest.producer("hq")
    for _ in range(5):
        send_numbered.send("queue:prices", secrets.token_bytes(SIZE))
        hq.run()
    forest.cut(wire)
    forest["york"].crash()
    assert kept(hq) == {DOWN: 5}
    hq.core.relocation.forget(hq.core.neighbours["york"], moved=False)
    forest.settle()
    assert kept(hq) == {REROUTED: 5}
    assert again(forest, hq) == {REROUTED: 5}


@pytest.mark.parametrize("site", ["hq", "york"])
def test_dead_letters_count_nowhere(forest: Forest, site: str) -> None:
    family(forest)
    producer = forest.producer(site)
    producer.send(f"queue:late@{site}", secrets.token_bytes(SIZE), expires_in=1)
    forest.settle()
    assert kept(forest[site]) == {UP: 1}
    forest.settle(3.0)
    assert (len(forest[site].dead()), kept(forest[site])) == (1, {})
    assert again(forest, forest[site]) == {}
