"""The ports between the parts of the MQTT door."""

from collections.abc import Callable
from typing import Protocol

from broker.core.clients.kept_sessions import KeptSession
from broker.core.node import NodeCore
from broker.entrance.entrance import Entrance
from broker.host import Host
from sapwood.protocol.session_frames import ClientFrame


class Speaker(Protocol):
    """One connection, as its publishing and its reading know it.

    `queue_prefix`: begins topics that are queues. `session`: the name of its session.
    """

    @property
    def client_id(self) -> str: ...

    @property
    def queue_prefix(self) -> str: ...

    @property
    def session(self) -> str: ...

    @property
    def core(self) -> NodeCore: ...

    def ask(self, *frames: ClientFrame) -> bool:
        """Tell the switch. Whether it did all of it."""
        ...

    def new_request(self) -> int: ...

    def write(self, data: bytes) -> None:
        """To the client."""
        ...

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call once everything that was done so far is on disk."""
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

    def resume(self, session: str) -> KeptSession | None:
        """What was kept of a session, None if nothing was."""
        ...
