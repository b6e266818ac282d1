"""Which registered ways nobody keeps any more.

Law: no clock of another machine counts. A record holds a beat that its node changes each time it renews it,
and how long its lease is; whoever has seen the same beat for longer than that, by its own running time, takes
the node for gone. So a machine that boots in 1970 reads and sweeps as well as any other.
"""

from collections.abc import Iterable
from typing import Final

from bridges.dns.records import NamedParent

_GRACE: Final = 0.25


class Leases:
    """Remembers when each beat was first seen. As many as the latest look has shown, no more."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[tuple[str, str], float]] = {}

    def __repr__(self) -> str:
        return f"<Leases of {len(self._seen)}>"

    def lapsed(self, found: Iterable[NamedParent], now: float) -> frozenset[NamedParent]:
        """Of what was found now, at `now` seconds of running time, what nobody has renewed in its lease.

        A quarter of a lease more is allowed: a reader sees a beat as late as a cache gives it.
        """
        seen: dict[tuple[str, str], tuple[tuple[str, str], float]] = {}
        gone: set[NamedParent] = set()
        for place in found:
            if not place.lease:
                continue
            key, mark = (place.uri, place.node), (place.incarnation, place.beat)
            before = self._seen.get(key)
            since = before[1] if before is not None and before[0] == mark else now
            seen[key] = (mark, since)
            if now - since > place.lease * (1 + _GRACE):
                gone.add(place)
        self._seen = seen
        return frozenset(gone)
