"""A bundle on its way to the next hop: its header then, and whether that hop takes it."""

from typing import Final

from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import QueueEntry, StoredBundle
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Header

_HEADER_GROWS: Final = 64


def head_of(entry: QueueEntry, now: float) -> bytes:
    """The header as it goes to the next hop, as bytes."""
    header = entry.stored.header
    if entry.done or header.expires_first or header.done:
        return bundles.encode_header(outgoing(entry, now))
    return entry.stored.head


def outgoing(entry: QueueEntry, now: float) -> Header:
    """The header as it goes to the next hop: what remains of its time, and what is left to do."""
    header = entry.stored.header
    gone = int((now - entry.stored.since) * 1000)
    return Header(
        id=header.id,
        destination=header.destination,
        scope=header.scope,
        flags=header.flags,
        count=header.count,
        size=header.size,
        origin_store=header.origin_store,
        origin=header.origin,
        expires_first=max(header.expires_first - gone, 1) if header.expires_first else 0,
        expires_last=max(header.expires_last - gone, 1) if header.expires_last else 0,
        reroutes=header.reroutes,
        done=bundles.mask_bytes(entry.done),
        start=header.start,
    )


def is_too_large(stored: StoredBundle, neighbour: Neighbour) -> bool:
    """A neighbour's limit is for header and body together."""
    limit = neighbour.max_message
    if stored.size + bundles.MAX_HEADER <= limit:
        return False
    return stored.size + len(stored.head) + _HEADER_GROWS > limit
