"""Publish, receive, acknowledge, a request each: served by `broker.http.stateless`."""

from typing import Any, Final, Literal

from broker.api.operation import GONE, Answer, Operation, Parameter

_REFUSED: Final = "NOT_LOGGED_IN, REFUSED: who asks has not proved who that is, or may not do that."


class Published(Answer):
    """It is on disk here. `destination`: as it was read."""

    destination: str


class Received(Answer):
    """A message. `receipt`: acknowledges it. `redelivered`: it may have been given to somebody before.

    `payload`: text, or base64 where `encoding` says so.
    """

    receipt: str
    payload: str
    encoding: Literal["utf-8", "base64"]
    redelivered: bool
    correlation_id: int | None
    reply_to: str
    message_id: str
    content_type: str
    headers: dict[str, Any]


class Receipts(Answer):
    """Whatever is not acknowledged within `lease_s` is given again."""

    messages: list[Received]
    lease_s: float


class Acknowledged(Answer):
    """It is on disk that the message is dealt with."""

    acknowledged: str


PUBLISH: Final = Operation(
    "POST",
    "/api/publish/{destination}",
    "Send the body as one message. With an account, the session secret or the token.",
    "applications",
    Published,
    takes="*/*",
    accounts=True,
    parameters=(
        Parameter("destination", "`queue:NAME`, `queue:NAME@NODE` or `topic:NAME`.", in_path=True),
        Parameter("reply_to", "The queue that an answer goes to."),
        Parameter(
            "correlation_id", "Comes back with the answer.", "integer", default=None, least=0, most=2**63 - 1
        ),
        Parameter(
            "expires_in", "Seconds until it is given to nobody.", "number", default=0, least=0, most=1e9
        ),
        Parameter("retained", "(topics) Kept for whoever subscribes later.", "boolean", default=False),
        Parameter("headers", "A JSON object; its names and values come with the message.", default=""),
        Parameter("message_id", "The sender's own name of it: the same again where a send is repeated."),
    ),
    errors={
        403: _REFUSED,
        413: "TOO_LARGE: the node takes no message of that size.",
        429: "QUEUE_FULL: wait, and send again.",
        503: "BUSY: too many applications, or failed logins.",
    },
)
RECEIVE: Final = Operation(
    "GET",
    "/api/receive/{queue}",
    "Messages of a queue, lent until they are acknowledged or the lease ends.",
    "applications",
    Receipts,
    accounts=True,
    parameters=(
        Parameter("queue", "The queue's name, with `queue:` in front or without.", in_path=True),
        Parameter("wait", "Seconds to wait where there is none.", "number", default=0, least=0, most=3600),
        Parameter("count", "How many messages at most.", "integer", default=1, least=1, most=100),
        Parameter("lease", "Seconds until they are given again.", "number", default=60, least=0.1, most=3600),
        Parameter("create", "Make the queue where it is not there.", "boolean", default=False),
    ),
    errors={**GONE, 403: _REFUSED, 503: "BUSY: as many leases as there may be; or failed logins."},
)
ACKNOWLEDGE: Final = Operation(
    "POST",
    "/api/ack/{receipt}",
    "A received message is dealt with.",
    "applications",
    Acknowledged,
    accounts=True,
    parameters=(Parameter("receipt", "As it came with the message.", in_path=True),),
    errors={403: _REFUSED, 404: "The lease has ended: the message is given again."},
)
