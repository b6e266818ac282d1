"""The port behind which a broker lies: lines to it, each one connection, for one link or for the knocks.

Guarantees of every adapter:
- A line's connection leaves nothing at the broker: what it subscribed to or declared goes with it.
- What is heard comes in order. What is said is taken in order, at least once confirmed; what the broker
  refuses, or nobody hears, ends the line with a text that says so (as far as the protocol tells).
- What is heard is confirmed to the broker at once: the window bounds it, not the broker.
- `say` never blocks. `close` waits (a few seconds at most) until the broker has all that was said.
- `ear.lost` is called once when a line ends by itself, never after `close`, and maybe before the call that
  opens the line has returned. No exception of another library leaves an adapter.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from bridges.carriers.base import CarrierError
from bridges.tls import TlsSettings


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """Where a broker is, and as whom to log in. `tls` None: a plain connection. `vhost`: of AMQP.

    `local`: the address to bind, '' = as the system chooses; for MQTT only.
    """

    host: str
    port: int
    user: str = ""
    password: str = ""
    tls: TlsSettings | None = None
    vhost: str = "/"
    local: str = ""

    def __repr__(self) -> str:
        return f"<BrokerAccess {self.user or 'nobody'} at {self.host}:{self.port}>"


class Ear(Protocol):
    """Hears the messages that come on a line."""

    def heard(self, child: str, message: bytes) -> None:
        """A message; `child`: whose topic or queue it is."""

    def lost(self, error: CarrierError) -> None:
        """The line has ended by itself."""


class BrokerLine(ABC):
    """One connection to a broker, open. `max_message`: bytes that the broker takes at most."""

    max_message: int

    @abstractmethod
    def say(self, message: bytes) -> None:
        """Say it to the other side. It dies with the link."""

    @abstractmethod
    async def close(self) -> None:
        """Give the broker what was said, and leave it. Idempotent, never raises."""


class Broker(ABC):
    """One broker, as one node sees it. Opening a line raises `CarrierError`. `uri`: for people.

    `half`: the child's half of the nonce, hexadecimal. `last_words`: what the broker says for this side when
    it has lost the connection, where it can do that.
    """

    uri: str

    @abstractmethod
    async def knock(self, child: str, half: str, knock: bytes, last_words: bytes, ear: Ear) -> BrokerLine:
        """The child's line; says `knock` to the parent."""

    @abstractmethod
    async def answer(self, child: str, half: str, last_words: bytes, ear: Ear) -> BrokerLine:
        """The parent's line for one child."""

    @abstractmethod
    async def listen(self, ear: Ear) -> BrokerLine:
        """The parent's line on which all children knock. Parents hear what is said on it, this one too; where
        the broker does not let them, nobody does.
        """
