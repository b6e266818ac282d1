"""Addresses in a configuration: link URIs, site-broker URIs, hosts; and how a link URI is understood.

Wrinkle: a port is optional. A WebSocket link goes to port 7600 and path `/link` unless the URI says
otherwise; MQTT and AMQP links go to their protocol's own port.
"""

import ipaddress
import re
from typing import Final
from urllib.parse import unquote

from config.kinds import Fault, Text, compiled, shown
from config.records import record
from config.schemes import (
    BROKERED,
    CARRIERS,
    DIRECT,
    LOOKED_UP,
    SITE_BROKERS,
    Protocol,
    advice,
    either,
    listed,
    pattern,
    protocol_of,
    speaks_tls,
    usual_port,
)

EMBEDDED: Final = "embedded"

HOST_PATTERN: Final = r"([A-Za-z0-9._\-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])"
_TAIL: Final = r"(:[0-9]{1,5})?(/[!-~]{0,1024})?"
_LINK: Final = f"{pattern(CARRIERS)}://{HOST_PATTERN}{_TAIL}"
_SRV: Final = rf"{LOOKED_UP}://[A-Za-z0-9._\-]{{1,253}}"
_PARTS: Final = r"([a-z]+)://(\[[^\]]*\]|[^:/]*)(?::([0-9]+))?(/.*)?"

_DIAL: Final = f"//HOST:{DIRECT.port}{DIRECT.path}"
_USE_LINK: Final = (
    f"links ride on {either(each.title for each in CARRIERS)}; write {DIRECT.scheme}:{_DIAL}, or"
    f" {DIRECT.tls_scheme}:// with TLS"
)
_USE_BROKER: Final = f"write {advice(SITE_BROKERS)}"
_USE_PORT: Final = f"children dial the node's own port on {DIRECT.title}; a link broker is {advice(BROKERED)}"
_A_LINK: Final = f"a URI such as {DIRECT.tls_scheme}:{_DIAL} ({listed(CARRIERS)})"


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
        if parts and parts[1] in DIRECT.schemes and "#" in uri:
            raise Fault(f"{shown(text)}: the address of a link has no part after '#': leave it out")
        return uri


class DnsServer(Text):
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
    f"{_A_LINK} or {LOOKED_UP}://DOMAIN",
    f"{_LINK}|{_SRV}",
    hints={"tcp:": _USE_LINK, "ssl:": _USE_LINK, "tls:": _USE_LINK, "http:": _USE_LINK, "https:": _USE_LINK},
)
ANNOUNCED_URI: Final = Uri(_A_LINK, _LINK, hints=LINK_URI.hints)
LAN: Final = f"{LOOKED_UP}://local"
"""Looked up by multicast on the same network, as all names below `local` are (RFC 6762)."""
LOOKED_UP_URI: Final = Uri(f"a URI such as {LOOKED_UP}://hq.example.com", _SRV)
BROKER_URI: Final = Uri(
    f"'{EMBEDDED}' or a URI such as mqtt://localhost:1883 ({listed(SITE_BROKERS)})",
    f"{EMBEDDED}|{pattern(SITE_BROKERS)}://{HOST_PATTERN}{_TAIL}",
    hints={"tcp:": _USE_BROKER, "ssl:": _USE_BROKER, "http:": _USE_BROKER, "https:": _USE_BROKER},
)
HTTP_URI: Final = Uri("a URI such as http://localhost:15672 (http, https)", f"https?://{HOST_PATTERN}{_TAIL}")
LINK_BROKER_URI: Final = Uri(
    f"a URI such as mqtt://localhost:1883 ({listed(BROKERED)})",
    f"{pattern(BROKERED)}://{HOST_PATTERN}{_TAIL}",
    hints={f"{scheme}:": _USE_PORT for scheme in DIRECT.schemes}
    | dict.fromkeys(("tcp:", "ssl:"), f"write {advice(BROKERED)}"),
)
DOMAIN: Final = Text("a domain such as uk.example.com", r"[A-Za-z0-9_\-]{1,63}(\.[A-Za-z0-9_\-]{1,63}){0,7}")
NAME_SERVER: Final = DnsServer(
    "the IP address of a DNS server, with or without its port, such as 10.0.0.53, 127.0.0.1:5300 or [::1]:53",
    r"([0-9]{1,3}\.){3}[0-9]{1,3}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?",
)
LOCAL_ADDRESS: Final = LocalAddress(
    "an IP address of this machine, such as 10.0.42.2", r"[0-9.]{7,15}|[0-9A-Fa-f:.]{2,45}"
)
UPDATE_SERVER: Final = DnsServer(
    "a host or an IP address, with or without its port, such as ns1.example.com, 10.0.0.53:53 or [::1]:53",
    f"{HOST_PATTERN}(:[0-9]{{1,5}})?",
)
HOST: Final = Text("a host name or an IP address", r"[A-Za-z0-9._\-]{1,253}|[0-9A-Fa-f:.]{2,45}")


@record
class Address:
    """A URI taken apart. `port` is 0 where DNS tells it; `path` is empty unless the carrier has one."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def tls(self) -> bool:
        return speaks_tls(self.scheme)

    @property
    def looked_up(self) -> bool:
        """True where DNS tells the addresses; there is no `protocol` then."""
        return self.scheme == LOOKED_UP

    @property
    def protocol(self) -> Protocol:
        return protocol_of(self.scheme)

    @property
    def brokered(self) -> bool:
        """True where links ride on a broker."""
        return not self.looked_up and self.protocol.brokered

    @property
    def direct(self) -> bool:
        """True where a link leads to a node's own port."""
        return not self.looked_up and not self.protocol.brokered

    @property
    def reaches_a_port(self) -> bool:
        """True where a node's own port may be found there, with TLS: what joins or renews needs that."""
        return self.looked_up or (self.direct and self.tls)

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
    if scheme != LOOKED_UP and path in (None, "/"):
        path = protocol_of(scheme).path or path
    return Address(scheme, host.strip("[]"), int(port or usual_port(scheme)), path or "")


def dialable(text: str) -> Address | None:
    """An address that another node has announced, taken apart; None if it is none that can be dialled."""
    try:
        return address(ANNOUNCED_URI.parse(text))
    except Fault:
        return None


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
