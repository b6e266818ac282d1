"""The answer of one node about channels that went through it: the command `trace_channel` of its cell.

Question: `{"messages": [NUMBER, …]}`, the numbers of channels in hexadecimal. The answer is that of the
command `trace`, with channels in the place of messages.

Law: a number cannot be guessed, and the nodes of a channel's way alone have it. Whoever asks by it is told
where the channel went, and why it ended; not which address or operator stands at its end.
"""

import re
from typing import Any, Final

from broker.cells.trace_command import MOST_MESSAGES, TraceCommand, micros
from broker.core.errors import BadRequest, NotFound
from broker.forwards.channel_trace import ENDS, ChannelStory, ChannelTrace
from broker.host import Host

NUMBER: Final = re.compile(r"[0-9a-f]{32}")


class ChannelTraceCommand:
    """Answers for one node. `beside`: what it says of messages."""

    def __init__(self, host: Host, trace: ChannelTrace, beside: TraceCommand) -> None:
        self._host = host
        self._trace = trace
        self._beside = beside

    def __repr__(self) -> str:
        return f"<ChannelTraceCommand {self._trace!r}>"

    def __call__(self, _asker: str, arguments: dict[str, Any]) -> dict[str, Any]:
        numbers = arguments.get("messages", [])
        if not isinstance(numbers, list) or len(numbers) > MOST_MESSAGES or not all(map(_is_number, numbers)):
            raise BadRequest(f"trace_channel takes a list of at most {MOST_MESSAGES} numbers of channels")
        living = self._host.core.channels.all()
        stories = {number: self._trace.of(number, living) for number in numbers}
        return self._beside.answer(
            {number: self._passage(story) for number, story in stories.items() if story}
        )

    def latest(self, text: str) -> str:
        """The number of the latest channel to NAME@NODE known here. Raises `BadRequest`, `NotFound`."""
        name, at, to = text.partition("@")
        if not (name and at and to):
            raise BadRequest(f"{text!r} names no channel: expected its number of 32 digits, or NAME@NODE")
        found = self._trace.latest(name, to, self._host.core.channels.all())
        if not found:
            me = self._host.core.identity.name
            raise NotFound(f"{me} knows no channel to {text}: it may be too long ago, or begin elsewhere")
        return found

    def _passage(self, story: ChannelStory) -> dict[str, Any]:
        events = [self._event(story, kind, at) for kind, at in story.events]
        return {
            "destination": f"{story.name}@{story.to}",
            "for": story.to,
            "origin": story.origin,
            "came": [story.came] if story.came else [],
            "went": [story.went] if story.went else [],
            "events": events,
            "there": story.there,
            "back": story.back,
        }

    def _event(self, story: ChannelStory, kind: str, at: float) -> dict[str, Any]:
        event = {"at": micros(at + self._beside.wall), "kind": kind, "neighbour": story.went}
        return event | {"reason": story.why} if story.why and kind in ENDS else event


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and NUMBER.fullmatch(text) is not None
