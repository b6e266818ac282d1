"""Following messages, as an operator asks for it."""

from collections.abc import AsyncGenerator
from typing import Any

from broker.api.context import RunningNode
from broker.api.following import Event, Wanted
from broker.api.operation import NDJSON, Parameter, operation


@operation(
    "GET",
    "/api/follow",
    "What happens to messages here, as it happens: a line of JSON each; empty lines say nothing.",
    "messages",
    (
        Parameter("destination", "`queue:NAME`, `topic:PATTERN`; wildcards as in MQTT."),
        Parameter("session", "Only of this session: its token, or as it is masked."),
        Parameter("task", "Only of this task."),
        Parameter("correlation_id", "Only with this correlation id.", "integer", default=None),
        Parameter("payload", "With the payload.", "boolean", default=False),
    ),
    answer=Event,
    media=NDJSON,
    errors={503: "BUSY: enough others follow.", 409: "The trace is switched off."},
    role="operator",
)
def events(node: RunningNode, **wanted: Any) -> AsyncGenerator[bytes, None]:
    """Lines, as long as the node runs and somebody takes them."""
    return node.following.events(Wanted(**wanted))
