"""The link-level protocol: log in, create, subscribe, send, transfer and acknowledge over HTTP/1.1.

Law (deployed clients depend on it): success is exactly 200, with an empty body where there is no result;
create answers the bare name; a request before login is 403; what this node does not have is 404; a full
queue is 429 with that word. Answers carry a Content-Length and are never chunked. Requests may come
without a Host header. Names come percent-encoded or bare.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from broker.core.errors import BadRequest, SwitchError
from broker.http.bindings import Binding, Bindings
from broker.http.guard import bearer, encrypted, from_a_web_page, over_loopback
from broker.http.ports import NodePort, Outcome
from broker.http.settings import HttpSettings
from treeconnector.bundles import Message, Properties
from treeconnector.errors import SapwoodError

_STATUS: Final = {
    "QUEUE_FULL": 429,
    "NOT_FOUND": 404,
    "NOT_LOGGED_IN": 403,
    "REFUSED": 403,
    "TOO_LARGE": 413,
    "BAD_REQUEST": 400,
}
_LEAST_ID: Final = -(2**63)
_LARGEST_ID: Final = 2**64 - 1
_json = msgspec.json.Encoder()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answer_of(error: SapwoodError) -> web.Response:
    """The HTTP answer that says no."""
    code = getattr(error, "code", "BAD_REQUEST")
    text = str(error)
    return web.Response(status=_STATUS.get(code, 400), text=text if code in text else f"{code}: {text}")


class Verbs:
    """Handlers of the link-level protocol; `add_to` puts them on an application's router."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._node = node
        self._settings = settings
        self.bindings = Bindings(node)

    def add_to(self, router: web.UrlDispatcher) -> None:
        for path, verb in (
            ("/login/{token}", self.login),
            ("/create", self.create),
            ("/create/", self.create),
            ("/create/{name}", self.create),
            ("/subscribe/{name}", self.subscribe),
            ("/ack/{id}", self.acknowledge),
            ("/transfer/{ack_to}/{timeout}", self.transfer),
        ):
            router.add_get(path, self._guarded(verb), allow_head=False)
        for path in ("/send/{name}/{cid}", "/send/{name}/{cid}/{reply_to}"):
            router.add_post(path, self._guarded(self.send))

    def _guarded(self, verb: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if from_a_web_page(request):
                return web.Response(status=403, text="REFUSED: this is not for web pages")
            try:
                return await verb(request)
            except SapwoodError as error:
                return answer_of(error)

        return handle

    # --- verbs

    async def login(self, request: web.Request) -> web.StreamResponse:
        secret = bearer(request)
        if not (self._settings.session_secret or over_loopback(request) or encrypted(request)):
            raise SwitchError(
                "a session's token does not travel in the clear: connect from this machine, use https, or "
                "configure a session secret (http, session_secret_file) and send it: 'Authorization: Bearer'"
            )
        self.bindings.login(request, _name(request, "token"), secret)
        self._node.wake()
        return web.Response()

    async def create(self, request: web.Request) -> web.StreamResponse:
        binding = self.bindings.find(request)
        name = self._node.switch.create(binding.connection, _name(request, "name"))
        self._node.wake()
        return web.Response(text=name)

    async def subscribe(self, request: web.Request) -> web.StreamResponse:
        binding = self.bindings.find(request)
        self._node.switch.subscribe(binding.connection, _name(request, "name"))
        self._node.wake()
        return web.Response()

    async def acknowledge(self, request: web.Request) -> web.StreamResponse:
        binding = self.bindings.find(request)
        number = _whole(request, "id")
        await self._committed(
            binding, lambda done: self._node.switch.acknowledge(binding.connection, number, done)
        )
        return web.Response()

    async def send(self, request: web.Request) -> web.StreamResponse:
        binding = self.bindings.find(request)
        name, reply_to = _name(request, "name"), _name(request, "reply_to")
        properties = Properties(correlation_id=_whole(request, "cid"), reply_to=reply_to)
        message = Message(await request.read(), properties)
        await self._committed(
            binding, lambda done: self._node.switch.send(binding.connection, name, message, done)
        )
        return web.Response()

    async def transfer(self, request: web.Request) -> web.StreamResponse:
        binding = self.bindings.find(request)
        ack_to, seconds = _whole(request, "ack_to"), _seconds(request, self._settings.max_wait)
        messages = self._node.switch.transfer(binding.connection, ack_to)
        if not messages and seconds:
            messages = await self._wait(binding, ack_to, seconds)
        body = {"messages": [(number, as_json(message)) for number, message in messages]}
        return web.Response(body=_json.encode(body), content_type="application/json")

    # --- waiting

    async def _committed(self, binding: Binding, call: Callable[[Outcome], None]) -> None:
        """Call the switch and wait until what it did is on disk. Raises its `SwitchError`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: SwitchError | None) -> None:
            if future.done():
                return
            if error:
                future.set_exception(error)
            else:
                future.set_result(None)

        call(done)
        self._node.wake()
        await future

    async def _wait(self, binding: Binding, ack_to: int, seconds: float) -> list[tuple[int, Message]]:
        """Wait for mail. A wake-up concerns this waiter alone, however many there are."""
        switch = self._node.switch
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        messages: list[tuple[int, Message]] = []
        while not messages and not binding.gone and (left := end - loop.time()) > 0:
            woken = asyncio.Event()
            waiter = switch.wait(binding.connection, ack_to, woken.set)
            binding.watch(woken.set)
            timer = loop.call_later(left, woken.set)
            try:
                await woken.wait()
            finally:
                timer.cancel()
                binding.unwatch(woken.set)
                switch.cancel(waiter)
            if not binding.gone:
                messages = switch.transfer(binding.connection, ack_to)
        return messages


def as_json(message: Message) -> dict[str, Any]:
    """A message as transfer gives it: `reply_to` and `task_id` only where there is one."""
    properties = message.properties
    result: dict[str, Any] = {}
    try:
        result["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        result["payload"] = message.payload
        result["encoding"] = "base64"
    result["correlation_id"] = properties.correlation_id or 0
    if properties.reply_to:
        result["reply_to"] = properties.reply_to
    if properties.task_id:
        result["task_id"] = properties.task_id
    return result


def _name(request: web.Request, part: str) -> str:
    """A part of the path, percent-decoded once; '' if the path has none."""
    return request.match_info.get(part, "")


def _whole(request: web.Request, part: str) -> int:
    text = request.match_info[part]
    try:
        number = int(text) if len(text) <= 20 and "_" not in text else None
    except ValueError:
        number = None
    if number is None or not _LEAST_ID <= number <= _LARGEST_ID:
        raise BadRequest(f"{text[:40]!r} is no whole number of 64 bits")
    return number


def _seconds(request: web.Request, longest: float) -> float:
    text = request.match_info["timeout"]
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise BadRequest(f"{text[:40]!r} is no number of seconds: expected a decimal, 0 or more")
    return min(seconds, longest)
