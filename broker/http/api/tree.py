"""The operations that look at the tree and its routes, here and at other nodes."""

from typing import Any, Final

from broker.administration import answers, routing_answers
from broker.administration.routes import KINDS
from broker.administration.routing_answers import Announce, RouteChange
from broker.http.api.operations import Call, Operation, Parameter
from broker.http.api.parameters import GONE, LIMIT, NODE, PAGE, SEARCH, cut_of
from broker.http.ports import NodePort

_AWAY: Final = {
    409: "REFUSED: that node answers its ancestors only.",
    504: "UNREACHABLE: that node does not answer.",
}
_ASKED: Final = {**GONE, **_AWAY}
_AT: Final = Parameter("node", "The node that is asked; this one if absent.")
_ADDRESS: Final = Parameter(
    "address", "`CELL@NODE`, or a well-known `CELL`; `CELL@local` is this node first."
)


def of_the_tree(node: NodePort) -> list[Operation]:
    """Of one node."""
    return [*_tree(node), *_routes(node), *_ways(node), *_addresses(node)]


def _tree(node: NodePort) -> list[Operation]:
    async def advisories(call: Call) -> Any:
        return node.administration.advisories(call["limit"])

    async def tree(call: Call) -> Any:
        return node.administration.tree.here(cut_of(call))

    async def tree_of(call: Call) -> Any:
        return await node.administration.tree.of(call["node"], cut_of(call))

    return [
        Operation(
            "GET",
            "/api/advisories",
            "What was heard of consumers and links lately, newest first.",
            "tree",
            answers.Advisories,
            advisories,
            (LIMIT,),
        ),
        Operation("GET", "/api/tree", "This node's place in the tree.", "tree", answers.Tree, tree, PAGE),
        Operation(
            "GET",
            "/api/tree/{node}",
            "Another node's place, as it sees it itself.",
            "tree",
            answers.Tree,
            tree_of,
            (NODE, *PAGE),
            errors=_ASKED,
        ),
    ]


def _routes(node: NodePort) -> list[Operation]:
    async def routes(call: Call) -> Any:
        routing = node.administration.routing
        return await routing.show(call["node"], call["search"], call["kind"], call["gateway"], cut_of(call))

    async def add(call: Call) -> Any:
        return await node.administration.routing.add(call.body)

    async def remove(call: Call) -> Any:
        return await node.administration.routing.remove(call.body)

    kind = Parameter("kind", "Only of this kind.", choices=("", *KINDS))
    gateway = Parameter("gateway", "Only those through 'local' or this neighbour.")
    there = {409: "REFUSED: it is there already, leads in a circle, or that node answers its ancestors only."}
    return [
        Operation(
            "GET",
            "/api/routes",
            "The routing table.",
            "tree",
            answers.Routes,
            routes,
            (_AT, SEARCH, kind, gateway, *PAGE),
            errors=_ASKED,
        ),
        Operation(
            "POST",
            "/api/routes",
            "Set an exact, alias, default or dumpster route; it stays until it is removed.",
            "tree",
            routing_answers.StaticRoute,
            add,
            body=RouteChange,
            errors={**_ASKED, **there},
        ),
        Operation(
            "DELETE",
            "/api/routes",
            "Remove a route that was set.",
            "tree",
            routing_answers.StaticRoute,
            remove,
            body=RouteChange,
            errors=_ASKED,
        ),
    ]


def _addresses(node: NodePort) -> list[Operation]:
    async def addresses(call: Call) -> Any:
        return await node.administration.routing.addresses.of(call["node"], call["search"], cut_of(call))

    async def who_has(call: Call) -> Any:
        return await node.administration.routing.addresses.who_has(call["key"])

    async def announce(call: Call) -> Any:
        return node.administration.routing.addresses.announce(call.body)

    key = Parameter("key", "A node's name, or an incarnation: the 36 characters of a UUID.")
    return [
        Operation(
            "GET",
            "/api/addresses",
            "What a node knows of names, incarnations and where they can be dialled.",
            "tree",
            routing_answers.Addresses,
            addresses,
            (_AT, SEARCH, *PAGE),
            errors=_ASKED,
        ),
        Operation(
            "GET",
            "/api/who-has",
            "The node that has a name or an incarnation; the tree is asked where this node does not know.",
            "tree",
            routing_answers.WhoHas,
            who_has,
            (key,),
            errors={504: "UNREACHABLE: nobody has it, or nobody answers."},
        ),
        Operation(
            "POST",
            "/api/announce",
            "Tell the neighbours at which addresses this node can be dialled now; until it stops.",
            "tree",
            routing_answers.Announced,
            announce,
            body=Announce,
        ),
    ]


def _ways(node: NodePort) -> list[Operation]:
    async def cells(call: Call) -> Any:
        return await node.administration.routing.cells(call["node"], cut_of(call))

    async def links(call: Call) -> Any:
        return await node.administration.routing.links(call["node"], cut_of(call))

    async def holds(call: Call) -> Any:
        return await node.administration.routing.holds(call["node"], call["link"], cut_of(call))

    async def ping(call: Call) -> Any:
        return await node.administration.routing.ping(call["address"])

    async def traceroute(call: Call) -> Any:
        return await node.administration.routing.traceroute(call["address"])

    return [
        Operation(
            "GET",
            "/api/cells",
            "The named services of a node: its own, and the queues that applications have there.",
            "tree",
            routing_answers.Cells,
            cells,
            (_AT, *PAGE),
            errors=_ASKED,
        ),
        Operation(
            "GET",
            "/api/links",
            "The links of a node.",
            "tree",
            routing_answers.Links,
            links,
            (_AT, *PAGE),
            errors=_ASKED,
        ),
        Operation(
            "GET",
            "/api/holds",
            "The destinations that a neighbour has asked a node to keep, since it has no room.",
            "tree",
            answers.Holds,
            holds,
            (_AT, Parameter("link", "The neighbour's name."), *PAGE),
            errors=_ASKED,
        ),
        Operation(
            "GET",
            "/api/ping",
            "Ask the node where a cell is whether it is there.",
            "tree",
            routing_answers.Ping,
            ping,
            (_ADDRESS,),
            errors=_ASKED,
        ),
        Operation(
            "GET",
            "/api/traceroute",
            "The way that a message for an address would take now, each hop with its name and time.",
            "tree",
            routing_answers.Traceroute,
            traceroute,
            (_ADDRESS,),
            errors={504: "UNREACHABLE: nobody has that incarnation."},
        ),
    ]
