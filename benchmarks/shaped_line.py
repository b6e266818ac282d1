"""A line of so many bits a second that Linux makes of the loopback, in a network of this process's own.

Segments are those of an Ethernet. Before the line is a queue of 50 ms, as a router has one, and TCP fills it
as it does by default on most systems (cubic). Needs root, `ip` and `tc`.
"""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from typing import Final

_NEW_NETWORK: Final = 0x40000000
_QUEUE: Final = 0.05
_BEGIN: Final = (
    "ip link set lo up",
    "ip route replace local 127.0.0.0/8 dev lo table local advmss 1448 congctl cubic",
    "ip route replace local 127.0.0.1 dev lo table local advmss 1448 congctl cubic",
    "tc qdisc add dev lo root handle 1: htb default 0",
)


@contextlib.contextmanager
def own_network() -> Iterator[bool]:
    """Processes that are started meanwhile have it too. False: this user may not, and nothing has changed."""
    system = ctypes.CDLL(None, use_errno=True)
    with contextlib.ExitStack() as stack:
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        stack.callback(os.close, before)
        is_ours = system.unshare(_NEW_NETWORK) == 0
        if is_ours:
            stack.callback(system.setns, before, _NEW_NETWORK)
            try:
                _run(_BEGIN)
            except (OSError, subprocess.CalledProcessError):
                is_ours = False
                stack.close()
        yield is_ours


def shape(port: int, mbit: float) -> None:
    """Each way to and from a port has the rate for itself."""
    queue = int(mbit * 1e6 / 8 * _QUEUE)
    for number, way in ((1, "dport"), (2, "sport")):
        _run(
            (
                f"tc class add dev lo parent 1: classid 1:{number} htb rate 10gbit quantum 60000",
                f"tc qdisc add dev lo parent 1:{number} tbf rate {mbit}mbit burst 3000 limit {queue}",
                f"tc filter add dev lo parent 1: protocol ip u32"
                f" match ip {way} {port} 0xffff flowid 1:{number}",
            )
        )


def _run(commands: tuple[str, ...]) -> None:
    for each in commands:
        subprocess.run(each.split(), check=True, stderr=subprocess.DEVNULL)
