"""The keyboard while `sapwood top` is on the screen: one key at a time, nothing echoed.

Where standard input is no terminal there are no keys, and waiting is just that.
"""

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator


@contextlib.contextmanager
def keyboard() -> Iterator["Keys"]:
    """Take the keyboard, and give it back as it was, whatever happens."""
    if not sys.stdin.isatty():
        yield Keys(None)
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        yield Keys(number)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


class Keys:
    """Waits for a key. `number`: file descriptor of the terminal, None = there is none."""

    def __init__(self, number: int | None) -> None:
        self._number = number
        self._typed = ""

    def wait(self, seconds: float) -> str:
        """The next key, '' if none came within `seconds`."""
        if not self._typed:
            self._typed = self._read(seconds)
        key, self._typed = self._typed[:1], self._typed[1:]
        return key

    def _read(self, seconds: float) -> str:
        """What was typed; keys that send a sequence, as arrows do, are none of ours."""
        if self._number is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([self._number], [], [], max(seconds, 0.0))
        if not ready:
            return ""
        given = os.read(self._number, 64)
        if not given:
            self._number = None
            return ""
        return given.decode(errors="replace").partition("\x1b")[0]
