"""`python -m broker.cli.demo.tied PID …` is `sapwood …` in a process that ends with PID, which started it.

The kernel of Linux sees to that, even when the starter is killed. Elsewhere nothing is tied.

Wrinkle: the starter may have ended before the kernel was asked; then nobody would tell, so it is looked at.
"""

import ctypes
import os
import signal
import sys
from typing import Final

_SET_PARENT_DEATH_SIGNAL: Final = 1


def tie(parent: int) -> None:
    """End when `parent` ends; at once if it has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            raise SystemExit(f"process {parent}, which started this node, has ended")


if __name__ == "__main__":
    tie(int(sys.argv.pop(1)))
    from broker.cli.program import main

    main()
