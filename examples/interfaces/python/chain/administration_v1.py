"""The stores of the chain.

Interface administration 1.0, for which answer: Operations, Network.

Written by `sapwood idl python`: change the definition, and write it again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from sapwood.stub_commands import main
from sapwood.stub_samples import sample as _sample
from sapwood.stubs import (
    Caller,
    DeclaredError,
    Function,
    Interface,
    Rpc,
    Struct,
    SyncCaller,
    SyncRpc,
    Unimplemented,
    handlers,
)

from .common import Day, Store

INTERFACE = "administration"
VERSION = "1.0"


class Address(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a store stands."""

    street: str
    """Street and number."""
    town: str
    """Town, with its postal code before it."""


class Description(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a store."""

    store: Store
    """Its name."""
    region: str
    """Name of the region's node."""
    address: Address
    """Where it is."""
    hours: dict[str, tuple[str, str]]
    """Opening and closing as HH:MM, by day of the week."""
    area: float
    """Square metres."""
    open: bool
    """Whether customers are let in these weeks."""


class Region(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A region, with those inside it."""

    name: str
    """Name of its node."""
    regions: list[Region]
    """Regions below it."""
    stores: list[Store]
    """Stores directly below it."""


class NoSuchStore(DeclaredError):
    """The chain has no store of this name."""

    name = "no_such_store"
    about = "The chain has no store of this name."
    type = Store
    value: Store

    def __init__(self, value: Store) -> None:
        super().__init__(value)


class ChangesNameIsTaken(DeclaredError):
    """Another store has this name."""

    name = "name_is_taken"
    about = "Another store has this name."
    type = Store
    value: Store

    def __init__(self, value: Store) -> None:
        super().__init__(value)


class _DescribeIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is known of a store."""

    store: Store
    """Its name."""


class DescribeOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a store."""

    description: Description
    """All of it."""


_DESCRIBE = Function(
    "describe",
    _DescribeIn,
    DescribeOut,
    NoSuchStore,
    about="What is known of a store.",
    inputs_about={"store": "Its name."},
)


class _TreeIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The regions of the chain."""


class TreeOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The regions of the chain."""

    root: Region
    """The whole chain."""


_TREE = Function("tree", _TreeIn, TreeOut, about="The regions of the chain.")


class _ChangesOpenIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Take a new store in."""

    description: Description
    """All that is known of it."""


class ChangesOpenOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Take a new store in."""


_CHANGES_OPEN = Function(
    "changes.open",
    _ChangesOpenIn,
    ChangesOpenOut,
    ChangesNameIsTaken,
    about="Take a new store in.",
    inputs_about={"description": "All that is known of it."},
)


class _ChangesCloseIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Let a store go for good."""

    store: Store
    """Its name."""
    last_day: Day
    """The last day on which it is open."""


class ChangesCloseOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Let a store go for good."""

    waiting: None = None
    """Answered when its queues are empty."""


_CHANGES_CLOSE = Function(
    "changes.close",
    _ChangesCloseIn,
    ChangesCloseOut,
    NoSuchStore,
    about="Let a store go for good.",
    inputs_about={"store": "Its name.", "last_day": "The last day on which it is open."},
)


FUNCTIONS = (_DESCRIBE, _TREE, _CHANGES_OPEN, _CHANGES_CLOSE)


class AdministrationChangesClient:
    """Stores that come, go and move."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def open(self, *, description: Description) -> None:
        """Take a new store in.

        `description`: All that is known of it.

        Raises ChangesNameIsTaken.
        """
        await self._caller.call(_CHANGES_OPEN, _ChangesOpenIn(description=description))

    async def close(self, *, store: Store, last_day: Day) -> ChangesCloseOut:
        """Let a store go for good.

        `store`: Its name.
        `last_day`: The last day on which it is open.

        Raises NoSuchStore.
        """
        return await self._caller.call(_CHANGES_CLOSE, _ChangesCloseIn(store=store, last_day=last_day))


class AdministrationChangesSyncClient:
    """Stores that come, go and move."""

    def __init__(self, caller: SyncCaller) -> None:
        self._caller = caller

    def open(self, *, description: Description) -> None:
        """Take a new store in.

        `description`: All that is known of it.

        Raises ChangesNameIsTaken.
        """
        self._caller.call(_CHANGES_OPEN, _ChangesOpenIn(description=description))

    def close(self, *, store: Store, last_day: Day) -> ChangesCloseOut:
        """Let a store go for good.

        `store`: Its name.
        `last_day`: The last day on which it is open.

        Raises NoSuchStore.
        """
        return self._caller.call(_CHANGES_CLOSE, _ChangesCloseIn(store=store, last_day=last_day))


class AdministrationChangesServer(Protocol):
    """Stores that come, go and move.

    A server has these functions, each either with or without `async`; those without run in threads.
    """

    def open(self, *, description: Description) -> Awaitable[None] | None:
        """Take a new store in.

        `description`: All that is known of it.

        Raises ChangesNameIsTaken.
        """
        ...

    def close(self, *, store: Store, last_day: Day) -> Awaitable[ChangesCloseOut] | ChangesCloseOut:
        """Let a store go for good.

        `store`: Its name.
        `last_day`: The last day on which it is open.

        Raises NoSuchStore.
        """
        ...


class AdministrationChanges_server_dispatcher(Interface):
    """Checks and converts the inputs and outputs of a server: `rpc.serve(queue, [this])`."""

    def __init__(self, server: AdministrationChangesServer) -> None:
        super().__init__(
            handlers({_CHANGES_OPEN: server.open, _CHANGES_CLOSE: server.close}),
            INTERFACE,
            VERSION,
        )


class AdministrationChanges_skeleton:
    """Says of each function that it is not implemented: derive from it, and replace them one by one."""

    async def open(self, *, description: Description) -> None:
        raise Unimplemented("changes.open")

    async def close(self, *, store: Store, last_day: Day) -> ChangesCloseOut:
        raise Unimplemented("changes.close")


class AdministrationChanges_test:
    """Answers each call with a value of its type."""

    async def open(self, *, description: Description) -> None:
        return None

    async def close(self, *, store: Store, last_day: Day) -> ChangesCloseOut:
        return _sample(ChangesCloseOut)


class AdministrationClient:
    """The stores of the chain.

    Asks who serves a queue. `timeout`: seconds a call; None = for ever, below 0 = that of `rpc`.
    """

    def __init__(self, rpc: Rpc, queue: str = INTERFACE, *, timeout: float | None = -1.0) -> None:
        self._caller = Caller(rpc, queue, INTERFACE, VERSION, timeout)
        self.changes = AdministrationChangesClient(self._caller)

    async def describe(self, *, store: Store) -> DescribeOut:
        """What is known of a store.

        `store`: Its name.

        Raises NoSuchStore.
        """
        return await self._caller.call(_DESCRIBE, _DescribeIn(store=store))

    async def tree(self) -> TreeOut:
        """The regions of the chain."""
        return await self._caller.call(_TREE, _TreeIn())


class AdministrationSyncClient:
    """The stores of the chain.

    Asks who serves a queue. `timeout`: seconds a call; None = for ever, below 0 = that of `rpc`.
    """

    def __init__(self, rpc: SyncRpc, queue: str = INTERFACE, *, timeout: float | None = -1.0) -> None:
        self._caller = SyncCaller(rpc, queue, INTERFACE, VERSION, timeout)
        self.changes = AdministrationChangesSyncClient(self._caller)

    def describe(self, *, store: Store) -> DescribeOut:
        """What is known of a store.

        `store`: Its name.

        Raises NoSuchStore.
        """
        return self._caller.call(_DESCRIBE, _DescribeIn(store=store))

    def tree(self) -> TreeOut:
        """The regions of the chain."""
        return self._caller.call(_TREE, _TreeIn())


class AdministrationServer(Protocol):
    """The stores of the chain.

    A server has these functions, each either with or without `async`; those without run in threads.
    """

    @property
    def changes(self) -> AdministrationChangesServer: ...

    def describe(self, *, store: Store) -> Awaitable[DescribeOut] | DescribeOut:
        """What is known of a store.

        `store`: Its name.

        Raises NoSuchStore.
        """
        ...

    def tree(self) -> Awaitable[TreeOut] | TreeOut:
        """The regions of the chain."""
        ...


class Administration_server_dispatcher(Interface):
    """Checks and converts the inputs and outputs of a server: `rpc.serve(queue, [this])`."""

    def __init__(self, server: AdministrationServer) -> None:
        super().__init__(
            handlers(
                {
                    _DESCRIBE: server.describe,
                    _TREE: server.tree,
                    _CHANGES_OPEN: server.changes.open,
                    _CHANGES_CLOSE: server.changes.close,
                },
            ),
            INTERFACE,
            VERSION,
        )


class Administration_skeleton:
    """Says of each function that it is not implemented: derive from it, and replace them one by one."""

    def __init__(self) -> None:
        self.changes: AdministrationChangesServer = AdministrationChanges_skeleton()

    async def describe(self, *, store: Store) -> DescribeOut:
        raise Unimplemented("describe")

    async def tree(self) -> TreeOut:
        raise Unimplemented("tree")


class Administration_test:
    """Answers each call with a value of its type."""

    def __init__(self) -> None:
        self.changes: AdministrationChangesServer = AdministrationChanges_test()

    async def describe(self, *, store: Store) -> DescribeOut:
        return _sample(DescribeOut)

    async def tree(self) -> TreeOut:
        return _sample(TreeOut)


if __name__ == "__main__":
    raise SystemExit(main(INTERFACE, VERSION, FUNCTIONS))
