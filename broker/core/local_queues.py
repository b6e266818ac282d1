"""The queues that this node has: made by its applications, and by nobody else.

Law: what nobody has made cannot be read; sending to it is another matter. A persistent queue is on disk; a
transient one is its session's, and goes with it.
"""

import secrets
from typing import Final

from broker.core.custody import Custody, Place
from broker.core.errors import NotFound, SwitchError
from broker.core.places import TRANSIENT
from broker.core.rows import QueueRow
from broker.core.sessions import Session
from broker.core.settings import CoreSettings
from broker.core.trace import is_internal
from treeconnector.destinations import queue
from treeconnector.names import queue_name

_FRESH_BYTES: Final = 12


class LocalQueues:
    """Makes and finds them. Calls are synchronous and pure."""

    def __init__(self, node: str, settings: CoreSettings, custody: Custody) -> None:
        self._node = node
        self._settings = settings
        self._custody = custody

    def __repr__(self) -> str:
        return f"<LocalQueues of {self._node}>"

    def create(self, session: Session, name: str, home: bool) -> str:
        """Make a queue, or find it made; '' makes a transient one. Returns the name to send to."""
        if not name:
            name = TRANSIENT + secrets.token_urlsafe(_FRESH_BYTES)
            self.own(session, name)
            return f"{name}@{self._node}"
        name = self.local_name(name)
        place = self._custody.queue(queue(name))
        if place.owner:
            return f"{name}@{self._node}"
        if not place.created:
            place.created = True
            place.home = home or self._settings.policy(queue(name)).home
            self._custody.transaction.put(QueueRow(name, int(place.home)))
        return name

    def own(self, session: Session, name: str) -> None:
        """Make a transient queue of this name for the session, where there is none."""
        place = self._custody.queue(queue(name))
        if not place.created:
            place.owner, place.created, place.home = session.token, True, True
            session.transient.add(name)

    def restore(self, row: QueueRow) -> None:
        place = self._custody.queue(queue(row.name))
        place.created, place.home = True, bool(row.home)

    def existing(self, name: str) -> Place:
        """Raises `NotFound` for what nobody has made here."""
        place = self._custody.places.get(f"queue:{name}")
        if place is None or not place.created:
            raise NotFound(f"this node has no queue {name!r}: create it first")
        return place

    def local_name(self, name: str) -> str:
        """A queue of this node: `NAME` or `NAME@this-node`."""
        plain, at, node = name.partition("@")
        if at and node != self._node:
            raise NotFound(
                f"queue {name!r} is on node {node!r}: here only queues of {self._node!r} can be read"
            )
        if is_internal(queue(plain)):
            raise SwitchError(f"REFUSED: the queue {plain!r} is the node's own: choose another name")
        return queue_name(plain)
