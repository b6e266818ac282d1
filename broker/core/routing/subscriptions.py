"""Subscriptions to topics: whose they are, how long they last, and under which id they are kept."""

import re
from typing import Final

from broker.core.messages.queue import Queue
from broker.core.messages.queue_names import SUBSCRIPTION
from broker.core.rows import SubscriptionRow

SHARED: Final = "\x1fshared "
"""In what stands for the session of a shared subscription, which no session's name can hold."""
_SPACE: Final = re.compile("[^/:]*[/:]")


class Subscription:
    """A session's interest in a topic pattern; entries for it wait in its place. `name`: '' = not durable.

    `deaf`: it is not given what its own session sends. `pattern`: '' = it has several. `holders`: kept
    sessions that have part in it, where it is shared. `begins`: entries below that row are none of its.
    """

    __slots__ = (
        "attached", "begins", "deaf", "holders", "id", "name", "pattern", "queue", "seen", "session",
    )  # fmt: skip

    def __init__(self, session: str, name: str, pattern: str, queue: Queue, seen: float) -> None:
        self.id = queue.name.removeprefix(SUBSCRIPTION)
        self.session = session
        self.name = name
        self.pattern = pattern
        self.queue = queue
        self.seen = seen
        self.attached = False
        self.deaf = False
        self.holders = 0
        self.begins = 0

    def __repr__(self) -> str:
        return f"<Subscription {self.id} to {self.pattern} messages={self.queue.messages}>"

    def is_deaf_to(self, sender: str) -> bool:
        """Is it not given what this session sends?"""
        return self.deaf and bool(sender) and self.session == sender

    @property
    def lasts(self) -> bool:
        """Does it go on while nobody reads it? A shared one as long as a session that is kept has it."""
        return bool(self.name) and (bool(self.holders) or SHARED not in self.session)

    def row(self) -> SubscriptionRow:
        return SubscriptionRow(self.id, f"{self.session}\n{self.name}", self.pattern, int(self.seen * 1000))


def space_of(session: str) -> str:
    """How the names of all sessions of its account or certificate begin; '' = it is nobody's."""
    found = _SPACE.match(session)
    return found.group() if found else ""


def subscription_id(session: str, name: str, pattern: str) -> str:
    """No two sessions can have one id, whatever stands in their tokens."""
    first = session.replace("%", "%25").replace("/", "%2F")
    return f"{first}/{name}" if name else f"{first}//{pattern}"
