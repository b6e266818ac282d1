"""What the HTTP side needs of the node, and nothing more."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from bridges.carriers.base import Carrier
from broker.api.context import RunningNode
from broker.buffers import Buffers
from broker.core.clients.transfers import Fetched
from broker.core.errors import SwitchError
from broker.core.sessions.sessions import Connection
from broker.entrance.entrance import Entrance
from broker.report import NodeReport
from broker.shares import Shares
from sapwood.protocol.bundles import Message
from sapwood.protocol.session_frames import ClientFrame

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry

Outcome = Callable[[SwitchError | None], None]


class SwitchPort(Protocol):
    """The message switch. Synchronous; `NodePort.wake` must follow every call.

    Raises `SwitchError`; `receive` raises `FrameError` when the connection must be closed.
    """

    def login(self, connection: Connection, token: str) -> object: ...

    def close(self, connection: Connection) -> None: ...

    def receive(self, connection: Connection, frames: list[ClientFrame]) -> None: ...

    def create(self, connection: Connection, name: str, home: bool = ...) -> str: ...

    def destroy(self, connection: Connection, name: str) -> None: ...

    def names(self, connection: Connection, prefix: str, *, read: bool) -> Iterator[str]: ...

    def when_committed(self, call: Callable[[], None]) -> None: ...

    def subscribe(self, line: Connection, name: str, credit: int = ..., *, make: bool = ...) -> bool: ...

    def send(
        self,
        connection: Connection,
        name: str,
        message: Message,
        done: Outcome,
        *,
        retained: bool = ...,
        tell: bool = ...,
    ) -> None: ...

    def acknowledge(self, line: Connection, transfer: int, done: Outcome, *, rejected: str = ...) -> None: ...

    def transfer(self, connection: Connection, ack_to: int, waiter: Any = None) -> list[Fetched]: ...

    def is_full(self, connection: Connection) -> bool: ...

    def when_told(self, found: list[Fetched], call: Callable[[], None]) -> None: ...

    def wait(self, connection: Connection, ack_to: int, ready: Callable[[], None]) -> Any: ...

    def cancel(self, waiter: Any) -> None: ...

    def go_on(self, connection: Connection) -> None: ...


class TracingPort(Protocol):
    """The node's trace. `message` and `task` raise `SwitchError` for what is no id."""

    def events(self, last_id: int) -> list[tuple[int, dict[str, Any]]]: ...

    def wait(self, ready: Callable[[], None]) -> None: ...

    def cancel(self, ready: Callable[[], None]) -> None: ...

    async def message(self, text: str) -> dict[str, Any]: ...

    async def task(self, task: str) -> dict[str, Any]: ...


class WiresPort(Protocol):
    """The node's links. `turned_away`: somebody at that address never came so far as to have one."""

    async def serve(self, carrier: Carrier) -> None: ...

    def turned_away(self, address: str, text: str) -> None: ...


class NodePort(Protocol):
    """The node. `ready`: it takes messages. `disconnected`: it is a satellite that is linked with no core.
    `running`: for operations. `settings`: its site's file as it is meant, without secrets.
    """

    @property
    def settings(self) -> str: ...

    @property
    def tracing(self) -> TracingPort: ...

    @property
    def switch(self) -> SwitchPort: ...

    @property
    def entrance(self) -> Entrance: ...

    @property
    def ready(self) -> bool: ...

    @property
    def disconnected(self) -> bool: ...

    def matched(self, topic: str) -> str:
        """How many would get a message of that topic from here, and how far it goes; for people."""
        ...

    def wake(self) -> None: ...

    def nudge(self) -> None: ...

    async def status(self) -> dict[str, Any]: ...

    @property
    def wires(self) -> WiresPort: ...

    @property
    def shares(self) -> Shares: ...

    @property
    def buffers(self) -> Buffers: ...

    @property
    def enrolment(self) -> "Registry | None": ...

    @property
    def running(self) -> RunningNode: ...

    @property
    def report(self) -> NodeReport: ...
