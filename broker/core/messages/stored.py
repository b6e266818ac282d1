"""A bundle that a node keeps: stored once, however many entries refer to it."""

from msgspec.structs import replace

from sapwood.protocol import bundles
from sapwood.protocol.bundles import Header
from sapwood.protocol.destinations import Destination


class StoredBundle:
    """A bundle that is kept. `safe`: its messages may be given to consumers (we, or upstream, committed it).

    `encoded`: the header's bytes, while they are known. `uses`: how many of its entries count in which spool;
    only `Spools` reads it. `doubted`: consumers here may have been given it before a crash.
    """

    __slots__ = (
        "body",
        "doubted",
        "encoded",
        "entries",
        "header",
        "messages",
        "row",
        "safe",
        "since",
        "size",
        "uses",
    )

    def __init__(self, row: int, header: Header, body: bytes | None, size: int, since: float) -> None:
        self.row = row
        self.header = header
        self.encoded: bytes | None = None
        self.body = body
        self.size = size
        self.since = since
        self.entries = 0
        self.safe = False
        self.doubted = False
        self.uses = 0
        self.messages: list[bundles.Message] | None = None

    def __repr__(self) -> str:
        return f"<StoredBundle {self.row} {self.header} copies={self.entries}>"

    @property
    def head(self) -> bytes:
        """The header as bytes: as they came, or were written last."""
        if self.encoded is None:
            self.encoded = bundles.encode_header(self.header)
        return self.encoded

    def readdress(self, destination: Destination) -> None:
        """It is for another destination. Others may keep its header as it was: it has a new one."""
        self.header = replace(self.header, destination=destination)
        self.encoded = None
