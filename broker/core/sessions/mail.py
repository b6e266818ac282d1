"""Mail: what a session was given to fetch and no answer has told it yet, and the transfers that wait for it.

Law: each slice wakes one blocked transfer, and is in that one's answer alone; unless a transfer that was not
blocked has told it before.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

_MAIL_BYTES: Final = 8 * 1024 * 1024
_MAIL_MESSAGES: Final = 1000


class MailSlice(Protocol):
    """A slice that a session has: its transfer ids `first` to `last`, its weight in bytes.

    `known`: its ids were given out before.
    """

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def messages(self) -> int: ...
    @property
    def weight(self) -> int: ...
    @property
    def known(self) -> bool: ...


Given = TypeVar("Given", bound=MailSlice)


class Waiter:
    """A blocked transfer. `ready` is called once, when there is something to give."""

    __slots__ = ("ack_to", "mail", "ready")

    def __init__(self, mail: "Mail[Any]", ack_to: int, ready: Callable[[], None]) -> None:
        self.mail = mail
        self.ack_to = ack_to
        self.ready = ready


class Mail(Generic[Given]):
    """Of one session. `untold`: by transfer id. `waiters`: blocked transfers that nothing has woken."""

    __slots__ = ("_bytes", "_meant", "_unread", "room", "untold", "waiters")

    def __init__(self) -> None:
        self.untold: dict[int, Given] = {}
        self.waiters: dict[Waiter, None] = {}
        self._unread: dict[int, None] = {}
        self._meant: dict[int, Waiter] = {}
        self._bytes = 0
        self.room = _MAIL_MESSAGES

    def __repr__(self) -> str:
        return f"<Mail of {len(self.untold)} waiters={len(self.waiters)}>"

    @property
    def has_room(self) -> bool:
        """May more be set aside for this session?"""
        return self.room > 0 and self._bytes < _MAIL_BYTES

    def wait(self, ack_to: int, ready: Callable[[], None]) -> Waiter:
        waiter = Waiter(self, ack_to, ready)
        self.waiters[waiter] = None
        return waiter

    def cancel(self, waiter: Waiter) -> None:
        """A blocked transfer is over. Another one is woken by what it was woken for and has not told."""
        self.waiters.pop(waiter, None)
        for first in [first for first, to in self._meant.items() if to is waiter]:
            unread, given = first in self._unread, self.untold[first]
            self.take(given)
            self.put(given)
            if unread:
                self._unread[first] = None

    def put(self, given: Given) -> None:
        """It was given this, and no answer has told it yet: one blocked transfer that it is for is woken."""
        self.untold[given.first] = given
        self._bytes += given.weight
        self.room -= given.messages
        for waiter in self.waiters:
            if given.known or given.last > waiter.ack_to:
                del self.waiters[waiter]
                self._meant[given.first] = waiter
                waiter.ready()
                return

    def take(self, given: Given) -> bool:
        """An answer tells of it. False: an earlier one has."""
        if self.untold.pop(given.first, None) is None:
            return False
        self._unread.pop(given.first, None)
        self._meant.pop(given.first, None)
        self._bytes -= given.weight
        self.room += given.messages
        return True

    def is_for(self, given: Given, waiter: Waiter | None) -> bool:
        """May this transfer tell of it? One that was blocked (`waiter`) tells nothing that another has told,
        or was woken for.
        """
        if waiter is None:
            return True
        return given.first in self.untold and self._meant.get(given.first, waiter) is waiter

    def was_told(self, given: Given) -> bool:
        """Has an answer told of it before, which may have been read?"""
        return given.first not in self.untold or given.first in self._unread

    def wake_again(self, unread: list[Given], untold: Iterable[Given]) -> None:
        """A connection has gone, which perhaps has not read its answer; or a transfer was just woken."""
        for given in {given.first: given for given in [*unread, *untold]}.values():
            self.take(given)
            self.put(given)
        self._unread.update((given.first, None) for given in unread)
