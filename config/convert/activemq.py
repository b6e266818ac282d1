"""Network connectors of ActiveMQ Classic: the elements `networkConnector` of an activemq.xml.

A network connector forwards to the other broker what consumers there ask for, and with `duplex` the other way
too; a link does both. The node's embedded broker stands in for ActiveMQ. Loops, hop counts and flooded
advisories have no counterpart, because a tree needs none.
"""

import re
from collections.abc import Iterator
from typing import Final

from config.convert.draft import Draft, legal_name
from config.document import Unreadable
from config.kinds import shown
from config.xml import Element, parse

_NEEDLESS: Final = {
    "networkTTL": "a tree has no loops, and no message or advisory is stopped by a count of hops",
    "messageTTL": "a tree has no loops, and no message or advisory is stopped by a count of hops",
    "consumerTTL": "a tree has no loops, and no message or advisory is stopped by a count of hops",
    "dynamicOnly": "consumers are learned, and a route outlives its consumer's absence: `route_retention`",
    "conduitSubscriptions": "one advisory for each destination and link, always",
    "conduitNetworkQueueSubscriptions": "one advisory for each destination and link, always",
    "decreaseNetworkConsumerPriority": "a consumer at the site comes first, always",
    "suppressDuplicateQueueSubscriptions": "one advisory for each destination and link, always",
    "suppressDuplicateTopicSubscriptions": "one advisory for each destination and link, always",
    "bridgeTempDestinations": "a reply queue carries its node, so replies need no advisory",
    "alwaysSyncSend": "a message is on disk before it is acknowledged, always",
    "useCompression": "bundles are compressed where that pays",
    "prefetchSize": "the window of a link is agreed in its handshake",
    "advisoryPrefetchSize": "the window of a link is agreed in its handshake",
    "consumerPriorityBase": "a consumer at the site comes first, always",
    "checkDuplicateMessagesOnDuplex": "a message crosses a hop once",
    "syncDurableSubs": "a durable subscription is a route until it ends",
    "staticBridge": "consumers are learned",
}
_SCHEMES: Final = {"tcp": "ws", "nio": "ws", "http": "ws", "ws": "ws", "auto": "ws"}
_SCHEMES_TLS: Final = {"ssl": "wss", "nio+ssl": "wss", "https": "wss", "wss": "wss", "auto+ssl": "wss"}
_LISTS: Final = {
    "dynamicallyIncludedDestinations": "not needed: what has a consumer elsewhere leaves, and nothing else",
    "excludedDestinations": "no counterpart: what has a consumer elsewhere leaves",
    "staticallyIncludedDestinations": "went without a consumer: let one subscribe at the parent",
    "durableDestinations": "not needed: a durable subscription is a route until it ends",
}
_KNOWN: Final = frozenset({"name", "uri", "duplex", "userName", "password", "id", "brokerName"})


def read(text: str) -> list[Draft]:
    """Return a draft for each network connector. Raises `Unreadable`."""
    root = parse(text)
    broker = next((one for one in _every(root) if _local(one.name) == "broker"), None)
    name = next((each.text for each in broker.attributes if each.name == "brokerName"), "") if broker else ""
    found = [one for one in _every(root) if _local(one.name) == "networkConnector"]
    if not found:
        raise Unreadable("no element <networkConnector>: expected an activemq.xml that has one", root.mark)
    drafts = [_connector(element, legal_name(name)) for element in found]
    others = dict.fromkeys(_others(root, broker))
    for draft in drafts:
        draft.stays(others)
    return drafts


def _others(root: Element, broker: Element | None) -> Iterator[str]:
    """Name all that the file has beside network connectors."""
    if broker is None:
        return
    yield from (
        one.name for one in broker.attributes if one.name not in _KNOWN and not one.name.startswith("xmlns")
    )
    beside = [each for each in root.children if root is not broker and each is not broker]
    for each in (*broker.children, *beside):
        name = _local(each.name)
        if name != "networkConnectors":
            yield name
            continue
        yield from (
            inner for inner in (_local(one.name) for one in each.children) if inner != "networkConnector"
        )


def _every(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from _every(child)


def _local(name: str) -> str:
    """The name of an element without its prefix."""
    return name.rpartition(":")[2]


def _connector(element: Element, broker: str) -> Draft:
    given = {one.name: one for one in element.attributes}
    text = {name: one.text for name, one in given.items()}
    line = element.mark.line
    name = text.get("name", "")
    draft = Draft(name, line, broker or legal_name(name))
    _lead(draft, given["uri"].mark.line if "uri" in given else line, text.get("uri", ""))
    for child in element.children:
        _destinations(draft, child)
    draft.note(line, "ActiveMQ is no site broker: applications move to the node, or to RabbitMQ beside it")
    if text.get("duplex") != "true":
        draft.note(
            given["duplex"].mark.line if "duplex" in given else line, "a link carries both ways, always"
        )
    for name in ("userName", "password"):
        if name in text:
            draft.note(given[name].mark.line, f"not needed: {name}: a node proves its name with a secret")
    for name, one in given.items():
        if name in _NEEDLESS:
            draft.note(one.mark.line, f"not needed: {name}: {_NEEDLESS[name]}")
        elif name not in _KNOWN and not name.startswith("xmlns"):
            draft.note(one.mark.line, f"no counterpart: {name}={shown(one.text)}")
    return draft


def _lead(draft: Draft, line: int, uri: str) -> None:
    """`static:(tcp://a:61616,tcp://b:61616)`, `masterslave:(…)`, a plain address, or `multicast://…`."""
    if uri.startswith(("multicast:", "zeroconf:", "discovery:", "ldap:")):
        draft.note(line, f"no counterpart: {shown(uri)}: name the parent, or let DNS do it: srv://DOMAIN")
        return
    if options := uri.rpartition("?")[2] if "?" in uri else "":
        draft.note(line, f"no counterpart: {shown(options)}: the ways to the parent are tried in order")
    schemes = {**_SCHEMES, **_SCHEMES_TLS}
    for scheme, host in re.findall(r"([a-z+]+)://(\[[^\]]+\]|[A-Za-z0-9._-]+)", uri):
        draft.way(line, f"{schemes.get(scheme, 'ws')}://{host}:7600/link")
    draft.note(
        line, "a link leads to a node: put one beside the broker there; its port is 7600 unless it says so"
    )


def _destinations(draft: Draft, group: Element) -> None:
    """Lists of destinations; the embedded broker has none."""
    kind = _local(group.name)
    if not group.children:
        draft.note(group.mark.line, f"no counterpart: {kind}")
    for child in group.children:
        name = next(
            (shown(one.text) for one in child.attributes if one.name == "physicalName"), "without name"
        )
        draft.note(
            child.mark.line, f"{_local(child.name)} {name}: {_LISTS.get(kind, f'no counterpart: {kind}')}"
        )
