"""The room that a node has left: disk and memory for messages, and for connections."""

from functools import partial

from broker.buffers import Buffers, most_within
from broker.headroom import Headroom
from broker.intake import Admission
from broker.memory import Leftovers


class Room:
    """Of one node. `disk_reserve`: bytes of the disk that are not for messages. `intake`: who may connect.

    `buffers`: of all connections.
    """

    def __init__(self, disk_reserve: int, intake: Admission) -> None:
        self.disk_reserve = disk_reserve
        self.intake = intake
        self._headroom = Headroom()
        most = most_within(self._headroom.limit)
        self.buffers = Buffers(most, partial(intake.turn_away, "buffers", ""))
        self._leftovers = Leftovers()

    def __repr__(self) -> str:
        return f"<Room {self._headroom!r} {self._leftovers!r}>"

    def left(self, disk_free: int, now: float) -> tuple[int, float]:
        """Bytes of (disk, memory) for messages; few strangers come in while there is no memory.

        `now`: seconds, monotonic.
        """
        self._leftovers.give_back(self.intake.gone, now)
        memory = self._headroom.left()
        self.intake.is_short = memory <= 0
        return disk_free - self.disk_reserve, memory
