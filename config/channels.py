"""The sections of a site's file that name what others may reach here through channels, and their kinds."""

from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final

from config.fields import section, value, values
from config.kinds import Fault, Text, shown
from config.uris import HOST_PATTERN
from config.values import BYTES, GIB, NAME, PATH

CHANNELS: Final = Text(
    "NAME@NODE, in which '*' is any text, and {name} as the node the child, such as till-web@shop-*; or"
    " nothing",
    r"[A-Za-z0-9._\-*]{1,64}@([A-Za-z0-9._\-*]{1,64}|\{name\}[A-Za-z0-9._\-]{0,64})|nothing",
)
NODE_PATTERN: Final = Text("a node's name, in which '*' is any text", r"[A-Za-z0-9._\-*]{1,64}")


class ServiceAddress(Text):
    """A host that can be looked up or dialled, and a port from 1 to 65535."""

    def parse(self, text: str) -> str:
        service = super().parse(text)
        host, _, port = service.rpartition(":")
        if not 1 <= int(port) <= 65535:
            raise Fault(f"{shown(text)}: expected a port from 1 to 65535")
        try:
            IPv6Address(host[1:-1]) if host.startswith("[") else host.encode("idna")
        except ValueError:
            raise Fault(f"{shown(text)}: {shown(host)} is no host name or address") from None
        return service


SERVICE: Final = ServiceAddress(
    "a host and a port, such as localhost:8080 or [::1]:22",
    f"{HOST_PATTERN}:[0-9]{{1,5}}",
    hints=dict.fromkeys(("http:", "https:", "tcp:", "ssh:"), "write HOST:PORT, without a scheme"),
)


@section
class Forward:
    """A TCP service that others may reach through the tree."""

    name: str = value(NAME, "the name by which others ask for it", example="till-web")
    to: str = value(
        SERVICE, "host and port at which this node connects to the service", example="localhost:8080"
    )
    permit: tuple[str, ...] = values(
        NODE_PATTERN,
        "nodes from which it may be reached; each parent on the way permits it too, by `opens` and `serves`",
        item="node",
        default=(),
        example=("hq", "region-*"),
    )


@section
class Folder:
    """A folder whose files others may fetch or bring through the tree."""

    name: str = value(
        NAME, "the name by which others ask for it; `sapwood copy` asks for files", example="files"
    )
    path: Path = value(PATH, "the folder; nothing outside of it is reached", example="/var/lib/till/files")
    read: tuple[str, ...] = values(
        NODE_PATTERN,
        "nodes from which files may be fetched; each parent on the way permits it too, by `opens` and "
        "`serves`",
        item="node",
        default=(),
        example=("hq", "region-*"),
    )
    write: tuple[str, ...] = values(
        NODE_PATTERN,
        "nodes from which files may be brought, and replaced",
        item="node",
        default=(),
        example=("hq",),
    )
    max_file: int = value(BYTES, "largest file that may be brought", default=GIB)


class ListenAddress(Text):
    """An address of this machine, and never all of them: who may come is told by where a port is."""

    def parse(self, text: str) -> str:
        try:
            address = ip_address(super().parse(text))
        except Fault:
            raise
        except ValueError:
            raise self.refuse(text) from None
        if address.is_unspecified:
            raise Fault(f"{shown(text)} is every address: name those of safe networks, one by one")
        return text


LISTEN: Final = ListenAddress(
    "an address of this machine, such as 10.1.2.3", r"[0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-f:]{2,39}"
)


@section
class AppChannels:
    """Channels that applications hand over by message. Those of one user on one machine need none of this."""

    offered_to: tuple[str, ...] = values(
        NODE_PATTERN,
        "nodes whose applications may take channels that applications here have made; each parent on the way "
        "permits it too, by `opens` and `serves`",
        item="node",
        default=(),
        example=("hq", "region-*"),
    )
    taken_from: tuple[str, ...] = values(
        NODE_PATTERN,
        "nodes at which applications here may take channels",
        item="node",
        default=(),
        example=("store-*",),
    )
    listen: tuple[str, ...] = values(
        LISTEN,
        "addresses of this machine at which channels may be taken directly, by TCP, on ports that the system "
        "chooses",
        item="address",
        default=(),
        example=("10.1.2.3",),
    )
