"""Trials: which message a reader fails on, where it goes with many.

A reader whose line breaks has often been given hundreds of messages, and nothing says on which of them it
failed. So whatever comes back with others is only suspected; from its second time on it is tried: a reader
that has nothing else is given it alone. If it comes back from that, it is by its own fault.

Law: a return counts against a message only if its reader had nothing else, or was given it alone and left it
unanswered for `PATIENCE`.

Wrinkle: some readers gather many messages before they acknowledge any. Who leaves a message unanswered for
that long is given the others as well, as long as it lives.
"""

from collections.abc import Callable, Iterable
from typing import Final

from broker.core.custody import Place
from broker.core.moment import Moment
from broker.core.readers import Given, Reader

SUSPECTED: Final = 2
"""From so many returns in a row on a message is given alone."""
PATIENCE: Final = 10.0


class Trials:
    """Of all readers of one node. `dispatch`: let go on what waits in a place."""

    def __init__(self, moment: Moment, dispatch: Callable[[Place], None]) -> None:
        self._moment = moment
        self._dispatch = dispatch
        self._awaited: set[str] = set()

    def __repr__(self) -> str:
        return f"<Trials awaited in {len(self._awaited)} places>"

    @staticmethod
    def may_have(reader: Reader) -> bool:
        """May it be given a message that is suspected? It has nothing else, or gathers many."""
        return not tries(reader) or not any(each.outstanding for each in _together(reader))

    def begin(self, given: Given) -> None:
        """It was given alone: its reader gets nothing else until it has answered."""
        reader = given.reader
        reader.tried = given
        for each in _together(reader):
            each.alone = True
        self._moment.after(PATIENCE, lambda: self._overdue(given))

    def answered(self, reader: Reader) -> list[Place]:
        """What its reader was given alone is dealt with. Returns where it reads."""
        reader.tried = None
        return _let_go(reader)

    def gone(self, readers: Iterable[Reader]) -> list[Given]:
        """These read no more. Returns what they had been given alone, and have not answered."""
        found = [reader for reader in readers if reader.tried is not None]
        places = {place.name: place for reader in found for place in _let_go(reader)}
        for place in places.values():
            self._moment.after(0.0, lambda place=place: self._dispatch(place))  # type: ignore[misc]
        return [reader.tried for reader in found if reader.tried is not None]

    def await_idle(self, place: Place) -> None:
        """The first that waits is suspected, and no reader has nothing else."""
        if place.name not in self._awaited and any(reader.room > 0 for reader in place.readers):
            self._awaited.add(place.name)
            self._moment.after(PATIENCE, lambda: self._busy(place))

    def _busy(self, place: Place) -> None:
        self._awaited.discard(place.name)
        if place.waiting and place.waiting[0].deliveries >= SUSPECTED:
            for reader in place.readers:
                reader.gathers = reader.gathers or reader.room > 0
        self._dispatch(place)

    def _overdue(self, given: Given) -> None:
        reader = given.reader
        if reader.tried is given and reader.session.desk.has(given):
            reader.gathers = True
            for place in _let_go(reader):
                self._dispatch(place)


def tries(reader: Reader) -> bool:
    """Is it given alone what is suspected? A site's broker has its own way to find out."""
    return reader.can_fail and not reader.gathers


def _together(reader: Reader) -> list[Reader]:
    """Those that go together, itself among them: of one line, or of one session that fetches."""
    return [each for each in reader.session.readers if each.connection is reader.connection]


def _let_go(reader: Reader) -> list[Place]:
    together = _together(reader)
    for each in together:
        each.alone = False
    return [place for each in together for place in each.places]
