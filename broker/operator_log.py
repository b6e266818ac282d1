"""What the node's log says of its links, queues, dead letters, refusals and disk: what an operator needs.

The core keeps no log. Links tell when they change; all else is looked at once a second. Law: nothing here
can fill a disk: what happens often is counted, and said once in a while with one example.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import QueueEntry
from broker.core.messages.queue_names import Spool
from broker.core.node import NodeCore
from broker.core.rows import QueueRow
from treeconnector.wording import counted

_links = logging.getLogger("sapwood.link")
_queues = logging.getLogger("sapwood.queue")
_dead = logging.getLogger("sapwood.dead")
_node = logging.getLogger("sapwood.node")
_AGAIN: Final = 10.0
_LOOKED_AT: Final = 1000
_MOST_AT_ONCE: Final = 20
_LONGEST: Final = 300
"""Characters of the reason of a dead letter, which may be a broker's own words."""
_LOST: Final = "state was lost at one end"


def _stand(link: Neighbour) -> tuple[int, int, bytes]:
    """How often state was lost, how many bundles with it, and whose store is there."""
    return link.detail.gaps, link.detail.gap_messages, link.store_id


class Seldom:
    """Says how many there were since it last spoke, and speaks about one thing every `_AGAIN` seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: Counter[str] = Counter()
        self._at: dict[str, float] = {}

    def due(self, totals: Mapping[str, int]) -> dict[str, int]:
        """What is to be said now, of totals that only grow: how many more there are of each."""
        now = self._clock()
        if len(self._told) > len(totals):
            _forget_gone(totals, self._told, self._at)
        found = {}
        for what, total in totals.items():
            if total > self._told[what] and now - self._at.get(what, -_AGAIN) >= _AGAIN:
                found[what] = total - self._told[what]
                self._told[what], self._at[what] = total, now
        return found


class OperatorLog:
    """Keep one for each node. `clock`: seconds, monotonic."""

    def __init__(self, core: NodeCore, clock: Callable[[], float] = time.monotonic) -> None:
        self._core = core
        self._clock = clock
        self._states: dict[str, tuple[str, float]] = {}
        self._gaps = {name: _stand(link) for name, link in core.neighbours.items()}
        self._holding: set[str] = set()
        self._full: set[Spool] = set()
        self._refusing = ""
        self._buried, self._refused, self._declined = (Seldom(clock) for _ in range(3))
        self._refusals_of_links, self._refusals_of_ours = Seldom(clock), Seldom(clock)
        self._buried.due(core.custody.buried)

    def __repr__(self) -> str:
        return f"<OperatorLog of {self._core.identity.name}>"

    # --- links

    def link(self, op: str, name: str) -> None:
        """A link came up, went down, is blocked, or runs again ('up')."""
        link = self._core.neighbours.get(name)
        if link is None:
            return
        now = self._clock()
        before, since = self._states.get(name, ("", now))
        self._states[name] = (op, now)
        lasted = f" after {now - since:.0f} s" if before and before != op else ""
        fields = _about(link, state=op, lasted_s=round(now - since, 3) if lasted else None)
        why = f": {link.why}" if link.why else ""
        match op:
            case "down":
                _links.info("- link %s (%s) is down%s%s", name, link.relation, lasted, why, extra=fields)
            case "blocked":
                _links.warning("! link %s (%s) is blocked%s", name, link.relation, why, extra=fields)
            case _ if before == "blocked":
                _links.info("= link %s (%s) is blocked no more%s", name, link.relation, lasted, extra=fields)
            case _:
                down = f", was down for {now - since:.0f} s" if before == "down" else ""
                _links.info("+ link %s (%s) is up%s", name, link.relation, down, extra=fields)
                self._gap(link)

    def _gap(self, link: Neighbour) -> None:
        """Has the neighbour, or have we, lost state since the link was up last? Is it another machine?"""
        gaps, bundles, store = self._gaps.get(link.name, (0, 0, b""))
        self._gaps[link.name] = _stand(link)
        if link.detail.gaps > gaps:
            missing = link.detail.gap_messages - bundles
            _links.warning(
                "! link %s: %s, a new epoch begins; at least %s missing",
                link.name,
                "its store is another one than before" if store not in (b"", link.store_id) else _LOST,
                counted(missing, "bundle", "is", "are"),
                extra=_about(link, count=missing),
            )

    def _holds(self) -> None:
        """Neighbours that have no room for something."""
        for name, link in self._core.neighbours.items():
            if bool(link.peer_holds) == (name in self._holding):
                continue
            if link.peer_holds:
                self._holding.add(name)
                _links.warning("! link %s: %s", name, link.why, extra=_about(link, state="blocked"))
            else:
                self._holding.discard(name)
                _links.info("= link %s: has room again", name, extra=_about(link))

    # --- queues and messages

    def queues(self, changed: Mapping[str, QueueRow | None]) -> None:
        """Persistent queues that are on disk now, or no more (None)."""
        for name, row in islice(changed.items(), _MOST_AT_ONCE):
            if row is None:
                _queues.info("- queue %s is deleted", name, extra={"queue": name})
            else:
                _queues.info("+ queue %s is created", name, extra={"queue": name})
        if len(changed) > _MOST_AT_ONCE:
            _queues.info("= and %s more", counted(len(changed) - _MOST_AT_ONCE, "queue"))

    def _dead_letters(self) -> None:
        for reason, count in self._buried.due(self._core.custody.buried).items():
            copy = self._latest(reason)
            fields: dict[str, Any] = {"reason": reason, "count": count}
            example = ""
            if copy is not None:
                header = copy.stored.header
                fields |= {"bundle": header.id.hex(), "destination": str(header.destination)}
                fields |= {"link": copy.came} if copy.came else {}
                why = copy.note.partition(": ")[2][:_LONGEST]
                example = f"; the latest: {header.id.hex()} for {header.destination}"
                example += f": {why}" if why else ""
            _dead.warning("! %s: %s%s", counted(count, "dead letter"), reason, example, extra=fields)

    def _latest(self, reason: str) -> QueueEntry | None:
        latest = islice(reversed(self._core.custody.dead.waiting), _LOOKED_AT)
        return next((copy for copy in latest if copy.note.partition(":")[0] == reason), None)

    def _refusals(self) -> None:
        for code, count in self._refused.due(self._core.message_admission.refused).items():
            fields = {"reason": code, "count": count}
            messages, were = counted(count, "message"), "was" if count == 1 else "were"
            _queues.warning("! %s of applications %s not taken: %s", messages, were, code, extra=fields)
        declined = {"routes": self._core.counters.get("declined", 0)}
        for count in self._declined.due(declined).values():
            routes = counted(count, "route", "was", "were")
            _links.warning("! %s declined: over a limit, or not the neighbour's", routes)

    def _refusals_on_links(self) -> None:
        """By which rules neighbours were refused something, or have refused us."""
        links = self._core.neighbours
        theirs = self._refusals_of_links.due({name: link.refusals.total for name, link in links.items()})
        for name, count in theirs.items():
            last = links[name].refusals.latest()[0]
            fields = _about(links[name], reason=last.rule, destination=last.what, count=count)
            _links.warning("! link %s: refused %d: %s; the last: %s", name, count, *last[:2], extra=fields)
        ours = self._refusals_of_ours.due({name: link.refused_us.total for name, link in links.items()})
        for name, count in ours.items():
            last = links[name].refused_us.latest()[0]
            fields = _about(links[name], reason=last.rule, destination=last.what, count=count)
            _links.warning(
                "! link %s: refuses %d of ours: %s; the last: %s", name, count, *last[:2], extra=fields
            )

    # --- the node

    def look(self) -> None:
        """To be called about once a second."""
        _forget_gone(self._core.neighbours, self._states, self._gaps)
        self._holding.intersection_update(self._core.neighbours)
        self._holds()
        self._dead_letters()
        self._refusals()
        self._refusals_on_links()
        self._disk()
        self._spools()

    def chain(self, chain: list[str]) -> None:
        _node.info("= the chain to the root is %s", " < ".join(chain))

    def _disk(self) -> None:
        refusing = self._core.message_admission.closed
        if refusing and not self._refusing:
            _node.warning("! no messages are taken: %s", refusing)
        elif self._refusing and not refusing:
            _node.info("= messages are taken again")
        self._refusing = refusing

    def _spools(self) -> None:
        for spool in Spool:
            full = spool in self._core.message_admission.full()
            if full and spool not in self._full:
                self._full.add(spool)
                size = self._core.custody.spools[spool]
                _node.warning(
                    "! the spool '%s' is full with %d bytes: nothing more for it is taken", spool, size
                )
            elif not full and spool in self._full:
                self._full.discard(spool)
                _node.info("= the spool '%s' has room again", spool)


def _forget_gone(there: Mapping[str, object], *kept: dict[str, Any]) -> None:
    """Names come and go: nothing is kept of those that are there no more."""
    for each in kept:
        if len(each) > len(there):
            for name in each.keys() - there.keys():
                del each[name]


def _about(link: Neighbour, **more: Any) -> dict[str, Any]:
    """Fields of a line that is about a link."""
    fields = {"link": link.name, "relation": link.relation, "reason": link.why or None, **more}
    return {key: value for key, value in fields.items() if value is not None}
