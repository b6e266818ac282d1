"""The channels that go through a node, begin or end at it."""

from broker.api.context import RunningNode
from broker.api.operation import AT, AWAY, PAGE, Answer, PlainCommand, operation
from broker.api.pages import Cut, page_of
from broker.core.neighbours.channels import Channel


class ChannelAnswer(Answer):
    """`channel`: the same at all nodes of its way. `origin` asked for what node `to` offers as `name`.

    `near`, `far`: the neighbours, or what stands at its end here. `state`: opening or open. `there`, `back`:
    bytes towards `to`, and back. `waiting`: bytes of both that this node has and has not passed on.
    """

    channel: str
    origin: str
    to: str
    name: str
    near: str
    far: str
    state: str
    for_s: float
    there: int
    back: int
    waiting: int


class ChannelList(Answer):
    """`opened`, `refused`, `broken`, `bytes`: since the start. `offers`: the names of its own forwards."""

    node: str
    opened: int
    refused: int
    broken: int
    bytes: int
    offers: list[str]
    channels: list[ChannelAnswer]
    more: int
    next: str | None = None


@operation(
    "GET",
    "/api/channels",
    "The channels that go through a node.",
    "tree",
    (AT, *PAGE),
    remote="channels",
    errors=AWAY,
    commands=(PlainCommand("channels", "List the channels that go through a node.", ("channels",)),),
)
async def channels(node: RunningNode, cut: Cut) -> ChannelList:
    core = node.core
    counters = core.counters
    page = await page_of(core.channels.all(), lambda each: (each.since, each.number.hex()), cut)
    return ChannelList(
        node=node.name,
        opened=counters["channels_opened"],
        refused=counters["channels_refused"],
        broken=counters["channels_broken"],
        bytes=counters["channel_bytes"],
        offers=node.access.forwards.offers,
        channels=[_channel(each, core.clock.now) for each in page.items],
        more=page.more,
        next=page.next,
    )


def _channel(channel: Channel, now: float) -> ChannelAnswer:
    return ChannelAnswer(
        channel=channel.number.hex(),
        origin=channel.origin,
        to=channel.to,
        name=channel.name,
        near=channel.near.via,
        far=channel.far.via if channel.far is not None else "",
        state=channel.state,
        for_s=round(now - channel.since, 3),
        there=channel.there,
        back=channel.back,
        waiting=channel.waiting,
    )
