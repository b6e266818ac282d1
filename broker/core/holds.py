"""Holds: what happens where a place is full (rule 19).

Where messages enter, `sending` refuses. What comes from neighbours is kept by them: a full place asks each to
hold what is for it, and has that ended when a fifth is free. Where a policy says so, something is dropped.
"""

from collections.abc import Callable
from typing import Final

from broker.core.custody import Copy, Custody, Place
from broker.core.neighbours import Neighbour
from broker.core.settings import CoreSettings, Overflow, Policy
from treeconnector.destinations import Destination

_RELIEF: Final = 0.8


class Holds:
    """The limits of a node's places. `bury`: makes a copy that is in no `waiting` a dead letter."""

    def __init__(
        self,
        settings: CoreSettings,
        custody: Custody,
        neighbours: dict[str, Neighbour],
        bury: Callable[[Copy, str], None],
    ) -> None:
        self._settings = settings
        self._custody = custody
        self._neighbours = neighbours
        self._bury = bury

    def __repr__(self) -> str:
        full = [place.name for place in self._custody.places.values() if place.held_back]
        return f"<Holds on {full}>"

    def check(self, place: Place, came: str) -> None:
        """A place has one copy more. If that is too much, its policy says what goes, or who must wait."""
        destination, neighbour = place.destination, self._neighbours.get(came)
        if destination is None:
            return
        policy = self._settings.policy(destination)
        if policy.overflow is not Overflow.REFUSE:
            self._drop(place, policy)
        elif neighbour is not None and (
            place.messages >= policy.max_messages or place.size >= policy.max_bytes
        ):
            self.hold(place, destination, neighbour)

    def _drop(self, place: Place, policy: Policy) -> None:
        while place.messages > policy.max_messages or place.size > policy.max_bytes:
            oldest = policy.overflow is Overflow.DROP_OLDEST
            order = place.waiting if oldest else reversed(place.waiting)
            copy = next((copy for copy in order if not copy.given), None)
            if copy is None:
                return
            place.waiting.remove(copy)
            self._bury(copy, "QUEUE_FULL")

    @staticmethod
    def hold(place: Place, destination: Destination, neighbour: Neighbour) -> None:
        """Ask the neighbour to keep what is for a destination that is full here."""
        if neighbour.link is not None and str(destination) not in neighbour.we_hold:
            neighbour.we_hold.add(str(destination))
            place.held_back.add(neighbour.name)
            neighbour.link.hold(str(destination))

    def relieve(self, place: Place) -> None:
        """End the holds on a place that has room again."""
        assert place.destination is not None
        policy = self._settings.policy(place.destination)
        if place.messages > _RELIEF * policy.max_messages or place.size > _RELIEF * policy.max_bytes:
            return
        for name in place.held_back:
            neighbour = self._neighbours.get(name)
            if neighbour and neighbour.link and neighbour.up and str(place.destination) in neighbour.we_hold:
                neighbour.we_hold.discard(str(place.destination))
                neighbour.link.release(str(place.destination))
        place.held_back.clear()
