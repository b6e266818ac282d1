"""Logical addresses for people: what a node knows of names and incarnations, and who has one."""

import time

import msgspec

from broker.api.context import RunningNode
from broker.api.errors import in_words
from broker.api.operation import AT, AWAY, PAGE, SEARCH, Answer, Parameter, PlainCommand, operation
from broker.api.pages import Cut, page_of
from broker.cells.errors import CellError
from broker.core.errors import BadRequest
from config.kinds import Fault
from config.uris import ANNOUNCED_URI
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import incarnation_text, node_name
from treeconnector.addresses import Entry
from treeconnector.hellos import MAX_ADDRESS, MAX_ADDRESSES


class Address(Answer):
    """A node that is known. `via`: the neighbour that said so; `told`: those that heard it from here.

    `left_s`: how long an answer is good for yet; null for neighbours and the nodes below.
    """

    name: str
    incarnation: str
    addresses: list[str]
    via: str
    left_s: float | None
    told: list[str]


class Addresses(Answer):
    """What a node knows of logical addresses. `incarnation`, `addresses`: its own.

    `size` entries of at most `most`; `evicted`: that had to go for others. `asking`: questions without an
    answer yet; `waiting`: messages for whose incarnation the node asks. `counters`: of what links said.
    """

    node: str
    incarnation: str
    addresses: list[str]
    known: list[Address]
    more: int
    size: int
    most: int
    evicted: int
    asking: int
    waiting: int
    counters: dict[str, int]
    next: str | None = None


class WhoHas(Answer):
    """The node that has a name or an incarnation. `via`: the neighbour that said so, 'local' = itself."""

    key: str
    name: str
    incarnation: str
    addresses: list[str]
    via: str
    ms: float


class Announce(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where this node can be dialled from now on."""

    addresses: list[str]


class Announced(Answer):
    node: str
    addresses: list[str]


@operation(
    "GET",
    "/api/addresses",
    "What a node knows of names, incarnations and where they can be dialled.",
    "tree",
    (AT, SEARCH, *PAGE),
    remote="addresses",
    errors=AWAY,
    commands=(
        PlainCommand(
            "addresses",
            "List the names and incarnations that a node knows. Who said so, and who heard it from there.",
            ("known",),
        ),
    ),
)
async def addresses(node: RunningNode, search: str, cut: Cut) -> Addresses:
    """What this node knows; of names and incarnations only those that contain `search`."""
    core, known = node.core, node.core.logical_addresses
    known.cache.expire(core.clock.now)
    page = await page_of(known.cache, _key, cut, lambda entry: search in "".join(_key(entry)))
    return Addresses(
        node=core.identity.name,
        incarnation=known.own,
        addresses=core.logical_addresses.addresses,
        known=[_entry(node, entry) for entry in page.items],
        more=page.more,
        next=page.next,
        size=len(known.cache),
        most=known.capacity(),
        evicted=known.cache.evicted,
        asking=len(known.questions),
        waiting=known.waiting(),
        counters=dict(known.counters),
    )


def _entry(node: RunningNode, entry: Entry) -> Address:
    left = None if entry.is_kept else round(entry.expires - node.core.clock.now, 3)
    return Address(
        name=entry.found.name,
        incarnation=incarnation_text(entry.found.incarnation),
        addresses=entry.found.addresses,
        via=entry.via,
        left_s=left,
        told=sorted(entry.told),
    )


@operation(
    "GET",
    "/api/who-has",
    "The node that has a name or an incarnation; the tree is asked where this node does not know.",
    "tree",
    (
        Parameter(
            "key", "A node's name, or an incarnation: the 36 characters of a UUID.", argument="NAME|UUID"
        ),
    ),
    errors={504: "UNREACHABLE: nobody has it, or nobody answers."},
    commands=(
        PlainCommand(
            "who-has",
            "Say which node has a name or an incarnation. And where it can be dialled; the tree is asked for"
            " it.",
            texts={"key": "A node's name, or an incarnation."},
        ),
    ),
)
async def who_has(node: RunningNode, key: str) -> WhoHas:
    """The node that has a name or an incarnation, as this one knows or the tree"""
    try:
        key = node_name(key.strip())
    except InvalidName as error:
        raise BadRequest(str(error)) from None
    began = time.perf_counter()
    try:
        entry = await node.paths.who_has(key)
    except CellError as error:
        raise in_words(error.node, error) from None
    return WhoHas(
        key=key,
        name=entry.found.name,
        incarnation=incarnation_text(entry.found.incarnation),
        addresses=entry.found.addresses,
        via=entry.via,
        ms=round((time.perf_counter() - began) * 1000, 3),
    )


@operation(
    "POST",
    "/api/announce",
    "Tell the neighbours at which addresses this node can be dialled now; until it stops.",
    "tree",
    body=Announce,
    role="administrator",
    commands=(
        PlainCommand(
            "announce",
            "Tell the tree where this node can be dialled now. After a line has changed; until the node"
            " stops.",
            texts={"addresses": "Such as wss://HOST:7600/link."},
            places={"addresses": "URI"},
        ),
    ),
)
def announce(node: RunningNode, body: Announce) -> Announced:
    """This node can be dialled at these addresses until it stops: its neighbours hear of it."""
    if len(body.addresses) > MAX_ADDRESSES:
        raise BadRequest(f"{len(body.addresses)} addresses: {MAX_ADDRESSES} at most")
    node.core.logical_addresses.announce([_checked(each) for each in body.addresses])
    node.wake()
    return Announced(node=node.name, addresses=node.core.logical_addresses.addresses)


def _key(entry: Entry) -> tuple[str, str]:
    return entry.found.name, incarnation_text(entry.found.incarnation)


def _checked(text: str) -> str:
    """Raises `BadRequest`."""
    if len(text) > MAX_ADDRESS:
        raise BadRequest(f"an address of {len(text)} characters: {MAX_ADDRESS} at most")
    try:
        return ANNOUNCED_URI.parse(text)
    except Fault as error:
        raise BadRequest(str(error)) from None
