"""Tills of a store, and what goes over them.

Interface tills 1.1, for which answer: Store Systems.

Written by `sapwood idl python`: change the definition, and write it again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, TypeAlias

from sapwood.stub_commands import main
from sapwood.stub_samples import sample as _sample
from sapwood.stubs import (
    Caller,
    Channel,
    DeclaredError,
    Function,
    Int64,
    Interface,
    Rpc,
    Struct,
    SyncCaller,
    SyncRpc,
    Unimplemented,
    handlers,
)

from .common import Money

INTERFACE = "tills"
VERSION = "1.1"


class StateClosed(Struct, frozen=True, omit_defaults=True, tag_field="case", tag="closed"):
    """Nobody is at it."""


class StateOpen(Struct, frozen=True, omit_defaults=True, tag_field="case", tag="open"):
    """A cashier is at it: the number on the badge."""

    value: str


class StateBroken(Struct, frozen=True, omit_defaults=True, tag_field="case", tag="broken"):
    """It reports a fault: its own text."""

    value: str


class Takings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a till took since it was opened."""

    receipts: Int64
    """How many."""
    total: Money
    """Their sum."""


State: TypeAlias = StateClosed | StateOpen | StateBroken
"""What a till does."""


class NoSuchTill(DeclaredError):
    """The store has no till of this number."""

    name = "no_such_till"
    about = "The store has no till of this number."
    type = Int64
    value: Int64

    def __init__(self, value: Int64) -> None:
        super().__init__(value)


class TillIsOpen(DeclaredError):
    """Close it first."""

    name = "till_is_open"
    about = "Close it first."

    def __init__(self) -> None:
        super().__init__()


class _ListIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """All tills of the store."""


class ListOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All tills of the store."""

    tills: dict[Int64, State]
    """By their numbers."""


_LIST = Function("list", _ListIn, ListOut, about="All tills of the store.")


class _TakingsOfIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What one till took."""

    till: Int64
    """Its number."""


class TakingsOfOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one till took."""

    takings: Takings | None = None
    """None if it was not opened today."""


_TAKINGS_OF = Function(
    "takings_of",
    _TakingsOfIn,
    TakingsOfOut,
    NoSuchTill,
    about="What one till took.",
    inputs_about={"till": "Its number."},
)


class _RestartIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Start a till's machine again."""

    till: Int64
    """Its number."""
    even_if_open: bool
    """Whether a customer may wait meanwhile."""


class RestartOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Start a till's machine again."""


_RESTART = Function(
    "restart",
    _RestartIn,
    RestartOut,
    NoSuchTill,
    TillIsOpen,
    about="Start a till's machine again.",
    inputs_about={"till": "Its number.", "even_if_open": "Whether a customer may wait meanwhile."},
)


class _InstallIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Give a till a new program."""

    till: Int64
    """Its number."""
    program: Channel
    """The program, as a ZIP file."""


class InstallOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Give a till a new program."""

    size: Int64
    """Its bytes."""


_INSTALL = Function(
    "install",
    _InstallIn,
    InstallOut,
    NoSuchTill,
    TillIsOpen,
    about="Give a till a new program.",
    inputs_about={"till": "Its number.", "program": "The program, as a ZIP file."},
)


class _ScreenPictureIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A picture of the screen."""

    till: Int64
    """Its number."""


class ScreenPictureOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A picture of the screen."""

    png: Channel
    """The picture, as a PNG file."""


_SCREEN_PICTURE = Function(
    "screen.picture",
    _ScreenPictureIn,
    ScreenPictureOut,
    NoSuchTill,
    about="A picture of the screen.",
    inputs_about={"till": "Its number."},
)


FUNCTIONS = (_LIST, _TAKINGS_OF, _RESTART, _INSTALL, _SCREEN_PICTURE)


class TillsScreenClient:
    """What a till shows."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def picture(self, *, till: Int64) -> ScreenPictureOut:
        """A picture of the screen.

        `till`: Its number.

        Raises NoSuchTill.
        """
        return await self._caller.call(_SCREEN_PICTURE, _ScreenPictureIn(till=till))


class TillsScreenSyncClient:
    """What a till shows."""

    def __init__(self, caller: SyncCaller) -> None:
        self._caller = caller

    def picture(self, *, till: Int64) -> ScreenPictureOut:
        """A picture of the screen.

        `till`: Its number.

        Raises NoSuchTill.
        """
        return self._caller.call(_SCREEN_PICTURE, _ScreenPictureIn(till=till))


class TillsScreenServer(Protocol):
    """What a till shows.

    A server has these functions, each either with or without `async`; those without run in threads.
    """

    def picture(self, *, till: Int64) -> Awaitable[ScreenPictureOut] | ScreenPictureOut:
        """A picture of the screen.

        `till`: Its number.

        Raises NoSuchTill.
        """
        ...


class TillsScreen_server_dispatcher(Interface):
    """Checks and converts the inputs and outputs of a server: `rpc.serve(queue, [this])`."""

    def __init__(self, server: TillsScreenServer) -> None:
        super().__init__(handlers({_SCREEN_PICTURE: server.picture}), INTERFACE, VERSION)


class TillsScreen_skeleton:
    """Says of each function that it is not implemented: derive from it, and replace them one by one."""

    async def picture(self, *, till: Int64) -> ScreenPictureOut:
        raise Unimplemented("screen.picture")


class TillsScreen_test:
    """Answers each call with a value of its type."""

    async def picture(self, *, till: Int64) -> ScreenPictureOut:
        return _sample(ScreenPictureOut)


class TillsClient:
    """Tills of a store, and what goes over them.

    Asks who serves a queue. `timeout`: seconds a call; None = for ever, below 0 = that of `rpc`.
    """

    def __init__(self, rpc: Rpc, queue: str = INTERFACE, *, timeout: float | None = -1.0) -> None:
        self._caller = Caller(rpc, queue, INTERFACE, VERSION, timeout)
        self.screen = TillsScreenClient(self._caller)

    async def list_(self) -> ListOut:
        """All tills of the store."""
        return await self._caller.call(_LIST, _ListIn())

    async def takings_of(self, *, till: Int64) -> TakingsOfOut:
        """What one till took.

        `till`: Its number.

        Raises NoSuchTill.
        """
        return await self._caller.call(_TAKINGS_OF, _TakingsOfIn(till=till))

    async def restart(self, *, till: Int64, even_if_open: bool) -> None:
        """Start a till's machine again.

        `till`: Its number.
        `even_if_open`: Whether a customer may wait meanwhile.

        Raises NoSuchTill, TillIsOpen.
        """
        await self._caller.call(_RESTART, _RestartIn(till=till, even_if_open=even_if_open))

    async def install(self, *, till: Int64, program: Channel) -> InstallOut:
        """Give a till a new program.

        `till`: Its number.
        `program`: The program, as a ZIP file.

        Raises NoSuchTill, TillIsOpen.
        """
        return await self._caller.call(_INSTALL, _InstallIn(till=till, program=program))


class TillsSyncClient:
    """Tills of a store, and what goes over them.

    Asks who serves a queue. `timeout`: seconds a call; None = for ever, below 0 = that of `rpc`.
    """

    def __init__(self, rpc: SyncRpc, queue: str = INTERFACE, *, timeout: float | None = -1.0) -> None:
        self._caller = SyncCaller(rpc, queue, INTERFACE, VERSION, timeout)
        self.screen = TillsScreenSyncClient(self._caller)

    def list_(self) -> ListOut:
        """All tills of the store."""
        return self._caller.call(_LIST, _ListIn())

    def takings_of(self, *, till: Int64) -> TakingsOfOut:
        """What one till took.

        `till`: Its number.

        Raises NoSuchTill.
        """
        return self._caller.call(_TAKINGS_OF, _TakingsOfIn(till=till))

    def restart(self, *, till: Int64, even_if_open: bool) -> None:
        """Start a till's machine again.

        `till`: Its number.
        `even_if_open`: Whether a customer may wait meanwhile.

        Raises NoSuchTill, TillIsOpen.
        """
        self._caller.call(_RESTART, _RestartIn(till=till, even_if_open=even_if_open))

    def install(self, *, till: Int64, program: Channel) -> InstallOut:
        """Give a till a new program.

        `till`: Its number.
        `program`: The program, as a ZIP file.

        Raises NoSuchTill, TillIsOpen.
        """
        return self._caller.call(_INSTALL, _InstallIn(till=till, program=program))


class TillsServer(Protocol):
    """Tills of a store, and what goes over them.

    A server has these functions, each either with or without `async`; those without run in threads.
    """

    @property
    def screen(self) -> TillsScreenServer: ...

    def list_(self) -> Awaitable[ListOut] | ListOut:
        """All tills of the store."""
        ...

    def takings_of(self, *, till: Int64) -> Awaitable[TakingsOfOut] | TakingsOfOut:
        """What one till took.

        `till`: Its number.

        Raises NoSuchTill.
        """
        ...

    def restart(self, *, till: Int64, even_if_open: bool) -> Awaitable[None] | None:
        """Start a till's machine again.

        `till`: Its number.
        `even_if_open`: Whether a customer may wait meanwhile.

        Raises NoSuchTill, TillIsOpen.
        """
        ...

    def install(self, *, till: Int64, program: Channel) -> Awaitable[InstallOut] | InstallOut:
        """Give a till a new program.

        `till`: Its number.
        `program`: The program, as a ZIP file.

        Raises NoSuchTill, TillIsOpen.
        """
        ...


class Tills_server_dispatcher(Interface):
    """Checks and converts the inputs and outputs of a server: `rpc.serve(queue, [this])`."""

    def __init__(self, server: TillsServer) -> None:
        super().__init__(
            handlers(
                {
                    _LIST: server.list_,
                    _TAKINGS_OF: server.takings_of,
                    _RESTART: server.restart,
                    _INSTALL: server.install,
                    _SCREEN_PICTURE: server.screen.picture,
                },
            ),
            INTERFACE,
            VERSION,
        )


class Tills_skeleton:
    """Says of each function that it is not implemented: derive from it, and replace them one by one."""

    def __init__(self) -> None:
        self.screen: TillsScreenServer = TillsScreen_skeleton()

    async def list_(self) -> ListOut:
        raise Unimplemented("list")

    async def takings_of(self, *, till: Int64) -> TakingsOfOut:
        raise Unimplemented("takings_of")

    async def restart(self, *, till: Int64, even_if_open: bool) -> None:
        raise Unimplemented("restart")

    async def install(self, *, till: Int64, program: Channel) -> InstallOut:
        raise Unimplemented("install")


class Tills_test:
    """Answers each call with a value of its type."""

    def __init__(self) -> None:
        self.screen: TillsScreenServer = TillsScreen_test()

    async def list_(self) -> ListOut:
        return _sample(ListOut)

    async def takings_of(self, *, till: Int64) -> TakingsOfOut:
        return _sample(TakingsOfOut)

    async def restart(self, *, till: Int64, even_if_open: bool) -> None:
        return None

    async def install(self, *, till: Int64, program: Channel) -> InstallOut:
        return _sample(InstallOut)


if __name__ == "__main__":
    raise SystemExit(main(INTERFACE, VERSION, FUNCTIONS))
