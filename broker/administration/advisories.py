"""The latest that was heard of consumers and links: a ring in memory, for people."""

from collections import deque
from typing import Final

from broker.administration import answers
from broker.advisory_log import iso_time
from treeconnector.destinations import Destination
from treeconnector.frames import Advice

KEPT: Final = 500
_Entry = tuple[float, str, str, str | None, str | None, str | None, str | None, str | None, str | None]


class RecentAdvisories:
    """The last `KEPT` events, newest first when read. What comes in thousands costs as little as hundreds."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._ring: deque[_Entry] = deque(maxlen=KEPT)

    def __repr__(self) -> str:
        return f"<RecentAdvisories {len(self._ring)}>"

    def consumer(self, at: float, op: str, key: Destination, cause: str) -> None:
        self._ring.append((at, "consumer", op, str(key.kind), key.name, None, None, cause, self._node))

    def advisories(self, at: float, peer: str, direction: str, advices: list[Advice]) -> None:
        for each in advices[-KEPT:]:
            self._ring.append(
                (
                    at,
                    "advisory",
                    each.op,
                    str(each.kind),
                    each.name,
                    peer,
                    direction,
                    each.cause or None,
                    each.origin or None,
                )
            )

    def link(self, at: float, op: str, peer: str, direction: str) -> None:
        self._ring.append((at, "link", op, None, None, peer, direction, None, None))

    def latest(self, limit: int) -> answers.Advisories:
        """The newest `limit`."""
        found = [
            answers.Advisory(
                at=iso_time(at),
                event=event,  # type: ignore[arg-type]
                op=op,
                kind=kind,
                destination=destination,
                peer=peer,
                direction=direction,
                cause=cause,
                origin=origin,
            )
            for at, event, op, kind, destination, peer, direction, cause, origin in list(self._ring)[::-1][
                :limit
            ]
        ]
        return answers.Advisories(advisories=found)
