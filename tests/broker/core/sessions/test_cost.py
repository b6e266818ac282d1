"""A session costs the same with no subscription and with thousands: calls are counted, not time."""

import cProfile
import gc
from collections.abc import Callable
from pstats import Stats
from typing import Any

import pytest

from broker.core.clock import PART
from broker.core.sessions.sessions import Connection
from sapwood.protocol.bundles import Message
from simulation.forest import Forest

MANY = 4 * PART


def calls(work: Callable[[], object]) -> int:
    """How many functions are called; none of those that hypothesis lets the collector call is counted."""
    profile = cProfile.Profile()
    gc.disable()
    try:
        profile.runcall(work)
    finally:
        gc.enable()
    return Stats(profile).total_calls  # type: ignore[attr-defined]


class Client:
    """Of one session, with so many reply queues that it reads."""

    def __init__(self, forest: Forest, subscriptions: int) -> None:
        self.switch: Any = forest["hq"].core.switch
        self.connection = Connection(lambda frame: None, "test", "http")
        self.switch.login(self.connection, "client")
        self.queues = [self.switch.create(self.connection, "") for _ in range(subscriptions)]
        for queue in self.queues:
            self.switch.subscribe(self.connection, queue)
        forest.settle()

    def subscribe(self) -> None:
        self.switch.subscribe(self.connection, self.switch.create(self.connection, ""))

    def transfer(self) -> Any:
        return self.switch.transfer(self.connection, -1)

    def late(self) -> None:
        with pytest.raises(Exception, match="no message"):
            self.switch.acknowledge(self.connection, 10**9, print)


@pytest.mark.parametrize("work", [Client.transfer, Client.subscribe, Client.late])
def test_a_request_costs_what_has_changed(work: Callable[[Client], None]) -> None:
    costs = []
    for subscriptions in (3, MANY):
        forest = Forest()
        forest.add("hq")
        client = Client(forest, subscriptions)
        work(client)
        forest.settle()
        costs.append(calls(lambda client=client: work(client)))  # type: ignore[misc]
    assert costs[1] <= costs[0] + 2


def test_a_transfer_looks_at_the_queues_that_have_something(forest: Forest) -> None:
    forest.add("hq")
    client = Client(forest, MANY)
    empty = calls(client.transfer)
    for queue in client.queues[:3]:
        client.switch.send(client.connection, queue, Message(b"x"), lambda error: None)
    forest.settle()
    assert calls(client.transfer) < empty + 1000
    assert len(client.transfer()) == 3


def test_a_large_session_ends_a_part_at_a_time(forest: Forest) -> None:
    core = forest.add("hq").core
    client, other = Client(forest, MANY), Client(forest, 0)
    other.switch.login(other.connection, "client")
    for queue in client.queues[:3]:
        client.switch.send(client.connection, queue, Message(b"x"), lambda error: None)
    forest.settle()
    assert len(client.transfer()) == 3
    other.switch.close(other.connection)
    steps = [calls(lambda: client.switch.close(client.connection))]
    while core.clock.next is not None:
        core.advance(core.clock.next)
        steps.append(calls(core.clock.run_due))
    assert len(steps) >= 2 * MANY // PART
    assert max(steps) < sum(steps) / 4
    forest.settle()
    assert not [queue for queue in core.custody.queues.values() if queue.created or queue.messages]
    assert forest["hq"].waiting() == 0


class NeverWhole(set[str]):
    """Names that are taken one by one: nothing goes through all of them."""

    def __iter__(self) -> Any:
        raise AssertionError("a step looks at every queue that is left")

    symmetric_difference = difference = union = copy = __iter__  # type: ignore[assignment]


def test_no_step_of_an_end_looks_at_all_queues_that_are_left(forest: Forest) -> None:
    core = forest.add("hq").core
    client = Client(forest, MANY)
    session = client.connection.session
    assert session is not None
    session.transient = NeverWhole(session.transient)
    client.switch.close(client.connection)
    while core.clock.next is not None:
        core.advance(core.clock.next)
        core.clock.run_due()
    forest.settle()
    assert not len(session.transient)
    assert not [queue for queue in core.custody.queues.values() if queue.created]


def test_who_comes_back_while_its_session_ends_has_the_queue_that_it_asks_for(forest: Forest) -> None:
    core = forest.add("hq").core
    client = Client(forest, MANY)
    name = client.queues[-1].partition("@")[0]
    client.switch.send(client.connection, name, Message(b"an answer"), lambda error: None)
    forest.settle()
    client.switch.close(client.connection)
    back = Connection(lambda frame: None, "test", "http")
    session = core.switch.login(back, "client")
    core.switch.local_queues.own(session, name)
    core.switch.subscribe(back, name)
    forest.settle()
    assert [each.message.payload for each in core.switch.transfer(back, -1)] == [b"an answer"]
