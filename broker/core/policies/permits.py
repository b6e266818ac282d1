"""Permits: each child may consume, send, and have below it so much, enforced where its link ends here.

The rules and what they mean are the protocol's (`treeconnector.permits`); here they meet routes, bundles,
the disk and the links. Law: a violation is refused with the rule that refused it, counted, and told to the
child; the link stays, and all that is permitted goes on. What refuses:

- a route, when it is about to enter the table (`legality`); so nothing is ever sent that may not be read;
- a bundle, before it goes anywhere (`why_not_take`), also one that cannot be read; it is a dead letter, so
  many of each child; nor one that asks for answers where the child may not send (`replies`);
- a question who a node is, and the answer to it (`may_ask`).

What was given to a child to consume it may give back, and nothing else in its place (`given`).

Law: what waits here of one child is bounded (`CoreSettings.child_waiting`). First it is asked to keep what
it has; of one that does not nothing more is taken, until there is room. Of one whose share has become smaller
than what waits, that counts as well: it is asked, and goes on. A child without permits is trusted, as before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache, partial
from typing import Final

import msgspec

from broker.core.context import Context
from broker.core.errors import BadRequest, NotFound
from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import QueueEntry
from broker.core.policies.loans import Loans
from broker.core.policies.replies import Replies, name_of
from broker.core.policy import Policy
from broker.core.routing.admission import MessageAdmission
from broker.core.rows import MetaRow
from broker.core.tree.ancestry import Ancestry
from sapwood.protocol.bundles import Flag, Header, Opening
from sapwood.protocol.destinations import Destination, Kind, topic
from sapwood.protocol.errors import PatternError
from sapwood.protocol.names import is_incarnation
from treeconnector.advisories import Advertiser, digest_of, standing
from treeconnector.frames import Advice
from treeconnector.held import Legality, Limits, anything_goes
from treeconnector.link_events import Event, LinkUp, PeerGrants
from treeconnector.permits import NOTHING, Grant, Permit, Rules, pack
from treeconnector.relations import Relation
from treeconnector.routes import Route

GrantOf = Callable[[str], Grant | None]
"""What the site's file lets a child do; None: everything."""

_TOLD: Final = "permits told by "
_SET: Final = "permit of "
_MOST_TOLD: Final = 200
_KEPT: Final = 1000
_KEPT_BYTES: Final = 16 * 1024 * 1024
_WEIGHT: Final = 2048


def everything(_child: str) -> Grant | None:
    """Of a node whose file says that it is open."""
    return None


def _nothing_said(_child: str) -> None:
    """Of a node whose file does not say it."""


def _no_role(_child: str) -> str:
    return ""


@lru_cache(maxsize=128)
def _limits(routes: int, length: int, levels: int) -> Limits:
    """Neighbours are mostly alike in it, and share it."""
    return Limits(routes, length, levels, weight=max(routes * _WEIGHT, length + levels * _WEIGHT))


class ChildPermits(Policy):
    """Of one node. `grant_of`, `most_routes`, `role_of` ('' = not said): as the site's file has it; said with
    `configure`, and before that a child may do what is below its own name.
    """

    __slots__ = (
        *("_above", "_admission", "_ancestry", "_context", "_dead", "_grant_of", "_loans", "_most_routes"),
        *("_replies", "_role_of", "_set", "_told"),
    )

    def __init__(
        self,
        context: Context,
        admission: MessageAdmission,
        ancestry: Ancestry,
        loans: Loans,
        replies: Replies,
    ) -> None:
        self._context = context
        self._admission = admission
        self._ancestry = ancestry
        self._loans = loans
        self._replies = replies
        self._grant_of: GrantOf = partial(Grant, context.name)
        self._most_routes: Callable[[str], int | None] = _nothing_said
        self._role_of: Callable[[str], str] = _no_role
        self._set: dict[str, Grant] = {}
        self._told: dict[str, list[Rules]] = {}
        self._above: dict[str, Permit] = {}
        self._dead: dict[str, list[QueueEntry]] = {}
        context.counters.setdefault("refused", 0)
        context.counters.setdefault("refused_unkept", 0)

    def __repr__(self) -> str:
        told = ", ".join(self._told) or "nobody"
        return f"<ChildPermits of {self._context.name} set={len(self._set)} told by {told}>"

    # --- what is granted

    def configure(
        self,
        grant_of: GrantOf,
        most_routes: Callable[[str], int | None],
        role_of: Callable[[str], str] = _no_role,
    ) -> None:
        """The site's file was read, at the start or again. Each change has its effect at once."""
        self._grant_of, self._most_routes, self._role_of = grant_of, most_routes, role_of
        self._refresh()

    def restore(self, meta: Mapping[str, bytes]) -> None:
        """The permits that operators set, and those that nodes above have told."""
        for name, value in meta.items():
            if name.startswith(_SET):
                self._set[name.removeprefix(_SET)] = msgspec.msgpack.decode(value, type=Grant)
            elif name.startswith(_TOLD):
                grants = msgspec.msgpack.decode(value, type=list[Grant])
                self._told[name.removeprefix(_TOLD)] = [Rules(grant) for grant in grants]

    def begin(self) -> None:
        """At a start, when all is restored: the file may have changed since."""
        self._refresh(again=True)

    def set(self, grant: Grant) -> None:
        """An operator says what a child may do, whatever the site's file says. Raises `BadRequest`."""
        try:
            Rules(grant)
        except PatternError as error:
            raise BadRequest(str(error)) from None
        self.set_all((grant,))

    def set_all(self, grants: Iterable[Grant]) -> None:
        """The same for several, whose grants are known to be right; routes are looked at once, for all."""
        for grant in grants:
            self._set[grant.child] = grant
            self._context.custody.transaction.put(MetaRow(_SET + grant.child, msgspec.msgpack.encode(grant)))
        self._refresh()

    def unset(self, child: str) -> None:
        """From now on what the site's file says counts again. Raises `NotFound`."""
        if self._set.pop(child, None) is None:
            raise NotFound(f"no permit was set for {child!r}: the site's file says what it may do")
        self._context.custody.transaction.delete(MetaRow, _SET + child)
        self._refresh()

    @property
    def set_for(self) -> Set[str]:
        """The children for which an operator has said it now, whether they have ever come or not."""
        return self._set.keys()

    def granted_here(self) -> tuple[Grant, ...]:
        """The grants of the nodes above to this node; empty: it may do everything."""
        return tuple(rules.grant for told in self._told.values() for rules in told)

    def why_not_above(self, destination: Destination) -> str:
        """They are asked all the same when it comes to them. Of several parents any may take it."""
        why = ""
        for parent in self._context.parents:
            permit = self._above.get(parent)
            why = permit.why_not_send(destination) if permit is not None else ""
            if why and permit is not None and is_incarnation(destination.node):
                name = name_of(self._context, destination.node)
                why = permit.why_not_send(destination._replace(node=name)) if name else ""
            if not why:
                return ""
        return why

    def why_not_open_above(self, parent: str, name: str, node: str) -> str:
        """Would a parent, or a node above it, refuse a channel that this node opens?"""
        permit = self._above.get(parent)
        return permit.why_not_open(name, node) if permit is not None else ""

    def permit_of(self, child: str) -> Permit:
        """The permit of a child by now, whether it is here or not."""
        own = self._set.get(child) or self._grant_of(child)
        above = [rules for told in self._told.values() for rules in told]
        return Permit([*([Rules(own)] if own else []), *above])

    def said(self, neighbour: Neighbour, event: Event) -> None:
        if isinstance(event, PeerGrants):
            self._granted(neighbour, event.rules)

    def _granted(self, parent: Neighbour, rules: list[Rules]) -> None:
        """A parent says what this node may do, and with it all below it."""
        transaction, row = self._context.custody.transaction, _TOLD + parent.name
        if parent.relation is Relation.MESH:
            return  # who is beside this node grants it nothing
        if rules:
            self._told[parent.name] = rules
            transaction.put(MetaRow(row, pack([each.grant for each in rules])))
        elif self._told.pop(parent.name, None) is not None:
            transaction.delete(MetaRow, row)
        self._refresh()

    def gone(self, neighbour: Neighbour) -> None:
        """It is a neighbour no more. A parent's grants go with it."""
        self._dead.pop(neighbour.name, None)
        if neighbour.name in self._told:
            self._granted(neighbour, [])

    # --- a neighbour

    def welcome(self, neighbour: Neighbour) -> None:
        """A neighbour is new, or known again after a start."""
        if neighbour.relation is Relation.CHILD:
            neighbour.permit, neighbour.permitted_at = self.permit_of(neighbour.name), self._context.clock.now

    def why_not_role(self, name: str, role: str) -> str:
        """Why a child may not be what it says that it is; '' if it may."""
        me, pinned = self._context.name, self._role_of(name)
        if pinned:
            advice = f"correct its nodetype, or its role at {me}"
            return "" if role == pinned else f"{me!r} knows {name!r} as a {pinned}, not as a {role}: {advice}"
        own = self._set.get(name) or self._grant_of(name)
        if role == "leaf" or own is None or any(node != NOTHING for node in own.nodes):
            return ""
        return (
            f"{name!r} says that it is a {role}, and {me!r} lets it have no nodes below it: give it a role"
            f" and nodes at its entry among the children of {me}, or let it be a leaf"
        )

    def limits(self, name: str) -> Limits:
        """How much a neighbour may put into the table."""
        settings = self._context.settings
        routes = self._most_routes(name) or settings.max_routes
        return _limits(routes, settings.max_filter_length, settings.max_levels)

    def link_up(self, neighbour: Neighbour, up: LinkUp) -> None:
        self._greet(neighbour)

    def _greet(self, neighbour: Neighbour) -> None:
        """A child is told what it may do, if anything ever limited that."""
        grants, link = neighbour.permit.grants, neighbour.link
        if link is not None and (grants or neighbour.detail.limited):
            neighbour.detail.limited = bool(grants)
            self._context.touch(neighbour)
            link.say.grant(grants)

    def _refresh(self, *, again: bool = False) -> None:
        """What is granted may have changed: for which children has it? `again`: look at all routes."""
        policies = self._context.policies
        self._above = {parent: Permit(rules) for parent, rules in self._told.items()}
        policies.tell(Policy.permits_changed)
        for neighbour in self._context.children():
            permit = self.permit_of(neighbour.name)
            changed = permit.grants != neighbour.permit.grants
            if changed:
                neighbour.permit = permit
                self._greet(neighbour)
            if changed or again:
                neighbour.permitted_at = self._context.clock.now
            if neighbour.held.limit(self.limits(neighbour.name)) or changed or again:
                policies.tell(Policy.permit_changed, neighbour, anew=changed)
                self._sweep(neighbour)

    def _sweep(self, neighbour: Neighbour) -> None:
        """What waits for a child that it may not have any more is not sent; what has its number goes. What is
        on disk alone is looked at when it is to be sent.
        """
        queue, permit = neighbour.queue, neighbour.permit
        if not permit:
            return
        entries = [*queue.waiting.warm, *queue.resting.values()]
        destinations = {entry.stored.header.destination for entry in entries}
        reasons = {each: permit.why_not_take(each) for each in destinations if not each.node}
        doomed = {entry: None for entry in entries if reasons.get(entry.stored.header.destination)}
        queue.waiting.take_out(doomed.__contains__)
        queue.swept = max((page.last + 1 for page in queue.waiting.pages), default=0)
        for entry in doomed:
            queue.resting.take(entry.row)
            why = reasons[entry.stored.header.destination]
            neighbour.refusals.add(why, entry.open)
            self._context.custody.bury(entry, why)

    # --- routes

    def legality(self, relation: Relation) -> Legality:
        return self._why_not_from_below if relation is Relation.CHILD else anything_goes

    def _why_not_from_below(self, route: Route) -> str:
        """A child cannot have below it what is here or above, nor what it has no permit for."""
        key, neighbour = route.key, self._context.neighbours[route.gateway]
        if key.kind == Kind.DOMAIN:
            return self.why_not_below(neighbour, key.name) or _why_not_of(neighbour, key.name)
        permit = neighbour.permit
        return permit.why_not_consume(key) or (permit.why_not_have(route.origin) if route.origin else "")

    def why_not_below(self, neighbour: Neighbour, name: str) -> str:
        """Why a node cannot be below a child; '' if it can."""
        if self._ancestry.may_administer(name) or name in self._context.members:
            return f"{name!r} is this node, beside it or above it: it cannot be below {neighbour.name!r}"
        return neighbour.permit.why_not_have(name)

    def claims(self, neighbour: Neighbour, advices: list[Advice]) -> list[Advice]:
        """Those about nodes that the child may speak of."""
        nodes = [
            each for each in advices if each.kind == Kind.DOMAIN and not _why_not_of(neighbour, each.name)
        ]
        permit = neighbour.permit
        return [advice for advice in nodes if not permit.why_not_have(advice.name)] if permit else nodes

    def heard(self, neighbour: Neighbour, advices: list[Advice]) -> list[Advice]:
        """What of these a neighbour may know: consumers of what it may send."""
        permit = neighbour.permit
        return [each for each in advices if permit.may_hear(each.key)] if permit else advices

    def offered(self, neighbour: Neighbour, offers: Advertiser) -> tuple[int, bytes]:
        """Count and digest of what a neighbour may know of these offers."""
        if not neighbour.permit:
            return offers.count, offers.digest
        told = self.heard(neighbour, offers.snapshot())
        return len(told), digest_of((each.key, standing(each.op != "dormant", each.reads)) for each in told)

    def refuse_routes(self, neighbour: Neighbour, keys: Sequence[Destination], text: str) -> None:
        """Count what a neighbour was refused, and tell it."""
        neighbour.refusals.add(text, len(keys))
        if neighbour.link is not None:
            neighbour.link.say.decline(keys, text)

    def why_not_tell(self, neighbour: Neighbour, key: str) -> str:
        """Why a child may not learn who has a name, or where an incarnation is; '' if it may.

        It may of its own nodes, of those above it, and of those that have a cell it may send to. An
        incarnation that is not known here may be asked for: the answer is looked at again.
        """
        name = name_of(self._context, key) if is_incarnation(key) else key
        if not name or self._ancestry.may_administer(name):
            return ""
        why = neighbour.permit.why_not_reach(name)
        if why:
            neighbour.refusals.add(why)
        return why

    # --- bundles

    def why_not_take(self, neighbour: Neighbour, header: Header, body: bytes, opening: Opening) -> str:
        """Why a bundle of a child is not taken on; '' if it is."""
        permit, destination = neighbour.permit, header.destination
        if header.flags & Flag.REROUTED and self._loans.take(neighbour, header, body):
            return ""
        if destination.kind == Kind.TOPIC and destination.node:
            return self._why_not_followed(neighbour, destination)
        why = permit.why_not_send(destination)
        if why and is_incarnation(destination.node):
            name = name_of(self._context, destination.node)
            why = permit.why_not_send(destination._replace(node=name)) if name else why
        if not why and not self._admission.is_from_below(neighbour, header.origin):
            why = f"ORIGIN: {header.origin[:64]!r} is not below {neighbour.name}"
        return why or self._replies.why_not(neighbour, header, opening)

    def _why_not_followed(self, neighbour: Neighbour, destination: Destination) -> str:
        """A topic's message that goes after a node that has left a child: it left, and may have it there."""
        node, plain = destination.node, topic(destination.name)
        left = node in neighbour.former or node in neighbour.untold
        why = "" if left else f"PERMIT: {node[:64]!r} has not left {neighbour.name}"
        return why or (neighbour.permit.why_not_take(plain) and neighbour.permit.why_not_send(plain))

    def refused(self, neighbour: Neighbour, destination: Destination, why: str) -> None:
        """A bundle is refused. A child with permits is told: of each rule once a link, and of so many."""
        self._context.counters["refused"] += 1
        first = neighbour.refusals.add(why)
        link = neighbour.link
        if not neighbour.permit or link is None:
            return
        if (first or neighbour.told_refusals == 0) and neighbour.told_refusals < _MOST_TOLD:
            neighbour.told_refusals += 1
            link.say.decline([destination], why)

    def lacks_room_for_refused(self, neighbour: Neighbour, size: int) -> bool:
        """Are there too many dead letters for one more bundle that this child was refused?"""
        if not neighbour.permit:
            return False
        dead = self._context.custody.dead
        kept = [entry for entry in self._dead.get(neighbour.name, ()) if entry.open and entry.queue is dead]
        self._dead[neighbour.name] = kept
        if len(kept) < _KEPT and sum(entry.stored.size for entry in kept) + size <= _KEPT_BYTES:
            return False
        self._context.counters["refused_unkept"] += 1
        return True

    def kept_refused(self, neighbour: Neighbour, entry: QueueEntry) -> None:
        if neighbour.permit:
            self._dead.setdefault(neighbour.name, []).append(entry)


def _why_not_of(neighbour: Neighbour, name: str) -> str:
    """A leaf has nobody below it."""
    if neighbour.detail.role != "leaf" or name == neighbour.name:
        return ""
    return f"ROLE: {neighbour.name} is a leaf, which has nobody below it, not {name[:64]}"
