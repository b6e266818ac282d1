"""The definitions of a node as one file: told, and taken at this node or at another one.

They are all that stays when nothing waits: queues, durable subscriptions, static routes, and permits. A file
has no secret. A subscription belongs to a session, and the name of a session without an account is its proof;
so only those of accounts are told, the others are counted (`left_out`).

Law: a file is looked at whole before anything changes, and all that is wrong in it is said at once. Taking
it again changes nothing. It takes nothing away: what a node has and a file has not, stays.
"""

from broker.api.context import RunningNode
from broker.api.definition_file import (
    FORMAT,
    MOST,
    Definitions,
    DefinitionsFile,
    DefinitionsTaken,
    PermitDefinition,
    QueueDefinition,
    RouteDefinition,
    SubscriptionDefinition,
    own_grant,
)
from broker.api.importing import Plan
from broker.api.operation import Parameter, operation
from broker.api.pages import chunks
from broker.core.errors import SwitchError
from broker.core.messages.queue import Queue
from broker.core.messages.queue_names import is_internal
from broker.core.routing.subscriptions import SHARED, Subscription
from treeconnector.permits import LISTS
from treeconnector.static_routes import StaticRoute


@operation(
    "GET",
    "/api/definitions",
    "The definitions of a node as one file: queues, durable subscriptions, static routes, permits.",
    "node",
    errors={409: "REFUSED: it has more definitions than a file takes."},
    role="administrator",
)
async def tell(node: RunningNode) -> Definitions:
    """In an order that stays, so that two files can be compared line by line."""
    core = node.core
    queues = [
        each async for part in chunks(list(core.custody.queues.values())) for each in part if is_defined(each)
    ]
    subscriptions, left_out = await _subscriptions(node)
    permits = await _permits(node)
    count = len(queues) + len(subscriptions) + len(core.table.static) + len(permits)
    if count > MOST:
        raise SwitchError(f"REFUSED: {node.name} has {count} definitions, and a file takes {MOST}")
    told = [definition_of(node, each) async for part in chunks(queues) for each in part]
    return Definitions(
        format=FORMAT,
        node=node.name,
        queues=sorted(told, key=lambda each: each.name),
        subscriptions=subscriptions,
        routes=sorted(map(_route, core.table.static), key=_words),
        permits=permits,
        left_out=left_out,
    )


@operation(
    "POST",
    "/api/definitions",
    "Take definitions: all that is missing is made, nothing is taken away.",
    "node",
    (Parameter("check", "Say what would change, and change nothing.", "boolean", default=False),),
    errors={409: "REFUSED: it changed meanwhile; import it again."},
    body=DefinitionsFile,
    role="administrator",
)
async def take(node: RunningNode, body: DefinitionsFile, check: bool) -> DefinitionsTaken:
    """See `broker.api.importing`."""
    plan = Plan(node)
    await plan.read(body)
    if not check:
        await plan.carry_out()
    return DefinitionsTaken(
        node=node.name, checked=check, made=plan.made, same=plan.same, differences=plan.differences
    )


def is_defined(queue: Queue) -> bool:
    """Was it made, to stay?"""
    destination = queue.destination
    return bool(destination and queue.created and not queue.owner and not is_internal(destination))


def definition_of(node: RunningNode, queue: Queue) -> QueueDefinition:
    assert queue.destination is not None
    policy = node.core.settings.policy(queue.destination)
    return QueueDefinition(
        name=queue.destination.name,
        home=queue.home,
        max_messages=policy.max_messages,
        max_bytes=policy.max_bytes,
        overflow=str(policy.overflow),
    )


async def _subscriptions(node: RunningNode) -> tuple[list[SubscriptionDefinition], int]:
    """Those that can be told, and how many cannot."""
    found: list[SubscriptionDefinition] = []
    left_out = 0
    async for part in chunks(list(node.core.topics.subscriptions.values())):
        for each in part:
            if not each.name:
                continue
            told = _subscription(node, each)
            if told is None:
                left_out += 1
            else:
                found.append(told)
    found.sort(key=lambda each: (each.account, each.session, each.name))
    return found, left_out


def _subscription(node: RunningNode, found: Subscription) -> SubscriptionDefinition | None:
    account, _, session = found.session.partition("/")
    is_kept = SHARED in found.session or node.core.kept_sessions.get(found.session)
    if is_kept or not node.access.entrance.owner_of(found.session):
        return None
    return SubscriptionDefinition(account=account, session=session, name=found.name, topic=found.pattern)


def _route(route: StaticRoute) -> RouteDefinition:
    destination = "" if route.destination is None else str(route.destination)
    return RouteDefinition(kind=str(route.kind), destination=destination, gateway=route.to)


def _words(route: RouteDefinition) -> tuple[str, str, str]:
    return route.kind, route.destination, route.gateway


async def _permits(node: RunningNode) -> list[PermitDefinition]:
    """Of children that have come, and of those for which an operator has said it."""
    permits = node.core.permits
    names = {each.name for each in node.core.context.children()} | permits.set_for
    return [
        PermitDefinition(
            child=name, set=name in permits.set_for, **{each: list(getattr(grant, each)) for each in LISTS}
        )
        async for part in chunks(sorted(names))
        for name in part
        if (grant := own_grant(node, name)) is not None
    ]
