"""The ports between the parts of the MQTT door."""

from typing import Protocol

from broker.entrance.entrance import Entrance
from broker.host import Host
from broker.mqtt.packet_ids import PacketIds
from treeconnector.session_frames import ClientFrame


class Speaker(Protocol):
    """One connection, as its publishing and its reading know it.

    `queue_prefix`: begins topics that are queues.
    """

    @property
    def client_id(self) -> str: ...

    @property
    def queue_prefix(self) -> str: ...

    def ask(self, *frames: ClientFrame) -> bool:
        """Tell the switch. Whether it did all of it."""
        ...

    def new_request(self) -> int: ...

    def write(self, data: bytes) -> None:
        """To the client."""
        ...


class Entered(Protocol):
    """A connection, as the port knows it. `session`: the name of its session, '' before it has one."""

    entered_as: str

    @property
    def session(self) -> str: ...

    def end(self, reason: str) -> None: ...

    def leave(self) -> None: ...


class Clients(Protocol):
    """The port, as its connections know it. `max_packet`: bytes."""

    @property
    def host(self) -> Host: ...

    @property
    def entrance(self) -> Entrance: ...

    @property
    def queue_prefix(self) -> str: ...

    @property
    def max_packet(self) -> int: ...

    def arrived(self, client: Entered) -> None: ...

    def entered(self, client: Entered) -> None: ...

    def left(self, client: Entered) -> None: ...

    def new_id(self) -> str: ...

    def kept(self, session: str) -> dict[str, str]: ...

    def received(self, session: str, *, new: bool) -> PacketIds: ...
