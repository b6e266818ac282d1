"""Questions for names and incarnations: asked up the tree, then down the way to the name, and answered back.

Where several cores are one root, each knows what came to it; one that does not know asks the others in turn.

Law: a question goes to one neighbour, never to all; the same question not twice within `REPEAT` seconds; an
answer goes to whoever asked and to nobody else. Only the root says that nobody has an incarnation, since what
came below it was told to it; and not in the first `reattach_time` after a start, while nodes come back.

What a node asks here it asks because messages wait, or because a person wants to know. Everything is bounded.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from broker.core.clock import Parts
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from sapwood.protocol import destinations
from sapwood.protocol.destinations import domain
from sapwood.protocol.names import incarnation_text, is_incarnation
from treeconnector.addresses import Entry
from treeconnector.relations import Relation

REPEAT: Final = 2.0
_LONGEST_PAUSE: Final = 10.0
MOST_OF_ONE: Final = 1_000
"""Open questions of one neighbour, and of this node itself."""

Told = Callable[[Entry | None, str], object]
"""Called with the entry, or with None and why there is none."""


class Answerer(Protocol):
    """Whoever knows the answers. `counters`: of keys asked. `knew_others`: neighbours may not be back yet."""

    counters: Counter[str]
    knew_others: bool

    def answer(self, neighbour: Neighbour, entries: list[Entry]) -> None: ...

    def bury(self, key: str) -> None: ...


class _OpenQuestion:
    """`askers`: neighbours, '' = messages wait here for it. `asked`: whom, and not again before `after`.

    `denied`: other cores that have nothing to say of it.
    """

    __slots__ = ("after", "asked", "asked_at", "askers", "calls", "denied", "pause")

    def __init__(self) -> None:
        self.askers: dict[str, None] = {}
        self.calls: list[Told] = []
        self.after = 0.0
        self.asked = ""
        self.asked_at = -REPEAT
        self.denied: set[str] = set()
        self.pause = REPEAT


class Questions:
    """The questions of one node that have no answer yet."""

    __slots__ = ("_addresses", "_began", "_context", "_lookup", "_may_go", "_of", "_open", "unsent")

    def __init__(self, context: Context, lookup: Lookup, addresses: Answerer) -> None:
        self._context = context
        self._lookup = lookup
        self._addresses = addresses
        self._open: dict[str, _OpenQuestion] = {}
        self._of: dict[str, dict[str, None]] = {}
        self._may_go = Parts(context.clock, self._ask_anew)
        self.unsent: dict[str, None] = {}
        self._began = context.clock.now

    def __repr__(self) -> str:
        return f"<Questions at {self._context.name} open={len(self._open)}>"

    def __contains__(self, key: str) -> bool:
        return key in self._open

    def __len__(self) -> int:
        return len(self._open)

    # --- asking

    def ask(self, key: str, asker: str = "", told: Told | None = None) -> str:
        """Ask for a name or an incarnation that is not known here. Returns why not, '' if it is asked."""
        question = self._open.get(key)
        if question is None:
            if len(self._of.get(asker, ())) >= MOST_OF_ONE:
                return f"{self._context.name} asks {MOST_OF_ONE} questions already: try again"
            question = self._open[key] = _OpenQuestion()
        if told is None:
            question.askers[asker] = None
            self._of.setdefault(asker, {})[key] = None
        else:
            question.calls.append(told)
        self.unsent[key] = None
        return ""

    def waits_here(self) -> list[str]:
        """The incarnations that messages wait for here."""
        return list(self._of.get("", ()))

    def send(self) -> None:
        """Ask what is to be asked, each at most so often."""
        if not self.unsent:
            return
        unsent, self.unsent = self.unsent, {}
        together: dict[str, list[str]] = {}
        for key in unsent:
            question = self._open.get(key)
            if question is None or self._context.clock.now < question.after:
                continue
            neighbour = self._whom(key, question)
            if neighbour is None:
                self._nobody_here(key)
            elif neighbour.up:
                self._again_later(key, question)
                question.asked = neighbour.name
                together.setdefault(neighbour.name, []).append(key)
            elif neighbour.relation is Relation.CHILD:
                self.nobody(key, f"{key} is behind {neighbour.name}, whose link is down")
        for name, keys in together.items():
            link = self._context.neighbours[name].link
            if link is not None:
                link.say.who_has(keys)
                self._addresses.counters["who_has_out"] += len(keys)

    def _again_later(self, key: str, question: _OpenQuestion) -> None:
        question.asked_at = self._context.clock.now
        self._not_before(key, question, question.asked_at + question.pause)
        question.pause = min(2 * question.pause, _LONGEST_PAUSE)

    def _not_before(self, key: str, question: _OpenQuestion, time: float) -> None:
        """Ask again at that time, if there is no answer by then."""
        question.after = time

        def again() -> None:
            if self._open.get(key) is question:
                self.unsent[key] = None

        self._context.clock.after(time - self._context.clock.now, again)

    def _whom(self, key: str, question: _OpenQuestion) -> Neighbour | None:
        """Down the way to a name, else up; never back to who asked. None: there is nobody else."""
        context = self._context
        if not is_incarnation(key):
            below = [context.neighbours.get(way) for way in context.table.gateways(domain(key))]
            children = [each for each in below if each is not None and each.relation is Relation.CHILD]
            asked = [each for each in children if each.name not in question.askers]
            if asked:
                return next((each for each in asked if each.up), asked[0])
        parent = self._lookup.parent_for(destinations.queue(key))
        return parent if parent is not None and parent.name not in question.askers else self._beside(question)

    def _beside(self, question: _OpenQuestion) -> Neighbour | None:
        """Another core, which may know what came to it alone. What a core asks, no further one is asked."""
        found = self._context.neighbours.values()
        cores = [each for each in found if each.relation is Relation.MESH]
        if any(core.name in question.askers for core in cores):
            return None
        return next((core for core in cores if core.up and core.name not in question.denied), None)

    def _nobody_here(self, key: str) -> None:
        """There is nobody whom this node could ask."""
        context = self._context
        if self._context.lacks_parent:
            return
        unsure = self._began + context.settings.reattach_time - context.clock.now
        if is_incarnation(key) and unsure > 0 and self._addresses.knew_others:
            question = self._open[key]
            self._not_before(key, question, context.clock.now + unsure)
            return
        what = "incarnation" if is_incarnation(key) else "node"
        self.nobody(key, f"unknown {what} {key}: {context.name} knows of none")

    # --- answers

    def found(self, entry: Entry) -> None:
        """Somebody has it: answer all who asked by name or incarnation."""
        for key in (entry.found.name, incarnation_text(entry.found.incarnation)):
            question = self._answered(key)
            if question is None:
                continue
            for asker in question.askers:
                neighbour = self._context.neighbours.get(asker)
                if neighbour is not None:
                    self._addresses.answer(neighbour, [entry])
            for call in question.calls:
                call(entry, "")

    def denied(self, neighbour: Neighbour, key: str, text: str) -> None:
        """Who was asked says that nobody has it."""
        question = self._open.get(key)
        if question is None or question.asked != neighbour.name:
            return
        question.denied.add(neighbour.name)
        if neighbour.relation is Relation.MESH and self._beside(question) is not None:
            question.after = 0.0
            self.unsent[key] = None
        else:
            self.nobody(key, text)

    def nobody(self, key: str, text: str) -> None:
        """Nobody has it: tell all who asked."""
        question = self._answered(key)
        if question is None:
            return
        for asker in question.askers:
            neighbour = self._context.neighbours.get(asker)
            if neighbour is not None and neighbour.link is not None:
                neighbour.link.say.nobody([key], text)
        for call in question.calls:
            call(None, text)
        if "" in question.askers:
            self._addresses.bury(key)

    def _answered(self, key: str) -> _OpenQuestion | None:
        """The question is open no more. None: it was not."""
        question = self._open.pop(key, None)
        for asker in question.askers if question is not None else ():
            self._ask_no_more(asker, key)
        return question

    def _ask_no_more(self, asker: str, key: str) -> None:
        asked = self._of[asker]
        del asked[key]
        if not asked:
            del self._of[asker]

    # --- links

    def link_up(self) -> None:
        """There may be another way to ask."""
        self._may_go.add(self._open)

    def _ask_anew(self, key: str) -> None:
        question = self._open.get(key)
        if question is None:
            return
        question.pause, question.after = REPEAT, question.asked_at + REPEAT
        if question.after <= self._context.clock.now:
            self.unsent[key] = None
        else:
            self._not_before(key, question, question.after)

    def link_down(self, neighbour: Neighbour) -> None:
        """It asks again when it is back."""
        for key in self._of.pop(neighbour.name, ()):
            question = self._open[key]
            del question.askers[neighbour.name]
            if not (question.askers or question.calls):
                del self._open[key]

    def forget(self, key: str, told: Told) -> None:
        """Whoever wanted to know gave up."""
        question = self._open.get(key)
        if question is not None and told in question.calls:
            question.calls.remove(told)
            if not (question.askers or question.calls):
                del self._open[key]
