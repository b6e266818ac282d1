"""`python -m broker.cli.demo.tied …` is `sapwood …` in a process that ends with the one that started it.

The kernel of Linux sees to that, even when the starter is killed. Elsewhere nothing is tied.
"""

import ctypes
import signal
import sys
from typing import Final

from broker.cli.app import main

_SET_PARENT_DEATH_SIGNAL: Final = 1


def tie() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


if __name__ == "__main__":
    tie()
    main()
