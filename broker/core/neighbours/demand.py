"""Interest on demand: whoever publishes a topic with scope `tree` asks up the way who wants it; so does a
node where a queue was made that nobody reads there.

A node asks its parent once for a topic that is published there or below, and answers its children, each time
the answer changes: yes, if a message of theirs would be given to anybody from here; no; or that it is not
known now. An answer says nothing else: no consumer and no pattern (decisions 0065 and 0068).

Law: a message waits, on disk, while there is neither yes nor no. An answer goes down before the word that a
node has moved, so that whoever loses the old way has learned of the new one. Of what a child may not send it
learns nothing but yes: its messages are then refused by name, as any others. A parent of a version that does
not know these frames is sent everything.
"""

from collections import Counter, defaultdict
from itertools import islice
from typing import Final

from broker.core.clock import PART, Parts
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue
from broker.core.neighbours.following import Following
from broker.core.policy import Policy
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.topics import Topics
from broker.core.routing.upward import MOST_BYTES, MOST_TOPICS, Question, Upward
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import FrameError
from treeconnector import link_events as events
from treeconnector.interest_keys import destination_of, is_queue, key_of
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
    `_told`: what each child was told on its link that is up. `_askers` have children too whose link has
    ended, until `_left` has come to them. `_unsettled`: those of which it is not certain yet that nobody
    reads them. `_is_settling`: of no queue, or topic, is it certain; asked once in each step.
    """

    __slots__ = (
        *("_askers", "_bytes_of", "_context", "_following", "_forwarder", "_had_strangers", "_is_settling"),
        *("_left", "_look_at", "_lookup", "_one_more", "_round", "_told", "_topics", "_topics_of"),
        *("_unsettled", "_upward", "changed", "counters"),
    )

    def __init__(
        self,
        context: Context,
        forwarder: Forwarder,
        lookup: Lookup,
        topics: Topics,
        upward: Upward,
        following: Following,
    ) -> None:
        self._context = context
        self._forwarder = forwarder
        self._lookup = lookup
        self._topics = topics
        self._upward = upward
        self._following = following
        self.counters = Counter(dict.fromkeys(("asked_in", "asked_out", "told_in", "told_out"), 0))
        self._told: dict[str, dict[str, bool | None]] = {}
        self._askers: dict[str, set[str]] = {}
        self._left = Parts(context.clock, self._forget_left)
        self._topics_of: Counter[str] = Counter()
        self._bytes_of: Counter[str] = Counter()
        self.changed: dict[str, None] = {}
        self._round: list[str] = []
        self._one_more = False
        self._look_at = context.clock.now + _LOOK_EVERY
        self._had_strangers = False
        self._unsettled: dict[str, None] = {}
        self._is_settling: dict[Kind, bool] = {}
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
                    self._told.get(neighbour.name, {}).pop(name, None)
                    self._forget((neighbour.name, name))
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
            if child.name not in self._askers.get(name, ()):
                if not self._has_room(child.name, name):
                    beyond.append((name, True))
                    continue
                self._count(child.name, name, 1)
                self._askers.setdefault(name, set()).add(child.name)
            told[name] = None
            self.changed[name] = None
            if not child.permit.why_not_send(destination_of(name)):
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

    def _forget(self, asked: tuple[str, str]) -> None:
        """A child asks for a topic no more, unless it has asked again."""
        child, name = asked
        askers = self._askers.get(name, set())
        if name in self._told.get(child, ()) or child not in askers:
            return
        self._count(child, name, -1)
        askers.discard(child)
        if not askers:
            del self._askers[name]

    def _state(self, child: Neighbour, name: str) -> bool | None:
        """Would a message of this child go to anybody from here?"""
        destination = destination_of(name)
        if child.permit.why_not_send(destination):
            return True
        if not is_queue(name):
            wanted = self._topics.is_wanted_off(destination, child.name)
        elif self._lookup.is_read_off(destination, child.name):
            return True
        else:
            wanted = self._upward.is_wanted(name)
        if wanted is False and self._is_unsettled(child, name, destination):
            self._unsettled[name] = None
            return None
        return wanted

    def _is_unsettled(self, child: Neighbour, name: str, destination: Destination) -> bool:
        """May it soon be known here that somebody reads what seems to be read nowhere? Of a topic that counts
        for the first answer: a no that was said stands, for all topics would be told anew with each link.
        """
        kind, policies = destination.kind, self._context.policies
        if kind == Kind.TOPIC and self._told[child.name][name] is False:
            return False
        if kind not in self._is_settling:
            self._is_settling[kind] = policies.ask(Policy.is_settling, kind)
        has_gone = kind == Kind.QUEUE and policies.ask(Policy.has_just_gone, destination)
        return self._is_settling[kind] or has_gone

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
        self._leave(neighbour)
        self._link_changed(neighbour)

    def neighbour_gone(self, neighbour: Neighbour, cause: str) -> None:
        self._leave(neighbour)
        self._link_changed(neighbour)

    def _leave(self, child: Neighbour) -> None:
        self._left.add((child.name, name) for name in self._told.pop(child.name, ()))

    def _forget_left(self, asked: tuple[str, str]) -> None:
        self._forget(asked)
        if asked[1] in self._upward.questions:  # of what it may not send nobody asks further up
            self._upward.published(asked[1])

    def _link_changed(self, neighbour: Neighbour) -> None:
        if neighbour.relation is Relation.PARENT:
            self._upward.unasked.update(dict.fromkeys(self._upward.questions))
            self.changed[_ALL] = None
        elif self._lookup.meshed:
            self.changed[_ALL] = None

    def permit_changed(self, child: Neighbour, *, anew: bool) -> None:
        self.changed.update(dict.fromkeys(self._told.get(child.name, ())))

    def _route_changed(self, key: Destination, cause: str, origin: str) -> None:
        if key.kind == Kind.DOMAIN:
            return
        name = key_of(key)
        if key.kind == Kind.TOPIC and has_wildcard(name):
            self.changed[_ALL] = None
        elif name in self._askers or name in self._upward.questions:
            self.changed[name] = None

    # --- queues that were made here

    def is_wanted(self, destination: Destination) -> bool | None:
        return self._upward.is_wanted(key_of(destination))

    def static_routes_changed(self) -> None:
        self.changed[_ALL] = None

    def is_kept(self, queue: Queue) -> None:
        if queue.destination is not None:
            self._upward.published(key_of(queue.destination))

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
        return bool(self.changed or self._round or self._one_more or self._upward.unasked)

    def tell_now(self, child: Neighbour) -> None:
        """Let this child know now whatever has changed; the others are told in their turn.

        Of many topics only some are looked at, for others wait: of the rest each no is taken back, so that
        its messages wait until its turn has come.
        """
        if not self._is_to_settle:
            return
        self._is_settling.clear()
        told = self._told.get(child.name, {})
        names = list(told)
        news = [(name, self._news(child, name)) for name in names[:PART]]
        unsure = [name for name in names[PART:] if told[name] is False]
        told.update(dict.fromkeys(unsure))
        self.changed.update(dict.fromkeys(unsure))
        said = [(name, now) for name, (is_new, now) in news if is_new]
        self._tell(child, said + [(name, None) for name in unsure])

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
        self._is_settling.clear()
        told: defaultdict[str, list[tuple[str, bool | None]]] = defaultdict(list)
        for _ in range(most):
            if (name := self._next()) is None:
                break
            self._decide(name)
            for asker in self._askers.get(name, ()):
                if name not in self._told.get(asker, ()):
                    continue
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
        """Messages that wait for an answer go up, or end here; those of a queue stay."""
        if is_queue(name):
            kept = self._context.custody.queues.get(str(destination_of(name)))
            self._forwarder.look_again(() if kept is None else (kept,))
            return
        queue = self._upward.waiting.get(name)
        if queue is not None and (wanted := self._upward.is_wanted(name)) is not None:
            self._following.decided(queue, wanted=wanted)

    def _tell(self, child: Neighbour, said: list[tuple[str, bool | None]]) -> None:
        if said and child.link is not None:
            child.link.say.tell_interest(said)
            self.counters["told_out"] += len(said)

    def _ask(self) -> None:
        said: defaultdict[Link, list[tuple[str, bool]]] = defaultdict(list)
        for name in list(islice(self._upward.unasked, PART)):
            del self._upward.unasked[name]
            question = self._upward.questions[name]
            parent = self._lookup.parent_for(destination_of(name))
            if parent is None or parent.link is None or question.link is parent.link:
                continue
            if (former := self._still_asked(name, question)) is not None:
                said[former].append((name, False))
            question.parent, question.link = parent.name, parent.link
            question.answer = question.answer or None
            self.changed[name] = None
            if self._upward.is_understood(name, parent.link):
                said[parent.link].append((name, True))
        for link, topics in said.items():
            link.say.ask_interest(topics)
            self.counters["asked_out"] += sum(asks for _, asks in topics)

    def _still_asked(self, name: str, question: Question) -> Link | None:
        """The link with a parent, if that is still the one on which it was asked."""
        parent, link = self._context.parents.get(question.parent), question.link
        if parent is None or link is None or parent.link is not link:
            return None
        return link if self._upward.is_understood(name, link) else None

    # --- an end

    def second_passed(self) -> None:
        """Topics that nobody has published for long are asked for no more."""
        now = self._context.clock.now
        for name in list(islice(self._unsettled, PART)):
            del self._unsettled[name]
            self.changed[name] = None
        if self._had_strangers != bool(self._lookup.strangers):
            self._had_strangers = not self._had_strangers
            self.changed[_ALL] = None
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY
        said: defaultdict[Link, list[tuple[str, bool]]] = defaultdict(list)
        for name, question in list(self._upward.questions.items()):
            if question.seen + LEASE > now or name in self._askers or self._upward.is_needed(name):
                continue
            self._upward.forget(name)
            if (link := self._still_asked(name, question)) is not None:
                said[link].append((name, False))
        for link, topics in said.items():
            link.say.ask_interest(topics)
