"""Loading: a start puts bundles, entries and pages back where they were at the stop."""

from broker.core.custody.custody import Custody
from broker.core.messages.pages import summary_in
from broker.core.messages.queue import Page, Queue, QueueEntry, StoredBundle
from broker.core.messages.queue_names import destination_of
from broker.core.rows import CopyRow, PageRow
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Header


def load_page(custody: Custody, row: PageRow) -> Page:
    """Entries that wait on disk alone, as they did at the stop."""
    summary = summary_in(row)
    queue = _queue_called(custody, row.place)
    page = custody.paging.restore(queue, row.first, summary)
    queue.messages += summary.messages
    queue.size += page.size
    queue.tally.entered += summary.messages
    if not queue.tally.active:
        custody.stir(queue)
    for sender, count in summary.senders.items():
        custody.sent(queue, sender, count)
    custody.begin_above(page.last, summary.bundle)
    return page


def load_bundle(custody: Custody, row: int, header: Header, size: int) -> StoredBundle:
    """Its body stays on disk until somebody wants it."""
    stored = StoredBundle(row, header, None, size, 0.0, safe=True)
    custody.paging.doubt(stored)
    custody.paging.wake(stored)
    custody.begin_above(bundle=row)
    return stored


def load_copy(custody: Custody, row: CopyRow, stored: StoredBundle) -> QueueEntry:
    """Put an entry back where it was at the stop; numbered ones wait in no `waiting`."""
    queue = _queue_called(custody, row.place)
    entry = QueueEntry(row.row, stored, queue, row.came, row.since / 1000)
    entry.number, entry.done, entry.deliveries = row.number, bundles.mask_bits(row.done), row.deliveries
    entry.note, entry.transfer = row.note, row.transfer
    if entry.transfer:
        entry.deliveries = max(entry.deliveries, 1)
    stored.entries += 1
    stored.since = entry.since
    custody.paging.warm += 1
    custody.begin_above(row.row)
    custody.count(entry, 1)
    if entry.note and queue is not custody.dead and queue.destination is not None:
        custody.sent(queue, entry.note, entry.open)
    if not entry.number:
        queue.waiting.append(entry)
    if stored.header.expires_last and queue is not custody.dead:
        custody.expiry.add(entry)
    return entry


def _queue_called(custody: Custody, name: str) -> Queue:
    destination = destination_of(name)
    return custody.queue_for(destination) if destination else custody.queue_named(name)
