"""Names of trees, nodes and queues: what is allowed, checked once at the edge.

A node's name is its address in the tree and appears in file names, URLs and DNS labels, so it is
kept to letters, digits, dot, hyphen and underscore. `local`, in whatever case, always means 'this node';
the 36 characters of a UUID mean one incarnation of a node, and are nobody's name.
"""

import re
from typing import Final

from sapwood.protocol.errors import InvalidName

LOCAL: Final = "local"
MAX_NODE_NAME: Final = 64
MAX_QUEUE_NAME: Final = 255
_UUID_LENGTH: Final = 36

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_INCARNATION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def node_name(text: str) -> str:
    """Return `text` if it is a legal node (or tree) name, else raise `InvalidName`."""
    if not _NODE.fullmatch(text):
        raise InvalidName(
            f"{text[:80]!r} is no node name: expected 1 to {MAX_NODE_NAME} letters, digits, '.', '-' or '_',"
            " beginning with a letter or digit"
        )
    if text.lower() == LOCAL:
        raise InvalidName(f"a node cannot be named {text!r}: 'local' always means the node itself")
    return text


def own_name(text: str) -> str:
    """Return `text` if a node may be called so, else raise `InvalidName`: no node is called like a UUID."""
    if is_incarnation(text.lower()):
        raise InvalidName(f"a node cannot be named {text!r}: a UUID always means one incarnation of a node")
    return node_name(text)


def is_incarnation(node: str) -> bool:
    """Is what stands after the '@' of an address no name, but one incarnation of a node?"""
    return len(node) == _UUID_LENGTH and _INCARNATION.fullmatch(node) is not None


def incarnation_text(incarnation: bytes) -> str:
    """An incarnation's 16 bytes as they stand in addresses."""
    digits = incarnation.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def queue_name(text: str) -> str:
    """Return `text` if it can name a queue: 1 to 255 characters, no control characters, no '@'."""
    if not text or len(text) > MAX_QUEUE_NAME or "@" in text or _CONTROL.search(text):
        raise InvalidName(
            f"{text[:80]!r} is no queue name: expected 1 to {MAX_QUEUE_NAME} characters"
            " without control characters and without '@' (which stands before a node's name)"
        )
    return text
