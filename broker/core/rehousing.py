"""What waits in one place waits in another one from now on: under an alias's address, or in the dumpster."""

from functools import partial
from typing import TYPE_CHECKING, Final

from treeconnector.destinations import queue

if TYPE_CHECKING:
    from broker.core.copies import Copy
    from broker.core.custody import Place
    from broker.core.forwarding import Forwarder

_AT_ONCE: Final = 2000
_PAUSE: Final = 0.001


def readdressed(forwarder: "Forwarder", place: "Place") -> bool:
    """What waits under an alias goes on under the address that it stands for, unless that is no other."""
    address = forwarder.address(place.destination) if place.destination else None
    if address is None or address == place.destination:
        return False
    for copy in _move_some(forwarder, place, forwarder.custody.queue(address)):
        copy.stored.header.destination = address
        forwarder.custody.header_changed(copy.stored)
    _go_on(forwarder, place, forwarder.custody.queue(address))
    return True


def dumped(forwarder: "Forwarder", place: "Place") -> bool:
    """What nothing takes goes into the dumpster, under the address that it came with, if there is room."""
    if forwarder.lacks_parent or not forwarder.is_unroutable(place):
        return False
    where = queue(forwarder.static.dumpster)
    dumpster, policy = forwarder.custody.queue(where), forwarder.settings.policy(where)
    if dumpster.messages >= policy.max_messages or dumpster.size >= policy.max_bytes:
        return False
    _move_some(forwarder, place, dumpster)
    _go_on(forwarder, place, dumpster)
    return True


def _move_some(forwarder: "Forwarder", place: "Place", to: "Place") -> "list[Copy]":
    """The first that wait, so many at a time."""
    custody = forwarder.custody
    place.end_rest()
    copies = [place.waiting.popleft() for _ in range(min(len(place.waiting), _AT_ONCE))]
    for copy in copies:
        if copy.note:
            custody.sent(place, copy.note, -copy.open)
            copy.note = ""
        custody.move(copy, to)
    to.put_back(copies)
    return copies


def _go_on(forwarder: "Forwarder", place: "Place", to: "Place") -> None:
    """The others follow soon, and those that have moved go on."""
    if place.held_back:
        forwarder.holds.relieve(place)
    if place.waiting:
        forwarder.moment.after(_PAUSE, partial(forwarder.dispatch, place))
    forwarder.dispatch(to)
