"""Definitions are taken at a node: looked at whole first, then made, a part at a time.

Law: a plan that is not right makes nothing; it says all that is wrong, each with its place in the file. A
part is one commit, so a crash leaves some parts made: taking the file again makes the rest.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from broker.api.context import RunningNode
from broker.api.definition_file import (
    FORMAT,
    MOST,
    MOST_RULES,
    DefinitionsFile,
    PermitDefinition,
    QueueDefinition,
    RouteDefinition,
    SubscriptionDefinition,
    own_grant,
)
from broker.api.pages import CHUNK, chunks
from broker.core.errors import BadRequest, SwitchError
from sapwood.protocol import destinations
from sapwood.protocol.errors import RouteError, SapwoodError
from sapwood.protocol.names import node_name
from treeconnector.patterns import check_pattern
from treeconnector.permits import LISTS, Grant, Rules
from treeconnector.static_routes import StaticRoute

_Item = TypeVar("_Item")
_LISTS: Final = ("queues", "subscriptions", "routes", "permits")
_COMPARED: Final = ("max_messages", "max_bytes", "overflow")
_MOST_SAID: Final = 100
_LONGEST: Final = 255


class Plan:
    """The making of one file's definitions at a node. `differences`: what an import does not change."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self._mistakes: list[str] = []
        self._seen: set[tuple[str, ...]] = set()
        self._queues: list[QueueDefinition] = []
        self._subscriptions: list[SubscriptionDefinition] = []
        self._routes: list[StaticRoute] = []
        self._grants: list[Grant] = []
        self._static = node.core.table.static.copy()
        self.made = dict.fromkeys(_LISTS, 0)
        self.same = dict.fromkeys(_LISTS, 0)
        self.differences: list[str] = []

    def __repr__(self) -> str:
        return f"<Plan for {self._node.name} made={self.made} mistakes={len(self._mistakes)}>"

    async def read(self, body: DefinitionsFile) -> None:
        """Look at all of it. Raises `BadRequest` with everything that is wrong."""
        if body.format != FORMAT:
            raise BadRequest(f"format: {body.format}, expected {FORMAT}: it is of another version")
        count = sum(len(getattr(body, name)) for name in _LISTS)
        if count > MOST:
            raise BadRequest(f"{count} definitions: expected {MOST} at most")
        if body.node not in ("", self._node.name):
            self._differs(f"node: the file is of {body.node[:64]!r}, this is {self._node.name!r}")
        await self._each("queues", body.queues, QueueDefinition, self._queue)
        await self._each("subscriptions", body.subscriptions, SubscriptionDefinition, self._subscription)
        await self._each("routes", body.routes, RouteDefinition, self._route)
        await self._each("permits", body.permits, PermitDefinition, self._permit)
        self._check_room()
        if self._mistakes:
            raise BadRequest(self._said())

    def _said(self) -> str:
        found = self._mistakes
        lines = ["nothing was changed; the file is wrong:", *found[:_MOST_SAID]]
        if len(found) > _MOST_SAID:
            lines.append(f"and {len(found) - _MOST_SAID} more")
        return "\n".join(lines)

    async def _each(
        self,
        name: str,
        items: list[msgspec.Raw],
        kind: type[_Item],
        look: Callable[[_Item, str], bool | None],
    ) -> None:
        """Look at each item; `look` says whether it is to be made, None: neither made nor the same."""
        async for part in _shares(items):
            for index, item in part:
                place = f"{name}[{index}]"
                try:
                    new = look(msgspec.json.decode(item, type=kind), place)
                except (msgspec.DecodeError, ValueError, RecursionError) as error:
                    text, _, inside = str(error).partition(" - at `$")
                    self._mistakes.append(f"{place}{inside.rstrip('`')}: {text}")
                except SapwoodError as error:
                    self._mistakes.append(f"{place}: {_text(error)}")
                else:
                    if new is not None:
                        (self.made if new else self.same)[name] += 1

    def _once(self, *key: str) -> None:
        if key in self._seen:
            raise BadRequest("it stands in the file twice")
        self._seen.add(key)

    def _differs(self, text: str) -> None:
        if len(self.differences) < _MOST_SAID:
            self.differences.append(text)

    # --- what is looked at

    def _queue(self, said: QueueDefinition, place: str) -> bool:
        core = self._node.core
        if "@" in said.name:
            raise BadRequest(f"{said.name[:80]!r}: expected the name of a queue of this node, without '@'")
        name = core.switch.local_queues.local_name(said.name)
        self._once("queue", name)
        key = destinations.queue(name)
        policy = core.settings.policy(key)
        self._compare(place, said, {each: getattr(policy, each) for each in _COMPARED})
        found = core.custody.queues.get(str(key))
        if found is None or not found.created:
            if policy.home and not said.home:
                self._differs(f"{place}.home: false, and the site's file here makes it true")
            self._queues.append(said)
            return True
        if found.owner:
            raise BadRequest(f"queue {name!r} is a session's own here: choose another name")
        if found.home != said.home:
            here = str(found.home).lower()
            raise BadRequest(
                f"queue {name!r} is here with home {here}, which cannot be changed: correct the file, or"
                " delete the queue first"
            )
        return False

    def _compare(self, place: str, said: QueueDefinition, here: dict[str, Any]) -> None:
        for name, value in here.items():
            wanted = getattr(said, name)
            if wanted is not None and wanted != value:
                self._differs(f"{place}.{name}: {str(wanted)[:40]}, the site's file here says {value}")

    def _subscription(self, said: SubscriptionDefinition, place: str) -> bool:
        node = self._node
        for name in ("session", "name"):
            text = getattr(said, name)
            if not text or len(text) > _LONGEST or not text.isprintable():
                raise BadRequest(f"its {name}: expected 1 to {_LONGEST} printable characters")
        self._once("subscription", said.account, said.session, said.name)
        rights = node.access.entrance.rights_of(said.account)
        if rights is None:
            raise BadRequest(
                f"the site's file here names no account {said.account[:80]!r}: add it (accounts), then read"
                " the file again (sapwood permits reload)"
            )
        settings = node.core.settings
        check_pattern(said.topic, settings.max_filter_length, settings.max_levels)
        rights.check_consume(destinations.topic(said.topic))
        before = node.core.topics.durable(_token(said), said.name)
        if before is None:
            self._subscriptions.append(said)
            return True
        if before.pattern != said.topic:
            raise BadRequest(
                f"the subscription {said.name!r} is here to {before.pattern!r}: correct the file, or end that"
                " first"
            )
        return False

    def _route(self, said: RouteDefinition, place: str) -> bool:
        route = self._node.core.static_routing.read(said.kind, said.destination, said.gateway)
        self._once("route", str(route))
        if route in self._static:
            return False
        self._static.add(route)
        self._routes.append(route)
        return True

    def _permit(self, said: PermitDefinition, place: str) -> bool | None:
        node = self._node
        if sum(len(getattr(said, name)) for name in LISTS) > MOST_RULES:
            raise BadRequest(f"expected {MOST_RULES} rules at most")
        rules = {name: tuple(getattr(said, name)) or default for name, default in LISTS.items()}
        grant = Grant(node.name, node_name(said.child), **rules)
        Rules(grant)
        self._once("permit", grant.child)
        here = own_grant(node, grant.child)
        if not said.set:
            if here != grant:
                self._differs(
                    f"{place}: here {grant.child} may do otherwise, as the site's file or an operator says"
                )
            return None
        if grant.child in node.core.permits.set_for and here == grant:
            return False
        self._grants.append(grant)
        return True

    def _check_room(self) -> None:
        core = self._node.core
        self._try("queues", partial(core.switch.local_queues.check_room, len(self._queues)))
        for account, count in Counter(each.account for each in self._subscriptions).items():
            self._try("subscriptions", partial(core.topics.check_room, f"{account}/", count))

    def _try(self, place: str, check: Callable[[], None]) -> None:
        try:
            check()
        except SapwoodError as error:
            self._mistakes.append(f"{place}: {_text(error)}")

    # --- what is done

    async def carry_out(self) -> None:
        """Make it. Raises `SwitchError` where something has changed since it was looked at."""
        core = self._node.core
        try:
            await self._in_parts(self._queues, self._make_queue)
            await self._in_parts(self._subscriptions, self._subscribe)
            if self._routes:
                core.static_routing.add_all(self._routes)
            if self._grants:
                core.permits.set_all(self._grants)
        except (SwitchError, RouteError) as error:
            raise SwitchError(f"REFUSED: {_text(error)}; a part is made: import the file again") from None
        self._node.wake()
        await self._node.driver.committed()

    async def _in_parts(self, items: list[_Item], make: Callable[[_Item], None]) -> None:
        async for part in chunks(items):
            for item in part:
                make(item)
            self._node.wake()
            await self._node.driver.committed()

    def _make_queue(self, said: QueueDefinition) -> None:
        self._node.core.switch.local_queues.make(said.name, said.home)

    def _subscribe(self, said: SubscriptionDefinition) -> None:
        """As if its session had come, taken what is retained, and gone."""
        core = self._node.core
        subscription, new = core.topics.subscribe(_token(said), said.name, said.topic)
        if new:
            core.switch.interest.subscribed(subscription)
            core.topics.greet(subscription)


async def _shares(items: list[msgspec.Raw]) -> AsyncIterator[list[tuple[int, msgspec.Raw]]]:
    """With their places, so many at a time as take no longer than a chunk: an item may have 10,000 rules."""
    part: list[tuple[int, msgspec.Raw]] = []
    weight = 0
    for index, item in enumerate(items):
        part.append((index, item))
        weight += 1 + bytes(item).count(b",")
        if weight >= CHUNK:
            yield part
            part, weight = [], 0
            await asyncio.sleep(0)
    yield part


def _token(said: SubscriptionDefinition) -> str:
    return f"{said.account}/{said.session}"


def _text(error: SapwoodError) -> str:
    return error.text if isinstance(error, SwitchError) else str(error)
