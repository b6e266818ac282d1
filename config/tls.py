"""TLS in a site's file: towards servers that the node dials, and of its own port."""

from pathlib import Path

from config.fields import section, value
from config.values import FLAG, PATH


@section
class ClientTls:
    """TLS towards a server that this node dials."""

    ca: Path | None = value(
        PATH,
        "file of the certificate authorities (PEM) that the server's certificate must come from; "
        "without it the system's",
        default=None,
        example="tls/ca.pem",
    )
    certificate: Path | None = value(
        PATH, "file of this node's client certificate (PEM)", default=None, example="tls/node.pem"
    )
    key: Path | None = value(
        PATH, "file of the private key of `certificate`", default=None, example="tls/node.key"
    )
    verify_hostname: bool = value(
        FLAG, "whether the server's certificate must name the host that was dialled", default=True
    )


@section
class ServerTls:
    """TLS of the node's own port."""

    certificate: Path | None = value(
        PATH,
        "file of the certificate chain (PEM); with it the port speaks wss and https only",
        default=None,
        example="tls/node.pem",
    )
    key: Path | None = value(
        PATH, "file of the private key of `certificate`", default=None, example="tls/node.key"
    )
    client_ca: Path | None = value(
        PATH,
        "file of the certificate authorities (PEM) that children's certificates must come from; "
        "with it every child needs a certificate",
        default=None,
        example="tls/children-ca.pem",
    )
