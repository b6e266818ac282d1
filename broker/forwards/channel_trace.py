"""The trace of channels: those that went through this node lately, in memory and bounded.

Law: whoever opens a channel by the number of another one hides nothing of that one: each has its own place.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker.core.neighbours.channels import Channel, Side
from broker.forwards.local_end import LocalEnd

OPENING: Final = "opening"
ENDS: Final = ("over", "refused", "broken")
RECORDS_OF_ONE: Final = 8
"""One channel takes the place of so many records of messages in `trace: {events: …}`."""
_LONGEST: Final = 320


@dataclass(slots=True)
class ChannelStory:
    """`came`, `went`: the neighbours, '' = it begins or ends here. `events`: what happened, in running time.

    `there`, `back`: bytes towards `to`, and back. `why`: of one that was refused or is broken.
    """

    number: str
    origin: str
    name: str
    to: str
    came: str
    events: list[tuple[str, float]]
    went: str = ""
    there: int = 0
    back: int = 0
    why: str = ""

    def tell(self, channel: Channel) -> "ChannelStory":
        """Remember the channel as it is now."""
        self.went = _neighbour(channel.far)
        self.there, self.back, self.why = channel.there, channel.back, channel.why[:_LONGEST]
        return self


def story_of(channel: Channel) -> ChannelStory:
    return ChannelStory(
        number=channel.number.hex(),
        origin=channel.origin[:_LONGEST],
        name=channel.name[:_LONGEST],
        to=channel.to[:_LONGEST],
        came=_neighbour(channel.near),
        events=[(OPENING, channel.since)],
    ).tell(channel)


def _neighbour(side: Side | None) -> str:
    return "" if side is None or isinstance(side, LocalEnd) else side.via


class ChannelTrace:
    """Of one node. `size`: so many records of messages are remembered beside them, 0 = nothing is.

    Law: a channel that is open is known, however many others have come and gone since it was opened.
    """

    def __init__(self, size: int) -> None:
        self._ended: deque[ChannelStory] = deque(maxlen=-(-size // RECORDS_OF_ONE))
        self._open: dict[Channel, ChannelStory] = {}

    def __repr__(self) -> str:
        return f"<ChannelTrace {len(self._ended)} of {self._ended.maxlen} channels, {len(self._open)} open>"

    def told(self, op: str, channel: Channel, now: float) -> None:
        """It is open, refused, broken or over."""
        if not self._ended.maxlen:
            return
        story = (self._open.pop(channel, None) or story_of(channel)).tell(channel)
        story.events.append((op, now))
        if op in ENDS:
            self._ended.append(story)
        else:
            self._open[channel] = story

    def of(self, number: str, living: Iterable[Channel]) -> ChannelStory | None:
        """The first of that number. `living`: those that are not over; some have not been told of."""
        found = [each for each in self._ended if each.number == number]
        for channel in living:
            if channel.number.hex() == number:
                known = self._open.get(channel)
                found.append(known.tell(channel) if known is not None else story_of(channel))
        return min(found, key=lambda story: [at for _, at in story.events], default=None)

    def latest(self, name: str, to: str, living: Iterable[Channel]) -> str:
        """The number of the channel to this service that was opened last; '' if none was."""
        told = [
            (each.events[0][1], each.number) for each in self._ended if (each.name, each.to) == (name, to)
        ]
        told += [(each.since, each.number.hex()) for each in living if (each.name, each.to) == (name, to)]
        return max(told, default=(0.0, ""))[1]
