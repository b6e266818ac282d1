"""Logical addresses for people: what a node knows of names and incarnations, and who has one."""

import time
from typing import TYPE_CHECKING

from broker.administration import routing_answers as told
from broker.administration.asking import asked
from broker.administration.asking import told as in_words
from broker.administration.pages import Cut, cut_of, page_at_once
from broker.cells.cells import Arguments, Command
from broker.cells.errors import CellError
from broker.cells.paths import Paths
from broker.core.errors import BadRequest
from broker.core.policies.trace import SYSTEM
from config.kinds import Fault
from config.uris import ANNOUNCED_URI
from treeconnector.addresses import Entry
from treeconnector.errors import InvalidName
from treeconnector.hellos import MAX_ADDRESS, MAX_ADDRESSES
from treeconnector.names import incarnation_text, node_name

if TYPE_CHECKING:
    from broker.node import Node


class AddressBook:
    """Asks and answers for one node. Calls raise `SwitchError`s."""

    def __init__(self, node: "Node", paths: Paths) -> None:
        self._node = node
        self._paths = paths
        node.cells.cells[SYSTEM]["addresses"] = Command(self._answer)

    def __repr__(self) -> str:
        return f"<AddressBook of {self._node.site.name}>"

    def _answer(self, _asker: str, arguments: Arguments) -> told.Addresses:
        return self.here(str(arguments.get("search", "")), cut_of(arguments))

    def here(self, search: str, cut: Cut) -> told.Addresses:
        """What this node knows; of names and incarnations only those that contain `search`."""
        core, known = self._node.core, self._node.core.addressing
        page = page_at_once(known.cache, _key, cut, lambda entry: search in "".join(_key(entry)))
        return told.Addresses(
            node=core.identity.name,
            incarnation=known.own,
            addresses=core.addresses,
            known=[self._entry(entry) for entry in page.items],
            more=page.more,
            next=page.next,
            size=len(known.cache),
            most=known.capacity,
            evicted=known.cache.evicted,
            asking=len(known.questions),
            waiting=known.waiting(),
            counters=dict(known.counters),
        )

    def _entry(self, entry: Entry) -> told.Address:
        left = None if entry.is_kept else round(entry.expires - self._node.core.clock.now, 3)
        return told.Address(
            name=entry.found.name,
            incarnation=incarnation_text(entry.found.incarnation),
            addresses=entry.found.addresses,
            via=entry.via,
            left_s=left,
            told=sorted(entry.told),
        )

    async def of(self, node: str, search: str, cut: Cut) -> told.Addresses:
        """What a node knows, '' = this one."""
        if node in ("", self._node.site.name):
            return self.here(search, cut)
        return await asked(self._node, node, "addresses", {"search": search, **cut._asdict()}, told.Addresses)

    async def who_has(self, key: str) -> told.WhoHas:
        """The node that has a name or an incarnation, as this one knows or the tree answers."""
        try:
            key = node_name(key.strip())
        except InvalidName as error:
            raise BadRequest(str(error)) from None
        began = time.perf_counter()
        try:
            entry = await self._paths.who_has(key)
        except CellError as error:
            raise in_words(error.node, error) from None
        return told.WhoHas(
            key=key,
            name=entry.found.name,
            incarnation=incarnation_text(entry.found.incarnation),
            addresses=entry.found.addresses,
            via=entry.via,
            ms=round((time.perf_counter() - began) * 1000, 3),
        )

    def announce(self, change: told.Announce) -> told.Announced:
        """This node can be dialled at these addresses until it stops: its neighbours hear of it."""
        if len(change.addresses) > MAX_ADDRESSES:
            raise BadRequest(f"{len(change.addresses)} addresses: {MAX_ADDRESSES} at most")
        self._node.core.addressing.announce([_checked(each) for each in change.addresses])
        self._node.wake()
        return told.Announced(node=self._node.site.name, addresses=self._node.core.addresses)


def _key(entry: Entry) -> tuple[str, str]:
    return entry.found.name, incarnation_text(entry.found.incarnation)


def _checked(text: str) -> str:
    """Raises `BadRequest`."""
    if len(text) > MAX_ADDRESS:
        raise BadRequest(f"an address of {len(text)} characters: {MAX_ADDRESS} at most")
    try:
        return ANNOUNCED_URI.parse(text)
    except Fault as error:
        raise BadRequest(str(error)) from None
