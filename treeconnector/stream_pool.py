"""Bytes that all links of a node may lend to their streams together; see `streams`."""

from typing import Final

POOL_BYTES: Final = 256 * 1024 * 1024


class StreamPool:
    """What all links of a node may lend to their streams together, beyond a `PIECE` of each."""

    __slots__ = ("lent", "most")

    def __init__(self, most: int = POOL_BYTES) -> None:
        self.most = most
        self.lent = 0

    def __repr__(self) -> str:
        return f"<StreamPool lent={self.lent} of {self.most}>"
