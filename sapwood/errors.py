"""What a client can be told.

ClientError
├── ConnectFailed     the node cannot be reached, or the line broke
├── SessionRefused    the node does not take this session: wrong secret, another version, a name in use
├── SendRejected      the node did not take some messages, and why
├── SendTimeout       no confirmation came in time (a `TimeoutError` too)
├── RequestFailed     the node refused to create, subscribe or unsubscribe
├── RequestTimeout    the node did not answer such a request in time (a `TimeoutError` too)
├── NotKnown          this node is of a version that does not know such a request
├── Unconfirmed       a flush or a close ended before the node had confirmed everything
├── ClientClosed      a closed client was used
└── RpcError          a call has no result
    ├── ServiceError  the service answered with an error; a handler raises it to do so
    ├── NobodyServes  nobody in the whole tree serves the queue: told at once
    ├── CallTimeout   no reply came in time (a `TimeoutError` too)
    ├── ReplyLost     the reply queue went with the connection: whether it was done is not known
    └── BadReply      what came as a reply is none
"""

from typing import Any, NamedTuple

from sapwood.protocol.errors import SapwoodError


def _plain(text: str) -> str:
    """The same with control characters written out, which a name may have: they would steer a terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class ClientError(SapwoodError):
    """Root of the client library's errors."""


class ConnectFailed(ClientError):
    """The node cannot be reached; the text says which address and what to look at."""


class SessionRefused(ClientError):
    """The node said no to the session. `code` is for programs, `text` for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"the node refused the session: {text} [{code}]")
        self.code = code
        self.text = text


class Rejection(NamedTuple):
    """Sends numbered `first` to `last` that were not taken."""

    first: int
    last: int
    code: str
    text: str

    @property
    def messages(self) -> int:
        return self.last - self.first + 1


class SendRejected(ClientError):
    """Messages that the node did not take. `code` of the first, QUEUE_FULL for example."""

    def __init__(self, rejections: list[Rejection]) -> None:
        first = rejections[0]
        count = sum(rejection.messages for rejection in rejections)
        were = "messages were" if count > 1 else "message was"
        super().__init__(f"{count} {were} not taken: {first.text} [{first.code}]")
        self.code = first.code
        self.text = first.text
        self.count = count
        self.rejections = rejections


class SendTimeout(ClientError, TimeoutError):
    """No confirmation within `seconds`. `sent`: it, or part of it, was given to the line and may be taken; if
    not, it was taken back and never will be."""

    def __init__(self, seconds: float, *, sent: bool) -> None:
        fate = "it was sent, and may be taken" if sent else "it was not sent, and is taken back"
        super().__init__(f"no confirmation within {seconds:g} s: {fate}")
        self.seconds = seconds
        self.sent = sent


class RequestTimeout(ClientError, TimeoutError):
    """No answer within `seconds`. Whether the node has done it is not known."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(_plain(f"{what}: no answer within {seconds:g} s"))
        self.what = what
        self.seconds = seconds


class RequestFailed(ClientError):
    """The node refused a request. `code` is for programs, `text` for people."""

    def __init__(self, what: str, code: str, text: str) -> None:
        super().__init__(_plain(f"{what} failed: {text} [{code}]"))
        self.code = code
        self.text = text


class NotKnown(ClientError):
    """The node's version does not know what was asked for; nothing was done."""


class Unconfirmed(ClientError):
    """A wait ended before `count` messages were confirmed; a producer with a name may look at `committed`."""

    def __init__(self, count: int) -> None:
        super().__init__(f"the node has not confirmed {count} message{'s' * (count != 1)} in time")
        self.count = count


class ClientClosed(ClientError):
    """The client was closed, or never opened: use it within `async with connect(...)`."""


class RpcError(ClientError):
    """Root of what a call can end with instead of a result."""


class ServiceError(RpcError):
    """The service's answer is an error. `code` is for programs, `message` for people, `data` any JSON.

    A handler raises it to answer so; any other exception of a handler is answered with code FAILED.
    """

    def __init__(self, code: str, message: str = "", data: Any = None) -> None:
        super().__init__(f"{message} [{code}]" if message else code)
        self.code = code
        self.message = message
        self.data = data


class NobodyServes(RpcError):
    """Nobody in the whole tree serves `queue`, says `node`; the request is not kept anywhere."""

    def __init__(self, queue: str, method: str, node: str = "") -> None:
        says = f", says node {node!r}" if node else ""
        super().__init__(f"nobody serves {queue!r}{says}: {method!r} was not done")
        self.queue = queue
        self.method = method
        self.node = node


class CallTimeout(RpcError, TimeoutError):
    """No reply within `seconds`. Whether the request was done is not known; a late reply is ignored."""

    def __init__(self, queue: str, method: str, seconds: float) -> None:
        super().__init__(f"{queue!r} did not answer {method!r} within {seconds:g} s")
        self.queue = queue
        self.method = method
        self.seconds = seconds


class ReplyLost(RpcError):
    """The reply queue went with the session's last connection. Whether the request was done is not known."""


class BadReply(RpcError):
    """A message came for a call and is no reply."""
