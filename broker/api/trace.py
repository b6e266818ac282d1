"""The way of a message or a channel through the tree, and all that a task set off."""

from typing import Any

from broker.api.context import RunningNode
from broker.api.operation import GONE, Answer, Parameter, operation


class TracedEvent(Answer):
    """One thing that happened. `ms`: since the first of the story. `session` is masked."""

    at: str
    ms: float
    kind: str
    neighbour: str = ""
    session: str = ""
    reason: str = ""
    place: str = ""
    transfer_id: int = 0
    processing_s: float = 0.0
    correlation_id: int | None = None
    task_id: str = ""
    reply_to: str = ""


class TracedHop(Answer):
    """A node on the way. `came`: the neighbour before; `ms`: of each step since the first of the story.

    `clock_shifted_s`: how much was added to its times, since its clock is off.
    """

    node: str
    came: str
    to: list[str]
    arrived: str | None
    committed: str | None
    sent: str | None
    acknowledged: str | None
    delivered: str | None
    dealt_with: str | None
    ms: dict[str, float]
    clock_shifted_s: float
    events: list[TracedEvent]


class Unanswered(Answer):
    """`why`: of each that could not be reached or refused. `not_asked`: nodes and messages not looked at."""

    unreachable: list[str]
    refused: list[str]
    why: dict[str, str]
    not_asked: int


class MessageStory(Unanswered):
    """`complete`: the whole way is known and over. `unknown_at`: nodes that do not remember it."""

    id: str
    destination: str
    origin: str
    hops: list[TracedHop]
    complete: bool
    unknown_at: list[str]


class TaskEvent(TracedEvent, kw_only=True):
    """`queue`, `message`: whose event it is."""

    node: str
    queue: str
    message: str


class TaskStory(Unanswered):
    """The events of all its messages at all nodes, by time."""

    task: str
    messages: list[str]
    events: list[TaskEvent]


class ChannelHop(Answer):
    """A node on a channel's way. `there`, `back`: bytes towards its end, and back. `ms`: of each event.

    `ended`: over, refused or broken; '' = not yet. `clock_shifted_s`: how much was added to its times.
    """

    node: str
    came: str
    to: str
    there: int
    back: int
    ended: str
    reason: str
    ms: dict[str, float]
    clock_shifted_s: float
    events: list[TracedEvent]


class ChannelWay(Unanswered):
    """`complete`: the whole way is known and over. `unknown_at`: nodes that do not remember it."""

    channel: str
    destination: str
    origin: str
    hops: list[ChannelHop]
    complete: bool
    unknown_at: list[str]


@operation(
    "GET",
    "/api/trace/message/{id}",
    "A message's way through the tree, hop by hop.",
    "messages",
    (Parameter("id", "`BUNDLEHEX-INDEX`.", in_path=True),),
    answer=MessageStory,
)
async def message(node: RunningNode, id: str) -> dict[str, Any]:
    """Each hop of one message's way. Raises `BadRequest` for what is no id."""
    return await node.tracing.message(id)


@operation(
    "GET",
    "/api/trace/task/{task}",
    "All requests and replies of a task, at all nodes.",
    "messages",
    (Parameter("task", "A task id.", in_path=True),),
    answer=TaskStory,
)
async def task(node: RunningNode, task: str) -> dict[str, Any]:
    """All requests and replies of a task, at all nodes that had to do with it."""
    return await node.tracing.task(task)


@operation(
    "GET",
    "/api/trace/channel/{channel}",
    "A channel at each node of its way: its opening, its end, who refused it.",
    "tree",
    (Parameter("channel", "Its number, or `NAME@NODE` of the latest here.", in_path=True),),
    answer=ChannelWay,
    errors=GONE,
)
async def channel(node: RunningNode, channel: str) -> dict[str, Any]:
    """When it was asked for, opened and over, at all nodes of its way. Raises `BadRequest` and `NotFound`."""
    return await node.tracing.channel(channel)
