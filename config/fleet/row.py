"""One row of a chain's table: a site as its cells say it."""

from dataclasses import dataclass
from typing import Final

from config.schemes import DIRECT
from config.uris import ANNOUNCED_URI, address

ROLES: Final = ("leaf", "branch", "root")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRow:
    """One site of the table; an empty text is an empty cell. `file` and `line` say where it stands.

    `parent`: the node above, or several of one mesh with spaces between. `mesh`: a word that all nodes of one
    mesh have.
    `address`: where others reach the node: host, host:port or URI; several are separated by spaces.
    `consume`, `send`: what the site may do beside what is below its own name; several with spaces between.
    `link_…`: the node's login at brokers that links ride on, its parent's and its own.
    `region`: a label for people; a node's region follows from the tree.
    """

    name: str
    role: str
    parent: str = ""
    mesh: str = ""
    address: str = ""
    site_broker: str = ""
    site_broker_user: str = ""
    site_broker_secret_env: str = ""
    site_broker_secret_file: str = ""
    tree: str = ""
    zone: str = ""
    region: str = ""
    data: str = ""
    listen_host: str = ""
    listen_port: str = ""
    secret_env: str = ""
    secret_file: str = ""
    children_secrets: str = ""
    consume: str = ""
    send: str = ""
    link_user: str = ""
    link_password_env: str = ""
    link_password_file: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    file: str = ""
    line: int = 0

    @property
    def parents(self) -> tuple[str, ...]:
        """The nodes above that the row names."""
        return tuple(self.parent.split())

    @property
    def addresses(self) -> tuple[str, ...]:
        """The URIs at which other nodes reach this one, complete with port and path.

        Raises `config.kinds.Fault` when the cell holds something else.
        """
        scheme = DIRECT.tls_scheme if self.certificate else DIRECT.scheme
        texts = (one if "://" in one else f"{scheme}://{one}" for one in self.address.split())
        return tuple(address(ANNOUNCED_URI.parse(text)).uri for text in texts)
