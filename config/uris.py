"""Addresses in a configuration: link URIs, site-broker URIs, hosts; and how a link URI is understood.

Wrinkle: a port is optional. A WebSocket link goes to port 7600 and path `/link` unless the URI says
otherwise; MQTT and AMQP links go to their protocol's own port.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from config.kinds import Fault, Text, compiled, shown

DEFAULT_PORT: Final = 7600
LINK_PATH: Final = "/link"
EMBEDDED: Final = "embedded"

_PORTS: Final = {"ws": 7600, "wss": 7600, "mqtt": 1883, "mqtts": 8883, "amqp": 5672, "amqps": 5671, "srv": 0}
_TLS: Final = frozenset({"wss", "mqtts", "amqps"})
BROKERED: Final = frozenset({"mqtt", "mqtts", "amqp", "amqps"})
_HOST: Final = r"([A-Za-z0-9._\-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])"
_TAIL: Final = r"(:[0-9]{1,5})?(/[!-~]{0,1024})?"
_LINK: Final = f"(wss?|mqtts?|amqps?)://{_HOST}{_TAIL}"
_SRV: Final = r"srv://[A-Za-z0-9._\-]{1,253}"
_PARTS: Final = r"([a-z]+)://(\[[^\]]*\]|[^:/]*)(?::([0-9]+))?(/.*)?"

_USE_LINK: Final = "links ride on WebSocket, MQTT or AMQP; write ws://HOST:7600/link, or wss:// with TLS"
_A_BROKER: Final = "mqtt:// or mqtts:// for Mosquitto, amqp:// or amqps:// for RabbitMQ"
_USE_BROKER: Final = f"write {_A_BROKER}"


class Uri(Text):
    """A URI without user or password, whose port, if any, is from 1 to 65535."""

    def parse(self, text: str) -> str:
        if re.match(r"[a-z]+://[^/]*@", text):
            raise Fault(
                f"{shown(text)}: a URI holds no user and no password; set the user and a secret beside it"
            )
        uri = super().parse(text)
        parts = re.fullmatch(_PARTS, uri)
        if parts and parts[3] and not 1 <= int(parts[3]) <= 65535:
            raise Fault(f"{shown(text)}: expected a port from 1 to 65535")
        return uri


class Server(Text):
    """A DNS server: its address is one, and its port is from 1 to 65535."""

    def parse(self, text: str) -> str:
        server = super().parse(text)
        parts = compiled(r"(\[[^\]]*\]|[^:]*)(?::([0-9]+))?").fullmatch(server)
        host, port = parts.groups() if parts else (server, None)
        if port and not 1 <= int(port) <= 65535:
            raise Fault(f"{shown(text)}: expected a port from 1 to 65535")
        if compiled(r"[0-9.]+|\[.*\]").fullmatch(host) and not is_address(host):
            raise self.refuse(text)
        return server


class LocalAddress(Text):
    """An IP address, without a port."""

    def parse(self, text: str) -> str:
        found = super().parse(text)
        if not is_address(found):
            raise self.refuse(text)
        return found


LINK_URI: Final = Uri(
    "a URI such as wss://HOST:7600/link (ws, wss, mqtt, mqtts, amqp, amqps) or srv://DOMAIN",
    f"{_LINK}|{_SRV}",
    hints={"tcp:": _USE_LINK, "ssl:": _USE_LINK, "tls:": _USE_LINK, "http:": _USE_LINK, "https:": _USE_LINK},
)
ANNOUNCED_URI: Final = Uri(
    "a URI such as wss://HOST:7600/link (ws, wss, mqtt, mqtts, amqp, amqps)", _LINK, hints=LINK_URI.hints
)
BROKER_URI: Final = Uri(
    "'embedded' or a URI such as mqtt://localhost:1883 (mqtt, mqtts, amqp, amqps)",
    f"{EMBEDDED}|(mqtts?|amqps?)://{_HOST}{_TAIL}",
    hints={"tcp:": _USE_BROKER, "ssl:": _USE_BROKER, "http:": _USE_BROKER, "https:": _USE_BROKER},
)
HTTP_URI: Final = Uri("a URI such as http://localhost:15672 (http, https)", f"https?://{_HOST}{_TAIL}")
LINK_BROKER_URI: Final = Uri(
    "a URI such as mqtt://localhost:1883 (mqtt, mqtts, amqp, amqps)",
    f"(mqtts?|amqps?)://{_HOST}{_TAIL}",
    hints={
        "ws:": "children dial the node's own port on WebSocket; a link broker is " + _A_BROKER,
        "wss:": "children dial the node's own port on WebSocket; a link broker is " + _A_BROKER,
        "tcp:": _USE_BROKER,
        "ssl:": _USE_BROKER,
    },
)
DOMAIN: Final = Text("a domain such as uk.example.com", r"[A-Za-z0-9_\-]{1,63}(\.[A-Za-z0-9_\-]{1,63}){0,7}")
NAME_SERVER: Final = Server(
    "the IP address of a DNS server, with or without its port, such as 10.0.0.53, 127.0.0.1:5300 or [::1]:53",
    r"([0-9]{1,3}\.){3}[0-9]{1,3}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?",
)
LOCAL_ADDRESS: Final = LocalAddress(
    "an IP address of this machine, such as 10.0.42.2", r"[0-9.]{7,15}|[0-9A-Fa-f:.]{2,45}"
)
UPDATE_SERVER: Final = Server(
    "a host or an IP address, with or without its port, such as ns1.example.com, 10.0.0.53:53 or [::1]:53",
    f"{_HOST}(:[0-9]{{1,5}})?",
)
HOST: Final = Text("a host name or an IP address", r"[A-Za-z0-9._\-]{1,253}|[0-9A-Fa-f:.]{2,45}")


@dataclass(frozen=True, slots=True)
class Address:
    """A URI taken apart. `port` is 0 for `srv`; `path` is empty unless the carrier has one."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def tls(self) -> bool:
        return self.scheme in _TLS

    @property
    def brokered(self) -> bool:
        """True where links ride on a broker."""
        return self.scheme in BROKERED

    @property
    def vhost(self) -> str:
        """The virtual host of an AMQP address; absent or '/' is the one named '/'."""
        return unquote(self.path[1:]) or "/"

    @property
    def uri(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{f':{self.port}' if self.port else ''}{self.path}"


def address(uri: str) -> Address:
    """Take a URI apart that `LINK_URI` or `BROKER_URI` accepted, with its defaults filled in."""
    parts = compiled(_PARTS).fullmatch(uri)
    if not parts:
        raise Fault(f"{shown(uri)} is no URI")
    scheme, host, port, path = parts.groups()
    if scheme in ("ws", "wss") and path in (None, "/"):
        path = LINK_PATH
    return Address(scheme, host.strip("[]"), int(port or _PORTS[scheme]), path or "")


def is_loopback(host: str) -> bool:
    """True for a host that other machines cannot reach."""
    bare = host.strip("[]").lower()
    return bare in ("localhost", "::1") or bool(compiled(r"127(\.[0-9]{1,3}){3}").fullmatch(bare))


def is_address(host: str) -> bool:
    """True for an IP address, which no SRV record can name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
