"""What the HTTP side needs of the node, and nothing more."""

from collections.abc import Callable
from typing import Any, Protocol

from bridges.carrier import Carrier
from broker.core.errors import SwitchError
from broker.core.sessions import Connection
from treeconnector.bundles import Message
from treeconnector.session_frames import ClientFrame

Outcome = Callable[[SwitchError | None], None]


class SwitchPort(Protocol):
    """The message switch. Synchronous; `NodePort.wake` must follow every call.

    Raises `SwitchError`; `receive` raises `FrameError` when the connection must be closed.
    """

    def login(self, connection: Connection, token: str, secret: str = "") -> object: ...

    def close(self, connection: Connection) -> None: ...

    def receive(self, connection: Connection, frames: list[ClientFrame]) -> None: ...

    def create(self, connection: Connection, name: str) -> str: ...

    def subscribe(self, connection: Connection, name: str) -> None: ...

    def send(self, connection: Connection, name: str, message: Message, done: Outcome) -> None: ...

    def acknowledge(self, connection: Connection, transfer: int, done: Outcome) -> None: ...

    def transfer(self, connection: Connection, ack_to: int) -> list[tuple[int, Message]]: ...

    def wait(self, connection: Connection, ack_to: int, ready: Callable[[], None]) -> Any: ...

    def cancel(self, waiter: Any) -> None: ...


class NodePort(Protocol):
    """The node. `ready`: it takes messages and its links are as they should be."""

    @property
    def switch(self) -> SwitchPort: ...

    @property
    def ready(self) -> bool: ...

    def wake(self) -> None: ...

    def status(self) -> dict[str, Any]: ...

    async def serve_link(self, carrier: Carrier) -> None: ...

    async def leave(self) -> dict[str, Any]: ...

    def forget(self, name: str) -> dict[str, Any]: ...
