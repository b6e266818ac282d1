"""What asking another node can end with.

CellError
├── NoAnswer   nothing came in time, or the way there is down
├── Refused    the node says no: `code` and text are its own
└── Busy       this node asks too much at once
"""

from sapwood.protocol.errors import LocalError


class CellError(LocalError):
    """A question to a node has no answer. `node`: whom it was for."""

    def __init__(self, node: str, text: str) -> None:
        super().__init__(text)
        self.node = node


class NoAnswer(CellError):
    """The node cannot be reached, or did not answer in time."""


class RefusedByCell(CellError):
    """The node's own words."""

    def __init__(self, node: str, code: str, text: str) -> None:
        super().__init__(node, f"{node}: {text}")
        self.code = code


class TooManyQuestions(CellError):
    """Too many questions are under way."""
