"""From the rows of a table to the models of its sites.

Wrinkle: an address at a broker (mqtt, amqp) is where the node hears its children, and where these dial.
Wrinkle: below a mesh the ways to all its nodes are in the file, so that a first start needs none of them more
than another.
Wrinkle: a node whose port has an address on another machine's line listens on all interfaces unless
`listen_host` says otherwise, because the default, 127.0.0.1, would keep its children out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from config.errors import ConfigurationError, Problem
from config.fleet.permits import Permitted
from config.fleet.row import SiteRow
from config.fleet.table import cell_problems
from config.fleet.tree import Meshes, tree_problems
from config.kinds import Fault
from config.mesh import Core, Mesh
from config.model import ClientTls, LinkBroker, Listener, ServerTls, Site, SiteBroker, TreeConnector
from config.rules import check
from config.uris import address, is_loopback


def sites(rows: Sequence[SiteRow]) -> list[Site]:
    """Return the model of every row, in order.

    Raises `ConfigurationError` with everything that is wrong with the rows or their tree.
    """
    problems = [problem for row in rows for problem in cell_problems(row)] + tree_problems(rows)
    if problems:
        raise ConfigurationError(problems)
    meshes = Meshes(rows)
    tree = next((row.tree for row in rows if row.tree), "")
    permitted = Permitted(rows)
    made: list[Site] = []
    for row in rows:
        site = _site(row, meshes, tree, permitted)
        try:
            made.append(check(site))
        except (ConfigurationError, Fault) as error:
            problems.append(Problem(f"{row.name!r}: {error}", row.file, row.line or None))
    if problems:
        raise ConfigurationError(problems)
    return made


def _site(row: SiteRow, meshes: Meshes, tree: str, permitted: Permitted) -> Site:
    listener = _listener(row)
    given: dict[str, Any] = {"tree": tree, "zone": row.zone}
    if not (listener.loopback or listener.tls.client_ca):
        given["applications"] = (
            "local"  # a table has no accounts: nobody from elsewhere until the file says who
        )
    paths = {"data": row.data, "children_secrets": row.children_secrets}
    return Site(
        name=row.name,
        site_broker=_site_broker(row),
        tree_connectors=(_connector(row, meshes.above(row)),) if row.parent else (),
        mesh=_mesh(row, meshes.beside(row)),
        listener=listener,
        children=permitted.children(row.name),
        **_set(given),
        **_paths(paths),
    )


def _set(given: Mapping[str, Any]) -> dict[str, Any]:
    """Only what the row says; the rest keeps its default."""
    return {name: value for name, value in given.items() if value}


def _paths(given: Mapping[str, str]) -> dict[str, Any]:
    return {name: Path(value) for name, value in given.items() if value}


def _site_broker(row: SiteRow) -> SiteBroker:
    given = {
        "uri": row.site_broker,
        "user": row.site_broker_user,
        "secret_env": row.site_broker_secret_env,
    }
    return SiteBroker(**_set(given), **_paths({"secret_file": row.site_broker_secret_file}))


def _mesh(row: SiteRow, others: Sequence[SiteRow]) -> Mesh:
    ways = [(other.name, other.addresses) for other in others]
    encrypted = any(address(uri).tls for _, uris in ways for uri in uris)
    return Mesh(
        cores=tuple(Core(name=name, uri=uris[0], uris=uris[1:]) for name, uris in ways),
        tls=ClientTls(**_paths({"ca": row.ca})) if encrypted else ClientTls(),
    )


def _connector(row: SiteRow, parents: Sequence[SiteRow]) -> TreeConnector:
    uri, *more = [uri for parent in parents for uri in parent.addresses]
    ways = [address(way) for way in (uri, *more)]
    encrypted = any(way.tls for way in ways)
    login = any(way.brokered for way in ways)
    return TreeConnector(
        nodetype="leaf" if row.role == "leaf" else "branch",
        uri=uri,
        uris=tuple(more),
        tls=ClientTls(**_paths({"ca": row.ca})) if encrypted else ClientTls(),
        **_set({"secret_env": row.secret_env}),
        **_paths({"secret_file": row.secret_file}),
        **(_set({"user": row.link_user, "password_env": row.link_password_env}) if login else {}),
        **(_paths({"password_file": row.link_password_file}) if login else {}),
    )


def _link_brokers(row: SiteRow) -> tuple[LinkBroker, ...]:
    """A node that others reach at a broker listens there."""
    places = [address(uri) for uri in row.addresses]
    brokers = [place for place in places if place.brokered and row.role != "leaf"]
    return tuple(
        LinkBroker(
            uri=broker.uri,
            tls=ClientTls(**_paths({"ca": row.ca})) if broker.tls else ClientTls(),
            **_set({"user": row.link_user, "secret_env": row.link_password_env}),
            **_paths({"secret_file": row.link_password_file}),
        )
        for broker in brokers
    )


def _listener(row: SiteRow) -> Listener:
    tls = ServerTls(**_paths({"certificate": row.certificate, "key": row.key, "client_ca": row.client_ca}))
    given: dict[str, Any] = {}
    if row.addresses:
        given = {"public_uri": row.addresses[0], "addresses": row.addresses[1:]}
        places = [address(uri) for uri in row.addresses]
        own = next((place for place in places if not place.brokered), None)
        if own is not None:
            given["host"] = "" if is_loopback(own.host) else "0.0.0.0"  # noqa: S104 - see the wrinkle above
            given["port"] = own.port
    given |= _set({"host": row.listen_host, "port": int(row.listen_port) if row.listen_port else None})
    return Listener(tls=tls, link_brokers=_link_brokers(row), **_set(given))
