"""The MQTT port of a node that is its site's broker: who is connected, and what is kept of whom.

MQTT 3.1.1 and 5, on plain TCP or with the TLS of the node's port. What it promises and what it does not is in
docs/mqtt.md.
"""

import asyncio
import logging
import secrets
import ssl
from functools import cached_property
from typing import Final, Self

from broker.core.clients.kept_sessions import NEVER, KeptSession
from broker.entrance.entrance import Entrance
from broker.host import Host
from broker.http.encrypted import Encrypted, Failed
from broker.intake import Acceptor, Admission, Guest, Narrow, open_listeners
from broker.log_throttle import LogThrottle
from broker.mqtt.client import MqttConnection
from broker.mqtt.names import DoorNames
from broker.mqtt.ports import Entered
from broker.mqtt.reading import MqttReading
from broker.mqtt.reasons import Reason
from config.model import Site
from sapwood.protocol.errors import SapwoodError

_log = logging.getLogger("sapwood.mqtt")
_QOS: Final = ("0", "1", "2")
"""Began the names of subscriptions that an older version made; others belong to no session of this door."""
_HEADROOM: Final = 64 * 1024 + 16


class Door:
    """Listens from `open` to `close`. `max_packet`: bytes; `max_keep_alive`: seconds, 0 = any;
    `names`: how clients call what they send to.

    `refused(address, text)`: who could not connect with TLS, and why.
    """

    def __init__(
        self, host: Host, site: Site, entrance: Entrance, intake: Admission, refused: Failed
    ) -> None:
        self.host = host
        self.entrance = entrance
        self._intake = intake
        self._refused = refused
        self.throttle = LogThrottle()
        self.names = DoorNames(site.mqtt.queue_prefix, site.name)
        self.max_packet = site.limits.max_message + _HEADROOM
        self.max_keep_alive = site.mqtt.max_keep_alive or 0
        self._clients: dict[str, Entered] = {}
        self._lines: set[Entered] = set()
        self._context: ssl.SSLContext | None = None
        self._acceptor: Acceptor | None = None
        self.port = 0

    def __repr__(self) -> str:
        return f"<Door port={self.port} clients={len(self._clients)}>"

    def __len__(self) -> int:
        return len(self._clients)

    def open(self, host: str, port: int, context: ssl.SSLContext | None) -> Self:
        """Listen. Raises `SapwoodError`."""
        try:
            listeners = open_listeners(host, port)
        except OSError as error:
            raise SapwoodError(
                f"cannot listen for MQTT on {host}:{port}: {error.strerror or error};"
                " is a broker running there? Name it as the site's broker, or change the port of mqtt"
            ) from None
        self._context = context
        self._acceptor = Acceptor(listeners, self._intake, self._line)
        self.port = listeners[0].getsockname()[1]
        _log.info("= MQTT clients are served on port %d", self.port)
        return self

    def _line(self, guest: Guest) -> asyncio.BaseProtocol:
        """What stands on a new connection."""
        client = self.connection(guest)
        if self._context is not None:
            return Encrypted(client, self._context, self._refused, guest)
        return Narrow(client, guest)

    def connection(self, guest: Guest) -> MqttConnection:
        """One more, whose line is somebody else's: it is told of the line as a protocol of asyncio is."""
        return MqttConnection(self, guest)

    def close(self) -> None:
        """End all connections. A node that stops is no reason for a will: its clients come back."""
        if self._acceptor is not None:
            self._acceptor.close()
        for client in list(self._lines):
            client.stop()

    # --- clients

    def arrived(self, client: Entered) -> None:
        """It has a line."""
        self._lines.add(client)

    def entered(self, client: Entered) -> None:
        """A client said who it is. Who was here under that name must go."""
        before = self._clients.get(client.session)
        if before is not None:
            before.end("another connection has its client id now", Reason.TAKEN_OVER)
        client.entered_as = client.session
        self._clients[client.entered_as] = client

    def left(self, client: Entered) -> None:
        self._lines.discard(client)
        if self._clients.get(client.entered_as) is client:
            del self._clients[client.entered_as]
            self.host.core.kept_sessions.leave(client.entered_as)

    @staticmethod
    def new_id() -> str:
        """For a client that names none."""
        return f"auto-{secrets.token_urlsafe(9)}"

    def resume(self, session: str) -> KeptSession | None:
        """What was kept of a session, None if nothing was; of an older version's its subscriptions were."""
        kept_sessions = self.host.core.kept_sessions
        kept = kept_sessions.get(session)
        if kept is not None:
            return kept
        topics, left = self.host.core.topics, self._older.get(session, {})
        older = {name: pattern for name, pattern in left.items() if topics.durable(session, name)}
        if older:
            kept = kept_sessions.keep(session, NEVER)
            MqttReading.adopt(kept, older)
        self._older.pop(session, None)
        return kept

    @cached_property
    def _older(self) -> dict[str, dict[str, str]]:
        """Patterns by names of what an older version made, by sessions: looked for once."""
        core, found = self.host.core, dict[str, dict[str, str]]()
        for each in core.topics.subscriptions.values():
            if each.name[:1] in _QOS and core.kept_sessions.get(each.session) is None:
                found.setdefault(each.session, {})[each.name] = each.pattern
        return found
