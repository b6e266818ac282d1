"""The mesh that a node is in: two or three roots that are one, or two or three branches."""

from pathlib import Path

from config.fields import part, parts, section, value, values
from config.schemes import CARRIERS, LOOKED_UP, listed, listed_tls
from config.tls import ClientTls
from config.uris import ANNOUNCED_URI, LOOKED_UP_URI, NAME_SERVER
from config.values import NAME, PATH, VARIABLE


@section
class Core:
    """Another node of this node's mesh."""

    name: str = value(NAME, "its name", example="hq-2")
    uri: str = value(
        ANNOUNCED_URI,
        f"the way to it: {listed(CARRIERS)}",
        example="wss://hq-2.example.com:7600",
    )
    uris: tuple[str, ...] = values(
        ANNOUNCED_URI,
        "further ways to it, tried in this order after `uri`",
        item="uri",
        default=(),
        example=("wss://hq-2-second-line.example.com:7600",),
    )

    @property
    def ways(self) -> tuple[str, ...]:
        """All URIs, in the order in which to try them."""
        return (self.uri, *self.uris)


@section
class Mesh:
    """The other nodes of this node's mesh. Of two nodes that with the smaller name dials."""

    secret_env: str | None = value(
        VARIABLE,
        "environment variable that holds the secret which the nodes of the mesh prove to each other",
        default=None,
        aside=True,
    )
    secret_file: Path | None = value(
        PATH, "file that holds that secret, the same at all of them", default=None, example="secrets/mesh"
    )
    uri: str | None = value(
        LOOKED_UP_URI,
        f"{LOOKED_UP}://DOMAIN under which the nodes of the mesh register: those that DNS names are dialled, "
        "and are of the mesh once they have proved its secret; with `scheme` core that of `registration` "
        "unless given",
        default=None,
        aside=True,
    )
    name_servers: tuple[str, ...] = values(
        NAME_SERVER,
        "DNS servers to ask for that, without them those of the system; the hosts that DNS names are "
        "looked up by the system in any case",
        item="name_server",
        default=(),
        example=("10.0.0.53",),
    )
    cores: tuple[Core, ...] = parts(
        Core, "the other nodes (branch and root only); each lists the others", item="core", default=()
    )
    tls: ClientTls = part(f"TLS towards the other nodes ({listed_tls(CARRIERS)})", default=ClientTls())
