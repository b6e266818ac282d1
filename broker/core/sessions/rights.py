"""Rights: what an application may do at its node, whichever protocol it speaks.

Law: the switch and its parts ask them where something is done: making and reading a queue, subscribing,
sending, and naming the queue for an answer, since who answers sends there with rights of its own. An
application whose rights are limited reads no events of the node, and no other session's fresh queues.

The rules are those of permits (`treeconnector.permits`). Sessions of an application that has an identity have
a space of names of their own: it cannot be, read for, or number sends as a session of anybody else.
"""

from collections.abc import Callable
from typing import Final

from broker.core.errors import SwitchError
from sapwood.protocol import destinations
from sapwood.protocol.destinations import Destination
from treeconnector.permits import Permit


class Rights:
    """Of one application. `who`: for people, '' = of nobody in particular. `space`: begins the names of its
    sessions. Without a permit it may do everything. `ended`: they were taken away, and open nothing any more.
    """

    __slots__ = ("__weakref__", "ended", "is_of_child", "permit", "space", "who")

    def __init__(
        self, who: str = "", space: str = "", permit: Permit | None = None, *, is_of_child: bool = False
    ) -> None:
        """`is_of_child`: it shows a child's certificate, and the permit is that child's."""
        self.who = who
        self.space = space
        self.permit = permit
        self.is_of_child = is_of_child
        self.ended = False

    def __repr__(self) -> str:
        return (
            f"<Rights of {self.who or 'everybody'}: {'everything' if self.permit is None else self.permit}>"
        )

    @property
    def limited(self) -> bool:
        return bool(self.permit)

    def check_consume(self, key: Destination) -> None:
        """Raises `SwitchError`."""
        if self.permit is not None:
            self._check(self.permit.why_not_consume(key))

    def check_make(self, name: str) -> None:
        """May it make a queue of that name? If it may read it, or send to it. Raises `SwitchError`."""
        if self.permit is not None and self.permit.why_not_send(destinations.queue(name)):
            self._check(self.permit.why_not_consume(destinations.queue(name)))

    def check_send(self, destination: Destination) -> None:
        """Raises `SwitchError`."""
        if self.permit is not None:
            self._check(self.permit.why_not_send(destination))

    def check_reply(self, reply_to: str, named: Callable[[str], Destination]) -> None:
        """May answers go there? `named` reads a name as a queue to send to. Raises `SapwoodError`."""
        if self.permit is not None and reply_to and (why := self.permit.why_not_send(named(reply_to))):
            raise SwitchError(f"as the place for an answer: {why}")

    def why_not_open(self, name: str, node: str) -> str:
        """May it open a channel? An account has no rules for that, and a child has."""
        return self.permit.why_not_open(name, node) if self.is_of_child and self.permit is not None else ""

    def why_not_offer(self, name: str, node: str) -> str:
        """May others take a channel that it makes at a node? Those of a child are the child's to serve."""
        return self.permit.why_not_serve(name, node) if self.is_of_child and self.permit is not None else ""

    def check_everything(self, what: str) -> None:
        """Raises `SwitchError` unless nothing limits it."""
        if self.limited:
            raise SwitchError(f"{self.who} may not {what}")

    @staticmethod
    def _check(why: str) -> None:
        if why:
            raise SwitchError(why)


CHANGED: Final = "what this application may do here was changed: log in again"
FULL: Final = Rights()
"""Of whoever is the operator's own: it may do everything."""
