"""Interest on demand: whoever publishes a topic with scope `tree` asks up the way who wants it.

A node asks its parent once for a topic that is published there or below, and answers its children, each time
the answer changes: yes, if a message of theirs would be given to anybody from here; no; or that it is not
known now. An answer says nothing else: no consumer and no pattern (decision 0065).

Law: a message waits, on disk, while there is neither yes nor no. An answer goes down before the word that a
node has moved, so that whoever loses the old way has learned of the new one. Of what a child may not send it
learns nothing but yes: its messages are then refused by name, as any others. A parent of a version that does
not know these frames is sent everything.
"""

from collections import Counter, defaultdict
from typing import Final

from broker.core.clock import PART
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.neighbours.following import Following
from broker.core.policy import Policy
from broker.core.routing.topics import Topics
from broker.core.routing.upward import MOST_BYTES, MOST_TOPICS, Upward
from sapwood.protocol.destinations import Destination, Kind, topic
from sapwood.protocol.errors import FrameError
from treeconnector import link_events as events
from treeconnector.frames import INTEREST
from treeconnector.link import Link
from treeconnector.patterns import has_wildcard
from treeconnector.relations import Relation

LEASE: Final = 3600.0
"""Seconds for which a topic is asked for after its last message."""
_LOOK_EVERY: Final = 60.0
_ALL: Final = ""
MOST_OF_ALL: Final = 100_000
MOST_BYTES_OF_ALL: Final = 16 * 1024 * 1024


class Demand(Policy):
    """Of one node. `counters`: topics in the frames about them. `changed`: topics to `settle`, '' = all.

    `_round`: those of all that are still to be settled; one that begins meanwhile waits for its end.
    """

    def __init__(
        self, context: Context, lookup: Lookup, topics: Topics, upward: Upward, following: Following
    ) -> None:
        self._context = context
        self._lookup = lookup
        self._topics = topics
        self._upward = upward
        self._following = following
        self.counters = Counter(dict.fromkeys(("asked_in", "asked_out", "told_in", "told_out"), 0))
        self._told: dict[str, dict[str, bool | None]] = {}
        self._askers: dict[str, set[str]] = {}
        self._topics_of: Counter[str] = Counter()
        self._bytes_of: Counter[str] = Counter()
        self.changed: dict[str, None] = {}
        self._round: list[str] = []
        self._one_more = False
        self._look_at = context.clock.now + _LOOK_EVERY
        context.table.watch(self._route_changed)

    def __repr__(self) -> str:
        asked = len(self._upward.questions)
        return f"<Demand at {self._context.name}: asks for {asked} topics, is asked for {len(self._askers)}>"

    # --- what children ask

    def said(self, neighbour: Neighbour, event: events.Event) -> None:
        match event:
            case events.PeerAsksInterest(topics, ended):
                if neighbour.relation is not Relation.CHILD:
                    raise FrameError(f"a question for interest from {neighbour.name}, which is no child")
                for name in ended:
                    self._asks_no_more(neighbour.name, name)
                self._asked(neighbour, topics)
            case events.PeerTellsInterest(wanted, unwanted, unsure):
                answers = (wanted, True), (unwanted, False), (unsure, None)
                for names, answer in answers:
                    self._answered(neighbour, names, answer)
            case events.MeshChanged():
                self.changed[_ALL] = None

    def _asked(self, child: Neighbour, names: list[str]) -> None:
        self.counters["asked_in"] += len(names)
        told = self._told.setdefault(child.name, {})
        beyond: list[tuple[str, bool | None]] = []
        for name in names:
            if name not in told:
                if not self._has_room(child.name, name):
                    beyond.append((name, True))
                    continue
                self._count(child.name, name, 1)
                self._askers.setdefault(name, set()).add(child.name)
            told[name] = None
            self.changed[name] = None
            if not child.permit.why_not_send(topic(name)):
                self._upward.published(name)
        if beyond:
            child.refusals.add(f"INTEREST: {child.name} asks for too many topics", len(beyond))
            self._tell(child, beyond)

    def _has_room(self, child: str, name: str) -> bool:
        """For one topic more of a child, and of all children."""
        topics, size = self._topics_of[child], self._bytes_of[child] + len(name)
        return (
            topics < MOST_TOPICS
            and size <= MOST_BYTES
            and self._topics_of[_ALL] < MOST_OF_ALL
            and self._bytes_of[_ALL] + len(name) <= MOST_BYTES_OF_ALL
        )

    def _count(self, child: str, name: str, sign: int) -> None:
        for whose in (child, _ALL):
            self._topics_of[whose] += sign
            self._bytes_of[whose] += sign * len(name)

    def _asks_no_more(self, child: str, name: str) -> None:
        told = self._told.get(child, {})
        if name not in told:
            return
        del told[name]
        self._count(child, name, -1)
        self._askers[name].discard(child)
        if not self._askers[name]:
            del self._askers[name]

    def _state(self, child: Neighbour, name: str) -> bool | None:
        """Would a message of this child go to anybody from here?"""
        if child.permit.why_not_send(topic(name)):
            return True
        return self._topics.is_wanted_off(Destination(Kind.TOPIC, name), child.name)

    # --- what the parents answer

    def _answered(self, parent: Neighbour, names: list[str], answer: bool | None) -> None:
        self.counters["told_in"] += len(names)
        for name in names:
            question = self._upward.questions.get(name)
            if question is not None and question.link is parent.link:
                question.answer = answer
                self.changed[name] = None

    def link_up(self, neighbour: Neighbour, up: events.LinkUp) -> None:
        self._link_changed(neighbour)

    def link_down(self, neighbour: Neighbour) -> None:
        """A child asks again on its next link."""
        self._forget(neighbour)
        self._link_changed(neighbour)

    def neighbour_gone(self, neighbour: Neighbour, cause: str) -> None:
        self._forget(neighbour)
        self._link_changed(neighbour)

    def _forget(self, child: Neighbour) -> None:
        for name in list(self._told.get(child.name, ())):
            self._asks_no_more(child.name, name)
            if name in self._upward.questions:  # of what it may not send nobody asks further up
                self._upward.published(name)
        self._told.pop(child.name, None)

    def _link_changed(self, neighbour: Neighbour) -> None:
        if neighbour.relation is Relation.PARENT:
            self._upward.unasked.update(dict.fromkeys(self._upward.questions))
            self.changed[_ALL] = None
        elif self._lookup.meshed:
            self.changed[_ALL] = None

    def permit_changed(self, child: Neighbour, *, anew: bool) -> None:
        self.changed.update(dict.fromkeys(self._told.get(child.name, ())))

    def _route_changed(self, key: Destination, cause: str, origin: str) -> None:
        if key.kind != Kind.TOPIC:
            return
        if has_wildcard(key.name):
            self.changed[_ALL] = None
        elif key.name in self._askers or key.name in self._upward.questions:
            self.changed[key.name] = None

    # --- what follows

    def settle(self) -> None:
        """Ask what is to be asked, and let changes have their effects, a part at a time."""
        self._ask()
        self._look_at_all()
        self._review(PART)
        if self._is_to_settle:
            self._context.clock.go_on(self.settle, self.settle)

    @property
    def _is_to_settle(self) -> bool:
        return bool(self.changed or self._round or self._one_more)

    def tell_now(self, child: Neighbour) -> None:
        """Let this child know now whatever has changed; the others are told in their turn."""
        if self._is_to_settle:
            news = [(name, self._news(child, name)) for name in self._told.get(child.name, ())]
            self._tell(child, [(name, now) for name, (is_new, now) in news if is_new])

    def _look_at_all(self) -> None:
        if _ALL in self.changed:
            del self.changed[_ALL]
            self._one_more = True
        if self._one_more and not self._round:
            self._one_more = False
            self._round = [*self._askers, *self._upward.questions]

    def _next(self) -> str | None:
        if self.changed:
            name = next(iter(self.changed))
            del self.changed[name]
            return name
        return self._round.pop() if self._round else None

    def _review(self, most: int) -> None:
        told: defaultdict[str, list[tuple[str, bool | None]]] = defaultdict(list)
        for _ in range(most):
            if (name := self._next()) is None:
                break
            self._decide(name)
            for asker in self._askers.get(name, ()):
                is_new, now = self._news(self._context.neighbours[asker], name)
                if is_new:
                    told[asker].append((name, now))
        for asker, said in told.items():
            self._tell(self._context.neighbours[asker], said)

    def _news(self, child: Neighbour, name: str) -> tuple[bool, bool | None]:
        """Is there another answer than this child was told, and which? It counts as told then."""
        told, now = self._told[child.name], self._state(child, name)
        if now is told[name] or (now is None and told[name]):
            return False, now
        told[name] = now
        return True, now

    def _decide(self, name: str) -> None:
        """Messages that wait for an answer go up, or end here."""
        queue = self._upward.waiting.get(name)
        if queue is not None and (wanted := self._upward.is_wanted(name)) is not None:
            self._following.decided(queue, wanted=wanted)

    def _tell(self, child: Neighbour, said: list[tuple[str, bool | None]]) -> None:
        if said and child.link is not None:
            child.link.tell_interest(said)
            self.counters["told_out"] += len(said)

    def _ask(self) -> None:
        unasked, self._upward.unasked = self._upward.unasked, {}
        said: defaultdict[Link, list[tuple[str, bool]]] = defaultdict(list)
        for name in unasked:
            question = self._upward.questions[name]
            parent = self._lookup.parent_for(Destination(Kind.TOPIC, name))
            if parent is None or parent.link is None or question.link is parent.link:
                continue
            if (former := self._still_asked(question.parent, question.link)) is not None:
                said[former].append((name, False))
            question.parent, question.link = parent.name, parent.link
            question.answer = question.answer or None
            self.changed[name] = None
            if parent.link.both_know(INTEREST):
                said[parent.link].append((name, True))
        for link, topics in said.items():
            link.ask_interest(topics)
            self.counters["asked_out"] += sum(asks for _, asks in topics)

    def _still_asked(self, name: str, link: Link | None) -> Link | None:
        """The link with a parent, if that is still the one on which it was asked."""
        parent = self._context.parents.get(name)
        is_known = parent is not None and parent.link is link and link is not None
        return link if is_known and link is not None and link.both_know(INTEREST) else None

    # --- an end

    def second_passed(self) -> None:
        """Topics that nobody has published for long are asked for no more."""
        now = self._context.clock.now
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY
        said: defaultdict[Link, list[tuple[str, bool]]] = defaultdict(list)
        for name, question in list(self._upward.questions.items()):
            if question.seen + LEASE > now or name in self._askers or name in self._upward.waiting:
                continue
            self._upward.forget(name)
            if (link := self._still_asked(question.parent, question.link)) is not None:
                said[link].append((name, False))
        for link, topics in said.items():
            link.ask_interest(topics)
