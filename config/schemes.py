"""One table of protocols: the schemes of addresses, over what links ride, and which site brokers there are.

Everything that asks for a scheme's port, its TLS, its library or its bridge asks here; the patterns of the
site's file, its schemas and its texts are made of this table. A carrier is the module
`bridges.carriers.CARRIER`, a site broker the package `bridges.site_brokers.SITE_BROKER`: to add one is to
write that, and a row.

Law: with TLS a scheme is the one without and an `s`.
"""

from collections.abc import Iterable
from typing import Final

from config.records import record

LINK_PATH: Final = "/link"
LOOKED_UP: Final = "srv"
"""The scheme of a parent that DNS tells; it has no port."""


@record
class Protocol:
    """A row. `title`: for people. `port`, `tls_port`: where its servers usually are; no `tls_port`, no TLS.

    `carrier`: the module that carries links; '' = none does. `brokered`: links ride on a broker there, else
    they lead to the parent's own port. `path`: where a link leads to there. `binds`: whether its library
    dials from an address of our choice. `has_path`: whether its addresses have a path.

    `site_broker`: the package of the bridge; '' = no site broker speaks this. `product`: its name.

    `extra`: of our distribution, with the library that it needs; '' = none.
    """

    scheme: str
    title: str
    port: int
    tls_port: int = 0
    carrier: str = ""
    brokered: bool = False
    path: str = ""
    has_path: bool = True
    binds: bool = True
    site_broker: str = ""
    product: str = ""
    extra: str = ""

    @property
    def tls_scheme(self) -> str:
        return f"{self.scheme}s" if self.tls_port else ""

    @property
    def schemes(self) -> tuple[str, ...]:
        return (self.scheme, self.tls_scheme) if self.tls_port else (self.scheme,)

    @property
    def install(self) -> str:
        """The command that installs its library."""
        return f"pip install 'sapwood-node[{self.extra}]'"


PROTOCOLS: Final = (
    Protocol("ws", "WebSocket", 7600, 7600, carrier="websocket", path=LINK_PATH),
    Protocol(
        "mqtt",
        "MQTT",
        1883,
        8883,
        carrier="mqtt",
        brokered=True,
        has_path=False,
        site_broker="mosquitto",
        product="Mosquitto",
        extra="mqtt",
    ),
    Protocol(
        "amqp",
        "AMQP",
        5672,
        5671,
        carrier="amqp",
        brokered=True,
        binds=False,
        site_broker="rabbitmq",
        product="RabbitMQ",
        extra="amqp",
    ),
)

_BY_SCHEME: Final = {scheme: protocol for protocol in PROTOCOLS for scheme in protocol.schemes}
CARRIERS: Final = tuple(protocol for protocol in PROTOCOLS if protocol.carrier)
BROKERED: Final = tuple(protocol for protocol in CARRIERS if protocol.brokered)
SITE_BROKERS: Final = tuple(protocol for protocol in PROTOCOLS if protocol.site_broker)
DIRECT: Final = next(protocol for protocol in CARRIERS if not protocol.brokered)
"""How a node's own port is dialled."""


def protocol_of(scheme: str) -> Protocol:
    """The row of a scheme, with TLS or without. Raises `KeyError` for `srv`, and for what is none."""
    return _BY_SCHEME[scheme]


def speaks_tls(scheme: str) -> bool:
    return scheme in _BY_SCHEME and scheme == _BY_SCHEME[scheme].tls_scheme


def shows_certificate(way: str) -> bool:
    """Does it lead to a node's own port, with TLS? A node can join there, and renew its certificate."""
    scheme = way.partition(":")[0]
    return speaks_tls(scheme) and not protocol_of(scheme).brokered


def usual_port(scheme: str) -> int:
    """Where a server usually listens; 0 for `srv`."""
    if scheme == LOOKED_UP:
        return 0
    protocol = protocol_of(scheme)
    return protocol.tls_port if speaks_tls(scheme) else protocol.port


# --- for patterns and texts


def pattern(protocols: Iterable[Protocol]) -> str:
    """A regular expression for the schemes of these: `(mqtts?|amqps?)`."""
    return f"({'|'.join(each.scheme + ('s?' if each.tls_port else '') for each in protocols)})"


def listed(protocols: Iterable[Protocol]) -> str:
    """`mqtt, mqtts, amqp, amqps`."""
    return ", ".join(scheme for each in protocols for scheme in each.schemes)


def listed_tls(protocols: Iterable[Protocol]) -> str:
    """`mqtts, amqps`."""
    return ", ".join(each.tls_scheme for each in protocols if each.tls_port)


def either(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def advice(protocols: Iterable[Protocol]) -> str:
    """`mqtt:// or mqtts:// for Mosquitto, amqp:// or amqps:// for RabbitMQ`."""
    return ", ".join(
        f"{either(f'{scheme}://' for scheme in each.schemes)} for {each.product or each.title}"
        for each in protocols
    )
