"""Where a RabbitMQ is, and as whom to log in there."""

import ssl
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote

import pika

from config.uris import address

HEARTBEAT: Final = 10


@dataclass(frozen=True, slots=True)
class Server:
    """Where a RabbitMQ is, and as whom to log in. `name`: how the connection is shown to its operators.

    `timeout`: seconds for connecting to one of the host's addresses. `heartbeat`: seconds; a peer that is
    silent for twice as long is gone.
    """

    uri: str
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    tls: ssl.SSLContext | None = None
    name: str = "sapwood"
    timeout: float = 10.0
    heartbeat: int = HEARTBEAT

    @property
    def host(self) -> str:
        return address(self.uri).host

    @property
    def port(self) -> int:
        return address(self.uri).port

    @property
    def vhost(self) -> str:
        return address(self.uri).vhost

    def at(self, vhost: str) -> "Server":
        """The same server, another virtual host."""
        where = replace(address(self.uri), path=f"/{quote(vhost, safe='')}")
        return replace(self, uri=where.uri)

    @property
    def parameters(self) -> pika.ConnectionParameters:
        options = pika.SSLOptions(self.tls, self.host) if self.tls else None
        return pika.ConnectionParameters(
            host=self.host,
            port=self.port,
            virtual_host=self.vhost,
            credentials=pika.PlainCredentials(self.user, self.password),
            heartbeat=self.heartbeat,
            ssl_options=options,
            socket_timeout=self.timeout,
            stack_timeout=self.timeout,
            client_properties={"connection_name": self.name, "product": "Sapwood"},
        )
