"""The node's state again and again: the stream itself is served by `broker.http.live`."""

from typing import Final

from broker.api.operation import NDJSON, Operation, Parameter

LIVE: Final = Operation(
    "GET",
    "/api/live",
    "The node's state again and again, a line of JSON each interval.",
    "node",
    None,
    parameters=(
        Parameter("parts", "Which objects, with commas between.", default="status"),
        Parameter("interval", "Seconds between two lines.", "number", default=1, least=0.2, most=60),
    ),
    media=NDJSON,
    errors={503: "Enough others read this stream."},
)
