"""The link-level protocol: log in, create, subscribe, send, transfer and acknowledge.

Law (deployed clients depend on it): success is exactly 200, with an empty body where there is no result;
create answers the bare name; a request before login is 403; what this node does not have is 404, but an
acknowledgement of what is not there is 200 with a note; a full queue is 429 with that word.

This is the protocol itself, and knows nothing of how a request is read and an answer written: `Front` does
that for almost all connections, aiohttp for those that also do other things (`verb_routes`).
"""

from collections.abc import Callable, Iterator
from functools import partial
from sys import maxsize
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from broker.buffers import Buffers
from broker.core.clients.transfers import Fetched
from broker.core.errors import NotFound, SwitchError, TooLarge
from broker.core.sessions.rights import Rights
from broker.http import paths
from broker.http.bindings import Bindings, HttpLine
from broker.http.guard import PageOrigin, bearer, credentials, from_a_web_page, is_here, is_rebound, page_of
from broker.http.polling import poll
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings
from broker.shares import LoopShare, Shares
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.errors import SapwoodError

STATUS: Final = {
    "QUEUE_FULL": 429,
    "NOT_FOUND": 404,
    "QUEUE_DOES_NOT_EXIST": 404,
    "NOT_LOGGED_IN": 403,
    "REFUSED": 403,
    "BUSY": 503,
    "TOO_LARGE": 413,
    "BAD_REQUEST": 400,
}
METHODS: Final = {
    "login": "GET",
    "create": "GET",
    "destroy": "GET",
    "list": "GET",
    "subscribe": "GET",
    "ack": "GET",
    "transfer": "GET",
    "trace": "GET",
    "send": "POST",
}
"""The verbs, and how each is asked for."""
IN_FLIGHT: Final = frozenset(("send", "ack"))
"""Verbs that may be under way together on one connection; every other waits for those before it."""
_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json; charset=utf-8"
_TRACE: Final = ["trace", "-1", "5"]
"""Asked for without a number: all that there is."""
_json = msgspec.json.Encoder()


class Facts(NamedTuple):
    """What a request's headers say that matters here. `refused`: why it is answered with 403, or ''.

    `here`: it comes from this very machine. `home`: a queue that it makes is to keep its messages here.
    `tell`: where nobody serves the queue that it sends to, it wants to be told. `lifetime`: the seconds that
    what it sends lives, as they are said; '' = for ever. `task`: what it is sent for, '' = nothing.
    `reject`: why nobody can deal with what it acknowledges; '' = it is dealt with. `credit`: how many
    messages of the queue that it subscribes to it has at once; '' = any number.
    """

    refused: str
    account: str
    secret: str
    here: bool
    home: bool = False
    tell: bool = False
    lifetime: str = ""
    task: str = ""
    reject: str = ""
    credit: str = ""


class VerbRequest(NamedTuple):
    """One request. `parts`: the path's segments, decoded."""

    method: str
    parts: list[str]
    body: bytes
    facts: Facts


class VerbAnswer(NamedTuple):
    """An answer. `note`: for the header of that name, ASCII; deployed clients do not look at it."""

    status: int = 200
    body: bytes = b""
    content_type: str = ""
    note: str = ""


Reply = Callable[[VerbAnswer], None]
EMPTY: Final = VerbAnswer()
HOME: Final = "Sapwood-Home"
TELL: Final = "Sapwood-Tell"
LIFETIME: Final = "Sapwood-Expires-In"
TASK: Final = "Sapwood-Task"
REJECT: Final = "Sapwood-Reject"
CREDIT: Final = "Sapwood-Credit"
NOTE: Final = "Sapwood-Note"
"""The header that tells apart what is 200 for the sake of deployed clients."""
NOT_FOUND: Final = "NOT_FOUND: no such message waits for an acknowledgement of this session"
NO_QUEUE: Final = "NOT_FOUND: this node has no such queue"
MADE: Final = "CREATED: this node had no such queue, and has it now"
FULL: Final = "TOO_MANY_UNACKNOWLEDGED: acknowledge messages, then there are more"


def answer_of(error: SapwoodError) -> VerbAnswer:
    """The answer that says no."""
    code = getattr(error, "code", "BAD_REQUEST")
    text = str(error)
    return said(STATUS.get(code, 400), text if code in text else f"{code}: {text}")


def said(status: int, text: str) -> VerbAnswer:
    return VerbAnswer(status, text.encode(errors="replace"), _TEXT)


def facts_of(request: Any) -> Facts:
    """Read a request's `headers` and `transport`, an aiohttp request's or the like."""
    refused = ""
    if from_a_web_page(request):
        refused = "this is not for web pages"
    elif is_rebound(request):
        refused = "the Host header names another machine: use localhost, or an address"
    home, tell = (request.headers.get(each, "").strip().lower() == "yes" for each in (HOME, TELL))
    lifetime, task, reject, credit = (
        request.headers.get(each, "") for each in (LIFETIME, TASK, REJECT, CREDIT)
    )
    said = (lifetime, unquote(task), unquote(reject), credit)
    return Facts(refused, *credentials(request), is_here(request), home, tell, *said)


class Verbs:
    """Does what clients ask. `perform` answers each request once, now or later, while its line is open."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._node = node
        self._settings = settings
        self.bindings = Bindings(node)
        self._verbs: dict[str, Callable[[HttpLine, VerbRequest, Reply], None]] = {
            "login": self._login,
            "create": self._create,
            "destroy": self._destroy,
            "list": self._list,
            "subscribe": self._subscribe,
            "ack": self._acknowledge,
            "transfer": self._transfer,
            "trace": self._trace,
            "send": self._send,
        }

    def __repr__(self) -> str:
        return f"<Verbs on {self.bindings!r}>"

    @property
    def max_body(self) -> int:
        return self._settings.max_message

    @property
    def shares(self) -> Shares:
        return self._node.shares

    @property
    def buffers(self) -> Buffers:
        return self._node.buffers

    def may_say_much(self, request: Any, target: bytes) -> bool:
        """Does such a request carry an operator's token, or need none for `/api`? See `facts_of`, `guard`."""
        operators = self._settings.operators
        if operators.holder(bearer(request)) is not None:
            return True
        needs_none = not operators.ask_all and target.startswith(b"/api/")
        return needs_none and is_here(request) and page_of(request) is not PageOrigin.FOREIGN

    def perform(self, line: HttpLine, asked: VerbRequest, reply: Reply) -> None:
        """Do it, and call `reply` once; not at all if the line goes first."""
        try:
            if asked.facts.refused:
                raise SwitchError(asked.facts.refused)
            if asked.parts[0] not in self._verbs:
                raise NotFound(f"there is no verb {asked.parts[0][:40]!r}: see /docs")
            self._verbs[asked.parts[0]](line, asked, reply)
        except SapwoodError as error:
            reply(answer_of(error))

    # --- verbs

    def _login(self, line: HttpLine, asked: VerbRequest, reply: Reply) -> None:
        """Answered once it is known who that is; whatever comes on this connection waits for it."""
        token, facts = paths.name_of(asked.parts), asked.facts

        def admitted(found: Rights | SwitchError) -> None:
            if line.gone:
                return
            try:
                if isinstance(found, SwitchError):
                    raise found
                line.login(token, found)
            except SapwoodError as error:
                reply(answer_of(error))
                return
            self._node.wake()
            reply(EMPTY)

        self._node.entrance.admit(line.caller(facts.account, facts.secret, near=facts.here), admitted)

    def _create(self, line: HttpLine, asked: VerbRequest, reply: Reply) -> None:
        name = self._node.switch.create(line.connection, paths.queue(asked.parts), asked.facts.home)
        answer = VerbAnswer(200, name.encode(), _TEXT)
        self._node.switch.when_committed(lambda: reply(answer))
        self._node.wake()

    def _destroy(self, line: HttpLine, asked: VerbRequest, reply: Reply) -> None:
        answer = EMPTY
        try:
            self._node.switch.destroy(line.connection, paths.queue(asked.parts))
        except NotFound:
            answer = VerbAnswer(note=NO_QUEUE)
        self._node.switch.when_committed(lambda: reply(answer))
        self._node.wake()

    def _list(self, line: HttpLine, asked: VerbRequest, reply: Reply) -> None:
        read = len(asked.parts) > 2 and asked.parts[1] == "alive"
        prefix = "/".join(asked.parts[2 if read else 1 :])
        names = self._node.switch.names(line.connection, prefix, read=read)
        _Listing(line, names, self.shares, lambda found: reply(VerbAnswer(200, _json.encode(found), _JSON)))

    def _subscribe(self, line: HttpLine, asked: VerbRequest, reply: Reply) -> None:
        name, make = paths.queue(asked.parts), self._settings.subscribe_creates
        credit = paths.credit(asked.facts.credit) if asked.facts.credit else maxsize
        if self._node.switch.subscribe(line.connection, name, credit, make=make):
            self._node.switch.when_committed(lambda: reply(VerbAnswer(note=MADE)))
        else:
            reply(EMPTY)
        self._node.wake()

    def _acknowledge(self, line: HttpLine, asked: VerbRequest, reply: Reply) -> None:
        connection = line.connection
        (number,) = paths.exactly(asked.parts, "/ack/ID", 1)
        done, why = _empty(reply), asked.facts.reject
        try:
            self._node.switch.acknowledge(connection, paths.whole(number), done, rejected=why)
        except NotFound:  # to a deployed client an error here is the end of its receiver
            reply(VerbAnswer(note=NOT_FOUND))
        self._node.wake()

    def _send(self, line: HttpLine, asked: VerbRequest, reply: Reply) -> None:
        connection = line.connection
        name, number, reply_to = paths.to(asked.parts)
        if len(asked.body) > self._settings.max_message:
            raise too_large(len(asked.body), self._settings.max_message)
        properties = Properties(
            correlation_id=paths.whole(number),
            reply_to=reply_to,
            expires_in=paths.lifetime(asked.facts.lifetime) if asked.facts.lifetime else 0,
            task_id=asked.facts.task,
        )
        message = Message(asked.body, properties)
        kind, _, topic = name.partition("topic:")
        note = f"MATCHED: {self._node.matched(topic)}" if topic and not kind else ""
        self._node.switch.send(connection, name, message, _empty(reply, note), tell=asked.facts.tell)
        self._node.wake()

    def _transfer(self, line: HttpLine, asked: VerbRequest, reply: Reply) -> None:
        switch, connection = self._node.switch, line.connection
        first, timeout = paths.exactly(asked.parts, "/transfer/ACK_TO/SECONDS", 2)
        ack_to, wait = paths.whole(first), paths.seconds(timeout, self._settings.max_wait)

        def look(waiter: Any, is_over: bool) -> Callable[[], None] | None:
            messages = switch.transfer(connection, ack_to, waiter)
            self._node.wake()
            if not messages and not is_over:
                return None
            note = FULL if not messages and switch.is_full(connection) else ""
            return lambda: switch.when_told(messages, lambda: reply(_mail(messages, note)))

        poll(line, wait, look, partial(switch.wait, connection, ack_to), switch.cancel)

    def _trace(self, line: HttpLine, asked: VerbRequest, reply: Reply) -> None:
        if (rights := line.connection.rights) is not None:
            rights.check_everything("read what happens at the node")
        parts = asked.parts if len(asked.parts) > 1 else _TRACE
        first, timeout = paths.exactly(parts, "/trace/ACK_TO/SECONDS", 2)
        ack_to, wait = paths.whole(first), paths.seconds(timeout, self._settings.max_wait)
        tracing = self._node.tracing

        def look(_waiter: Any, is_over: bool) -> Callable[[], None] | None:
            if not (events := tracing.events(ack_to)) and not is_over:
                return None
            return partial(reply, VerbAnswer(200, _json.encode({"events": events}), _JSON))

        def begin(woken: Callable[[], None]) -> Callable[[], None]:
            tracing.wait(woken)
            return woken

        poll(line, wait, look, begin, tracing.cancel)


class _Listing:
    """Names queues, of which there may be very many: in slices of the loop, as long as the line is open."""

    def __init__(
        self, line: HttpLine, names: Iterator[str], shares: Shares, done: Callable[[list[str]], None]
    ) -> None:
        self._line = line
        self._names = names
        self._done = done
        self._found: list[str] = []
        self._share = LoopShare(shares)
        self._go_on()

    def _go_on(self) -> None:
        if self._line.gone:
            return
        self._share.begin()
        for name in self._names:
            if name:
                self._found.append(name)
            if self._share.is_over:
                self._share.give_way_and(self._go_on)
                return
        self._done(self._found)


def _empty(reply: Reply, note: str = "") -> Callable[[SwitchError | None], None]:
    """An outcome that answers with nothing but a note, or with the error."""
    well = VerbAnswer(note=note) if note else EMPTY
    return lambda error: reply(well if error is None else answer_of(error))


def _mail(messages: list[Fetched], note: str) -> VerbAnswer:
    body = {"messages": [(each.number, as_json(each)) for each in messages]}
    return VerbAnswer(200, _json.encode(body), _JSON, note)


def as_json(fetched: Fetched) -> dict[str, Any]:
    """A message as transfer gives it: a field that says nothing is left out."""
    properties, payload = fetched.message.properties, fetched.message.payload
    result: dict[str, Any] = {}
    try:
        result["payload"] = payload.decode()
    except UnicodeDecodeError:
        result["payload"] = payload
        result["encoding"] = "base64"
    result["correlation_id"] = properties.correlation_id or 0
    if properties.reply_to:
        result["reply_to"] = properties.reply_to
    if properties.task_id:
        result["task_id"] = properties.task_id
    if fetched.origin:
        result["origin"] = fetched.origin
    if fetched.redelivered:
        result["redelivered"] = True
    return result


def too_large(size: int, most: int) -> SwitchError:
    return TooLarge(f"a payload of {size} bytes: this node takes messages of at most {most}")
