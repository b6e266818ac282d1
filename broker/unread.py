"""Unread bytes: how much waits in memory for all who read from this node together, and who is cut off for it.

Each reader has a bound of its own as well; this one holds where many come near theirs. Those who leave most
unread are cut off, until the rest is below it.
"""

from typing import Final, Protocol

SESSIONS: Final = 1024 * 1024 * 1024
"""Of all streaming sessions of a node."""
LINKS: Final = 512 * 1024 * 1024
"""Control frames of all links of a node."""
LOOKS: Final = 256 * 1024
"""A reader is counted again when so much has been added for him, or sooner."""


class Reader(Protocol):
    """One connection. `unread`: bytes that wait for it. `cut_off` makes an end of it, and is called once."""

    @property
    def unread(self) -> int: ...
    def cut_off(self) -> None: ...


class UnreadBytes:
    """What waits for some readers together; `most` at the most, and `LOOKS` more for each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[Reader, int] = {}
        self._total = 0

    def __repr__(self) -> str:
        return f"<UnreadBytes {self._total} of at most {self._most} of {len(self._of)} readers>"

    def look(self, reader: Reader) -> None:
        """More waits for this one, or less."""
        unread = reader.unread
        self._total += unread - self._of.get(reader, 0)
        self._of[reader] = unread
        if self._total > self._most:
            self._relieve()

    def gone(self, reader: Reader) -> None:
        self._total -= self._of.pop(reader, 0)

    def _relieve(self) -> None:
        """Count again, for many may have read since."""
        self._of = {reader: reader.unread for reader in self._of}
        self._total = sum(self._of.values())
        for reader in sorted(self._of, key=self._of.__getitem__, reverse=True):
            if self._total <= self._most:
                return
            self.gone(reader)
            reader.cut_off()
