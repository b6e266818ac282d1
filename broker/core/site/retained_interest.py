"""Which retained messages a node keeps: those of which it would hear that they changed.

What is retained is for those who come later: the last one, or nothing. Kept for longer than its changes are
heard, it would be an old one, and for ever if it was cleared meanwhile. So it goes with the interest that
brought it, and comes again with the next one: whoever still has it, as far as its source, gives it with the
first add of a filter.

| where it is from                    | kept while                                                        |
|-------------------------------------|-------------------------------------------------------------------|
| a client of this node               | always: it has no other queue                                     |
| the site's broker, which retains it | it is taken from there                                            |
| the site's broker, which does not   | always; its topic is taken from there from then on (`followed`)   |
| below                               | this node or one above asks for it there; of scope `tree`, always |
| elsewhere                           | the parent is asked for it                                        |

Law: an interest counts until it is withdrawn, after its linger: whoever comes in between is not given
anything anew. Wrinkle: the nodes of a mesh tell each other all that is retained, and keep it.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from broker.core.context import Context
from broker.core.messages.queue_names import SITE
from broker.core.policy import Policy
from broker.core.routing.topics import Topics
from broker.core.rows import MetaRow
from broker.core.tree.offers import Offers
from sapwood.protocol.bundles import Header, Scope
from sapwood.protocol.destinations import Destination, Kind, domain, topic
from sapwood.protocol.names import LOCAL
from treeconnector.advisories import Advertiser
from treeconnector.frames import Advice
from treeconnector.patterns import matches

FROM_SITE: Final = "retained from the site:"
_MOST_FOLLOWED: Final = 1000


class RetainedInterest(Policy):
    """Of one node. `broker_retains`: does the site's broker keep what is retained there by itself?"""

    def __init__(self, context: Context, topics: Topics, offers: Offers) -> None:
        self._context = context
        self._topics = topics
        self._offers = offers
        self._from_site: dict[str, None] = {}
        self.broker_retains = True

    def __repr__(self) -> str:
        return f"<RetainedInterest at {self._context.name} from_site={len(self._from_site)}>"

    def restore(self, meta: Mapping[str, bytes]) -> None:
        names = (name.removeprefix(FROM_SITE) for name in meta if name.startswith(FROM_SITE))
        self._from_site = dict.fromkeys(names)

    def end(self) -> None:
        """This node has no site broker any more."""
        for name in list(self._from_site):
            self._topics.forget(name)

    @property
    def followed(self) -> list[Destination]:
        """Topics that are taken from the site's broker whoever wants them: it could not say them again."""
        if self.broker_retains:
            return []
        return [topic(name) for name in islice(self._from_site, _MOST_FOLLOWED)]

    def follows(self, name: str) -> bool:
        """Is this one of them?"""
        if self.broker_retains or name not in self._from_site:
            return False
        return len(self._from_site) <= _MOST_FOLLOWED or name in islice(self._from_site, _MOST_FOLLOWED)

    def withdrawn(self, advices: list[Advice]) -> None:
        """Neighbours have been told that nobody wants these any more."""
        for advice in advices:
            if advice.op == "remove" and advice.kind == Kind.TOPIC:
                self.unwanted(advice.name)

    def unwanted(self, pattern: str) -> None:
        """An interest in this has ended."""
        topics = self._topics
        for header, _ in topics.retained.matching(pattern) if topics.retained else ():
            if not self._is_heard(header):
                topics.forget(header.destination.name)

    # --- one message

    def may_retain(self, header: Header, sender: str) -> bool:
        """A retained message is here. Would its change be heard?"""
        name = header.destination.name
        if header.origin == self._context.name and (sender == SITE) != (name in self._from_site):
            self._note(name, from_site=sender == SITE)
        return self._is_heard(header)

    def _note(self, name: str, *, from_site: bool) -> None:
        transaction = self._context.custody.transaction
        if from_site:
            self._from_site[name] = None
            transaction.put(MetaRow(FROM_SITE + name, b""))
        else:
            del self._from_site[name]
            transaction.delete(MetaRow, FROM_SITE + name)
        if not self.broker_retains:
            for wanted_changed in self._context.policies.wanted_changed:
                wanted_changed()

    def forgotten(self, name: str) -> None:
        if name in self._from_site:
            self._note(name, from_site=False)

    def _is_heard(self, header: Header) -> bool:
        context, table, name = self._context, self._context.table, header.destination.name
        if table.mesh:
            return True
        if header.origin == context.name:
            takes = (takes_from_site(name) for takes_from_site in context.policies.takes_from_site)
            return name not in self._from_site or any(takes)
        parents = table.parents
        if set(table.gateways(domain(header.origin))).difference(table.apart):
            return header.scope == Scope.TREE or self._asks(self._offers.down, name, (LOCAL, *parents))
        gateways = table.match(name).gateways.difference(parents)
        return bool(gateways) or _lingers(self._offers.up, name)

    def _asks(self, offers: Advertiser, name: str, gateways: tuple[str, ...]) -> bool:
        asked = self._context.table.match(name).gateways
        return not asked.isdisjoint(gateways) or _lingers(offers, name)


def _lingers(offers: Advertiser, name: str) -> bool:
    """Has the audience not been told yet that the last interest in this topic has gone?"""
    return any(key.kind == Kind.TOPIC and matches(key.name, name) for key in offers.leaving)
