"""A node's own cells: what nodes ask each other through the tree, and what they answer."""

from broker.cells.cells import Cells
from broker.cells.errors import Busy, CellError, NoAnswer, Refused

__all__ = ["Busy", "CellError", "Cells", "NoAnswer", "Refused"]
