"""A site's broker in memory, as the core's own half of the bridge sees it."""

from broker.core.policy import Policy
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import parse
from simulation.forest import Forest
from treeconnector.edge import BrokerConsumer, BrokerDelivery, Taken


class Broker(Policy):
    """A site's broker, and the bridge to it, in memory."""

    def __init__(self, forest: Forest, at: str) -> None:
        self.forest, self.at = forest, at
        self.given: list[BrokerDelivery] = []
        self.attach()

    def attach(self) -> None:
        self.forest[self.at].core.policies.add((self,))
        self.site.connected()

    def for_site(self, deliveries: list[BrokerDelivery]) -> None:
        self.given += deliveries

    @property
    def site(self):  # type: ignore[no-untyped-def]
        return self.forest[self.at].core.site

    def consumers(self, *texts: str) -> None:
        self.site.complete(BrokerConsumer(parse(text), "one") for text in texts)
        self.forest.settle(1.0)

    def payloads(self) -> list[bytes]:
        return [delivery.message.payload for delivery in self.given]

    def confirm(self) -> None:
        self.site.confirm([delivery.id for delivery in self.given])
        self.forest.settle(1.0)

    def sends(self, text: str, *payloads: bytes, **given: object) -> int:
        taken = self.site.take([Taken(parse(text), Message(each), **given) for each in payloads])  # type: ignore[arg-type]
        self.forest.settle(1.0)
        return taken
