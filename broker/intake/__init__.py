"""Who may connect to the node's ports: how many, and how much of each is read before it has logged in."""

from broker.intake.acceptor import Acceptor
from broker.intake.admission import Admission, Bounds, Guest
from broker.intake.listeners import most_files, open_listeners
from broker.intake.narrow import Narrow

__all__ = ["Acceptor", "Admission", "Bounds", "Guest", "Narrow", "most_files", "open_listeners"]
