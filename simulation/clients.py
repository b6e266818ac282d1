"""Applications at simulated sites: producers that say again what was not confirmed, consumers that remember
what they were given and what became of it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from broker.core.sessions.sessions import Connection
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Message, Properties
from sapwood.protocol.destinations import Destination, parse
from sapwood.protocol.session_frames import (
    VERSION,
    Acknowledge,
    ClientFrame,
    Confirm,
    Create,
    Deliver,
    Done,
    Failed,
    Login,
    ReadingEnded,
    Reject,
    Send,
    Subscribe,
    Unsubscribe,
    Welcome,
)
from simulation.site import Site


class SimulatedClient:
    """A session at a site. It does not come back by itself."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name
        self.connection: Connection | None = None
        self.failures: list[Failed] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.site.name}>"

    def connect(self) -> None:
        if self.connection is None and self.site.running:
            connection = Connection(lambda frame: self._said(connection, frame), self.name)
            self.connection = connection
            self.opened()

    def _said(self, connection: Connection, frame: Any) -> None:
        """What the node says on a connection that is over comes to nobody."""
        if self.connection is connection:
            self.arrived(frame)

    def say(self, *frames: ClientFrame) -> None:
        assert self.connection is not None
        self.site.core.advance(self.site.now)
        self.site.core.switch.receive(self.connection, list(frames))

    def disconnect(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            self.site.core.advance(self.site.now)
            self.site.core.switch.close(connection)
            self.gone()

    def gone(self) -> None:
        """The connection is over."""
        self.connection = None

    def act(self) -> bool:
        return False

    def opened(self) -> None:
        raise NotImplementedError

    def arrived(self, frame: Any) -> None:
        if isinstance(frame, Failed):
            self.failures.append(frame)


class Producer(SimulatedClient):
    """Sends numbered messages; whatever is not confirmed is sent again on the next connection.

    Nothing is sent before the node has said how far it is: a number above it would confirm those below.
    """

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site, name)
        self.number = 0
        self.under_way: dict[int, Send] = {}
        self.confirmed: list[tuple[Destination, bytes]] = []
        self.rejected: list[Reject] = []
        self._refused: set[int] = set()
        self._again: list[Send] = []
        self._connecting = False
        self._welcome = False

    def opened(self) -> None:
        self._welcome = False
        self.say(Login(VERSION, self.name, producer=self.name))

    def send(self, destination: str, *payloads: bytes, **options: Any) -> None:
        """Send as one frame; `options` as of `Send`, or `expires_in` in ms, or `reply_to`."""
        properties = Properties(expires_in=options.pop("expires_in", 0), reply_to=options.pop("reply_to", ""))
        messages = [Message(payload, properties) for payload in payloads]
        body = bundles.encode_messages(messages)
        frame = Send(self.number + 1, parse(destination), len(payloads), body, **options)
        self.number += len(payloads)
        self.under_way[frame.first] = frame
        if self.connection is not None and self._welcome:
            self.say(frame)

    def arrived(self, frame: Any) -> None:
        super().arrived(frame)
        match frame:
            case Welcome():
                for each in frame.rejected:
                    self._refused.update(range(each.first, each.last + 1))
                self._settled(frame.last)
                self._again = list(self.under_way.values())
                self._welcome = True
                if not self._connecting:
                    self._say_again()
            case Confirm(through):
                self._settled(through)
            case Reject(first, last, _, _):
                self.rejected.append(frame)
                self._refused.update(range(first, last + 1))

    def connect(self) -> None:
        """A Welcome arrives while the connection is still being opened, or later."""
        self._connecting = True
        super().connect()
        self._connecting = False
        self._say_again()

    def _say_again(self) -> None:
        again, self._again = self._again, []
        if self.connection is not None and again:
            self.say(*again)

    def _settled(self, through: int) -> None:
        for first, frame in sorted(self.under_way.items()):
            if first + frame.count - 1 <= through:
                del self.under_way[first]
                messages = bundles.decode_messages(frame.body, frame.count)
                for number, message in enumerate(messages, first):
                    if number not in self._refused:
                        self.confirmed.append((frame.destination, message.payload))


@dataclass
class Receipt:
    """One message as a consumer was given it. `again`: this consumer was given the same message before."""

    payload: bytes
    transfer: int
    bundle: bytes
    flags: int
    redelivered: bool
    at: int
    acknowledged: bool = False
    again: bool = False

    @property
    def flagged(self) -> bool:
        return self.redelivered or bool(self.flags & Flag.MAYBE_DUPLICATE)


class SimulatedConsumer(SimulatedClient):
    """Reads a queue or a topic. `auto`: acknowledges what it has whenever the forest takes a step."""

    def __init__(
        self,
        site: Site,
        destination: str,
        name: str,
        *,
        credit: int = 1000,
        durable: str = "",
        group: str = "",
        auto: bool = True,
    ) -> None:
        super().__init__(site, name)
        self.destination = parse(destination)
        self.credit, self.durable, self.group, self.auto = credit, durable, group, auto
        self.receipts: list[Receipt] = []
        self.open: list[Receipt] = []
        self._known: set[bytes] = set()

    def opened(self) -> None:
        self.say(Login(VERSION, self.name))
        if self.destination.kind == "queue":
            self.say(Create(1, str(self.destination).removeprefix("queue:")))
        self.say(Subscribe(2, 7, self.destination, self.credit, self.durable, group=self.group))

    def arrived(self, frame: Any) -> None:
        super().arrived(frame)
        if isinstance(frame, ReadingEnded):
            self.open = []
            return
        if not isinstance(frame, Deliver):
            assert isinstance(frame, Welcome | Done), frame
            return
        header = bundles.Header(
            id=frame.bundle,
            destination=frame.destination,
            flags=frame.flags,
            count=frame.count,
            size=frame.size,
        )
        for index, message in enumerate(bundles.unpack(header, frame.body)):
            receipt = Receipt(
                message.payload,
                frame.first + index,
                frame.bundle,
                frame.flags,
                frame.redelivered,
                len(self.receipts),
            )
            receipt.again = receipt.payload in self._known
            self._known.add(receipt.payload)
            self.receipts.append(receipt)
            self.open.append(receipt)

    def acknowledge(self, count: int) -> None:
        """Acknowledge the first `count` of what is not."""
        if self.connection is None or not count or not self.open:
            return
        taken, self.open = self.open[:count], self.open[count:]
        for receipt in taken:
            receipt.acknowledged = True
        self.say(Acknowledge([(receipt.transfer, receipt.transfer) for receipt in taken]))

    def act(self) -> bool:
        if not self.auto or not self.open or self.connection is None:
            return False
        self.acknowledge(len(self.open))
        return True

    def unsubscribe(self) -> None:
        """Leave, with the connection open."""
        self.say(Unsubscribe(3, 7))
        self.gone()

    def gone(self) -> None:
        super().gone()
        self.open = []

    @property
    def payloads(self) -> list[bytes]:
        return [receipt.payload for receipt in self.receipts]


def twice(payloads: Iterable[bytes]) -> dict[bytes, int]:
    return {payload: count for payload, count in Counter(payloads).items() if count > 1}
