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
| below                               | this node, one of its mesh or one above asks for it there, of     |
|                                     | scope `tree` always; its topic is taken from the site's broker    |
|                                     | meanwhile (`followed`)                                            |
| elsewhere                           | the parent is asked for it                                        |

Law: an interest counts until it is withdrawn, after its linger: whoever comes in between is not given
anything anew. Wrinkle: the nodes of a mesh tell each other all that is retained, and keep what is not from
below.

Law: what an interest has left is looked at a part in each turn. Meanwhile nobody is greeted, and an interest
that comes does not count for what was there before: that comes anew with it.
"""

from collections.abc import Iterator, Mapping
from itertools import chain, count, islice
from typing import Final

from broker.core.context import Context
from broker.core.messages.queue_names import SITE
from broker.core.messages.retained import Place
from broker.core.policy import Policy
from broker.core.routing.greetings import AT_ONCE
from broker.core.routing.topics import Topics
from broker.core.rows import MetaRow
from broker.core.tree.offers import Offers
from sapwood.protocol.bundles import Header, Scope
from sapwood.protocol.destinations import Destination, Kind, topic
from sapwood.protocol.names import LOCAL
from treeconnector.advisories import Advertiser
from treeconnector.frames import Advice
from treeconnector.patterns import matches

FROM_SITE: Final = "retained from the site:"
_MOST_FOLLOWED: Final = 1000


class _Look:
    """At what an ended interest has left. `after`: how far it came; `moment`: when the interest ended."""

    __slots__ = ("after", "moment")

    def __init__(self, moment: int) -> None:
        self.after: Place = ()
        self.moment = moment


class RetainedInterest(Policy):
    """Of one node. `broker_retains`: does the site's broker keep what is retained there by itself?"""

    __slots__ = (
        *("_came", "_context", "_from_below", "_from_site", "_looks", "_moments", "_offers", "_renewed"),
        *("_topics", "broker_retains"),
    )

    def __init__(self, context: Context, topics: Topics, offers: Offers) -> None:
        self._context = context
        self._topics = topics
        self._offers = offers
        self._from_site: dict[str, None] = {}
        self._from_below: dict[str, None] = {}
        self.broker_retains = True
        self._looks: dict[str, _Look] = {}
        self._moments = count(1)
        self._came: dict[Destination, int] = {}
        self._renewed: dict[str, int] = {}
        context.table.watch(self._route_changed)

    def __repr__(self) -> str:
        return f"<RetainedInterest at {self._context.name} from_site={len(self._from_site)}>"

    def restore(self, meta: Mapping[str, bytes]) -> None:
        names = (name.removeprefix(FROM_SITE) for name in meta if name.startswith(FROM_SITE))
        self._from_site = dict.fromkeys(names)
        self._context.clock.after(0.0, self._find_from_below)

    def _find_from_below(self) -> None:
        """After a start, once the routes are here, and all that was kept."""
        for name, header in self._topics.retained.headers():
            self._note_below(name, self._is_below(header))

    def end(self) -> None:
        """This node has no site broker any more."""
        for name in list(self._from_site):
            self._topics.forget(name)

    @property
    def followed(self) -> list[Destination]:
        """Topics that are taken from the site's broker whoever wants them: it could not say again what it was
        given, or does not know that what it was given is somebody else's, who is to hear of another.
        """
        return [topic(name) for name in islice(self._to_follow(), _MOST_FOLLOWED)]

    def _to_follow(self) -> Iterator[str]:
        return chain(() if self.broker_retains else self._from_site, self._from_below)

    def follows(self, name: str) -> bool:
        """Is this one of them?"""
        if name not in self._from_below and (self.broker_retains or name not in self._from_site):
            return False
        few = len(self._from_site) + len(self._from_below) <= _MOST_FOLLOWED
        return few or name in islice(self._to_follow(), _MOST_FOLLOWED)

    def is_retained_there(self, name: str) -> bool:
        """Is this topic's message here the one that the site's broker gave, and keeps?"""
        return self.broker_retains and name in self._from_site

    def withdrawn(self, advices: list[Advice]) -> None:
        """Neighbours have been told that nobody wants these any more."""
        gone = [each.name for each in advices if each.op == "remove" and each.kind == Kind.TOPIC]
        if gone:
            self._look_at(gone)

    def unwanted(self, pattern: str) -> None:
        """An interest in this has ended."""
        self._look_at([pattern])

    def _look_at(self, patterns: list[str]) -> None:
        if not self._topics.retained:
            return
        is_first, moment = not self._looks, next(self._moments)
        self._looks.update((pattern, _Look(moment)) for pattern in patterns)
        if is_first:
            self._look_at_part()

    def _look_at_part(self) -> None:
        left = AT_ONCE
        while self._looks and left > 0:
            pattern, look = next(iter(self._looks.items()))
            page = self._topics.retained.page(pattern, look.after, left)
            for name in page.names:
                if not self._is_still_heard(name, look.moment):
                    self._topics.forget(name)
            left -= page.visited
            if page.after is None:
                del self._looks[pattern]
            else:
                look.after = page.after
        self._topics.greetings.pause(bool(self._looks))
        if self._looks:
            self._context.clock.go_on(self._look_at_part, self._look_at_part)
        else:
            self._came.clear()
            self._renewed.clear()

    def _route_changed(self, key: Destination, cause: str, origin: str) -> None:
        if self._looks and key.kind == Kind.TOPIC and self._context.table.spread(key)[0] == 1:
            self._came[key] = next(self._moments)

    def _is_still_heard(self, name: str, moment: int) -> bool:
        """Have its changes been heard since then, or since it was put there?"""
        kept, table = self._topics.retained.get(name), self._context.table
        if kept is None:
            return True
        since = max(self._renewed.get(name, 0), moment)
        if all(came <= since for came in self._came.values()):
            return self._is_heard(kept[0], table.match(name).gateways)
        keys = (key for key in table.matching(name) if self._came.get(key, 0) <= since)
        return self._is_heard(kept[0], frozenset(chain.from_iterable(map(table.gateways, keys))))

    # --- one message

    def may_retain(self, header: Header, sender: str) -> bool:
        """A retained message is here. Would its change be heard?"""
        name = header.destination.name
        if header.origin == self._context.name and (sender == SITE) != (name in self._from_site):
            self._note(name, from_site=sender == SITE)
        if self._looks:
            self._renewed[name] = next(self._moments)
        is_below = self._is_below(header)
        if not is_below:
            self._note_below(name, False)
        is_heard = self._is_heard(header, self._context.table.match(name).gateways)
        if is_below:
            self._note_below(name, is_heard)
        return is_heard

    def _note(self, name: str, *, from_site: bool) -> None:
        transaction = self._context.custody.transaction
        if from_site:
            self._from_site[name] = None
            transaction.put(MetaRow(FROM_SITE + name, b""))
        else:
            del self._from_site[name]
            transaction.delete(MetaRow, FROM_SITE + name)
        if not self.broker_retains:
            self._tell_followed()

    def _note_below(self, name: str, is_below: bool) -> None:
        if is_below == (name in self._from_below):
            return
        is_followed = self.follows(name)
        if is_below:
            self._from_below[name] = None
        else:
            del self._from_below[name]
        if is_followed or self.follows(name):
            self._tell_followed()

    def _tell_followed(self) -> None:
        self._context.policies.tell(Policy.wanted_changed)

    def _is_below(self, header: Header) -> bool:
        """Is it from a node below this one?"""
        return bool(self._context.table.below(header.origin))

    def forgotten(self, name: str) -> None:
        self._note_below(name, False)
        if name in self._from_site:
            self._note(name, from_site=False)

    def _is_heard(self, header: Header, asked: frozenset[str]) -> bool:
        """`asked`: the gateways of the interests in it."""
        context, table, name = self._context, self._context.table, header.destination.name
        if table.mesh and not self._is_below(header):
            return True
        if header.origin == context.name:
            return name not in self._from_site or context.policies.ask(Policy.takes_from_site, name)
        parents = table.parents
        if self._is_below(header):
            is_asked = not asked.isdisjoint((LOCAL, *parents, *table.mesh)) or _lingers(
                self._offers.down, name
            )
            return header.scope == Scope.TREE or is_asked
        return bool(asked.difference(parents)) or _lingers(self._offers.up, name)


def _lingers(offers: Advertiser | None, name: str) -> bool:
    """Has the audience not been told yet that the last interest in this topic has gone?"""
    return offers is not None and any(
        key.kind == Kind.TOPIC and matches(key.name, name) for key in offers.leaving
    )
