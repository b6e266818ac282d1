"""The account of a random history: what must hold at its end of its messages, wherever they went.

Every confirmed message was delivered, or is a dead letter that says why. A second delivery is flagged,
whatever crashed. Messages of one producer come in order where nothing broke it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sapwood.protocol.bundles import Flag, Message
from simulation.clients import Producer, Receipt, SimulatedConsumer
from simulation.forest import Forest
from simulation.invariants import check_nothing_counts

EVERYWHERE = {"hq", "s2", "s3"}
"""The sites of the topic's three subscribers."""
_FORGED = re.compile(r"ORIGIN: '\w+' is not below (?P<child>\w+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAccount:
    """`kinds`: which of the rarer things may have happened. `reached`: sites that a topic's message is for.

    `lossy`: sites that lost what they had. `lost_before`, `moved`: numbers of messages up to which a lost
    disk, or a move (by the store that moved), excuses something.
    """

    forest: Forest
    kinds: frozenset[str]
    consumers: Sequence[SimulatedConsumer]
    producers: Sequence[Producer]
    reached: Mapping[bytes, set[str]]
    lossy: set[str]
    lost_before: int
    moved: Mapping[str, int]

    def check(self) -> None:
        """Raise `AssertionError` where something does not hold."""
        self._check_all_confirmed()
        self._check_nothing_waits()
        self._check_no_dead_letters()
        self._check_delivered()
        self._check_twice()
        self._check_order()

    def _check_order(self) -> None:
        """Messages of one producer come to one consumer in order, where none was given again or rerouted."""
        if self.kinds - {"crash", "stop", "split"}:
            return
        for consumer in self.consumers:
            last: dict[tuple[str, str], bytes] = {}
            for receipt in consumer.receipts:
                if receipt.flagged or receipt.flags & Flag.REROUTED or receipt.again:
                    continue
                producer, destination, _ = receipt.payload.decode().split(" ")
                before = last.get((producer, destination), b"")
                assert before < receipt.payload, f"{consumer.name}: {receipt.payload!r} came after {before!r}"
                last[producer, destination] = receipt.payload

    def _check_all_confirmed(self) -> None:
        for producer in self.producers:
            assert not producer.under_way, f"{producer}: {list(producer.under_way)[:5]} not confirmed"
            assert not producer.rejected, producer.rejected

    def _check_nothing_waits(self) -> None:
        for site in self.forest.sites.values():
            places = {
                name: place.messages
                for name, place in site.core.custody.queues.items()
                if place.messages and name != "dead"
            }
            assert not places, f"{site.name} still keeps {places}"
            check_nothing_counts(site)

    def _check_no_dead_letters(self) -> None:
        """None but those that the documents promise."""
        for site in self.forest.sites.values():
            dead = [letter for letter in site.dead() if not self._is_promised(site.name, *letter)]
            assert not dead, f"{site.name}: {len(dead)} dead letters: {dead[0]}"

    def _is_promised(self, site: str, reason: str, message: Message) -> bool:
        """A site that lost its database cannot know what it had given. And a store that has moved, and whose
        readers do not come back, gives its new parent what others had sent it before (docs/permits.md).
        """
        found = _FORGED.match(reason)
        if found is None:
            return False
        _, destination, number = message.payload.decode().split(" ")
        before = int(number) <= self.moved.get(found["child"], 0)
        return site in self.lossy or (before and destination.startswith("queue:"))

    def _check_delivered(self) -> None:
        dead = {
            message.payload
            for site in self.forest.sites.values()
            for reason, message in site.dead()
            if self._is_promised(site.name, reason, message)
        }
        for producer in self.producers:
            for destination, payload in producer.confirmed:
                if payload in dead or int(payload.split(b" ")[-1]) <= self.lost_before:
                    continue
                for readers in self._readers(str(destination), payload):
                    came = [r for reader in readers for r in reader.receipts if r.payload == payload]
                    who = [reader.name for reader in readers]
                    assert any(receipt.acknowledged for receipt in came), f"{payload!r} never came to {who}"

    def _readers(self, destination: str, payload: bytes) -> list[list[SimulatedConsumer]]:
        """Groups of consumers of which one must have a message."""
        if destination.startswith("topic:"):
            subscribers = [each for each in self.consumers if each.durable]
            if "replace" in self.kinds or ("move" in self.kinds and self.reached[payload] != EVERYWHERE):
                return []
            return [[each] for each in subscribers if each.site.name in self.reached[payload]]
        name = destination.partition("@")[0]
        return [[consumer for consumer in self.consumers if str(consumer.destination) == name]]

    def _check_twice(self) -> None:
        """Each further delivery to the same group says so, unless a database was lost that knew the first.

        Wrinkle: nobody can tell a topic's message that a store gave before a crash, when it comes over
        another region next.
        """
        for name in {str(consumer.destination) for consumer in self.consumers}:
            if name.startswith("queue:"):
                self._check_group([c for c in self.consumers if str(c.destination) == name])
        for consumer in self.consumers:
            if consumer.durable:
                self._check_group([consumer])
                if not self.kinds & {"move"}:
                    beyond = [p for p in consumer.payloads if consumer.site.name not in self.reached[p]]
                    assert not beyond, f"{consumer.name} was given {beyond[0]!r}, which does not go so far"

    def _check_group(self, consumers: list[SimulatedConsumer]) -> None:
        if self.lossy & {"hq", "r1", "r2"}:
            return  # what a child sends again to a parent that forgot it is new to both
        seen: dict[bytes, list[tuple[SimulatedConsumer, Receipt]]] = {}
        for consumer in consumers:
            for receipt in consumer.receipts:
                seen.setdefault(receipt.payload, []).append((consumer, receipt))
        for payload, receipts in seen.items():
            entry = payload.decode().partition(" ")[0].removeprefix("p-")
            if len(receipts) > 1 and entry not in self.lossy:
                unexcused = [
                    receipt
                    for consumer, receipt in receipts
                    if not receipt.flagged
                    and consumer.site.name not in self.lossy
                    and not ("move" in self.kinds and consumer.durable and consumer.site.disk.start > 1)
                ]
                said = [(c.name, r) for c, r in receipts]
                assert len(unexcused) <= 1, f"{payload!r} came {len(receipts)} times: {said}"
