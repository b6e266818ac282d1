"""A name for a node whose file gives none: drawn at the first start, kept in the store, drawn again if taken.

Law: a name is in use, and stays for ever, once an application has left anything at the node, or a link to
the parent was up for `_SETTLED` seconds without an objection. Before that, when the tree says that another
node has the name, the node starts again under another one. A file that gives a name is never overruled.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from broker.core.messages.queue_names import SYSTEM
from broker.core.rows import MetaRow
from broker.host import Host
from broker.store import Store
from config.model import Site
from sapwood.protocol.errors import Refusal
from treeconnector.link import Link

MOST_DRAWN: Final = 8
"""Names after the first, of one process. If all are taken, it is the parent that is not what it should be."""
_SETTLED: Final = 30.0
_IN_USE: Final = "name in use"
_DIGITS: Final = "0123456789"
_COLOURS: Final = (
    "amber azure beige black blue bronze brown copper coral cream crimson cyan ebony emerald fawn "
    "ginger golden green grey hazel indigo ivory jade khaki lemon lilac lime maroon mauve mint "
    "mustard navy ochre olive opal orange peach pearl pink plum purple red rose ruby russet rusty "
    "saffron salmon sand scarlet sepia silver tan teal umber violet white yellow"
)
_TREES: Final = (
    "acacia alder almond apple ash aspen banyan baobab bay beech birch box cedar cherry chestnut "
    "citron cypress elder elm fig fir gum hawthorn hickory holly hornbeam juniper larch laurel linden "
    "locust maple medlar mulberry myrtle oak osier palm pear pecan pine plane poplar quince rowan "
    "sequoia sorrel spruce sycamore tamarind teak walnut willow yew"
)


def draw(choose: Callable[[Sequence[str]], str] = secrets.choice) -> str:
    """A readable name, such as `amber-rowan-48213`: one of more than 300 million."""
    number = "".join(choose(_DIGITS) for _ in range(5))
    return f"{choose(_COLOURS.split())}-{choose(_TREES.split())}-{number}"


def named(site: Site) -> Site:
    """The site with a name: that of its file, else that of its store, else one that is drawn now."""
    return site if site.name else replace(site, name=Store.owner(site.data_directory) or draw())


def renamed(site: Site) -> Site:
    """The site with another drawn name, which its store has from now on. The node must not run."""
    name = draw()
    store = Store.open(site.data_directory, tree=site.tree, node=site.name)
    try:
        store.rename(name)
    finally:
        store.close()
    return replace(site, name=name)


class Naming:
    """Watches over the name of one node. `drawn`: its file gives none. `taken`: it has to be another one."""

    def __init__(self, host: Host, rows: Iterable[MetaRow], *, draws: int | None) -> None:
        """`rows`: what an earlier start has noted. `draws`: further names that may be drawn, None = the file
        gives one.
        """
        self._host = host
        self.drawn = draws is not None
        self._draws = draws
        self.taken = False
        self._marked = any(row.name == _IN_USE for row in rows)

    def __repr__(self) -> str:
        return f"<Naming {self._host.core.identity.name} drawn={self.drawn} taken={self.taken}>"

    async def watch(self, link: Link) -> None:
        """The name is in use when a link with the parent has lasted."""
        await asyncio.sleep(_SETTLED)
        if link.is_up and not self._marked:
            self._marked = True
            self._host.core.custody.transaction.put(MetaRow(_IN_USE, b"\x01"))
            self._host.wake()

    def ended(self, link: Link) -> None:
        """A link to the parent is over. If the name is another node's, and not in use here: another one."""
        if not self._draws or link.refusal is not Refusal.NAME:
            return
        if not self.is_in_use():
            self.taken = True
            self._host.stopped.set()

    def is_in_use(self) -> bool:
        """Has anybody to do with this node under its name?"""
        core = self._host.core
        if self._marked or core.counters["entered"] or core.topics.subscriptions:
            return True
        places = core.custody.queues.values()
        return any(place.messages or (place.created and place.owner != SYSTEM) for place in places)
