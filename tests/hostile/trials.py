"""Tries one input on one parser: it returns a value, or raises an error that it documents, and soon.

Law: another exception, more than `SLOWEST` seconds of the processor, or no memory is a `Fault`. `SLOWEST` is
no measure of speed: it is a thousand times what the slowest input takes, and an input that takes longer stops
a node. A machine that is busy with other things is no fault.
"""

import contextlib
import signal
import traceback
from collections.abc import Iterator
from typing import Any, Final

from parsers import PARSERS, Parser

SLOWEST: Final = 20.0
STUCK: Final = 15.0
"""Times as much, of time as it passes: an input that only waits stops a node, too."""


class Fault(Exception):
    """A parser does not keep what it promises. `kind`: which others are alike.

    `data`: the input, with those before it where they count.
    """

    def __init__(self, parser: str, data: bytes, error: BaseException) -> None:
        super().__init__(f"{parser}: {type(error).__name__}: {str(error)[:200]} for {data[:200]!r}")
        self.data = data
        place = traceback.extract_tb(error.__traceback__)[-1]
        self.kind = f"{type(error).__name__} {place.filename}:{place.name}"


class TooSlow(BaseException):
    """No parser may catch it by accident."""


def attempt(parser: Parser, data: bytes, *, alone: bool = False) -> None:
    """Raises `Fault`. `alone`: nothing was tried before it, and nothing will be after it."""
    world = parser.world
    try:
        if world is not None and alone:
            world.alone(data)
        else:
            parser.read(data)
    except parser.errors:
        return
    except (Exception, TooSlow) as error:
        raise Fault(parser.name, data if world is None else world.history(), error) from error


@contextlib.contextmanager
def watched(seconds: float = SLOWEST) -> Iterator[None]:
    """Let nothing in here go on for so long; call `still_well` in between. Main thread only."""
    before = {each: signal.signal(each, _too_slow) for each in (signal.SIGALRM, signal.SIGPROF)}
    still_well(seconds)
    try:
        yield
    finally:
        still_well(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def still_well(seconds: float = SLOWEST) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * STUCK)


def _too_slow(*_: Any) -> None:
    raise TooSlow(f"it takes longer than {SLOWEST:g} s")


def parser_of(name: str) -> Parser:
    return next(parser for parser in PARSERS if parser.name == name)
