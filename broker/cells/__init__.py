"""A node's own cells: what nodes ask each other through the tree, and what they answer."""

from broker.cells.cells import NodeCells
from broker.cells.errors import CellError, NoAnswer, RefusedByCell, TooManyQuestions

__all__ = ["CellError", "NoAnswer", "NodeCells", "RefusedByCell", "TooManyQuestions"]
