"""Who may connect to the node's ports: how many, and how much of each is read before it has logged in.

| module | |
|---|---|
| `acceptor` | takes connections from listening sockets, as far as the node's admission lets them in |
| `addresses` | addresses of those who connect: for people, and as they count |
| `admission` | how many connections a node's ports have at once: in all, and of strangers |
| `listeners` | listening sockets, and how many files this process may have open |
| `narrow` | reads a stranger's connection in small pieces |
"""

from broker.intake.acceptor import Acceptor
from broker.intake.admission import Admission, Bounds, Guest
from broker.intake.listeners import most_files, open_listeners
from broker.intake.narrow import Narrow

__all__ = ["Acceptor", "Admission", "Bounds", "Guest", "Narrow", "most_files", "open_listeners"]
