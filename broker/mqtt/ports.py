"""The ports between the parts of the MQTT door."""

from collections.abc import Callable
from typing import Protocol

from broker.core.clients.kept_sessions import KeptSession
from broker.core.node import NodeCore
from broker.core.sessions.sessions import Connection
from broker.entrance.entrance import Entrance
from broker.host import Host
from broker.log_throttle import LogThrottle
from broker.mqtt.names import DoorNames
from broker.mqtt.reasons import Reason
from sapwood.protocol.session_frames import ClientFrame


class Speaker(Protocol):
    """One connection, as its publishing and its reading know it.

    `session`: the name of its session. `is_5`: does it speak MQTT 5? `most_packet`: bytes that it takes.
    `is_explained`: are refusals explained to it? `failure`: the code of the latest error of the switch.
    """

    failure: str

    @property
    def most_packet(self) -> int: ...

    @property
    def is_explained(self) -> bool: ...

    @property
    def client_id(self) -> str: ...

    @property
    def names(self) -> DoorNames: ...

    @property
    def is_5(self) -> bool: ...

    @property
    def connection(self) -> Connection: ...

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

    def end(self, why: str, reason: Reason) -> None: ...

    def stop(self) -> None:
        """The node does."""
        ...


class Clients(Protocol):
    """The port, as its connections know it. `max_packet`: bytes. `max_keep_alive`: seconds, 0 = any.
    `throttle`: of what the log says again and again.
    """

    @property
    def throttle(self) -> LogThrottle: ...

    @property
    def host(self) -> Host: ...

    @property
    def entrance(self) -> Entrance: ...

    @property
    def names(self) -> DoorNames: ...

    @property
    def max_packet(self) -> int: ...

    @property
    def max_keep_alive(self) -> int: ...

    def arrived(self, client: Entered) -> None: ...

    def entered(self, client: Entered) -> None: ...

    def left(self, client: Entered) -> None: ...

    def new_id(self) -> str: ...

    def resume(self, session: str) -> KeptSession | None:
        """What was kept of a session, None if nothing was."""
        ...
