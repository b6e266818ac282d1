"""A node's own cells, `System` and others: they answer other nodes' questions, and ask them.

A question is a JSON message to `queue:System@NODE` or another cell, the answer goes to its `reply_to` with
its correlation id. Neither is persistent; a question is asked again until the answer comes or the time is
over. A command that says `changes` is carried out once all the same, and answered when that is on disk;
all others must bear to be carried out twice.

Law: a question is answered only if it entered the tree at this node or one above it, of a mesh any, which
the hops on its way have checked; a command that says `open` answers every node of the tree. Answers go to
nodes only: to a queue `System.…` of the node that asked. Everything from outside is bounded, and the node's
loop has slices of it (`broker.shares`): long answers are worked out one after the other, a part at a time.
"""

import asyncio
import inspect
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from broker.cells.errors import NoAnswer, RefusedByCell, TooManyQuestions
from broker.core.errors import SwitchError
from broker.core.messages.queue_names import SYSTEM
from broker.core.site.internal_queues import InternalMessage, InternalQueues
from broker.host import Host
from broker.shares import LoopShare
from sapwood.protocol.bundles import Flag, Message, Properties
from sapwood.protocol.destinations import Destination, parse, queue
from sapwood.protocol.errors import SapwoodError
from sapwood.protocol.names import node_name

_Asked = tuple[str, int | None]
"""The node that asked, and its number of the question."""
_Work = Coroutine[Any, Any, Any]
Arguments = dict[str, Any]
Handler = Callable[[str, Arguments], Any]

MOST_QUESTIONS: Final = 512
LONGEST_WAIT: Final = 60.0
_VERSION: Final = 1
_LARGEST_QUESTION: Final = 64 * 1024
_LARGEST_ANSWER: Final = 4 * 1024 * 1024
_ANSWERS_PER_SECOND: Final = 200.0
_ANSWERS_AT_ONCE: Final = 400.0
_AGAIN_FIRST: Final = 0.25
_AGAIN_LATER: Final = 1.0
_MOST_LONG: Final = 16
_MOST_LONG_OF_ONE: Final = 4
_REMEMBERED: Final = 1000
_REMEMBERED_BYTES: Final = 16 * 1024 * 1024
_UNTRUSTED: Final = Flag.REROUTED | Flag.MAYBE_DUPLICATE
_FAULTS: Final = (SapwoodError, ValueError, TypeError, LookupError, RecursionError)


@dataclass(frozen=True, slots=True)
class CellCommand:
    """`handler(asker, arguments)` returns what JSON can say, or raises `SwitchError`; `asker` is a node.

    It may return a coroutine instead, for an answer that is long to find; that gives way now and then.

    `open`: every node of the tree may ask, not only this one and its ancestors. `beside`: the other nodes of
    its mesh alone may. `changes`: it does something.
    """

    handler: Handler
    open: bool = False
    changes: bool = False
    beside: bool = False


class _Question(msgspec.Struct, forbid_unknown_fields=False):
    method: str
    parameters: Arguments = {}
    interface: str = SYSTEM
    version: int = _VERSION


class _Fault(msgspec.Struct):
    code: str
    text: str


class _Answer(msgspec.Struct, omit_defaults=True):
    result: Any = None
    error: _Fault | None = None


_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
_read_question: Final = msgspec.json.Decoder(_Question).decode
_read_answer: Final = msgspec.json.Decoder(_Answer).decode


class NodeCells:
    """The node's cells. `commands`: of `System`; may be added to, by name, before the node listens.

    `cells`: the commands of each cell. `further`: (cell, name, command) of all those that are loaded once
    somebody asks for a command that is not among them.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._me = host.core.identity.name
        self._loop = asyncio.get_running_loop()
        self._inside = InternalQueues(
            host.core.context, host.core.forwarder, host.core.batching, host.core.switch, self._letters_wait
        )
        self._replies = f"{SYSTEM}.{secrets.token_urlsafe(12)}"
        self._asked: dict[int, tuple[str, asyncio.Future[_Answer]]] = {}
        self._letters: deque[InternalMessage] = deque()
        self._share = LoopShare(host.shares)
        self._reading = False
        self._long: set[_Asked] = set()
        self._one_by_one = asyncio.Lock()
        self._allowance, self._allowed_at = _ANSWERS_AT_ONCE, self._loop.time()
        self.cells: dict[str, dict[str, CellCommand]] = {}
        self.further: Callable[[], Iterable[tuple[str, str, CellCommand]]] | None = None
        self._done: dict[_Asked, bytes] = {}
        self._done_bytes = 0
        self.commands = self.open(SYSTEM)
        self._inside.read(self._replies)

    def __repr__(self) -> str:
        return f"<NodeCells of {self._me} commands={sorted(self.commands)} asking={len(self._asked)}>"

    def open(self, cell: str) -> dict[str, CellCommand]:
        """A further cell of this node: its commands, none yet."""
        self._inside.read(cell)
        return self.cells.setdefault(cell, {})

    # --- asking

    async def ask(
        self,
        node: str,
        command: str,
        arguments: Arguments | None = None,
        timeout: float = 5.0,
        cell: str = SYSTEM,
    ) -> Any:
        """What the cell of node `node` answers to `command`. `timeout`: seconds.

        Raises `NoAnswer`, `RefusedByCell`, `TooManyQuestions`, all `CellError`s, or `InvalidName`.
        """
        arguments = arguments or {}
        if node == self._me:
            return await self._carry_out_here(cell, command, arguments)
        if len(self._asked) >= MOST_QUESTIONS:
            raise TooManyQuestions(node, f"{self._me} asks {MOST_QUESTIONS} questions already: try again")
        self._check_way(queue(cell, node_name(node)))
        body = _encode(_Question(command, arguments))
        number = secrets.randbits(62)
        future: asyncio.Future[_Answer] = self._loop.create_future()
        self._asked[number] = node, future
        try:
            async with asyncio.timeout(min(timeout, LONGEST_WAIT)):
                answer = await self._until_answered(queue(cell, node), number, body, future)
        except TimeoutError:
            raise NoAnswer(node, f"node {node!r} did not answer within {timeout:g} s") from None
        finally:
            del self._asked[number]
        if answer.error is not None:
            raise RefusedByCell(node, answer.error.code, answer.error.text)
        return answer.result

    async def _until_answered(
        self, where: Destination, number: int, body: bytes, future: "asyncio.Future[_Answer]"
    ) -> _Answer:
        pause = _AGAIN_FIRST
        properties = Properties(correlation_id=number, reply_to=f"{self._replies}@{self._me}")
        while True:
            self._inside.send(where, Message(body, properties), Flag.TELL)
            self._host.wake()
            done, _ = await asyncio.wait((future,), timeout=pause)
            if done:
                return future.result()
            pause = min(2 * pause, _AGAIN_LATER)

    def _check_way(self, where: Destination) -> None:
        """Raise `NoAnswer` at once where nothing can go there now, or the nodes above would refuse it."""
        core, node = self._host.core, where.node
        ways = core.lookup.targets(core.custody.queue_for(queue(SYSTEM, node)))
        if not ways:
            raise NoAnswer(node, f"nobody here knows a node {node!r}")
        down = [core.neighbours[way] for way in ways if not core.neighbours[way].up]
        if len(down) == len(ways):
            since = core.clock.now - down[0].since
            raise NoAnswer(node, f"the link to {down[0].name!r} has been down for {since:.0f} s")
        if core.context.parents.keys() >= ways and (why := core.permits.why_not_above(where)):
            raise NoAnswer(
                node, f"{why}: to ask node {node!r}, this one needs {where.name}@* in its 'send' there"
            )

    async def _carry_out_here(self, cell: str, name: str, arguments: Arguments) -> Any:
        try:
            found = self._command(cell, name).handler(self._me, arguments)
            return await found if inspect.isawaitable(found) else found
        except SwitchError as error:
            raise RefusedByCell(self._me, error.code, error.text) from None

    # --- letters

    def _letters_wait(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.call_soon(self._letters_came)

    def _letters_came(self) -> None:
        """Those of one slice of the loop; the others follow after everybody else's turns."""
        self._share.begin()
        self._letters.extend(self._inside.letters())
        while self._letters:
            letter = self._letters.popleft()
            if letter.queue in self.cells:
                self._answer(letter)
            else:
                self._answered(letter)
            if self._share.is_over:
                break
        self._host.wake()
        self._letters.extend(self._inside.letters())
        self._reading = bool(self._letters)
        if self._reading:
            self._share.give_way_and(self._letters_came)

    def _answered(self, letter: InternalMessage) -> None:
        """An answer counts only from the node that was asked. That there is none, that node says, or one that
        stands above this one or beside it: no hop passes on a message that forges such an origin.
        """
        number = letter.message.properties.correlation_id
        node, future = self._asked.get(-1 if number is None else number, ("", None))
        if future is None or future.done():
            return
        if letter.flags & Flag.NOTICE:
            core = self._host.core
            trusted = letter.origin in (node, self._me, *core.mesh.members)
            if letter.flags & _UNTRUSTED or not (trusted or core.ancestry.may_administer(letter.origin)):
                return
            future.set_exception(NoAnswer(node, f"{letter.origin} knows of no such cell at a node {node!r}"))
            return
        if letter.origin != node:
            return
        if len(letter.message.payload) <= _LARGEST_ANSWER:
            try:
                future.set_result(_read_answer(letter.message.payload))
            except (msgspec.DecodeError, ValueError, RecursionError):
                future.set_result(_Answer(error=_Fault("BAD_ANSWER", "the answer is not understood")))

    def _answer(self, letter: InternalMessage) -> None:
        """Answer a question, if it is one and there is somebody to answer."""
        number = letter.message.properties.correlation_id
        reply_to = _node_queue(letter.message.properties.reply_to, letter.origin)
        if reply_to is None or not self._may_answer():
            return
        asked = letter.origin, number
        if asked in self._done:
            self._say(reply_to, number, self._done[asked])
            return
        try:
            command, arguments = self._asked_for(letter)
            found = command.handler(letter.origin, arguments)
            if inspect.iscoroutine(found):
                self._answer_later(reply_to, asked, command, found)
            else:
                self._tell(reply_to, asked, command, _payload(found))
        except _FAULTS as error:
            self._say(reply_to, number, _refusal(error))

    def _answer_later(self, reply_to: Destination, asked: _Asked, command: CellCommand, found: _Work) -> None:
        """Whoever is not answered, since too many are, or is already, asks again."""
        of_one = sum(origin == asked[0] for origin, _ in self._long)
        if asked in self._long or len(self._long) >= _MOST_LONG or of_one >= _MOST_LONG_OF_ONE:
            found.close()
            return
        self._long.add(asked)
        self._host.spawn(self._work_out(reply_to, asked, command, found))

    async def _work_out(
        self, reply_to: Destination, asked: _Asked, command: CellCommand, found: _Work
    ) -> None:
        try:
            async with self._one_by_one:
                payload = _payload(await found)
        except _FAULTS as error:
            self._say(reply_to, asked[1], _refusal(error))
        else:
            self._tell(reply_to, asked, command, payload)
        finally:
            found.close()
            self._long.discard(asked)
        self._host.wake()

    def _tell(self, reply_to: Destination, asked: _Asked, command: CellCommand, payload: bytes) -> None:
        if command.changes:
            self._say_when_committed(reply_to, asked, payload)
        else:
            self._say(reply_to, asked[1], payload)

    def _say(self, reply_to: Destination, number: int | None, payload: bytes) -> None:
        if payload:
            self._inside.send(reply_to, Message(payload, Properties(correlation_id=number)))

    def _say_when_committed(self, reply_to: Destination, asked: _Asked, payload: bytes) -> None:
        """The answer goes out when what it tells of is on disk, and again to who asks again."""
        self._remember(asked, b"")

        def say() -> None:
            self._remember(asked, payload)
            self._say(reply_to, asked[1], payload)

        self._host.core.switch.when_committed(say)

    def _remember(self, asked: _Asked, payload: bytes) -> None:
        """What was answered, the oldest of too many or too much forgotten."""
        self._done_bytes += len(payload) - len(self._done.get(asked, b""))
        self._done[asked] = payload
        while len(self._done) > _REMEMBERED or self._done_bytes > _REMEMBERED_BYTES:
            self._done_bytes -= len(self._done.pop(next(iter(self._done))))

    def _asked_for(self, letter: InternalMessage) -> tuple[CellCommand, Arguments]:
        if len(letter.message.payload) > _LARGEST_QUESTION:
            raise SwitchError(f"a question has at most {_LARGEST_QUESTION} bytes")
        question = _read_question(letter.message.payload)
        command = self._command(letter.queue, question.method)
        core = self._host.core
        beside, above = letter.origin in core.mesh.members, core.ancestry.may_administer(letter.origin)
        trusted = (beside if command.beside else above) and not letter.flags & _UNTRUSTED
        if not (command.open or trusted):
            who = "the nodes of its mesh" if command.beside else "this node's ancestors"
            raise SwitchError(f"{question.method} is answered to {who} only")
        return command, question.parameters

    def _command(self, cell: str, name: str) -> CellCommand:
        commands = self.cells.get(cell, {})
        if name not in commands:
            self._load_further()
        if name not in commands:
            raise SwitchError(f"no command {name[:40]!r}: expected {', '.join(sorted(commands))}")
        return commands[name]

    def _load_further(self) -> None:
        if self.further is not None:
            for cell, name, command in self.further():
                self.cells[cell][name] = command
            self.further = None

    def _may_answer(self) -> bool:
        """So many a second; who is not answered asks again."""
        now = self._loop.time()
        gained = (now - self._allowed_at) * _ANSWERS_PER_SECOND
        self._allowance, self._allowed_at = min(self._allowance + gained, _ANSWERS_AT_ONCE), now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True


def _payload(found: Any) -> bytes:
    payload = _encode(_Answer(found))
    if len(payload) > _LARGEST_ANSWER:
        return _fault("TOO_LARGE", f"the answer has {len(payload)} bytes: ask for less")
    return payload


def _refusal(error: Exception) -> bytes:
    if isinstance(error, SwitchError):
        return _fault(error.code, error.text)
    return _fault("BAD_REQUEST", f"not understood: {error}")


def _fault(code: str, text: str) -> bytes:
    return _encode(_Answer(error=_Fault(code, text)))


def _node_queue(reply_to: str, origin: str) -> Destination | None:
    """The destination of an answer: a queue that only nodes have, on the node that asked; else None."""
    try:
        destination = parse(f"queue:{reply_to}")
    except SapwoodError:
        return None
    theirs = destination.name.startswith(f"{SYSTEM}.") and destination.node == origin
    return destination if theirs else None
