"""Links: how each neighbour of a node stands with it, and what one has asked it to keep."""

from collections import Counter

import msgspec

from broker.api.context import RunningNode
from broker.api.operation import AT, AWAY, PAGE, Answer, Parameter, PlainCommand, operation
from broker.api.pages import Cut, page_of
from broker.api.proofs import proof
from broker.core.errors import NotFound
from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue_names import LOCATION_MANAGER
from sapwood.protocol.names import incarnation_text
from treeconnector.relations import Relation


class LinkAnswer(Answer):
    """`since_s`: for how long it has been so. `routes`: that its neighbour told, `set`: by operators.

    `over`: the address of the other end, or of the broker between. `proof`: what proves the neighbour's name;
    both '' while there is no link.

    `refused`: routes and bundles of the neighbour that were refused here, `refused_us`: of ours by it.
    """

    name: str
    relation: str
    state: str
    since_s: float
    error: str
    zone: str
    addresses: list[str]
    routes: int
    set: int
    incarnation: str
    refused: int = 0
    refused_us: int = 0
    over: str = ""
    proof: str = ""


class WantedLinkAnswer(Answer):
    """A link that the node makes itself. `name`: of the node that is to be there, '' = whoever is. `why` it
    is wanted; `state`: connecting, running or waiting, also while another link stands in for it.
    """

    name: str
    relation: str
    uris: list[str]
    why: str
    state: str


class Links(Answer):
    """`wanted`: the links that the node makes itself; neighbours make the others."""

    node: str
    chain: list[str]
    links: list[LinkAnswer]
    more: int
    next: str | None = None
    wanted: list[WantedLinkAnswer] = msgspec.field(default_factory=list)


class Holds(Answer):
    """Destinations that a neighbour has asked this node to keep, by name; '' = everything."""

    holds: list[str]
    more: int
    next: str | None


@operation(
    "GET",
    "/api/links",
    "The links of a node.",
    "tree",
    (AT, *PAGE),
    remote=f"{LOCATION_MANAGER}:links",
    errors=AWAY,
    commands=(PlainCommand("links", "List the links of a node.", ("links",)),),
)
async def links(node: RunningNode, cut: Cut) -> Links:
    core = node.core
    set_by_name = Counter(route.to for route in core.table.static)
    page = await page_of(
        core.neighbours.values(),
        lambda each: (int(each.relation is not Relation.PARENT), each.name),
        cut,
    )
    return Links(
        node=node.name,
        chain=core.ancestry.chain,
        links=[_link(node, each, set_by_name[each.name]) for each in page.items],
        more=page.more,
        next=page.next,
        wanted=[WantedLinkAnswer(**each._asdict()) for each in node.diallers.wanted()],
    )


def _link(node: RunningNode, neighbour: Neighbour, routes_set: int) -> LinkAnswer:
    core, incarnation = node.core, neighbour.detail.incarnation
    return LinkAnswer(
        name=neighbour.name,
        relation=neighbour.relation,
        state=neighbour.state,
        since_s=round(core.clock.now - neighbour.since, 3),
        error=neighbour.why,
        zone=neighbour.detail.zone,
        addresses=list(neighbour.detail.addresses),
        routes=neighbour.held.count,
        refused=neighbour.refusals.total,
        refused_us=neighbour.refused_us.total,
        set=routes_set,
        incarnation=incarnation_text(incarnation) if incarnation else "",
        **_ground(node, neighbour),
    )


def _ground(node: RunningNode, neighbour: Neighbour) -> dict[str, str]:
    """What its link rides on, and what proves its name."""
    link = neighbour.link
    if link is None:
        return {}
    over = node.driver.wires.over(link)
    shown = node.core.links.shown_on(link)
    return {"over": over, "proof": proof(link, neighbour.relation, shown, over)}


@operation(
    "GET",
    "/api/holds",
    "The destinations that a neighbour has asked a node to keep, since it has no room.",
    "tree",
    (AT, Parameter("link", "The neighbour's name.", argument="NEIGHBOUR"), *PAGE),
    remote=f"{LOCATION_MANAGER}:holds",
    errors=AWAY,
    commands=(
        PlainCommand(
            "holds",
            "List what a neighbour has asked a node to keep. It has no room for that; all else goes on.",
            ("holds",),
            texts={"link": "Who has asked for it."},
        ),
    ),
)
async def holds(node: RunningNode, link: str, cut: Cut) -> Holds:
    """What a neighbour of this node has asked it to keep. Raises `NotFound`."""
    neighbour = node.core.neighbours.get(link)
    if neighbour is None:
        raise NotFound(f"{node.name} has no link with {link[:64]!r}")
    page = await page_of(list(neighbour.peer_holds), lambda hold: (hold,), cut)
    return Holds(holds=page.items, more=page.more, next=page.next)
